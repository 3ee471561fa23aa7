/* SPDX-License-Identifier: MIT
 *
 * A worker on its thread: one loop, one core and the connections on it. With a single worker the
 * thread is the caller's, and the hub shares its loop.
 */
#ifndef SERVER_WORKER_THREAD_H
#define SERVER_WORKER_THREAD_H

#include <pthread.h>

#include "engine/engine.h"
#include "engine/protocol/session_migration.h"
#include "transport/http.h"
#include "transport/lines.h"

struct shared;

struct worker_thread {
    struct core core;
    struct loop *loop;
    struct http_worker *http;      /* NULL: none */
    struct socket_worker *sockets; /* NULL: none */
    struct stdio *stdio;           /* NULL: none */
    struct loop_timer *deadline;
    pthread_t thread;
    struct thread_message stop, hurry;
    uint64_t drain_ms;
    bool owns_loop, running;
    bool stopping, http_done, sockets_done, stdio_done, finished, has_awaited_jobs;
    /* On the worker's thread. The first, set before it starts: stdio ended unasked. */
    void (*input_ended)(void *user);
    void *input_user;
    void (*ended)(struct worker_thread *worker, void *user);
    void *user;
};

struct worker_thread_options {
    struct loop *loop; /* NULL: one of its own */
    struct hub *hub;
    struct shared *shared;
    const struct worker_limits *limits;
    const struct server_identity *self;
    const struct http_config *http;      /* NULL: none */
    const struct socket_config *sockets; /* NULL: none */
    http_find_worker_fn find;
    void *find_user;
    unsigned index, count;          /* of this one, and of all */
    struct session_store *sessions; /* where those are kept that may move; NULL: none does */
};

struct worker_thread *worker_thread_create(const struct worker_thread_options *options,
                                           struct tidings_error *err);
/* Stopped, or never started; NULL is fine. Waits some seconds for requests that providers have not
 * answered; false: one never was, and the worker is left in memory. */
bool worker_thread_destroy(struct worker_thread *worker);
/* The same wait without blocking, after `ended`: begin it, turn the loop, ask. */
void worker_thread_await_jobs(struct worker_thread *worker);
bool worker_thread_jobs_are_done(const struct worker_thread *worker);

/* Serve two descriptors on this worker too; before it starts. `ended`: at the end of input. */
int worker_thread_open_stdio(struct worker_thread *worker, int in, int out, size_t max_line,
                             struct tidings_error *err);

/* Where connections are sent to. */
void worker_thread_get_inboxes(struct worker_thread *worker, struct worker_inboxes *ret);

/* Run its loop on a thread of its own. */
int worker_thread_start(struct worker_thread *worker, struct tidings_error *err);
void worker_thread_join(struct worker_thread *worker);
/* Any thread: end listens one after the other, finish answers, at the latest after drain_ms; then
 * `ended` is called (and a thread of its own ends). */
void worker_thread_stop(struct worker_thread *worker, uint64_t drain_ms,
                        void (*ended)(struct worker_thread *worker, void *user), void *user);
/* … and now at once; at most once, and before it is joined. */
void worker_thread_hurry(struct worker_thread *worker);

#endif
