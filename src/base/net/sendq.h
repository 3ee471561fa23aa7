/* SPDX-License-Identifier: MIT
 *
 * What waits to be written to one socket, and the one place that writes to sockets.
 *
 * Small pieces are copied into one buffer; large ones (> SENDQ_LARGE) may be handed over. A sendq
 * never writes by itself: it is *dirty* until its batch is flushed at the end of the turn, with
 * everything it holds in as few writes as possible. What the kernel does not take stays, and the
 * owner is asked to wait for writability; until it flushes then, the batch leaves the queue alone.
 * A queue whose socket failed, or that ran out of memory, is *broken*: it forgets what it held and
 * refuses more.
 *
 * A queue may have a TLS session: what is put in is then encrypted when it is flushed, all that
 * waits in as few records as possible, and travels as the rest.
 * Long answers are produced while they are sent: a source writes the next piece when the kernel has
 * taken the piece before it. So a long answer needs memory for one piece only.
 *
 * No write raises SIGPIPE, whatever the program has done about it.
 *
 * Not thread-safe: one loop owns a batch and its queues.
 */
#ifndef BASE_NET_SENDQ_H
#define BASE_NET_SENDQ_H

#include <sys/types.h>

#include "base/list.h"
#include "base/net/tls.h"
#include "base/str.h"

#define SENDQ_LARGE 2048u

/* Produces bytes while they are sent. */
struct sendq_source {
    /* Writes the next bytes to `room`, between 1 and `len` of them. On the thread of the queue.
     * Returns their number; -EAGAIN if it does not have them yet, and calls sendq_source_ready when
     * it does; or another negative errno, which breaks the queue. */
    ssize_t (*make)(struct sendq_source *source, char *room, size_t len);
    void (*destroy)(struct sendq_source *source);
    size_t left;         /* bytes to produce; sendq counts them down */
    size_t held;         /* bytes of memory until then */
    struct sendq *queue; /* private: the one that it is in */
};
/* The most bytes that a source produces at once, and for one socket in a turn. */
#define SENDQ_MADE 65536u
#define SENDQ_TURN (4u * SENDQ_MADE)

/* One per loop. */
struct sendq_batch {
    struct list dirty;
    uint64_t bytes;         /* that the kernel took */
    uint64_t writes;        /* system calls that wrote: each plain write, each call of a ring */
    uint64_t sends;         /* how often a queue was written from */
    uint64_t uring_batches; /* calls of a ring, each with many sends */
    /* private */
    struct list spare; /* chunks to use again: at most spare_max, and no more than queues */
    unsigned spare_count;
    unsigned spare_max;
    unsigned queue_count;
    bool is_uring_wanted;
    struct sendq_ring *ring; /* NULL until needed */
};
void sendq_batch_init(struct sendq_batch *batch);
/* Make the ring now instead of when it is first used; without one writes are plain. */
void sendq_batch_open_ring(struct sendq_batch *batch);
/* What it keeps for its queues. They may be deinitialised afterwards, as long as its own memory is
 * there. */
void sendq_batch_deinit(struct sendq_batch *batch);

/* From now on a turn's writes to several sockets go out in one system call. Fails with a sentence
 * when io_uring is forbidden here. The ring is made when a flush first has use for it; should that
 * fail then, or the kernel refuse it again and again, writes stay plain ones. What arrives is the
 * same either way, except that a queue which the callback of another one closes may have been
 * written already in the same flush. */
int sendq_batch_use_uring(struct sendq_batch *batch, struct tidings_error *err);

/* Are several writes made in one system call, so that waiting for more of them pays? */
bool sendq_batch_gathers(const struct sendq_batch *batch);

enum sendq_state {
    SENDQ_EMPTY,   /* all written */
    SENDQ_WAITING, /* the kernel is full, or a source had its turn: wait for writability, then
                    * sendq_flush again; or a source does not have its bytes: see sendq_awaits_space
                    */
    SENDQ_BROKEN,  /* the socket failed: `error` says why */
};

