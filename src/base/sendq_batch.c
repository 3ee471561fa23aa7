/* SPDX-License-Identifier: MIT
 *
 * Writing out all send queues at the end of a turn: one after the other with plain writes, or many
 * sockets at a time through a ring (base/uring.h).
 *
 * Invariant: when a ring has run, no send is under way and every queue it was run for is as if it
 * had been flushed by itself; only then callbacks are called. So callbacks may do what they like in
 * either case. A callback is never told that a queue is empty when it has been filled again in the
 * meantime: such a queue is dirty anew, and its callback comes after the next write.
 */
#include "base/sendq_private.h"

#include "base/mem.h"
#include "base/uring.h"

#define RING_SENDS 256u /* per system call */
#define RING_PIECES 512u
#define RING_WORTH 4u   /* fewer sockets than this are written to one by one */
#define RING_REFUSALS 8 /* rings that went bad, until there is no further one */

struct sendq_ring {
    struct uring *uring; /* NULL after a refusal, until it is needed again */
    unsigned refusals;
    struct sendq *queues[RING_SENDS];
    size_t offered[RING_SENDS];
    struct uring_send sends[RING_SENDS];
    struct iovec pieces[RING_PIECES];
};

void sendq_batch_init(struct sendq_batch *batch)
{
    *batch = (struct sendq_batch){.spare_max = SENDQ_SPARE_MAX};
    list_init(&batch->dirty);
    list_init(&batch->spare);
}

static void ring_close(struct sendq_batch *batch)
{
    if (batch->ring) {
        uring_destroy(batch->ring->uring);
        mem_free(batch->ring);
        batch->ring = NULL;
    }
    batch->is_uring_wanted = false;
}

bool sendq_batch_gathers(const struct sendq_batch *batch)
{
    return batch->is_uring_wanted;
}

void sendq_batch_deinit(struct sendq_batch *batch)
{
    ring_close(batch);
    list_each (it, next, &batch->spare) {
        mem_free(it); /* a chunk begins with its link */
    }
    list_init(&batch->spare);
    batch->spare_count = 0;
    batch->spare_max = 0;
}

int sendq_batch_use_uring(struct sendq_batch *batch, struct tidings_error *err)
{
    int rc = uring_probe(err);
    if (rc < 0) {
        return rc;
    }
    batch->is_uring_wanted = true;
    return 0;
}

/* ---- through the ring ----------------------------------------------------------------------- */

static bool can_ride(const struct sendq *q)
{
    return q->is_socket && q->pending > 0;
}

/* Are there enough sockets at the front of the dirty list? */
static bool is_worth_it(const struct sendq_batch *batch)
{
    unsigned count = 0;
    list_each (it, next, &batch->dirty) {
        if (!can_ride(list_entry(it, struct sendq, dirty_link))) {
            return false;
        }
        if (++count == RING_WORTH) {
            return true;
        }
    }
    return false;
}

/* False, and for good, when it cannot be had. */
static bool ring_open(struct sendq_batch *batch)
{
    if (!batch->ring) {
        batch->ring = mem_alloc(sizeof *batch->ring);
        if (!batch->ring) {
            batch->is_uring_wanted = false;
            return false;
        }
        batch->ring->uring = NULL;
        batch->ring->refusals = 0;
    }
    struct sendq_ring *ring = batch->ring;
    if (!ring->uring && uring_create(&ring->uring, RING_SENDS, NULL) < 0) {
        ring_close(batch);
        return false;
    }
    return true;
}

void sendq_batch_open_ring(struct sendq_batch *batch)
{
    if (batch->is_uring_wanted) {
        (void)ring_open(batch);
    }
}

/* The ring is of no use any more. Another one may be, next time. */
static void ring_refused(struct sendq_batch *batch)
{
    struct sendq_ring *ring = batch->ring;
    uring_destroy(ring->uring);
    ring->uring = NULL;
    if (++ring->refusals == RING_REFUSALS) {
        ring_close(batch);
    }
}

