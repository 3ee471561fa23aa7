/* SPDX-License-Identifier: MIT
 *
 * Makes a server that can run from its configuration: identity, limits, mounts, workers, listeners;
 * and takes it apart again. What fails half-way leaves nothing behind: the server may be configured
 * otherwise and started again.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "protocol/access_enforce.h"
#include "server/access_loader.h"
#include "server/builtin_providers.h"
#include "server/change_tools.h"
#include "server/log_setup.h"
#include "server/server_end_peer.h"
#include "server/server_health.h"
#include "server/server_history.h"
#include "server/server_metrics_listener.h"
#include "server/server_private.h"
#include "server/status_provider.h"
#include "store/keeper.h"
#include "json/write.h"

#define LIST_CHANGED_MS 100u
#define RETRY_MS 1000
#define LIST_LINGER_MS 10000u /* longer than a client needs to open its stream again */

static void put_info(struct jw *w, struct tidings_str key, struct tidings_str value)
{
    if (value.len > 0) {
        jw_put_string(w, key, value);
    }
}

/* What the program is called; NULL: that cannot be said. */
static const char *program_name(void)
{
    struct tidings_str name = tidings_str(program_invocation_short_name);
    return name.len > 0 && name.len <= 128 && str_is_utf8(name) ? name.ptr : NULL;
}

/* A server that says nothing of itself is called as its program is, and has no version: only that
 * of the program `tidings` is the library's. */
static void put_name(const struct tidings_server *s, struct jw *w)
{
    const struct tidings_server_info *info = &s->info;
    const char *program = config_is_given(&s->config, "name") ? NULL : program_name();
    struct tidings_str name = tidings_str(program ? program : s->config.name);
    bool is_ours = str_eq(name, STR("tidings")) || !program;
    jw_put_string(w, STR("name"), info->name.len > 0 ? info->name : name);
    jw_put_string(w, STR("version"),
                  info->version.len > 0            ? info->version
                  : is_ours && info->name.len == 0 ? tidings_str(tidings_version())
                                                   : STR("0"));
}

static void build_identity(struct tidings_server *s)
{
    const struct tidings_server_info *info = &s->info;
    const struct config *c = &s->config;
    struct jw w;
    buf_clear(&s->implementation);
    jw_init(&w, &s->implementation);
    jw_begin_object(&w);
    put_name(s, &w);
    put_info(&w, STR("title"), info->title.len > 0 ? info->title : tidings_str(c->title));
    put_info(&w, STR("description"), info->description);
    put_info(&w, STR("websiteUrl"), info->website_url);
    jw_end_object(&w);
    s->identity.implementation = buf_str(&s->implementation);
    s->identity.has_instructions = info->instructions.len > 0 || config_is_given(c, "instructions");
    s->identity.instructions =
        info->instructions.len > 0 ? info->instructions : tidings_str(c->instructions);
    buf_clear(&s->ceiling);
    config_get(c, "protocol-max", &s->ceiling);
    s->identity.ceiling = buf_str(&s->ceiling);
    s->identity.list_changed = c->list_changed;
    s->identity.no_subscriptions = !c->subscribe;
    s->identity.allow_write = c->allow_write;
    s->identity.is_private = config_wants_tokens(c) || c->tls_client_auth != TLS_CLIENT_OFF ||
                             c->access.count > 0 || c->access_file[0] != '\0';
    s->identity.has_rate = config_is_given(c, "rate");
    struct buf profile;
    buf_init(&profile, 64);
    config_get(c, "profile", &profile);
    s->identity.profile = dialect_find_profile(buf_str(&profile));
    buf_deinit(&profile);
    /* Hosts that begin with tools give up where there is no such list
     * (tests/integration/hosts.test.mjs): it is empty instead. A profile says what its document
     * says. */
    bool has_lists = s->identity.profile == NULL;
    s->identity.has_tools = s->identity.has_tools || has_lists;
    s->identity.has_prompts = s->identity.has_prompts || has_lists;
}

static int setup_health(void *user, bool is_live, bool is_detailed, char *out, size_t size)
{
    char text[HEALTH_TEXT];
    int status = server_health_text(user, is_live, is_detailed, text);
    snprintf(out, size, "%s", text);
    return status;
}

