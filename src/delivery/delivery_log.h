/* SPDX-License-Identifier: MIT
 *
 * What the log says of subscriptions: who began and ended to listen, and why; and of readers that
 * are too slow.
 *
 * A line for each where the access log is wanted; otherwise each worker has DELIVERY_LOG_BURST of a
 * kind at once and DELIVERY_LOG_RATE a second from then on, so that 10,000 streams that come back
 * together do not fill a disk. What is left out is counted and said in the next line of its kind,
 * or a moment later in one of its own. Nothing here is called for each delivery.
 */
#ifndef DELIVERY_DELIVERY_LOG_H
#define DELIVERY_DELIVERY_LOG_H

#include <stddef.h>

#include "base/token_bucket.h"

#define DELIVERY_LOG_RATE 2u
#define DELIVERY_LOG_BURST 20u

struct channel;
struct listen;
struct subscriber;
struct worker;

enum delivery_log_kind {
    DELIVERY_LOG_BEGUN,
    DELIVERY_LOG_ENDED,
    DELIVERY_LOG_FULL, /* an outbox: what waited became "something changed" */
    DELIVERY_LOG_CUT,
    DELIVERY_LOG_KINDS
};

/* All zero: nothing was said yet. */
struct delivery_log {
    struct token_bucket lines[DELIVERY_LOG_KINDS];
    uint64_t left_out[DELIVERY_LOG_KINDS];
    uint64_t due_ms; /* when delivery_log_left_out is to be called; 0: nothing was left out */
};

/* Its client was told that it is subscribed; once. */
void delivery_log_begun(struct listen *listen);
/* It ends, for the reason in worker->ending. One that never began is passed over. */
void delivery_log_ended(struct listen *listen);
void delivery_log_full(const struct subscriber *subscriber);
/* A connection is closed because its client takes nothing. */
void delivery_log_cut(const struct channel *channel, size_t unsent_bytes, const char *reason);
void delivery_log_left_out(struct worker *worker, uint64_t now_ms);

#endif
