/* SPDX-License-Identifier: MIT
 *
 * Mailboxes: a stack that senders push to without a lock, and a wake-up of the owner.
 *
 * Invariant: `newest` is the stack of messages that were sent and not collected yet, linked by
 * `next` from the newest to the oldest, or CLOSED. No single message is ever popped: the owner
 * takes the whole stack and reverses it into `batch`, so the order is that of the pushes and there
 * is no ABA problem. Only a push onto an empty stack wakes the owner: if the stack is not empty, an
 * earlier sender wakes it.
 *
 * `senders` counts the threads between the push and the end of the wake-up. Closing waits for them
 * after setting CLOSED: so a sender can never touch a freed wake-up or freed memory, although its
 * message may be delivered before it returns.
 *
 * Only blocking mailboxes have a lock: it guards `batch`, which several threads take from, and the
 * condition they wait for.
 */
#include "base/thread.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "base/error.h"
#include "base/mem.h"

/* ---------------------------------------------------------------------------------------------- */

struct mailbox {
    _Atomic(struct list *) newest;
    atomic_uint senders;
    bool is_blocking;
    atomic_uint refs;
    void *owner;
    struct list batch;
    struct loop_wakeup wakeup; /* for mailboxes of a loop */
    pthread_mutex_t lock;      /* for blocking mailboxes */
    pthread_cond_t filled;     /* on the monotonic clock */
};

static struct list closed_mark;
#define CLOSED (&closed_mark)

static void mailbox_drop_all(struct list *messages)
{
    while (!list_empty(messages)) {
        struct thread_message *message = list_entry(messages->next, struct thread_message, link);
        list_remove(&message->link);
        message->drop(message);
    }
}

/* Appends the sent messages to `into`, oldest first. Replaces the stack by `left`. */
static void mailbox_collect(struct mailbox *m, struct list *into, struct list *left)
{
    struct list *link = atomic_exchange(&m->newest, left);
    assert(link != CLOSED);
    struct list sent;
    list_init(&sent);
    while (link) {
        struct list *older = link->next;
        list_prepend(&sent, link);
        link = older;
    }
    list_splice(into, &sent);
}

static bool is_closed(struct mailbox *m)
{
    return atomic_load_explicit(&m->newest, memory_order_acquire) == CLOSED;
}

/* Delivers at most `max` of the current messages. The caller holds a reference: a message can close
 * the mailbox, which also empties the batch. */
static size_t deliver_some(struct mailbox *m, size_t max)
{
    size_t delivered = 0;
    if (!is_closed(m)) {
        mailbox_collect(m, &m->batch, NULL);
    }
    while (delivered < max && !list_empty(&m->batch)) {
        struct thread_message *message = list_entry(m->batch.next, struct thread_message, link);
        list_remove(&message->link);
        message->deliver(message, m->owner);
        delivered++;
    }
    return delivered;
}

static void on_wakeup(void *mailbox)
{
    struct mailbox *m = mailbox_ref(mailbox);
    (void)deliver_some(m, MAILBOX_PER_TURN);
    if (!list_empty(&m->batch)) {
        loop_wakeup_send(&m->wakeup);
    }
    mailbox_unref(m);
}

/* Allocates the common part; NULL on failure. */
static struct mailbox *mailbox_allocate(void *owner, struct tidings_error *err)
{
    struct mailbox *m = mem_zalloc(sizeof *m);
    if (!m) {
        (void)tidings_fail(err, TIDINGS_E_NOMEM, "create mailbox: out of memory");
        return NULL;
    }
    atomic_init(&m->refs, 1);
    m->owner = owner;
    list_init(&m->batch);
    return m;
}

struct mailbox *mailbox_create(struct loop *loop, void *owner, struct tidings_error *err)
{
    struct mailbox *m = mailbox_allocate(owner, err);
    if (m) {
        loop_wakeup_init(&m->wakeup, loop, on_wakeup, m);
    }
    return m;
}

/* Returns an errno value. */
static int init_monotonic(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    int errnum = pthread_condattr_init(&attributes);
    if (errnum) {
        return errnum;
    }
    errnum = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    errnum = errnum ? errnum : pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return errnum;
}

