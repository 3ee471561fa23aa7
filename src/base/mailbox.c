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
 * CLOSED is in place: a sender can therefore never touch a libuv handle that is closing, nor memory
 * that is gone, although its letter may have been delivered before it is done.
 *
 * Only blocking mailboxes have a lock: it guards `batch`, which several threads take from, and the
 * condition they wait for.
 */
#include "base/mailbox.h"

#include <assert.h>
#include <poll.h>
#include <stdatomic.h>

#include <uv.h>

#include "base/error.h"
#include "base/mem.h"

struct mailbox {
    _Atomic(struct list *) newest;
    atomic_uint senders;
    bool is_blocking;
    atomic_uint refs;
    void *owner;
    struct list batch;
    uv_async_t wakeup; /* those of a loop */
    uv_mutex_t lock;   /* blocking ones */
    uv_cond_t filled;
};

static struct list closed_mark;
#define CLOSED (&closed_mark)

static void drop_all(struct list *letters)
{
    while (!list_empty(letters)) {
        struct letter *letter = list_entry(letters->next, struct letter, link);
        list_remove(&letter->link);
        letter->drop(letter);
    }
}

/* Put what was sent behind what `into` holds, oldest first. Leaves `left` behind in its place. */
static void collect(struct mailbox *m, struct list *into, struct list *left)
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
        collect(m, &m->batch, NULL);
    }
    while (delivered < max && !list_empty(&m->batch)) {
        struct letter *letter = list_entry(m->batch.next, struct letter, link);
        list_remove(&letter->link);
        letter->deliver(letter, m->owner);
        delivered++;
    }
    return delivered;
}

static void on_wakeup(uv_async_t *handle)
{
    struct mailbox *m = mailbox_ref(handle->data);
    (void)deliver_some(m, MAILBOX_PER_TURN);
    if (!list_empty(&m->batch)) {
        (void)uv_async_send(handle);
    }
    mailbox_unref(m);
}

/* Everything but the part that differs; NULL on failure. */
static struct mailbox *create(void *owner, struct tidings_error *err)
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
    struct mailbox *m = create(owner, err);
    if (!m) {
        return NULL;
    }
    int rc = uv_async_init(loop_uv(loop), &m->wakeup, on_wakeup);
    if (rc < 0) {
        (void)error_errno(err, -rc, "create mailbox");
        mem_free(m);
        return NULL;
    }
    m->wakeup.data = m;
    return m;
}

struct mailbox *mailbox_create_blocking(void *owner, struct tidings_error *err)
{
    struct mailbox *m = create(owner, err);
    if (!m) {
        return NULL;
    }
    int rc = uv_mutex_init(&m->lock);
    if (rc < 0) {
        goto fail_memory;
    }
    rc = uv_cond_init(&m->filled);
    if (rc < 0) {
        goto fail_lock;
    }
    m->is_blocking = true;
    return m;

fail_lock:
    uv_mutex_destroy(&m->lock);
fail_memory:
    (void)error_errno(err, -rc, "create mailbox");
    mem_free(m);
    return NULL;
}

static void on_wakeup_closed(uv_handle_t *handle)
{
    mailbox_unref(handle->data);
}

void mailbox_close(struct mailbox *m)
{
    if (!m) {
        return;
    }
    struct list left;
    list_init(&left);
    if (m->is_blocking) {
        uv_mutex_lock(&m->lock);
    }
    list_splice(&left, &m->batch); /* older than the others */
    collect(m, &left, CLOSED);
    if (m->is_blocking) {
        uv_cond_broadcast(&m->filled);
        uv_mutex_unlock(&m->lock);
    }
    while (atomic_load(&m->senders) > 0) {
        (void)poll(NULL, 0,
                   1); /* a few instructions of another thread, unless it was interrupted */
    }
    drop_all(&left);
    if (!m->is_blocking) {
        mailbox_ref(m); /* for the handle, which closes at the end of the turn */
        uv_close((uv_handle_t *)&m->wakeup, on_wakeup_closed);
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
        uv_cond_destroy(&m->filled);
        uv_mutex_destroy(&m->lock);
    }
    mem_free(m);
}

static void wake(struct mailbox *m, bool was_empty)
{
    if (m->is_blocking) {
        uv_mutex_lock(&m->lock);
        uv_cond_signal(&m->filled);
        uv_mutex_unlock(&m->lock);
    } else if (was_empty) {
        (void)uv_async_send(&m->wakeup);
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
        wake(m, head == NULL);
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

/* With the lock held: until there is a letter, the mailbox closes, or time is up. */
static void await_letter(struct mailbox *m, int timeout_ms)
{
    uint64_t now = uv_hrtime();
    uint64_t deadline = now + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * 1000000u;
    while (list_empty(&m->batch) && !is_closed(m)) {
        collect(m, &m->batch, NULL);
        if (!list_empty(&m->batch)) {
            return;
        }
        if (timeout_ms < 0) {
            uv_cond_wait(&m->filled, &m->lock);
        } else if (now >= deadline) {
            return;
        } else {
            (void)uv_cond_timedwait(&m->filled, &m->lock, deadline - now);
            now = uv_hrtime();
        }
    }
}

bool mailbox_wait(struct mailbox *m, int timeout_ms)
{
    assert(m->is_blocking);
    struct letter *letter = NULL;
    uv_mutex_lock(&m->lock);
    await_letter(m, timeout_ms);
    bool is_open = !is_closed(m);
    if (!list_empty(&m->batch)) {
        letter = list_entry(m->batch.next, struct letter, link);
        list_remove(&letter->link);
    }
    uv_mutex_unlock(&m->lock);
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
