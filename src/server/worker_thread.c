/* SPDX-License-Identifier: MIT
 *
 * Builds, runs and drains a worker on its thread.
 */
#include "server/worker_thread.h"

#include <signal.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/catalog/job.h"
#include "engine/delivery/hub.h"

/* How long providers may still work on their requests before the server ends without them. */
#define AWAIT_JOBS_MS 5000u /* for providers and handlers that have not answered yet */

static void worker_thread_finish(struct worker_thread *w)
{
    if (w->finished) {
        return;
    }
    w->finished = true;
    if (w->ended) {
        w->ended(w, w->user);
    }
    if (w->owns_loop) {
        loop_stop(w->loop);
    }
}

static void check_done(struct worker_thread *w)
{
    if (w->http_done && w->sockets_done && w->stdio_done && w->stopping) {
        worker_thread_finish(w);
    }
}

static void on_http_drained(void *user)
{
    struct worker_thread *w = user;
    w->http_done = true;
    check_done(w);
}

static void on_sockets_drained(void *user)
{
    struct worker_thread *w = user;
    w->sockets_done = true;
    check_done(w);
}

static void on_stdio_ended(void *user)
{
    struct worker_thread *w = user;
    w->stdio_done = true;
    if (w->input_ended && !w->stopping) {
        w->input_ended(w->input_user);
    }
    check_done(w);
}

static void worker_thread_on_deadline(struct loop_timer *timer, void *user)
{
    (void)timer;
    worker_thread_finish(user);
}

static void stop_deliver(struct thread_message *message, void *owner)
{
    (void)owner;
    struct worker_thread *w = list_entry(message, struct worker_thread, stop);
    loop_timer_start(w->deadline, w->drain_ms, 0);
    w->stopping = true;
    w->http_done = !w->http;
    w->sockets_done = !w->sockets;
    w->stdio_done = w->stdio_done || !w->stdio;
    drain_begin(&w->core.worker, w->drain_ms / 4 * 3); /* the rest is for answers */
    if (w->http) {
        http_worker_drain(w->http, on_http_drained, w);
    }
    if (w->sockets) {
        socket_worker_drain(w->sockets, on_sockets_drained, w);
    }
    if (w->stdio) {
        stdio_drain(w->stdio);
    }
    check_done(w);
}

static void stop_drop(struct thread_message *message)
{
    (void)message; /* part of the worker */
}

static void hurry_deliver(struct thread_message *message, void *owner)
{
    (void)owner;
    struct worker_thread *w = list_entry(message, struct worker_thread, hurry);
    drain_begin(&w->core.worker, 0);
    if (w->http) {
        http_worker_drain(w->http, on_http_drained, w); /* connections that end now */
    }
    loop_timer_start(w->deadline, 0, 0); /* after pending output is written */
}

struct worker_thread *worker_thread_create(const struct worker_thread_options *o,
                                           struct tidings_error *err)
{
    struct worker_thread *w = mem_zalloc(sizeof(*w));
    if (!w) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    w->owns_loop = !o->loop;
    w->loop = o->loop ? o->loop : loop_create(err);
    if (!w->loop) {
        mem_free(w);
        return NULL;
    }
    w->core.worker.limits = o->limits;
    w->core.worker.self = o->self;
    w->core.worker.count = o->count;
    int rc = core_init(&w->core, w->loop, o->hub, o->shared, o->index, err);
    rc = rc == 0 && o->sessions ? sessions_share(&w->core.worker, o->sessions, err) : rc;
    w->deadline = rc < 0 ? NULL : loop_timer_open(w->loop, worker_thread_on_deadline, w);
    if (w->deadline && o->http) {
        w->http = http_worker_create(&w->core.worker, o->http, o->find, o->find_user, err);
    }
    if (w->deadline && o->sockets) {
        w->sockets = socket_worker_create(&w->core.worker, o->sockets, err);
    }
    if (rc < 0 || !w->deadline || (o->http && !w->http) || (o->sockets && !w->sockets)) {
        worker_thread_destroy(w);
        return NULL;
    }
    return w;
}

void worker_thread_await_jobs(struct worker_thread *w)
{
    w->has_awaited_jobs = true;
    loop_timer_start(w->deadline, AWAIT_JOBS_MS, 0);
}

bool worker_thread_jobs_are_done(const struct worker_thread *w)
{
    return w->core.worker.jobs == 0 || !loop_timer_is_running(w->deadline);
}

bool worker_thread_destroy(struct worker_thread *w)
{
    if (!w) {
        return true;
    }
    stdio_close(w->stdio);
    http_worker_destroy(w->http);
    socket_worker_destroy(w->sockets);
    if (!core_await_jobs(&w->core, w->has_awaited_jobs ? 0 : AWAIT_JOBS_MS)) {
        job_log_unfinished(&w->core.worker);
        return false; /* it may still write into our memory: leak it */
    }
    core_deinit(&w->core);
    loop_timer_close(w->deadline);
    if (w->owns_loop) {
        loop_destroy(w->loop);
    }
    mem_free(w);
    return true;
}

int worker_thread_open_stdio(struct worker_thread *w, int in, int out, size_t max_line,
                             struct tidings_error *err)
{
    struct stdio_options options = {
        .in = in, .out = out, .max_line = max_line, .ended = on_stdio_ended, .user = w};
    w->stdio = stdio_open(&w->core.worker, &options, err);
    return w->stdio ? 0 : TIDINGS_E_NOMEM;
}

void worker_thread_get_inboxes(struct worker_thread *w, struct worker_inboxes *ret)
{
    *ret = (struct worker_inboxes){{0}};
    ret->by_kind[LISTENER_HTTP] = w->http ? http_worker_inbox(w->http) : NULL;
    ret->by_kind[LISTENER_LINES] = w->sockets ? socket_worker_inbox(w->sockets) : NULL;
}

static void *worker_thread_run(void *arg)
{
    struct worker_thread *w = arg;
    hub_adopt_thread(w->core.worker.hub);
    loop_run(w->loop);
    return NULL;
}

int worker_thread_start(struct worker_thread *w, struct tidings_error *err)
{
    /* Signals belong to the program's own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&w->thread, NULL, worker_thread_run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        return error_errno(err, rc, "start worker %u", w->core.worker.index);
    }
    w->running = true;
    return 0;
}

void worker_thread_join(struct worker_thread *w)
{
    if (w->running) {
        pthread_join(w->thread, NULL);
        w->running = false;
    }
}

void worker_thread_stop(struct worker_thread *w, uint64_t drain_ms,
                        void (*ended)(struct worker_thread *worker, void *user), void *user)
{
    w->ended = ended;
    w->user = user;
    w->drain_ms = drain_ms;
    w->stop = (struct thread_message){.deliver = stop_deliver, .drop = stop_drop};
    if (w->owns_loop && !w->running) {
        worker_thread_finish(w); /* its thread could not be started */
        return;
    }
    mailbox_send(w->core.worker.mailbox, &w->stop);
}

void worker_thread_hurry(struct worker_thread *w)
{
    if (w->owns_loop && !w->running) {
        return; /* its thread could not be started */
    }
    w->hurry = (struct thread_message){.deliver = hurry_deliver, .drop = stop_drop};
    mailbox_send(w->core.worker.mailbox, &w->hurry);
}