struct sendq;
/* Told after each flush by the batch. May close the connection, may add to other queues. Whose `q`
 * is says list_entry: it is part of a connection. */
typedef void (*sendq_flushed_fn)(struct sendq *q, enum sendq_state state);

struct sendq {
    struct list dirty_link;
    struct sendq_batch *batch;
    struct sendq_piece *pieces; /* private: the first of a ring of them, or NULL */
    struct sendq_tls *tls;      /* private: NULL: plain */
    size_t pending;             /* bytes not yet taken by the kernel, including those of sources */
    uint64_t written;           /* bytes taken so far: progress, for the stall deadline */
    int fd;
    uint16_t error; /* errno once broken */
    bool is_socket;
    bool is_waiting : 1;      /* private: the last flush could not write everything … */
    bool awaits_source : 1;   /* private: … because a source does not have its bytes yet */
    sendq_flushed_fn flushed; /* NULL: nobody is told */
};

/* `fd` is a socket, or any descriptor (pipe, file): then it is written to only as far as poll(2)
 * says it will not block, PIPE_BUF bytes at a time. Its flags are neither relied on nor changed. */
void sendq_init(struct sendq *q, struct sendq_batch *batch, int fd, sendq_flushed_fn flushed);
/* Drops what is pending. A TLS session goes with it; when nothing was pending the other side is
 * told of the end first, as far as its socket takes it. */
void sendq_deinit(struct sendq *q);
/* Give everything to `to`, which is not initialised: the descriptor, the TLS session, what waits
 * and its place in the batch. `from` is empty then, has no descriptor, and is still to be
 * deinitialised. */
void sendq_move(struct sendq *to, struct sendq *from, sendq_flushed_fn flushed);

/* From now on the kernel holds little for a reader that stops: a stream that stays open, unlike an
 * answer, may have thousands of them. */
void sendq_limit_kernel(struct sendq *q);

/* Encrypt from now on. Takes the session, also on failure. TIDINGS_E_NOMEM. The queue must be
 * empty; nothing may be put in before the handshake is done. */
int sendq_use_tls(struct sendq *q, struct tls_session *session);
struct tls_session *sendq_tls(const struct sendq *q); /* NULL: plain */
/* The same, and the queue is a plain one from now on; what it had not encrypted is gone. */
struct tls_session *sendq_detach_tls(struct sendq *q);
/* Nothing more will be put in: tell the other side, and end the writing half of the socket. When
 * all has been written. */
void sendq_end(struct sendq *q);

/* These fail with TIDINGS_E_NOMEM, which breaks the queue, or when it is broken already. */
int sendq_put(struct sendq *q, const void *bytes, size_t len); /* copies */
int sendq_puts(struct sendq *q, struct tidings_str s);
int sendq_take(struct sendq *q, char *memory,
               size_t len); /* takes mem_alloc memory, also on failure */
/* Takes the source, even on failure. */
int sendq_put_source(struct sendq *q, struct sendq_source *source);
/* The source has its next bytes. The queue is written at the end of the turn. */
void sendq_source_ready(struct sendq_source *source);
/* Returns true if the queue waits for writability. A queue that waits for a source does not: its
 * client is not slow. */
static inline bool sendq_awaits_space(const struct sendq *q)
{
    return q->pending > 0 && q->is_waiting && !q->awaits_source;
}
/* Why the queue broke. A source returns ESTALE if its content has changed. */
const char *sendq_reason(const struct sendq *q);
/* Returns the bytes of memory that the queue holds, without those of its sources. */
size_t sendq_held(const struct sendq *q, size_t *ret_by_sources);
/* Room for exactly `len` bytes to be filled in by the caller before the next call; NULL on
 * failure. */
char *sendq_reserve(struct sendq *q, size_t len);

enum sendq_state sendq_flush(struct sendq *q); /* now, without the callback */
/* End of turn. Goes on until nothing is dirty, also for what the callbacks add. */
void sendq_batch_flush(struct sendq_batch *batch);

#endif
