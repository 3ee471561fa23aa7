/* SPDX-License-Identifier: MIT
 *
 * `struct tidings_server`: creates, configures, runs and destroys it. registry.c registers the
 * resources; setup.c prepares it to run.
 */
#include "server/server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <tidings/server.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/cluster.h"
#include "server/server_internal.h"
#include "server/setup.h"
#include "store/commit_thread.h"

/* -------------------------------------------------------------------------------------------------
 * Checks whether the server can serve now, and lists the reasons if not.
 */

size_t server_health_reasons(const struct tidings_server *s, const char *ret[HEALTH_REASONS])
{
    size_t n = 0;
    enum server_state state = server_state(s);
    bool is_stopping = __atomic_load_n(&s->stopping, __ATOMIC_RELAXED);
    if (is_stopping || state == SERVER_ENDED) {
        ret[n++] = "draining: the server is ending";
    } else if (state < SERVER_RUNNING) {
        ret[n++] = "starting: it does not serve yet";
    }
    if (hub_is_store_unreachable(s->hub)) {
        ret[n++] = "store: the database cannot be reached";
    }
    if (s->store.commit_thread && commit_thread_is_failing(s->store.commit_thread)) {
        ret[n++] = "store: the last commit failed";
    }
    return n;
}

int server_health_text(const struct tidings_server *s, bool is_live, bool is_detailed,
                       char out[HEALTH_TEXT])
{
    const char *reasons[HEALTH_REASONS];
    size_t count = is_live ? 0 : server_health_reasons(s, reasons), at = 0;
    for (size_t i = 0; i < count; i++) {
        int whole = (int)strlen(reasons[i]), word = (int)strcspn(reasons[i], ":");
        at += (size_t)snprintf(out + at, HEALTH_TEXT - at, "%.*s\n", is_detailed ? whole : word,
                               reasons[i]);
    }
    if (count == 0) {
        snprintf(out, HEALTH_TEXT, "ok\n");
    }
    return count == 0 ? 200 : 503;
}

/* -------------------------------------------------------------------------------------------------
 * Runs a server: on its own threads, or stepped by the program.
 *
 *     NEW --run--> RUNNING ----> ENDED            tidings_server_run, which blocks
 *     NEW --start--> STEPPED --stop, turns, finish--> ENDED
 *
 * A failed start leads back to NEW. The state changes with one atomic exchange, so if two threads
 * start a server, one fails. Ending has two parts in both modes: first the workers end their
 * listens and finish their answers while the hub still runs for them; then everything is destroyed.
 * In stepped mode, the first part is spread over turns, and so is the second, which waits for
 * requests that the program's callbacks have not answered yet.
 */

enum server_state server_state(const struct tidings_server *s)
{
    return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
}

int server_check(const struct tidings_server *s, struct tidings_error *err)
{
    return s ? 0 : tidings_fail(err, TIDINGS_E_INVALID, "there is no server: it is NULL");
}

