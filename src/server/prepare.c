/* SPDX-License-Identifier: MIT
 *
 * From a configuration to a server that could run: identity, limits, mounts, workers, doors; and
 * the way back. The built-in providers are listed here. What fails half-way leaves nothing behind:
 * the server may be configured otherwise and started again.
 */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "protocol/access_enforce.h"
#include "server/access.h"
#include "server/builtin.h"
#include "server/change_tools.h"
#include "server/entities.h"
#include "server/publish.h"
#include "server/self.h"
#include "server/server_private.h"
#include "server/store.h"
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

static void build_identity(struct tidings_server *s)
{
    const struct tidings_server_info *info = &s->info;
    const struct config *c = &s->config;
    struct jw w;
    buf_clear(&s->implementation);
    jw_init(&w, &s->implementation);
    jw_begin_object(&w);
    jw_put_string(&w, STR("name"), info->name.len > 0 ? info->name : tidings_str(c->name));
    jw_put_string(&w, STR("version"),
                  info->version.len > 0 ? info->version : tidings_str(tidings_version()));
    put_info(&w, STR("title"), info->title.len > 0 ? info->title : tidings_str(c->title));
    put_info(&w, STR("description"), info->description);
    put_info(&w, STR("websiteUrl"), info->website_url);
    jw_end_object(&w);
    s->self.implementation = buf_str(&s->implementation);
    s->self.instructions = info->instructions;
    buf_clear(&s->ceiling);
    config_get(c, "protocol-max", &s->ceiling);
    s->self.ceiling = buf_str(&s->ceiling);
    s->self.list_changed = c->list_changed;
    s->self.no_subscriptions = !c->subscribe;
    s->self.is_private = config_wants_tokens(c) || c->tls_client_auth != TLS_CLIENT_OFF ||
                         c->access.count > 0 || c->access_file[0] != '\0';
    s->self.has_rate = config_is_given(c, "rate");
    struct buf profile;
    buf_init(&profile, 64);
    config_get(c, "profile", &profile);
    s->self.profile = dialect_find_profile(buf_str(&profile));
    buf_deinit(&profile);
}

static void freeze_limits(struct tidings_server *s)
{
    const struct config *c = &s->config;
    s->option_limits = (struct option_limits){
        .window_ms = c->window_ms,
        .rate_ms = c->rate_ms,
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
        .options = &s->option_limits,
        .session_timeout_ms = c->session_timeout_ms,
        .io_uring = c->io_uring == 0,
        .retry_ms = RETRY_MS,
        .bookmark_ms = c->keepalive_ms,
        .list_linger_ms = LIST_LINGER_MS,
    };
    s->http = (struct http_config){
        .guard =
            {
                .hosts = (const char *const *)c->allow_host.items,
                .host_count = c->allow_host.count,
                .origins = (const char *const *)c->allow_origin.items,
                .origin_count = c->allow_origin.count,
            },
        .auth = config_wants_tokens(c) ? &s->authority.http : NULL,
        .routes = s->routes,
        .route_count = s->route_count,
        .max_body = c->max_body,
        .allow_write = c->allow_write,
        .legacy_sse = c->legacy_sse,
        .events = dialect_does(&s->self, PROFILE_EVENTS),
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
            .self = &s->self,
            .http = doors_have(s, LISTENER_HTTP) ? &s->http : NULL,
            .sockets = doors_have(s, LISTENER_LINES) ? &s->sockets : NULL,
            .find = find_worker,
            .find_user = s,
            .index = (unsigned)i,
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
    if (s->own) {
        self_set_cores(s->own, s->cores, count);
    }
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
        rc = publish_mount(s, err);
    }
    if (rc == 0) {
        rc = entities_mount(s, err);
    }
    if (rc == 0 && s->is_program && !c->self) {
        rc = check_has_something(s, err);
    }
    if (rc == 0) {
        rc = hub_mount(s->hub, c->self ? &provider_self_ops : &provider_semantics_ops,
                       STR(SELF_PREFIX), STR_EMPTY, &s->own, err);
    }
    if (rc == 0) {
        self_set_sandbox(s->own, &s->sandbox);
    }
    if (rc == 0) {
        rc = publish_settle(s, err);
    }
    return rc;
}

static int prepare(struct tidings_server *s, bool is_stepped, struct tidings_error *err)
{
    const struct config *c = &s->config;
    int rc = config_check(c, err);
    if (rc < 0) {
        return rc;
    }
    if (s->is_program) {
        mem_bound_kept();
    }
    bool listens = doors_have(s, LISTENER_HTTP) || doors_have(s, LISTENER_LINES);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = c->workers > 0 ? c->workers : cores > 0 ? (size_t)cores : 1;
    s->worker_count = is_stepped || !listens ? 1 : wanted;
    build_identity(s);
    rules_deinit(&s->rules);
    rc = rules_init(&s->rules, c, &s->live_rules, err);
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
    rc = store_open(s, &o.log, &o.durable, err);
    if (rc == 0) {
        rc = hub_start(s->hub, &o, err);
    }
    if (rc == 0) {
        rc = mount_all(s, err);
    }
    if (rc == 0) {
        rc = change_tools_add(s, err);
    }
    if (rc == 0) {
        rc = build_workers(s, err);
    }
    if (rc == 0) {
        rc = doors_open(s, err);
    }
    if (rc == 0) {
        rc = authority_open(&s->authority, c, doors_url(s), s->access, err);
    }
    if (rc == 0) {
        self_set_auth(s->own, s->authority.http.auth);
    }
    return rc;
}

/* Whoever looks for the reason of a setting should not have to guess which file was read. */
static void log_settings(const struct config *c)
{
    char path[PATH_MAX];
    if (c->file) {
        log_info("settings", "file=\"%s\"", realpath(c->file, path) ? path : c->file);
    }
}

int server_prepare(struct tidings_server *s, bool is_stepped, struct tidings_error *err)
{
    struct tidings_error why = {0, ""};
    struct catalog *before = hub_catalog(s->hub);
    log_settings(&s->config);
    int rc = prepare(s, is_stepped, &why);
    if (rc < 0) {
        if (err) {
            *err = why;
        }
        hub_detach_all(s->hub);
        server_dismantle(s);
        publish_remove_tools(s);
        change_tools_remove(s);
        entities_unmount(s);
        s->own = NULL;
        hub_unmount_new(s->hub, before);
        store_close(s, true);
        loop_turn(s->loop); /* what was closed goes now, not when the server is destroyed */
    } else {
        publish_open(s);
    }
    catalog_unref(before);
    return rc;
}

void server_dismantle(struct tidings_server *s)
{
    doors_close(s);
    for (size_t i = 0; s->workers && i < s->worker_count; i++) {
        s->is_stuck = !worker_thread_destroy(s->workers[i]) || s->is_stuck;
    }
    if (s->own) {
        self_set_cores(s->own, NULL, 0);
        self_set_auth(s->own, NULL);
    }
    mem_free(s->workers);
    authority_close(&s->authority);
    doors_destroy(s);
    mem_free(s->inboxes);
    mem_free(s->cores);
    s->cores = NULL;
    s->workers = NULL;
    s->inboxes = NULL;
    s->worker_count = 0;
}
