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

/* What waits to be encrypted. A queue that has one puts nothing but records into `pieces`. */
struct sendq_tls {
    struct tls_session *session;
    struct sendq_piece *plain; /* as sendq.pieces */
    size_t plain_bytes;
};

/* The first of a ring of pieces in at most `max_pieces` entries and `max_bytes` bytes. Returns the
 * number of entries, at least one when there is anything; sets `offered` to their bytes. */
unsigned sendq_gather(const struct sendq_piece *ring, struct iovec *iov, unsigned max_pieces,
                      size_t max_bytes, size_t *offered);
/* Take the first bytes out of a ring. They count as pending no more. */
void sendq_consume(struct sendq *q, struct sendq_piece **ring, size_t len);
void sendq_drop(struct sendq *q, struct sendq_piece **ring); /* all of them */
/* Room for `len` bytes, not 0, at the end of a ring. NULL: out of memory; nothing has changed. */
char *sendq_room_in(struct sendq *q, struct sendq_piece **ring, size_t len);
/* Forget everything, refuse more. */
enum sendq_state sendq_break(struct sendq *q, int errnum);

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
