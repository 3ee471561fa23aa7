/* SPDX-License-Identifier: MIT
 *
 * Mailboxes: a stack that senders push to without a lock, and a way to wake the owner.
 *
 * Invariant: `newest` is the stack of what was sent and not collected yet, linked by `next` from
 * the newest to the oldest, or CLOSED. Nobody ever pops one letter: the owner takes the whole stack
 * and turns it over into `batch`, so the order is that of the pushes and there is no ABA. The owner
 * is woken only when the stack was empty: whoever finds it filled knows that somebody wakes it.
 *
 * `senders` counts those between the push and the end of the wake-up. Closing waits for them, after
 * CLOSED is in place: a sender can therefore never touch a wake-up that is gone, nor memory that is
 * gone, although its letter may have been delivered before it is done.
 *
 * Only blocking mailboxes have a lock: it guards `batch`, which several threads take from, and the
 * condition they wait for.
 */
#include "base/mailbox.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/error.h"
#include "base/mem.h"

struct mailbox {
    _Atomic(struct list *) newest;
    atomic_uint senders;
    bool is_blocking;
    atomic_uint refs;
    void *owner;
    struct list batch;
    struct loop_wakeup wakeup; /* those of a loop */
    pthread_mutex_t lock;      /* blocking ones */
    pthread_cond_t filled;     /* by the monotonic clock */
};

static struct list closed_mark;
#define CLOSED (&closed_mark)

static void mailbox_drop_all(struct list *letters)
{
    while (!list_empty(letters)) {
        struct letter *letter = list_entry(letters->next, struct letter, link);
        list_remove(&letter->link);
        letter->drop(letter);
    }
}

/* Put what was sent behind what `into` holds, oldest first. Leaves `left` behind in its place. */
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

/* At most `max` letters of those that are inside now. The caller holds a reference: a letter may
 * close the mailbox, which also empties the batch. */
static size_t deliver_some(struct mailbox *m, size_t max)
{
    size_t delivered = 0;
    if (!is_closed(m)) {
        mailbox_collect(m, &m->batch, NULL);
    }
    while (delivered < max && !list_empty(&m->batch)) {
        struct letter *letter = list_entry(m->batch.next, struct letter, link);
        list_remove(&letter->link);
        letter->deliver(letter, m->owner);
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

/* Everything but the part that differs; NULL on failure. */
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

void mailbox_send(struct mailbox *m, struct letter *letter)
{
    /* Before the look at `newest`, in one order with what mailbox_close does the other way round.
     */
    atomic_fetch_add(&m->senders, 1);
    struct list *head = atomic_load(&m->newest);
    do {
        letter->link.next = head;
    } while (head != CLOSED &&
             !atomic_compare_exchange_weak_explicit(&m->newest, &head, &letter->link,
                                                    memory_order_acq_rel, memory_order_acquire));
    if (head != CLOSED) {
        mailbox_wake(m, head == NULL);
    }
    atomic_fetch_sub_explicit(&m->senders, 1, memory_order_release);
    if (head == CLOSED) {
        letter->drop(letter);
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

/* With the lock held: until there is a letter, the mailbox closes, or time is up. */
static void await_letter(struct mailbox *m, int timeout_ms)
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
    struct letter *letter = NULL;
    pthread_mutex_lock(&m->lock);
    await_letter(m, timeout_ms);
    bool is_open = !is_closed(m);
    if (!list_empty(&m->batch)) {
        letter = list_entry(m->batch.next, struct letter, link);
        list_remove(&letter->link);
    }
    pthread_mutex_unlock(&m->lock);
    if (letter) {
        letter->deliver(letter, m->owner);
    }
    return is_open;
}

bool mailbox_is_empty(struct mailbox *m)
{
    struct list *newest = atomic_load_explicit(&m->newest, memory_order_acquire);
    return list_empty(&m->batch) && (newest == NULL || newest == CLOSED);
}