static void freeze_limits(struct tidings_server *s)
{
    const struct config *c = &s->config;
    s->option_limits = (struct option_limits){
        .window_ms = c->window_ms,
        .rate_ms = c->rate_ms,
        .is_slim = c->detail != 0,
        .max_window_ms = c->max_window_ms,
        .max_rate_ms = c->max_rate_ms,
        .rules = s->rules.at,
        .rule_count = s->rules.count,
    };
    s->limits = (struct worker_limits){
        .page_size = c->page_size,
        .max_page_size = 1000,
        .max_read_bytes = c->max_read,
        .max_depth = (unsigned)c->max_depth,
        .max_sessions = c->max_sessions,
        .max_listens = c->max_listens,
        .max_uris_per_listen = c->max_uris_per_listen,
        .max_subscriptions = c->max_subscriptions,
        .max_all_subscriptions = c->max_all_subscriptions,
        .outbox_max = c->outbox,
        .max_broad = c->max_breadth,
        .max_value_bytes = c->max_value,
        .max_calls = c->max_calls,
        .call_timeout_ms = c->call_timeout_ms,
        .ask_timeout_ms = c->ask_timeout_ms,
        .max_tasks = c->max_tasks,
        .max_client_tasks = c->max_client_tasks,
        .task_ttl_ms = c->task_ttl_ms,
        .options = &s->option_limits,
        .session_timeout_ms = c->session_timeout_ms,
        .io_uring = c->io_uring == 0,
        .retry_ms = RETRY_MS,
        .bookmark_ms = c->keepalive_ms,
        .list_linger_ms = LIST_LINGER_MS,
        .refuses_stale = c->stale_reads == 1,
    };
    s->http = (struct http_config){
        .origin_check =
            {
                .hosts = (const char *const *)c->allow_host.items,
                .host_count = c->allow_host.count,
                .origins = (const char *const *)c->allow_origin.items,
                .origin_count = c->allow_origin.count,
            },
        .auth = config_wants_tokens(c) ? &s->oauth.http : NULL,
        .routes = s->routes,
        .route_count = s->route_count,
        .max_body = c->max_body,
        .allow_write = c->allow_write,
        .legacy_sse = c->legacy_sse,
        .metrics = c->metrics && strcmp(c->metrics, "path") == 0,
        .health = setup_health,
        .health_user = s,
        .events = dialect_rules(&s->identity)->has_events,
        .keepalive_ms = c->keepalive_ms,
        .header_timeout_ms = c->header_timeout_ms,
        .body_timeout_ms = c->body_timeout_ms,
        .idle_timeout_ms = c->idle_timeout_ms,
        .stall_timeout_ms = c->stall_timeout_ms,
    };
    s->sockets = (struct socket_config){
        .max_line = c->max_line,
        .keepalive_ms = c->keepalive_ms,
        .header_timeout_ms = c->header_timeout_ms,
        .body_timeout_ms = c->body_timeout_ms,
        .idle_timeout_ms = c->idle_timeout_ms,
        .stall_timeout_ms = c->stall_timeout_ms,
        .session_timeout_ms = c->session_timeout_ms,
    };
}

static int open_console(struct tidings_server *s, struct tidings_error *err)
{
    int rc = console_init(&s->console, err);
    s->http.console_page = rc == 0 ? buf_str(&s->console.page) : STR_EMPTY;
    s->http.console_policy = rc == 0 ? buf_str(&s->console.policy) : STR_EMPTY;
    return rc;
}

static struct http_worker *find_worker(void *user, unsigned index)
{
    struct tidings_server *s = user;
    return index < s->worker_count ? s->workers[index]->http : NULL;
}

static int build_workers(struct tidings_server *s, struct tidings_error *err)
{
    size_t count = s->worker_count;
    s->workers = mem_zalloc(count * sizeof(struct worker_thread *));
    s->inboxes = mem_zalloc(count * sizeof(struct worker_inboxes));
    s->cores = mem_zalloc(count * sizeof(struct worker *));
    if (!s->workers || !s->inboxes || !s->cores) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        struct worker_thread_options o = {
            .loop = count == 1 ? s->loop : NULL,
            .hub = s->hub,
            .limits = &s->limits,
            .self = &s->identity,
            .http = server_has_listener(s, LISTENER_HTTP) ? &s->http : NULL,
            .sockets = server_has_listener(s, LISTENER_LINES) ? &s->sockets : NULL,
            .find = find_worker,
            .find_user = s,
            .index = (unsigned)i,
            .count = (unsigned)count,
            .sessions = server_sessions_store(s),
        };
        s->workers[i] = worker_thread_create(&o, err);
        if (!s->workers[i]) {
            return TIDINGS_E_NOMEM;
        }
        worker_thread_get_inboxes(s->workers[i], &s->inboxes[i]);
        s->cores[i] = &s->workers[i]->core.worker;
        access_enforce_rules(s->cores[i], access_rules_ref(s->access));
        if (s->sandbox.is_entered && (o.http || o.sockets)) {
            sendq_batch_open_ring(&s->cores[i]->batch); /* none can be made later */
        }
    }
    if (s->status) {
        status_set_cores(s->status, s->cores, count);
    }
    server_sessions_bind(s);
    return 0;
}