int server_check_new(const struct tidings_server *s, struct tidings_error *err)
{
    if (server_check(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    return server_state(s) == SERVER_NEW
               ? 0
               : tidings_fail(err, TIDINGS_E_INVALID, "a server is configured before it starts");
}

int server_check_open(const struct tidings_server *s, struct tidings_error *err)
{
    if (server_check(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    return server_state(s) != SERVER_ENDED
               ? 0
               : tidings_fail(err, TIDINGS_E_CLOSED, "the server has ended");
}

static void set_state(struct tidings_server *s, enum server_state state)
{
    __atomic_store_n(&s->state, state, __ATOMIC_RELEASE);
}

void tidings_server_on_ready(struct tidings_server *s, tidings_ready_fn fn, void *user)
{
    if (s) {
        s->ready = fn;
        s->ready_user = user;
    }
}

void tidings_server_stop(struct tidings_server *s)
{
    if (s) {
        __atomic_store_n(&s->stopping, true, __ATOMIC_RELEASE);
        loop_stop(s->loop);
    }
}

void tidings_server_stop_now(struct tidings_server *s)
{
    if (s) {
        __atomic_store_n(&s->hurries, true, __ATOMIC_RELEASE);
        tidings_server_stop(s);
    }
}

static bool server_is_stopping(const struct tidings_server *s)
{
    return __atomic_load_n(&s->stopping, __ATOMIC_ACQUIRE);
}

static void server_timers_start(struct tidings_server *s);

/* ---- start and end in both modes ------------------------------------------------------------- */

static int server_run_begin(struct tidings_server *s, bool is_stepped, struct tidings_error *err)
{
    enum server_state expected = SERVER_NEW;
    if (server_check(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (!__atomic_compare_exchange_n(&s->state, &expected, SERVER_STARTING, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            expected == SERVER_ENDED ? "a server runs once; create another"
                                                     : "the server has been started already");
    }
    hub_hold(s->hub);
    process_probe_open(&s->admin.process);
    int rc = sandbox_enter(&s->sandbox, &s->config, server_has_listener(s, LISTENER_HTTP), err);
    rc = rc < 0 ? rc : server_setup(s, is_stepped, err);
    if (rc == 0) {
        sandbox_seal(&s->sandbox, &s->config);
        hub_set_running(s->hub, true);
        server_timers_start(s);
    } else {
        process_probe_close(&s->admin.process);
        set_state(s, SERVER_NEW);
    }
    hub_release(s->hub);
    return rc;
}

/* Standard error gets the greeting of the program; other logs get this line. */
static void log_serving(struct tidings_server *s)
{
    char all[512];
    size_t len = 0;
    const char *url;
    for (size_t i = 0; len < sizeof(all) && (url = tidings_server_address(s, i)) != NULL; i++) {
        len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s", i > 0 ? " " : "", url);
    }
    log_info(LOG_SERVER, "serving", KV("addresses", len > 0 ? all : NULL));
}

static void notify_ready(struct tidings_server *s)
{
    if (s->is_program && !log_is_on_stderr()) {
        log_serving(s);
    }
    if (!s->ready) {
        return;
    }
    s->ready(s->ready_user, tidings_server_address(s, 0));
}

static void worker_ended(struct worker_thread *w, void *user)
{
    (void)w;
    struct tidings_server *s = user;
    if (__atomic_sub_fetch(&s->workers.running, 1, __ATOMIC_ACQ_REL) == 0) {
        loop_stop(s->loop);
    }
}

static void server_timers_stop(struct tidings_server *s);

/* Workers end their listens and finish their answers while the hub still runs for them. */
static void wind_down(struct tidings_server *s)
{
    server_listeners_close(s);
    s->is_winding_down = true;
    server_timers_stop(s);
    __atomic_store_n(&s->workers.running, s->workers.count, __ATOMIC_RELEASE);
    for (size_t i = 0; i < s->workers.count; i++) {
        worker_thread_stop(s->workers.threads[i], s->config.drain_ms, worker_ended, s);
    }
}

/* Cancels the rest of the drain time. */
static void server_run_hurry(struct tidings_server *s)
{
    if (!s->has_hurried && __atomic_load_n(&s->hurries, __ATOMIC_ACQUIRE)) {
        s->has_hurried = true;
        for (size_t i = 0; i < s->workers.count; i++) {
            worker_thread_hurry(s->workers.threads[i]);
        }
    }
}

static bool workers_have_ended(const struct tidings_server *s)
{
    return s->is_winding_down && __atomic_load_n(&s->workers.running, __ATOMIC_ACQUIRE) == 0;
}

static void server_run_end(struct tidings_server *s)
{
    hub_hold(s->hub);
    hub_set_running(s->hub, false);
    hub_detach_all(s->hub);
    hub_release(s->hub);
    server_teardown(s);
    set_state(s, SERVER_ENDED);
}

/* ---- on its own threads ---------------------------------------------------------------------- */

int tidings_server_run(struct tidings_server *s, struct tidings_error *err)
{
    struct tidings_error why = {0, ""};
    int rc = server_run_begin(s, false, &why);
    if (rc == TIDINGS_E_CLOSED && server_is_stopping(s)) {
        return 0; /* a stop during the start counts as a stop right after it */
    }
    if (rc < 0) {
        if (err) {
            *err = why;
        }
        return rc;
    }
    set_state(s, SERVER_RUNNING);
    for (size_t i = 0; rc == 0 && s->workers.count > 1 && i < s->workers.count; i++) {
        rc = worker_thread_start(s->workers.threads[i], err);
    }
    if (rc == 0) {
        notify_ready(s);
        while (!server_is_stopping(s)) {
            loop_run(s->loop);
            server_reload_when_asked(s);
        }
    }
    wind_down(s);
    server_run_hurry(s);
    while (!workers_have_ended(s)) {
        loop_run(s->loop);
        server_run_hurry(s);
    }
    for (size_t i = 0; i < s->workers.count; i++) {
        worker_thread_join(s->workers.threads[i]);
    }
    server_run_end(s);
    return rc;
}

/* ---- stepped --------------------------------------------------------------------------------- */

int tidings_server_start(struct tidings_server *s, struct tidings_error *err)
{
    int rc = server_run_begin(s, true, err);
    if (rc < 0) {
        return rc;
    }
    s->stepper = pthread_self();
    set_state(s, SERVER_STEPPED);
    notify_ready(s);
    loop_turn(s->loop); /* so that the descriptor covers all event sources */
    return 0;
}

int tidings_server_fd(struct tidings_server *s)
{
    return s ? loop_fd(s->loop) : -1;
}

int tidings_server_timeout_ms(struct tidings_server *s)
{
    if (!s || server_state(s) != SERVER_STEPPED) {
        return -1;
    }
    return server_is_stopping(s) && !s->is_winding_down ? 0 : loop_timeout_ms(s->loop);
}

/* Returns true if no jobs are in progress, or the time for them has passed. */
static bool have_jobs_ended(struct tidings_server *s)
{
    if (!workers_have_ended(s)) {
        return false;
    }
    struct worker_thread *w = s->workers.threads[0];
    if (!s->is_awaiting_jobs) {
        s->is_awaiting_jobs = true;
        worker_thread_await_jobs(w);
    }
    return worker_thread_jobs_are_done(w);
}

int tidings_server_turn(struct tidings_server *s, struct tidings_error *err)
{
    if (server_check(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    enum server_state state = server_state(s);
    if (state == SERVER_ENDED) {
        return 0;
    }
    if (state != SERVER_STEPPED) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "only a server begun with tidings_server_start takes turns");
    }
    if (!pthread_equal(s->stepper, pthread_self())) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "a server takes its turns on the thread that started it");
    }
    if (s->is_turning) {
        return tidings_fail(err, TIDINGS_E_INVALID, "tidings_server_turn was called inside a turn");
    }
    s->is_turning = true;
    loop_turn(s->loop);
    server_reload_when_asked(s);
    if (server_is_stopping(s) && !s->is_winding_down) {
        wind_down(s);
    }
    if (s->is_winding_down && !workers_have_ended(s)) {
        server_run_hurry(s);
    }
    bool is_over = have_jobs_ended(s);
    s->is_turning = false;
    if (is_over) {
        server_run_end(s);
    }
    return is_over ? 0 : 1;
}

int tidings_server_finish(struct tidings_server *s, struct tidings_error *err)
{
    if (server_check(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (server_state(s) == SERVER_NEW) {
        return 0;
    }
    tidings_server_stop(s);
    int rc;
    while ((rc = tidings_server_turn(s, err)) > 0) {
        struct pollfd ready = {.fd = tidings_server_fd(s), .events = POLLIN};
        (void)poll(&ready, 1, tidings_server_timeout_ms(s));
    }
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * tidings_server_every: functions of the program that are called periodically, on the thread that
 * runs the server.
 */

#define TIMERS_MAX 64u

struct server_timer {
    struct list link;
    struct loop_timer *timer;
    uint64_t ms;
    tidings_timer_fn fn;
    void *user;
};

static void on_time(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct server_timer *t = user;
    t->fn(t->user);
}

int tidings_server_every(struct tidings_server *s, uint64_t ms, tidings_timer_fn fn, void *user,
                         struct tidings_error *err)
{
    int rc = server_check_new(s, err);
    if (rc < 0) {
        return rc;
    }
    if (ms == 0 || !fn || s->timer_count == TIMERS_MAX) {
        return tidings_fail(err, s->timer_count == TIMERS_MAX ? TIDINGS_E_LIMIT : TIDINGS_E_INVALID,
                            "a timer needs a period and a function; there may be %u", TIMERS_MAX);
    }
    struct server_timer *t = mem_zalloc(sizeof(*t));
    struct loop_timer *timer = t ? loop_timer_open(s->loop, on_time, t) : NULL;
    if (!timer) {
        mem_free(t);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    *t = (struct server_timer){.timer = timer, .ms = ms, .fn = fn, .user = user};
    list_append(&s->timers, &t->link);
    s->timer_count++;
    return 0;
}

static void server_timers_start(struct tidings_server *s)
{
    list_each (it, next, &s->timers) {
        struct server_timer *t = list_entry(it, struct server_timer, link);
        loop_timer_start(t->timer, t->ms, t->ms);
    }
}

static void server_timers_stop(struct tidings_server *s)
{
    list_each (it, next, &s->timers) {
        loop_timer_stop(list_entry(it, struct server_timer, link)->timer);
    }
}

/* server.c: those of tidings_server_every, from the first turn until it winds down. */
static void server_timers_close(struct tidings_server *s)
{
    list_each (it, next, &s->timers) {
        struct server_timer *t = list_entry(it, struct server_timer, link);
        loop_timer_close(t->timer);
        mem_free(t);
    }
}

/* ---------------------------------------------------------------------------------------------- */

extern char **environ;

/* ---- configuration --------------------------------------------------------------------------- */

static bool server_is_mute(void *user, struct tidings_str uri)
{
    const struct tidings_server *s = user;
    return published_is_mute(s->publishing.published, uri);
}

/* ---- for the cluster ------------------------------------------------------------------------- */

static enum mount_nodes server_nodes_of(void *user, struct tidings_str uri)
{
    const struct tidings_server *s = user;
    return config_nodes_of(&s->config, uri);
}

static bool server_may_serve(void *user, const struct tidings_resource *about)
{
    struct tidings_server *s = user;
    return server_publish_may_follow(&s->publishing, about);
}

static const char *server_first_address(void *user)
{
    return tidings_server_address(user, 0);
}

static bool server_gives_up(void *user)
{
    return server_is_stopping(user);
}

static void server_task_changed(void *user, struct tidings_str uri)
{
    struct tidings_server *s = user;
    server_tasks_followed(&s->store.tasks, uri);
}

static void server_data_lost(void *user)
{
    struct tidings_server *s = user;
    server_tasks_on_data_loss(&s->store.tasks);
}

static void server_reach_changed(void *user, bool is_unreachable)
{
    struct tidings_server *s = user;
    server_tasks_reach(&s->store.tasks, is_unreachable);
}

static const struct cluster_ops server_cluster_ops = {
    .nodes_of = server_nodes_of,
    .may_serve = server_may_serve,
    .address = server_first_address,
    .is_stopping = server_gives_up,
    .task_changed = server_task_changed,
    .data_lost = server_data_lost,
    .reach_changed = server_reach_changed,
};

/* Each part gets pointers to the parts it uses. */
static void server_notify_parts(struct tidings_server *s)
{
    s->registry.inproc.hub = s->hub;
    s->publishing.server = s;
    s->publishing.config = &s->config;
    s->publishing.hub = s->hub;
    s->publishing.limits = &s->shared->limits;
    s->publishing.store = &s->store;
    s->publishing.identity = &s->settings.identity;
    s->store.config = &s->config;
    s->store.hub = s->store.tasks.hub = s->hub;
    s->store.loop = s->store.tasks.loop = s->loop;
    s->store.shared = s->shared;
    s->store.tasks.tasks = s->shared->tasks;
    s->store.tasks.limits = &s->shared->limits;
    s->store.publishing = &s->publishing;
    s->store.cluster_ops = &server_cluster_ops;
    s->store.cluster_user = s;
}

struct tidings_server *tidings_server_create(struct tidings_error *err)
{
    struct tidings_server *s = mem_zalloc(sizeof(*s));
    if (!s) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    inproc_subscriptions_init(&s->registry.inproc);
    map_init(&s->registry.runtime_rules);
    list_init(&s->timers);
    s->admin.process.statm = s->admin.process.fds = -1;
    buf_init(&s->settings.implementation, 1u << 20);
    buf_init(&s->settings.instructions, 1u << 20);
    buf_init(&s->settings.ceiling, 64);
    buf_init(&s->publishing.authority.text, 0);
    buf_init(&s->publishing.absolute, 0);
    buf_init(&s->settings.info_text, 1u << 20);
    if (config_init(&s->config, err) < 0) {
        goto fail;
    }
    s->loop = loop_create(err);
    s->shared = s->loop ? shared_create(err) : NULL;
    s->hub = s->shared ? hub_create(s->loop, s->shared, err) : NULL;
    if (s->hub) {
        server_notify_parts(s);
    }
    s->publishing.published =
        s->hub ? published_create(&s->config.published_max, &s->config.published_bytes, err) : NULL;
    if (!s->publishing.published) {
        goto fail;
    }
    hub_on_mute(s->hub, server_is_mute, s);
    server_share_published(&s->publishing);
    return s;
fail:
    tidings_server_destroy(s);
    return NULL;
}

void tidings_server_destroy(struct tidings_server *s)
{
    if (!s) {
        return;
    }
    enum server_state state = server_state(s);
    if (state == SERVER_STEPPED) {
        s->stepper = pthread_self(); /* the destroying thread is the only user */
        (void)tidings_server_finish(s, NULL);
    }
    if (s->is_stuck || state == SERVER_STARTING || state == SERVER_RUNNING) {
        return; /* a callback may still answer a request, or the server is in use */
    }
    server_timers_close(s);
    server_sockets_forget(s);
    if (s->hub) {
        server_store_close(&s->store, false); /* it announces its last changes */
    }
    if (s->publishing.published) {
        published_set_shares(s->publishing.published, NULL); /* shared accounts */
    }
    shared_stop(s->shared);
    hub_destroy(s->hub);
    shared_destroy(s->shared);
    cluster_destroy(s->store.cluster);
    catalog_unref(s->publishing.mounted);
    published_destroy(s->publishing.published);
    inproc_subscriptions_deinit(&s->registry.inproc);
    for (size_t i = 0; i < s->registry.route_count; i++) {
        mem_free((char *)(uintptr_t)s->registry.routes[i].path);
    }
    mem_free(s->registry.routes);
    if (s->loop) {
        loop_destroy(s->loop);
    }
    config_deinit(&s->config);
    rules_deinit(&s->settings.rules);
    access_rules_unref(s->settings.access);
    runtime_rules_deinit(&s->registry.runtime_rules);
    buf_deinit(&s->settings.implementation);
    buf_deinit(&s->settings.instructions);
    buf_deinit(&s->settings.ceiling);
    entity_authority_deinit(&s->publishing.authority);
    buf_deinit(&s->publishing.absolute);
    buf_deinit(&s->settings.info_text);
    process_probe_close(&s->admin.process);
    mem_free(s);
}

int server_note(struct tidings_server *s, const char *function, int rc,
                const struct tidings_error *own)
{
    if (rc < 0 && s && own->code < 0 &&
        !__atomic_exchange_n(&s->has_unheard, true, __ATOMIC_ACQ_REL)) {
        tidings_fail(&s->unheard, rc, "%s: %s", function, own->text);
    }
    return rc;
}

int tidings_server_set(struct tidings_server *s, const char *name, const char *value,
                       struct tidings_error *err)
{
    struct tidings_error own = {0, ""};
    err = err ? err : &own;
    int rc = server_check_new(s, err);
    rc = rc < 0 ? rc : config_set(&s->config, name, value, CONFIG_PROGRAM, err);
    return server_note(s, __func__, rc, &own);
}

char *tidings_server_get(struct tidings_server *s, const char *name)
{
    struct buf out;
    buf_init(&out, 1u << 20);
    if (!s || !name || config_get(&s->config, name, &out) < 0 || buf_put(&out, "", 0) < 0) {
        buf_deinit(&out);
        return NULL;
    }
    return buf_detach(&out, NULL);
}

int tidings_server_args(struct tidings_server *s, int argc, char **argv, struct tidings_error *err)
{
    if (server_check_new(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    int rc = config_args(&s->config, argc, argv, environ, err);
    if (rc == 0) {
        log_setup_levels(&s->config);
        s->is_program = true;
    }
    return rc;
}

static char *printed(const struct config *c, int (*print)(const struct config *c, struct buf *out))
{
    struct buf out;
    buf_init(&out, 1u << 20);
    print(c, &out);
    return buf_detach(&out, NULL);
}

char *tidings_config_help(size_t width)
{
    struct buf out;
    buf_init(&out, 1u << 20);
    config_help(&out, width);
    return buf_detach(&out, NULL);
}

char *tidings_config_print(struct tidings_server *s)
{
    return s ? printed(&s->config, config_print) : NULL;
}

char *tidings_config_json(struct tidings_server *s)
{
    return s ? printed(&s->config, config_json) : NULL;
}

/* Iterates twice over the same slices: measure, then copy. */
int tidings_server_set_info(struct tidings_server *s, const struct tidings_server_info *info,
                            struct tidings_error *err)
{
    if (server_check_new(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (!info) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a description of the server is missing");
    }
    if (RESERVED_CHECK(info, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    struct tidings_server_info copy = *info;
    struct tidings_str *slices[] = {&copy.name,        &copy.version,     &copy.title,
                                    &copy.description, &copy.website_url, &copy.instructions};
    size_t n = sizeof(slices) / sizeof(slices[0]);
    buf_clear(&s->settings.info_text);
    for (size_t i = 0; i < n; i++) {
        if (buf_puts(&s->settings.info_text, *slices[i]) < 0) {
            return buf_check(&s->settings.info_text, "the server's description", "shorten it", err);
        }
    }
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        slices[i]->ptr = slices[i]->len > 0 ? s->settings.info_text.ptr + at : "";
        at += slices[i]->len;
    }
    s->settings.info = copy;
    return 0;
}

int tidings_server_declare(struct tidings_server *s, const char *feature, struct tidings_error *err)
{
    if (server_check_new(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    struct tidings_str f = tidings_str(feature);
    if (str_eq(f, STR("tools"))) {
        s->settings.identity.has_tools = true;
    } else if (str_eq(f, STR("prompts"))) {
        s->settings.identity.has_prompts = true;
    } else {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.60s' cannot be declared; use tools or prompts", f.ptr);
    }
    return 0;
}

int tidings_server_sandbox(struct tidings_server *s, struct tidings_error *err)
{
    if (server_check_new(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    s->sandbox.is_wanted = true;
    return 0;
}

void tidings_set_log(enum tidings_log_level least, tidings_log_fn fn, void *user)
{
    log_set_level(least);
    log_set_sink(fn, user);
}

/* -------------------------------------------------------------------------------------------------
 * tidings_server_main: a small program around one server, with its signals and messages. Only here
 * does the library print and handle signals, because the program requested it.
 */

/* The only way to reach the server in a signal handler. */
static struct tidings_server *serving; /* atomic */
static volatile sig_atomic_t has_been_asked;
static bool has_terminal;

static void on_signal(int number)
{
    int saved_errno = errno;
    struct tidings_server *server = __atomic_load_n(&serving, __ATOMIC_ACQUIRE);
    if (server && number == SIGHUP && !(has_terminal && tcgetpgrp(STDERR_FILENO) < 0)) {
        tidings_server_reload(server);
    } else if (server && number == SIGUSR1) {
        tidings_server_reopen_log(server);
    } else if (server && has_been_asked) {
        tidings_server_stop_now(server);
    } else if (server) { /* including a hangup of the terminal */
        has_been_asked = 1;
        tidings_server_stop(server);
    }
    errno = saved_errno;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void on_ready(void *user, const char *url)
{
    struct tidings_server *server = __atomic_load_n(&serving, __ATOMIC_ACQUIRE);
    fprintf(stderr, "%s: serving on", (const char *)user);
    for (size_t i = 0; url; url = tidings_server_address(server, ++i)) {
        bool is_pipe = strcmp(url, "stdio") == 0;
        fprintf(stderr, "%s %s", i > 0 ? "," : "", is_pipe ? "standard input and output" : url);
    }
    fputc('\n', stderr);
}

static int serve(struct tidings_server *server, struct tidings_error *err)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    enum { COUNT = sizeof(numbers) / sizeof(numbers[0]) };
    struct tidings_server *nobody = NULL;
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before[COUNT];
    if (!__atomic_compare_exchange_n(&serving, &nobody, server, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        return tidings_fail(err, TIDINGS_E_BUSY, "tidings_server_main runs already");
    }
    has_been_asked = 0;
    sigemptyset(&act.sa_mask);
    has_terminal = tcgetpgrp(STDERR_FILENO) >= 0;
    for (size_t i = 0; i < COUNT; i++) {
        sigaction(numbers[i], &act, &before[i]);
    }
    int rc = tidings_server_run(server, err);
    for (size_t i = 0; i < COUNT; i++) {
        sigaction(numbers[i], &before[i], NULL);
    }
    __atomic_store_n(&serving, NULL, __ATOMIC_RELEASE);
    return rc;
}

/* `--help` and `--version`, anywhere before `--`: printed instead of serving. */
static bool server_main_explain(const struct tidings_server *server, const char *name, int argc,
                                char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            char *options = tidings_config_help(0);
            printf("usage: %s [OPTION…] [DIR…]\n\n%s", name, options ? options : "");
            tidings_free(options);
            return true;
        }
        if (strcmp(argv[i], "--version") == 0) {
            struct tidings_str version = server->settings.info.version;
            printf("%s %.*s%slibtidings %s%s\n", name, (int)version.len, version.ptr,
                   version.len > 0 ? " (" : "", tidings_version(), version.len > 0 ? ")" : "");
            return true;
        }
    }
    return false;
}

int tidings_server_main(struct tidings_server *server, int argc, char **argv)
{
    struct tidings_error err = {TIDINGS_E_NOMEM, "out of memory"};
    const char *name = argc > 0 ? base_name(argv[0]) : "tidings";
    if (server && server_main_explain(server, name, argc, argv)) {
        return fflush(stdout) == 0 ? 0 : tidings_code_exit(TIDINGS_E_IO);
    }
    int rc =
        server ? tidings_server_args(server, argc > 0 ? argc - 1 : 0, argv + 1, &err) : err.code;
    if (server && __atomic_load_n(&server->has_unheard, __ATOMIC_ACQUIRE)) {
        fprintf(stderr, "%s: %s\n", name, server->unheard.text);
    }
    if (rc == 0) {
        tidings_server_on_ready(server, on_ready, (void *)(uintptr_t)name);
        rc = serve(server, &err);
    }
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", name, err.text);
    }
    return tidings_code_exit(rc);
}
