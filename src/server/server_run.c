/* SPDX-License-Identifier: MIT
 *
 * Runs a server: on threads of our own, or stepped by the program.
 *
 *     NEW --run--> RUNNING ----> ENDED            tidings_server_run, which blocks
 *     NEW --start--> STEPPED --stop, turns, finish--> ENDED
 *
 * A start that fails leads back to NEW. The state is claimed with one exchange, so of two threads
 * that start a server one is refused. Ending has two parts in both modes: the workers end their
 * listens and finish their answers while the hub still runs for them; then everything is taken
 * apart. When stepped, the first part is spread over turns, and the second waits, over turns too,
 * for requests that the program's callbacks have not answered yet.
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/server_private.h"

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

bool server_is_stopping(const struct tidings_server *s)
{
    return __atomic_load_n(&s->stopping, __ATOMIC_ACQUIRE);
}

/* ---- beginning and ending, whoever turns the loops ------------------------------------------- */

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
    process_probe_open(&s->process);
    int rc = sandbox_enter(&s->sandbox, &s->config, server_has_listener(s, LISTENER_HTTP), err);
    rc = rc < 0 ? rc : server_setup(s, is_stepped, err);
    if (rc == 0) {
        sandbox_seal(&s->sandbox, &s->config);
        hub_set_running(s->hub, true);
        server_timers_start(s);
    } else {
        process_probe_close(&s->process);
        set_state(s, SERVER_NEW);
    }
    hub_release(s->hub);
    return rc;
}

/* Standard error has the greeting of the program; elsewhere the log says it. */
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

static void tell_ready(struct tidings_server *s)
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
    if (__atomic_sub_fetch(&s->running_workers, 1, __ATOMIC_ACQ_REL) == 0) {
        loop_stop(s->loop);
    }
}

/* Workers end their listens and finish their answers while the hub still runs for them. */
static void wind_down(struct tidings_server *s)
{
    server_listeners_close(s);
    s->is_winding_down = true;
    server_timers_stop(s);
    __atomic_store_n(&s->running_workers, s->worker_count, __ATOMIC_RELEASE);
    for (size_t i = 0; i < s->worker_count; i++) {
        worker_thread_stop(s->workers[i], s->config.drain_ms, worker_ended, s);
    }
}

/* They have been given time, and it is taken back. */
static void server_run_hurry(struct tidings_server *s)
{
    if (!s->has_hurried && __atomic_load_n(&s->hurries, __ATOMIC_ACQUIRE)) {
        s->has_hurried = true;
        for (size_t i = 0; i < s->worker_count; i++) {
            worker_thread_hurry(s->workers[i]);
        }
    }
}

static bool workers_have_ended(const struct tidings_server *s)
{
    return s->is_winding_down && __atomic_load_n(&s->running_workers, __ATOMIC_ACQUIRE) == 0;
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

/* ---- on threads of our own ------------------------------------------------------------------- */

int tidings_server_run(struct tidings_server *s, struct tidings_error *err)
{
    struct tidings_error why = {0, ""};
    int rc = server_run_begin(s, false, &why);
    if (rc == TIDINGS_E_CLOSED && server_is_stopping(s)) {
        return 0; /* asked to stop while it started: as if a moment later */
    }
    if (rc < 0) {
        if (err) {
            *err = why;
        }
        return rc;
    }
    set_state(s, SERVER_RUNNING);
    for (size_t i = 0; rc == 0 && s->worker_count > 1 && i < s->worker_count; i++) {
        rc = worker_thread_start(s->workers[i], err);
    }
    if (rc == 0) {
        tell_ready(s);
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
    for (size_t i = 0; i < s->worker_count; i++) {
        worker_thread_join(s->workers[i]);
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
    tell_ready(s);
    loop_turn(s->loop); /* so that the descriptor knows of everything that may become ready */
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

/* Nothing is under way any more, or those who still work have had their time. */
static bool have_jobs_ended(struct tidings_server *s)
{
    if (!workers_have_ended(s)) {
        return false;
    }
    struct worker_thread *w = s->workers[0];
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
