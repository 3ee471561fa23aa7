/* SPDX-License-Identifier: MIT
 *
 * A pool of threads around one blocking mailbox: a job is a letter, and all threads wait for the
 * next.
 *
 * A thread ends when it gets its own *last letter*. Those are sent after everything else, so what
 * is waiting runs first. Signals stay blocked in the threads: they belong to the program.
 * Deliberately no priorities and no cancelling: a job that may be cancelled asks its owner.
 */
#include "base/pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/mailbox.h"
#include "base/mem.h"

#define POOL_MAX_THREADS 1024u

struct pool_thread {
    struct letter last; /* sent when the pool goes; ends whichever thread gets it */
    pthread_t id;
};

struct pool {
    struct mailbox *jobs;
    size_t max_waiting;
    atomic_size_t waiting;
    atomic_bool is_started;
    atomic_bool is_closing;
    unsigned wanted;
    unsigned running;
    struct pool_thread threads[];
};

struct job {
    struct letter letter;
    void (*run)(void *job);
    void *job;
};

static _Thread_local bool got_last;

static void last_deliver(struct letter *letter, void *owner)
{
    (void)letter;
    (void)owner;
    got_last = true;
}

static void last_drop(struct letter *letter)
{
    (void)letter; /* lies in the pool */
}

static void pool_job_drop(struct letter *letter)
{
    mem_free(list_entry(letter, struct job, letter));
}

static void pool_job_deliver(struct letter *letter, void *owner)
{
    struct pool *p = owner;
    struct job *job = list_entry(letter, struct job, letter);
    void (*run)(void *) = job->run;
    void *argument = job->job;
    atomic_fetch_sub_explicit(&p->waiting, 1, memory_order_relaxed);
    mem_free(job);
    run(argument);
}

static void *thread_main(void *pool)
{
    struct pool *p = pool;
    got_last = false;
    while (!got_last && mailbox_wait(p->jobs, -1)) {
    }
    return NULL;
}

struct pool *pool_create(unsigned threads, size_t max_waiting, struct tidings_error *err)
{
    if (threads == 0 || threads > POOL_MAX_THREADS) {
        (void)tidings_fail(err, TIDINGS_E_INVALID, "a pool has 1 to %u threads, not %u",
                           POOL_MAX_THREADS, threads);
        return NULL;
    }
    struct pool *p = mem_zalloc(sizeof *p + threads * sizeof p->threads[0]);
    if (!p) {
        (void)tidings_fail(err, TIDINGS_E_NOMEM, "create thread pool: out of memory");
        return NULL;
    }
    p->jobs = mailbox_create_blocking(p, err);
    if (!p->jobs) {
        mem_free(p);
        return NULL;
    }
    p->wanted = threads;
    p->max_waiting = max_waiting;
    return p;
}

void pool_destroy(struct pool *p)
{
    if (!p) {
        return;
    }
    atomic_store(&p->is_closing, true);
    for (unsigned i = 0; i < p->running; i++) {
        p->threads[i].last = (struct letter){.deliver = last_deliver, .drop = last_drop};
        mailbox_send(p->jobs, &p->threads[i].last);
    }
    for (unsigned i = 0; i < p->running; i++) {
        (void)pthread_join(p->threads[i].id, NULL);
    }
    /* Jobs that other jobs slipped in behind the last letters, or that never got a thread. */
    while (mailbox_drain(p->jobs) > 0) {
    }
    mailbox_close(p->jobs);
    mailbox_unref(p->jobs);
    mem_free(p);
}

/* Starts the threads unless that was done. As many as the system gives; none at all is a failure,
 * which the next job tries again. */
static int start_threads(struct pool *p)
{
    if (atomic_load_explicit(&p->is_started, memory_order_acquire) ||
        atomic_exchange(&p->is_started, true)) {
        return 0;
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    unsigned running = 0;
    int errnum = 0;
    while (running < p->wanted && errnum == 0) {
        errnum = pthread_create(&p->threads[running].id, NULL, thread_main, p);
        running += errnum == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    p->running = running;
    if (running == 0) {
        atomic_store(&p->is_started, false);
        return error_code_from_errno(errnum);
    }
    return 0;
}

int pool_submit(struct pool *p, void (*run)(void *job), void *job)
{
    if (atomic_load(&p->is_closing)) {
        return TIDINGS_E_CLOSED;
    }
    if (atomic_fetch_add_explicit(&p->waiting, 1, memory_order_relaxed) >= p->max_waiting) {
        atomic_fetch_sub_explicit(&p->waiting, 1, memory_order_relaxed);
        return TIDINGS_E_BUSY;
    }
    int rc = TIDINGS_E_NOMEM;
    struct job *waiting = mem_alloc(sizeof *waiting);
    if (waiting) {
        rc = start_threads(p);
    }
    if (rc < 0) {
        atomic_fetch_sub_explicit(&p->waiting, 1, memory_order_relaxed);
        mem_free(waiting);
        return rc;
    }
    *waiting = (struct job){
        .letter = {.deliver = pool_job_deliver, .drop = pool_job_drop}, .run = run, .job = job};
    mailbox_send(p->jobs, &waiting->letter);
    return 0;
}
