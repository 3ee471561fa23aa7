/* SPDX-License-Identifier: MIT
 *
 * What the parts of send queues share: sendq.c (what one queue holds), sendq_tls.c (how that is
 * encrypted) and sendq_batch.c (the flush of a turn): how the front of a queue is offered to the
 * kernel, and what becomes of the queue when the kernel has answered.
 */
#ifndef BASE_SENDQ_PRIVATE_H
#define BASE_SENDQ_PRIVATE_H

#include <sys/types.h>
#include <sys/uio.h>

#include "base/sendq.h"

#define SENDQ_PIECES 64        /* per send */
#define SENDQ_OFFER (1u << 30) /* bytes per send, so that a result fits an int */
#define SENDQ_SPARE_MAX 256u   /* chunks a batch keeps: flushes come in slices of this many */

enum sendq_piece_kind { PIECE_COPIED, PIECE_TAKEN, PIECE_SOURCE };

/* A run of bytes that waits. Pieces of a queue form a ring without a head. */
struct sendq_piece {
    struct list link;
    const char *start;
    size_t len;
    union {
        const char *end; /* copied: the bytes follow the struct, and the room for more ends here */
        char *taken;
        struct sendq_source *source; /* `len` is what it has left */
    } memory;
    size_t size; /* taken: of its memory */
    enum sendq_piece_kind kind;
    char bytes[];
};

/* What waits to be encrypted. A queue that has one puts nothing but records into `pieces`. */
struct sendq_tls {
    struct tls_session *session;
    struct sendq_piece *plain; /* as sendq.pieces */
    size_t plain_bytes;
};

/* The first of a ring of pieces in at most `max_pieces` entries and `max_bytes` bytes, up to the
 * first source. Returns the number of entries, at least one if the ring is not empty and sendq_make
 * was called; sets `offered` to their bytes. */
unsigned sendq_gather(const struct sendq_piece *ring, struct iovec *iov, unsigned max_pieces,
                      size_t max_bytes, size_t *offered);
/* Take the first bytes out of a ring. They count as pending no more. */
void sendq_consume(struct sendq *q, struct sendq_piece **ring, size_t len);
void sendq_drop(struct sendq *q, struct sendq_piece **ring); /* all of them */
/* Room for `len` bytes, not 0, at the end of a ring. NULL: out of memory; nothing has changed. */
char *sendq_room_in(struct sendq *q, struct sendq_piece **ring, size_t len);
/* Forget everything, refuse more. */
enum sendq_state sendq_break(struct sendq *q, int errnum);

/* If a ring begins with a source, lets it produce a piece. Returns false if that broke the queue.
 * If it has no bytes yet, the ring still begins with it. */
bool sendq_make_piece(struct sendq *q, struct sendq_piece **ring);
static inline bool sendq_make(struct sendq *q, struct sendq_piece **ring)
{
    return !*ring || (*ring)->kind != PIECE_SOURCE || sendq_make_piece(q, ring);
}
static inline bool sendq_begins_with_source(const struct sendq_piece *ring)
{
    return ring && ring->kind == PIECE_SOURCE;
}
/* Returns true if a source is next. */
bool sendq_makes(const struct sendq *q);
/* The queue was moved in memory: its sources are told. */
void sendq_follow_sources(struct sendq *q);
/* The ring for new pieces. */
struct sendq_piece **sendq_inlet(struct sendq *q);
/* Appends a piece for bytes elsewhere; NULL: out of memory. sendq_added then sets its length. */
struct sendq_piece *sendq_piece_create(struct sendq_piece **ring, enum sendq_piece_kind kind,
                                       const char *start);
void sendq_added(struct sendq *q, struct sendq_piece **ring, struct sendq_piece *piece, size_t len);
int sendq_out_of_memory(struct sendq *q); /* breaks the queue; TIDINGS_E_NOMEM */

/* Make records of what waits, as far as one send can take them. False: that broke the queue. */
bool sendq_seal(struct sendq *q);
/* The queue was moved in memory: records go to where it is now. */
void sendq_follow_tls(struct sendq *q);
/* The session and what goes with it. */
void sendq_close_tls(struct sendq *q);

/* The kernel's answer to an offer: bytes taken, or a negative errno. SENDQ_EMPTY: it took all, or
 * was interrupted; go on with what is left, if anything. */
enum sendq_state sendq_answered(struct sendq *q, ssize_t result, size_t offered);

void sendq_mark_dirty(struct sendq *q);

#endif
