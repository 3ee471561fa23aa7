/* SPDX-License-Identifier: MIT
 *
 * Between sendq.c (what one queue holds) and sendq_batch.c (the flush of a turn): how the front of
 * a queue is offered to the kernel, and what becomes of the queue when the kernel has answered.
 */
#ifndef BASE_SENDQ_PRIVATE_H
#define BASE_SENDQ_PRIVATE_H

#include <sys/types.h>
#include <sys/uio.h>

#include "base/sendq.h"

#define SENDQ_PIECES 64        /* per send */
#define SENDQ_OFFER (1u << 30) /* bytes per send, so that a result fits an int */
#define SENDQ_SPARE_MAX 256u   /* chunks a batch keeps: flushes come in slices of this many */

/* The first pieces in at most `max_pieces` entries and `max_bytes` bytes. Returns the number of
 * entries, at least one when there is anything; sets `offered` to their bytes. */
unsigned sendq_gather(const struct sendq *q, struct iovec *iov, unsigned max_pieces,
                      size_t max_bytes, size_t *offered);

/* The kernel's answer to an offer: bytes taken, or a negative errno. SENDQ_EMPTY: it took all, or
 * was interrupted; go on with what is left, if anything. */
enum sendq_state sendq_answered(struct sendq *q, ssize_t result, size_t offered);

void sendq_mark_dirty(struct sendq *q);

#endif