/* Sends for the first of the dirty queues, which stay in the list. Returns their number. */
static unsigned sendq_batch_collect(struct sendq_batch *batch)
{
    struct sendq_ring *ring = batch->ring;
    unsigned count = 0, pieces = 0;
    list_each (it, next, &batch->dirty) {
        struct sendq *q = list_entry(it, struct sendq, dirty_link);
        unsigned room = RING_PIECES - pieces;
        if (count == RING_SENDS || room == 0 || !can_ride(q)) {
            break;
        }
        if ((q->tls && !sendq_seal(q)) || !sendq_make(q, &q->pieces)) {
            break; /* its turn comes: then it is told that it broke */
        }
        struct iovec *iov = &ring->pieces[pieces];
        unsigned used = sendq_gather(q->pieces, iov, room < SENDQ_PIECES ? room : SENDQ_PIECES,
                                     SENDQ_OFFER, &ring->offered[count]);
        if (used == 0) {
            break; /* a source has no bytes yet: a plain flush says so */
        }
        ring->sends[count] = (struct uring_send){.fd = q->fd, .count = used, .iov = iov};
        ring->queues[count] = q;
        pieces += used;
        count++;
    }
    return count;
}

/* Moves what was sent from the dirty list to `done`. */
static void sendq_batch_take_results(struct sendq_batch *batch, unsigned count, struct list *done)
{
    const struct sendq_ring *ring = batch->ring;
    for (unsigned i = 0; i < count; i++) {
        struct sendq *q = ring->queues[i];
        if (ring->sends[i].result == URING_UNSENT) {
            continue;
        }
        (void)sendq_answered(q, ring->sends[i].result, ring->offered[i]);
        q->is_waiting = q->is_waiting || (!q->error && sendq_makes(q)); /* it had its turn */
        batch->sends++;
        list_remove(&q->dirty_link);
        list_append(done, &q->dirty_link);
    }
}

/* One at a time from the front: a callback may unlink any queue. */
static void sendq_batch_tell(struct list *done)
{
    while (!list_empty(done)) {
        struct sendq *q = list_entry(done->next, struct sendq, dirty_link);
        list_remove(&q->dirty_link);
        if (q->pending > 0 && !q->is_waiting) {
            sendq_mark_dirty(q); /* filled again, or it held more than fits one send */
        } else if (q->flushed) {
            enum sendq_state state = q->error        ? SENDQ_BROKEN
                                     : q->is_waiting ? SENDQ_WAITING
                                                     : SENDQ_EMPTY;
            q->flushed(q, state);
        }
    }
}

/* False: go on with plain writes. */
static bool flush_by_ring(struct sendq_batch *batch)
{
    struct list done;
    if (!ring_open(batch)) {
        return false;
    }
    unsigned count = sendq_batch_collect(batch);
    if (count == 0) {
        return false;
    }
    int rc = uring_send(batch->ring->uring, batch->ring->sends, count);
    unsigned calls = rc < 0 ? 1 : (unsigned)rc;
    batch->writes += calls;
    batch->uring_batches += calls;
    list_init(&done);
    sendq_batch_take_results(batch, count, &done);
    if (rc < 0) {
        ring_refused(batch);
    }
    sendq_batch_tell(&done);
    return rc >= 0;
}

void sendq_batch_flush(struct sendq_batch *batch)
{
    bool with_ring = true;
    while (!list_empty(&batch->dirty)) {
        if (with_ring && batch->is_uring_wanted && is_worth_it(batch)) {
            with_ring = flush_by_ring(batch);
            continue;
        }
        /* One at a time from the front: a callback may unlink any queue and append any. */
        struct sendq *q = list_entry(batch->dirty.next, struct sendq, dirty_link);
        enum sendq_state state = sendq_flush(q);
        if (q->flushed) {
            q->flushed(q, state);
        }
    }
}