struct mailbox *mailbox_create_blocking(void *owner, struct tidings_error *err)
{
    struct mailbox *m = mailbox_allocate(owner, err);
    if (!m) {
        return NULL;
    }
    int errnum = pthread_mutex_init(&m->lock, NULL);
    if (errnum) {
        goto fail_memory;
    }
    errnum = init_monotonic(&m->filled);
    if (errnum) {
        goto fail_lock;
    }
    m->is_blocking = true;
    return m;

fail_lock:
    pthread_mutex_destroy(&m->lock);
fail_memory:
    (void)error_errno(err, errnum, "create mailbox");
    mem_free(m);
    return NULL;
}

void mailbox_close(struct mailbox *m)
{
    if (!m) {
        return;
    }
    struct list left;
    list_init(&left);
    if (m->is_blocking) {
        pthread_mutex_lock(&m->lock);
    }
    list_splice(&left, &m->batch); /* older than the others */
    mailbox_collect(m, &left, CLOSED);
    if (m->is_blocking) {
        pthread_cond_broadcast(&m->filled);
        pthread_mutex_unlock(&m->lock);
    }
    while (atomic_load(&m->senders) > 0) {
        (void)poll(NULL, 0,
                   1); /* a few instructions of another thread, unless it was interrupted */
    }
    mailbox_drop_all(&left);
    if (!m->is_blocking) {
        loop_wakeup_deinit(&m->wakeup);
    }
}

struct mailbox *mailbox_ref(struct mailbox *m)
{
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return m;
}

void mailbox_unref(struct mailbox *m)
{
    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) > 1) {
        return;
    }
    assert(is_closed(m) && list_empty(&m->batch));
    if (m->is_blocking) {
        pthread_cond_destroy(&m->filled);
        pthread_mutex_destroy(&m->lock);
    }
    mem_free(m);
}

static void mailbox_wake(struct mailbox *m, bool was_empty)
{
    if (m->is_blocking) {
        pthread_mutex_lock(&m->lock);
        pthread_cond_signal(&m->filled);
        pthread_mutex_unlock(&m->lock);
    } else if (was_empty) {
        loop_wakeup_send(&m->wakeup);
    }
}

void mailbox_send(struct mailbox *m, struct thread_message *message)
{
    /* Before reading `newest`; mailbox_close uses the opposite order. */
    atomic_fetch_add(&m->senders, 1);
    struct list *head = atomic_load(&m->newest);
    do {
        message->link.next = head;
    } while (head != CLOSED &&
             !atomic_compare_exchange_weak_explicit(&m->newest, &head, &message->link,
                                                    memory_order_acq_rel, memory_order_acquire));
    if (head != CLOSED) {
        mailbox_wake(m, head == NULL);
    }
    atomic_fetch_sub_explicit(&m->senders, 1, memory_order_release);
    if (head == CLOSED) {
        message->drop(message);
    }
}

size_t mailbox_drain(struct mailbox *m)
{
    mailbox_ref(m);
    size_t delivered = deliver_some(m, SIZE_MAX);
    mailbox_unref(m);
    return delivered;
}

static struct timespec mailbox_later(int ms)
{
    struct timespec at = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    long ns = at.tv_nsec + ms % 1000 * 1000000L;
    at.tv_sec += ms / 1000 + ns / 1000000000;
    at.tv_nsec = ns % 1000000000;
    return at;
}

/* With the lock held: waits until there is a message, the mailbox closes, or the time is up. */
static void await_message(struct mailbox *m, int timeout_ms)
{
    struct timespec deadline = mailbox_later(timeout_ms < 0 ? 0 : timeout_ms);
    bool is_over = timeout_ms == 0;
    while (list_empty(&m->batch) && !is_closed(m)) {
        mailbox_collect(m, &m->batch, NULL);
        if (!list_empty(&m->batch) || is_over) {
            return;
        }
        if (timeout_ms < 0) {
            pthread_cond_wait(&m->filled, &m->lock);
        } else {
            is_over = pthread_cond_timedwait(&m->filled, &m->lock, &deadline) == ETIMEDOUT;
        }
    }
}

bool mailbox_wait(struct mailbox *m, int timeout_ms)
{
    assert(m->is_blocking);
    struct thread_message *message = NULL;
    pthread_mutex_lock(&m->lock);
    await_message(m, timeout_ms);
    bool is_open = !is_closed(m);
    if (!list_empty(&m->batch)) {
        message = list_entry(m->batch.next, struct thread_message, link);
        list_remove(&message->link);
    }
    pthread_mutex_unlock(&m->lock);
    if (message) {
        message->deliver(message, m->owner);
    }
    return is_open;
}

