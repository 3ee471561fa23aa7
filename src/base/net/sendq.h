/* SPDX-License-Identifier: MIT
 *
 * Send queues: the unsent output of one socket. Only this module writes to sockets.
 *
 * Small pieces are copied into one buffer; the caller can transfer ownership of large ones (>
 * SENDQ_LARGE). A sendq never writes by itself: it is *dirty* until its batch is flushed at the end
 * of the turn, which writes all its data in as few writes as possible. Bytes that the kernel does
 * not take stay, and the owner must wait for writability; until the owner then flushes, the batch
 * ignores the queue. A queue whose socket failed, or that ran out of memory, is *broken*: it drops
 * its data and rejects more.
 *
 * A queue can have a TLS session: the flush then encrypts its data in as few records as possible,
 * and sends these. Long responses are produced while they are sent: a source writes the next piece
 * when the kernel has taken the previous one. So a long response needs memory for only one piece.
 *
 * No write raises SIGPIPE, whatever the program's signal settings.
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

/* Produces bytes while they are being sent. */
struct sendq_source {
    /* Writes the next bytes to `room`, between 1 and `len` of them. Called on the queue's thread.
     * Returns their number; -EAGAIN if they are not available yet, and calls sendq_source_ready
     * when they are; or another negative errno, which breaks the queue. */
    ssize_t (*make)(struct sendq_source *source, char *room, size_t len);
    void (*destroy)(struct sendq_source *source);
    size_t left;         /* bytes to produce; sendq counts them down */
    size_t held;         /* memory use until then */
    struct sendq *queue; /* private: its queue */
};
/* Maximum bytes that a source produces at once, and for one socket in a turn. */
#define SENDQ_MADE 65536u
#define SENDQ_TURN (4u * SENDQ_MADE)

/* One per loop. */
struct sendq_batch {
    struct list dirty;
    uint64_t bytes;         /* taken by the kernel */
    uint64_t writes;        /* system calls: each plain write, each call of a ring */
    uint64_t sends;         /* writes of single queues */
    uint64_t uring_batches; /* calls of a ring, each with many sends */
    /* private */
    struct list spare; /* chunks to reuse: at most spare_max, and no more than queues */
    unsigned spare_count;
    unsigned spare_max;
    unsigned queue_count;
    bool is_uring_wanted;
    struct sendq_ring *ring; /* NULL until needed */
};
void sendq_batch_init(struct sendq_batch *batch);
/* Creates the ring now instead of on first use; without a ring, writes are plain. */
void sendq_batch_open_ring(struct sendq_batch *batch);
/* Frees what it keeps for its queues. They may be deinitialised later, as long as the batch's own
 * memory exists. */
void sendq_batch_deinit(struct sendq_batch *batch);

/* Sends a turn's writes to several sockets in one system call from now on. Fails with an error
 * message if io_uring is forbidden. The ring is created when a flush first needs it; if that fails,
 * or if the kernel rejects the ring repeatedly, writes stay plain. The output is the same either
 * way, except that a queue closed by another queue's callback may already have been written in the
 * same flush. */
int sendq_batch_use_uring(struct sendq_batch *batch, struct tidings_error *err);

/* Returns true if one system call makes several writes, so it pays to wait for more of them. */
bool sendq_batch_gathers(const struct sendq_batch *batch);

enum sendq_state {
    SENDQ_EMPTY, /* all written */
    /* the kernel is full, or a source had its turn: wait for writability, then call sendq_flush
     * again; or a source has no bytes yet: see sendq_awaits_space */
    SENDQ_WAITING,
    SENDQ_BROKEN, /* the socket failed: `error` is the errno */
};

struct sendq;
/* Called by the batch after each flush. May close the connection, may add to other queues. Use
 * list_entry to get the connection that contains `q`. */
typedef void (*sendq_flushed_fn)(struct sendq *q, enum sendq_state state);

struct sendq {
    struct list dirty_link;
    struct sendq_batch *batch;
    struct sendq_piece *pieces; /* private: the first piece of the ring, or NULL */
    struct sendq_tls *tls;      /* private: NULL: plain */
    size_t pending;             /* bytes not yet taken by the kernel, including those of sources */
    uint64_t written;           /* bytes taken so far: progress, for the stall deadline */
    int fd;
    uint16_t error; /* errno once broken */
    bool is_socket;
    bool is_waiting : 1;      /* private: the last flush could not write everything … */
    bool awaits_source : 1;   /* private: … because a source does not have its bytes yet */
    sendq_flushed_fn flushed; /* NULL: no callback */
};

/* `fd` is a socket or any other descriptor (pipe, file). The latter is written only while poll(2)
 * reports that it does not block, PIPE_BUF bytes at a time. Its flags are neither relied on nor
 * changed. */
void sendq_init(struct sendq *q, struct sendq_batch *batch, int fd, sendq_flushed_fn flushed);
/* Drops pending data. Closes a TLS session; if nothing was pending, first sends a close alert, as
 * far as the socket takes it. */
void sendq_deinit(struct sendq *q);
/* Moves everything to `to`, which is not initialised: the descriptor, the TLS session, pending data
 * and the place in the batch. `from` is then empty, has no descriptor, and must still be
 * deinitialised. */
void sendq_move(struct sendq *to, struct sendq *from, sendq_flushed_fn flushed);

/* Limits the kernel's buffer for a stalled reader: there can be thousands of long-lived streams,
 * unlike responses. */
void sendq_limit_kernel(struct sendq *q);

/* Encrypts from now on. Takes ownership of the session, even on failure. TIDINGS_E_NOMEM. The queue
 * must be empty; nothing may be added before the handshake is done. */
int sendq_use_tls(struct sendq *q, struct tls_session *session);
struct tls_session *sendq_tls(const struct sendq *q); /* NULL: plain */
/* The same, and the queue becomes a plain one; data that was not encrypted is lost. */
struct tls_session *sendq_detach_tls(struct sendq *q);
/* Ends the output: sends a close alert, and shuts down the writing half of the socket. Call it when
 * all data has been written. */
void sendq_end(struct sendq *q);

/* These fail with TIDINGS_E_NOMEM, which breaks the queue, or if it is already broken. */
int sendq_put(struct sendq *q, const void *bytes, size_t len); /* copies */
int sendq_puts(struct sendq *q, struct tidings_str s);
int sendq_take(struct sendq *q, char *memory,
               size_t len); /* takes ownership of mem_alloc memory, even on failure */
/* Takes ownership of the source, even on failure. */
int sendq_put_source(struct sendq *q, struct sendq_source *source);
/* The source has its next bytes. The queue is written at the end of the turn. */
void sendq_source_ready(struct sendq_source *source);
/* Returns true if the queue waits for writability. A queue that waits for a source does not: its
 * client is not slow. */
static inline bool sendq_awaits_space(const struct sendq *q)
{
    return q->pending > 0 && q->is_waiting && !q->awaits_source;
}
/* The reason why the queue broke. A source returns ESTALE if its content has changed. */
const char *sendq_reason(const struct sendq *q);
/* Returns the memory use of the queue, without that of its sources. */
size_t sendq_held(const struct sendq *q, size_t *ret_by_sources);
/* Reserves exactly `len` bytes, which the caller fills before the next call; NULL on failure. */
char *sendq_reserve(struct sendq *q, size_t len);

enum sendq_state sendq_flush(struct sendq *q); /* immediately, without the callback */
/* Call it at the end of a turn. Continues until no queue is dirty, including output that callbacks
 * add. */
void sendq_batch_flush(struct sendq_batch *batch);

#endif
