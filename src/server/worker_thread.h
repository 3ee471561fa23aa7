/* SPDX-License-Identifier: MIT
 *
 * A worker on its thread: one loop, one core and the connections on it. With a single worker, it
 * runs on the caller's thread and shares its loop with the hub.
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
    /* On the worker's thread. The first, set before it starts: called at the unexpected end of
     * stdio. */
    void (*input_ended)(void *user);
    void *input_user;
    void (*ended)(struct worker_thread *worker, void *user);
    void *user;
};

struct worker_thread_options {
    struct loop *loop; /* NULL: its own */
    struct hub *hub;
    struct shared *shared;
    const struct worker_limits *limits;
    const struct server_identity *self;
    const struct http_config *http;      /* NULL: none */
    const struct socket_config *sockets; /* NULL: none */
    http_find_worker_fn find;
    void *find_user;
    unsigned index, count;          /* of this worker, and of all workers */
    struct session_store *sessions; /* store of sessions that may migrate; NULL: none */
};

struct worker_thread *worker_thread_create(const struct worker_thread_options *options,
                                           struct tidings_error *err);
/* For a stopped worker, or one that never started; NULL is fine. Waits a few seconds for requests
 * that providers have not answered. Returns false if a request is still unanswered, and leaks the
 * worker. */
bool worker_thread_destroy(struct worker_thread *worker);
/* The same wait without blocking, after `ended`: begin it, turn the loop, query it. */
void worker_thread_await_jobs(struct worker_thread *worker);
bool worker_thread_jobs_are_done(const struct worker_thread *worker);

/* Serve two descriptors on this worker too; before it starts. `ended`: called at the end of
 * input. */
int worker_thread_open_stdio(struct worker_thread *worker, int in, int out, size_t max_line,
                             struct tidings_error *err);

/* The inboxes that receive its connections. */
void worker_thread_get_inboxes(struct worker_thread *worker, struct worker_inboxes *ret);

/* Run the loop on a separate thread. */
int worker_thread_start(struct worker_thread *worker, struct tidings_error *err);
void worker_thread_join(struct worker_thread *worker);
/* Thread-safe: end listens one after the other and finish answers, within drain_ms; then `ended` is
 * called (and a separate thread ends). */
void worker_thread_stop(struct worker_thread *worker, uint64_t drain_ms,
                        void (*ended)(struct worker_thread *worker, void *user), void *user);
/* … and stop now; at most once, and before it is joined. */
void worker_thread_hurry(struct worker_thread *worker);

#endif