bool mailbox_is_empty(struct mailbox *m)
{
    struct list *newest = atomic_load_explicit(&m->newest, memory_order_acquire);
    return list_empty(&m->batch) && (newest == NULL || newest == CLOSED);
}

/* -------------------------------------------------------------------------------------------------
 * Starts and joins a thread with a loop and a mailbox. The request to stop is an ordinary message,
 * so it comes after those sent before it.
 */

int actor_init(struct actor *a, void *owner, struct tidings_error *err)
{
    *a = (struct actor){0};
    a->loop = loop_create(err);
    a->mailbox = a->loop ? mailbox_create(a->loop, owner, err) : NULL;
    if (!a->mailbox) {
        actor_deinit(a);
        return TIDINGS_E_NOMEM;
    }
    return 0;
}

static void *actor_run(void *user)
{
    struct actor *a = user;
    (void)pthread_setname_np(pthread_self(), a->name); /* naming another thread would need a file */
    loop_run(a->loop);
    return NULL;
}

int actor_start(struct actor *a, const char *name, struct tidings_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    a->name = name;
    int errnum = pthread_create(&a->thread, NULL, actor_run, a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (errnum) {
        return error_errno(err, errnum, "start the thread '%s'", name);
    }
    a->running = true;
    return 0;
}

struct stop_message {
    struct thread_message message;
    struct loop *loop;
};

static void deliver_stop(struct thread_message *message, void *owner)
{
    (void)owner;
    loop_stop(list_entry(message, struct stop_message, message)->loop);
}

static void drop_stop(struct thread_message *message)
{
    (void)message;
}

void actor_stop(struct actor *a)
{
    if (!a->running) {
        return;
    }
    struct stop_message stop = {{.deliver = deliver_stop, .drop = drop_stop}, a->loop};
    list_init(&stop.message.link);
    mailbox_send(a->mailbox, &stop.message);
    pthread_join(a->thread, NULL);
    a->running = false;
}

void actor_deinit(struct actor *a)
{
    if (a->mailbox) {
        mailbox_close(a->mailbox);
        mailbox_unref(a->mailbox);
    }
    if (a->loop) {
        loop_destroy(a->loop);
    }
    *a = (struct actor){0};
}

/* -------------------------------------------------------------------------------------------------
 * A pool of threads around one blocking mailbox: a job is a message, and all threads wait for the
 * next.
 *
 * A thread ends when it gets a *last message*. Those are sent after all jobs, so waiting jobs run
 * first. Signals stay blocked in the threads: they belong to the program. Deliberately no
 * priorities and no cancellation: a cancellable job checks with its owner.
 */

#define POOL_MAX_THREADS 1024u

struct pool_thread {
    struct thread_message last; /* sent by pool_destroy; ends the thread that gets it */
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
    struct thread_message message;
    void (*run)(void *job);
    void *job;
};

static _Thread_local bool got_last;

static void last_deliver(struct thread_message *message, void *owner)
{
    (void)message;
    (void)owner;
    got_last = true;
}

static void last_drop(struct thread_message *message)
{
    (void)message; /* part of the pool */
}

static void pool_job_drop(struct thread_message *message)
{
    mem_free(list_entry(message, struct job, message));
}

static void pool_job_deliver(struct thread_message *message, void *owner)
{
    struct pool *p = owner;
    struct job *job = list_entry(message, struct job, message);
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
        p->threads[i].last = (struct thread_message){.deliver = last_deliver, .drop = last_drop};
        mailbox_send(p->jobs, &p->threads[i].last);
    }
    for (unsigned i = 0; i < p->running; i++) {
        (void)pthread_join(p->threads[i].id, NULL);
    }
    /* Jobs that other jobs submitted after the last messages, or that never got a thread. */
    while (mailbox_drain(p->jobs) > 0) {
    }
    mailbox_close(p->jobs);
    mailbox_unref(p->jobs);
    mem_free(p);
}

/* Starts the threads unless they run. As many as the system allows; none at all is a failure, which
 * the next job retries. */
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
        .message = {.deliver = pool_job_deliver, .drop = pool_job_drop}, .run = run, .job = job};
    mailbox_send(p->jobs, &waiting->message);
    return 0;
}