static int check_has_something(struct tidings_server *s, struct tidings_error *err)
{
    struct catalog *c = hub_catalog(s->hub);
    struct feature_list *tools = hub_features(s->hub, FEATURE_TOOL);
    struct feature_list *prompts = hub_features(s->hub, FEATURE_PROMPT);
    bool empty = c->mount_count == 0 && c->resources.count == 0 && c->templates.count == 0 &&
                 !tools && !prompts;
    feature_list_unref(tools);
    feature_list_unref(prompts);
    catalog_unref(c);
    return empty ? tidings_fail(err, TIDINGS_E_INVALID, "nothing to serve; name a directory") : 0;
}

/* The sources of what is served. */
static int mount_all(struct tidings_server *s, struct tidings_error *err)
{
    const struct config *c = &s->config;
    int rc = builtin_mount_all(s->hub, c, err);
    if (rc == 0) {
        rc = server_publish_mount(s, err);
    }
    if (rc == 0) {
        rc = server_entities_mount(s, err);
    }
    if (rc == 0 && s->is_program && !config_shows_self(c)) {
        rc = check_has_something(s, err);
    }
    if (rc == 0) {
        rc =
            hub_mount(s->hub, config_shows_self(c) ? &provider_status_ops : &provider_semantics_ops,
                      STR(STATUS_PREFIX), STR_EMPTY, &s->status, err);
    }
    if (rc == 0) {
        rc = server_tasks_mount(s, err);
    }
    if (rc == 0) {
        status_set_sandbox(s->status, &s->sandbox);
        status_set_server(s->status, s);
        status_set_nodes(s->status, s->nodes);
    }
    if (rc == 0) {
        rc = server_publish_check(s, err);
    }
    return rc;
}

enum { CHANGE_TOOLS_AUTO, CHANGE_TOOLS_ON, CHANGE_TOOLS_OFF }; /* values of change-tools */

/* Is there anything that could change, besides what the server says of itself? */
static bool has_resources(struct tidings_server *s)
{
    struct catalog *c = hub_catalog(s->hub);
    bool has = c->mount_count > (s->tasks.provider ? 2u : 1u) || c->resources.count > 0 ||
               c->templates.count > 0;
    catalog_unref(c);
    return has;
}

/* Is it served to hosts on this machine alone, by stdio or HTTP? Many of them ask for tools first,
 * and fail where a server has none. A program that embeds the library has tools of its own, or asks
 * for these. */
static bool serves_hosts(const struct tidings_server *s)
{
    const struct config *c = &s->config;
    bool has_http = s->is_program && server_has_listener(s, LISTENER_HTTP) && s->passed_count == 0;
    return c->stdio || (has_http && config_address_is_loopback(&c->http));
}

/* A program that has tools of these names keeps its own, unless ours were asked for. */
static int offer_change_tools(struct tidings_server *s, struct tidings_error *err)
{
    const struct config *c = &s->config;
    bool is_wanted = c->change_tools == CHANGE_TOOLS_ON;
    bool is_fit = serves_hosts(s) && c->subscribe && (config_shows_self(c) || has_resources(s));
    if (c->change_tools == CHANGE_TOOLS_OFF || (!is_wanted && !is_fit)) {
        return 0;
    }
    int rc = change_tools_add(s, err);
    s->has_change_tools = rc == 0;
    if (rc == TIDINGS_E_EXISTS && !is_wanted) {
        return 0;
    }
    return rc < 0 ? error_wrap(err, rc, "change-tools") : 0;
}

