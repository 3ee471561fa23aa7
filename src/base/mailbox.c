/* SPDX-License-Identifier: MIT
 *
 * Mailboxes: a list under a lock, and a way to wake the owner.
 *
 * Invariant: `letters`, `count` and `is_closed` change only under the lock. What a delivery has
 * taken out lies in `batch`, which only the owner's thread touches, so letters are delivered
 * without the lock and may send, drain or close themselves. The owner is woken only when `letters`
 * was empty: whoever finds it filled knows that somebody has woken the owner already.
 *
 * The wake-up happens under the lock, after looking at `is_closed`: a sender can therefore never
 * touch a libuv handle that is closing, however late it comes.
 */
#include "base/mailbox.h"

#include <assert.h>
#include <stdatomic.h>

#include <uv.h>

#include "base/error.h"
#include "base/mem.h"

struct mailbox {
    uv_mutex_t lock;
    uv_cond_t filled;  /* blocking ones */
    uv_async_t wakeup; /* those of a loop */
    bool is_blocking;
    bool is_closed;
    atomic_uint refs;
    void *owner;
    struct list letters;
    size_t count;
    struct list batch;
};

static void drop_all(struct list *letters)
{
    while (!list_empty(letters)) {
        struct letter *letter = list_entry(letters->next, struct letter, link);
        list_remove(&letter->link);
        letter->drop(letter);
    }
}

static void on_wakeup(uv_async_t *handle)
{
    (void)mailbox_drain(handle->data);
}

/* Everything but the part that differs; NULL on failure. */
static struct mailbox *create(void *owner, struct tidings_error *err)
{
    struct mailbox *m = mem_zalloc(sizeof *m);
    if (!m) {
        (void)tidings_fail(err, TIDINGS_E_NOMEM, "create mailbox: out of memory");
        return NULL;
    }
    int rc = uv_mutex_init(&m->lock);
    if (rc < 0) {
        (void)error_errno(err, -rc, "create mailbox");
        mem_free(m);
        return NULL;
    }
    atomic_init(&m->refs, 1);
    m->owner = owner;
    list_init(&m->letters);
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
        uv_mutex_destroy(&m->lock);
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
    int rc = uv_cond_init(&m->filled);
    if (rc < 0) {
        (void)error_errno(err, -rc, "create mailbox");
        uv_mutex_destroy(&m->lock);
        mem_free(m);
        return NULL;
    }
    m->is_blocking = true;
    return m;
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
    uv_mutex_lock(&m->lock);
    assert(!m->is_closed);
    m->is_closed = true;
    list_splice(&left, &m->letters);
    m->count = 0;
    if (m->is_blocking) {
        uv_cond_broadcast(&m->filled);
    }
    uv_mutex_unlock(&m->lock);
    drop_all(&m->batch); /* older than the others */
    drop_all(&left);
    if (m->is_blocking) {
        return;
    }
    mailbox_ref(m); /* for the handle, which closes at the end of the turn */
    uv_close((uv_handle_t *)&m->wakeup, on_wakeup_closed);
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
    assert(m->is_closed && list_empty(&m->letters) && list_empty(&m->batch));
    if (m->is_blocking) {
        uv_cond_destroy(&m->filled);
    }
    uv_mutex_destroy(&m->lock);
    mem_free(m);
}

void mailbox_send(struct mailbox *m, struct letter *letter)
{
    uv_mutex_lock(&m->lock);
    bool refused = m->is_closed;
    if (!refused) {
        bool was_empty = list_empty(&m->letters);
        list_append(&m->letters, &letter->link);
        m->count++;
        if (m->is_blocking) {
            uv_cond_signal(&m->filled);
        } else if (was_empty) {
            (void)uv_async_send(&m->wakeup);
        }
    }
    uv_mutex_unlock(&m->lock);
    if (refused) {
        letter->drop(letter);
    }
}

size_t mailbox_drain(struct mailbox *m)
{
    size_t delivered = 0;
    uv_mutex_lock(&m->lock);
    list_splice(&m->batch, &m->letters);
    m->count = 0;
    uv_mutex_unlock(&m->lock);
    mailbox_ref(m); /* a letter may close the mailbox, which also empties the batch */
    while (!list_empty(&m->batch)) {
        struct letter *letter = list_entry(m->batch.next, struct letter, link);
        list_remove(&letter->link);
        letter->deliver(letter, m->owner);
        delivered++;
    }
    mailbox_unref(m);
    return delivered;
}

/* With the lock held: until there is a letter, the mailbox closes, or time is up. */
static void await_letter(struct mailbox *m, int timeout_ms)
{
    uint64_t now = uv_hrtime();
    uint64_t deadline = now + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * 1000000u;
    while (list_empty(&m->letters) && !m->is_closed) {
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
    bool is_open = !m->is_closed;
    if (!list_empty(&m->letters)) {
        letter = list_entry(m->letters.next, struct letter, link);
        list_remove(&letter->link);
        m->count--;
    }
    uv_mutex_unlock(&m->lock);
    if (letter) {
        letter->deliver(letter, m->owner);
    }
    return is_open;
}

size_t mailbox_count(struct mailbox *m)
{
    uv_mutex_lock(&m->lock);
    size_t count = m->count;
    uv_mutex_unlock(&m->lock);
    return count;
}