static int server_setup_steps(struct tidings_server *s, bool is_stepped, struct tidings_error *err)
{
    const struct config *c = &s->config;
    int rc = config_mount_skills(&s->config, err);
    rc = rc < 0 ? rc : config_check(c, err);
    if (rc < 0) {
        return rc;
    }
    if (s->is_program) {
        mem_bound_kept();
    }
    bool listens = server_has_listener(s, LISTENER_HTTP) || server_has_listener(s, LISTENER_LINES);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = c->workers > 0 ? c->workers : cores > 0 ? (size_t)cores : 1;
    s->worker_count = is_stepped || !listens ? 1 : wanted;
    build_identity(s);
    rules_deinit(&s->rules);
    rc = rules_init(&s->rules, c, &s->runtime_rules, err);
    access_rules_unref(s->access);
    s->access = NULL;
    if (rc == 0) {
        rc = access_load(c, &s->access, err);
    }
    if (rc < 0) {
        return rc;
    }
    freeze_limits(s);
    server_set_quotas(s);
    struct hub_options o = {
        .log =
            {
                .max_entries = c->log_entries,
                .max_bytes = c->log_bytes,
                .max_age_ms = c->log_age_ms,
            },
        .max_announced = c->max_announced,
        .list_changed_ms = LIST_CHANGED_MS,
        .watch_timeout_ms = c->watch_timeout_ms,
        .list_changed = c->list_changed,
    };
    rc = server_store_open(s, &o.log, &o.durable, err);
    o.is_shared = rc == 0 && s->keeper && keeper_is_shared(s->keeper);
    if (rc == 0) {
        rc = hub_start(s->hub, &o, err);
    }
    if (rc == 0) {
        rc = server_sessions_open(s, err);
    }
    if (rc == 0) {
        rc = mount_all(s, err);
    }
    if (rc == 0) {
        rc = server_owned_open(s, err);
    }
    if (rc == 0) {
        rc = server_files_open(s, c->log_entries, err);
    }
    if (rc == 0) {
        rc = offer_change_tools(s, err);
    }
    if (rc == 0 && config_shows_self(c)) {
        rc = server_end_peer_add(s, err);
        s->has_end_peer = rc == 0;
        rc = rc == TIDINGS_E_EXISTS ? 0 : rc; /* the program keeps its own */
    }
    if (rc == 0 && c->console) {
        rc = open_console(s, err);
    }
    if (rc == 0) {
        rc = build_workers(s, err);
    }
    if (rc == 0 && c->console) {
        rc = server_history_open(s, err);
    }
    if (rc == 0) {
        rc = server_listeners_open(s, err);
    }
    if (rc == 0) {
        rc = server_metrics_listen(s, err);
    }
    if (rc == 0) {
        rc = oauth_setup_open(&s->oauth, c, server_listeners_url(s), s->access, err);
    }
    if (rc == 0) {
        status_set_auth(s->status, s->oauth.http.auth);
    }
    return rc;
}

/* Whoever looks for the reason of a setting should not have to guess which file was read. */
static void log_settings(const struct config *c)
{
    char path[PATH_MAX];
    if (c->file) {
        log_info(LOG_SERVER, "settings", KV("file", realpath(c->file, path) ? path : c->file));
    }
}

int server_setup(struct tidings_server *s, bool is_stepped, struct tidings_error *err)
{
    struct tidings_error why = {0, ""};
    struct catalog *before = hub_catalog(s->hub);
    int rc = s->is_program ? log_setup_open(&s->config, &why) : 0;
    if (rc == 0) {
        log_settings(&s->config);
        rc = server_setup_steps(s, is_stepped, &why);
    }
    if (rc < 0) {
        if (err) {
            *err = why;
        }
        hub_detach_all(s->hub);
        server_teardown(s);
        server_publish_remove_tools(s);
        if (s->has_change_tools) {
            change_tools_remove(s);
            s->has_change_tools = false;
        }
        if (s->has_end_peer) {
            server_end_peer_remove(s);
            s->has_end_peer = false;
        }
        server_entities_unmount(s);
        s->status = NULL;
        server_owned_close(s);
        hub_unmount_new(s->hub, before);
        server_store_close(s, true);
        server_sessions_close(s);
        hub_undo_start(s->hub);
        loop_free_discarded(s->loop); /* no turn: letters and timers wait for a hub that runs */
    } else {
        server_publish_open(s);
    }
    catalog_unref(before);
    return rc;
}

void server_teardown(struct tidings_server *s)
{
    server_listeners_close(s);
    server_history_stop(s);
    for (size_t i = 0; s->workers && i < s->worker_count; i++) {
        s->is_stuck = !worker_thread_destroy(s->workers[i]) || s->is_stuck;
    }
    if (s->status) {
        status_set_cores(s->status, NULL, 0);
        status_set_auth(s->status, NULL);
    }
    mem_free(s->workers);
    if (!s->is_stuck) { /* else the worker that stays may still answer */
        server_history_destroy(s->history);
        s->history = NULL;
    }
    server_metrics_close(s);
    oauth_setup_close(&s->oauth);
    console_deinit(&s->console);
    server_listeners_destroy(s);
    mem_free(s->inboxes);
    mem_free(s->cores);
    s->cores = NULL;
    s->workers = NULL;
    s->inboxes = NULL;
    s->worker_count = 0;
}
