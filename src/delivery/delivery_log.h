/* SPDX-License-Identifier: MIT
 *
 * What the log says of subscriptions: who began and ended to listen, and why; and of readers that
 * are too slow.
 *
 * A line for each where the access log is wanted; otherwise each worker has DELIVERY_LOG_BURST of a
 * kind at once and DELIVERY_LOG_RATE a second from then on, so that 10,000 streams that come back
 * together do not fill a disk. What is left out is counted and said in the next line of its kind,
 * or a moment later in one of its own.
 *
 * At the level debug there is a line for each change, too: how many subscriptions of this worker
 * matched, and what became of it for them. Otherwise nothing here is called for each delivery.
 */
#ifndef DELIVERY_DELIVERY_LOG_H
#define DELIVERY_DELIVERY_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/token_bucket.h"

#define DELIVERY_LOG_RATE 2u
#define DELIVERY_LOG_BURST 20u
#define DELIVERY_LOG_CHANGES 100u /* lines about changes in a second */

struct change;
struct channel;
struct listen;
struct subscriber;
struct worker;

enum delivery_log_kind {
    DELIVERY_LOG_BEGUN,
    DELIVERY_LOG_ENDED,
    DELIVERY_LOG_FULL, /* an outbox: what waited became "something changed" */
    DELIVERY_LOG_CUT,
    DELIVERY_LOG_CHANGE,
    DELIVERY_LOG_KINDS
};

/* What becomes of a change for a subscription that matches. */
enum delivery_fate {
    DELIVERY_SENT,     /* on its way to the client */
    DELIVERY_HELD,     /* in a window, or merged into what waits there */
    DELIVERY_FILTERED, /* by a filter, a condition or `echo` */
    DELIVERY_HIDDEN,   /* by the access rules */
    DELIVERY_REREADS,  /* the client is told to read again anyway */
    DELIVERY_AWAY,     /* no stream, or the log is being read for it: it will catch up */
    DELIVERY_ONCE,     /* its session is told because of another subscription */
    DELIVERY_FATES
};
#define DELIVERY_TRACE_TEXT 384u

/* Of the change that is being delivered. */
struct delivery_trace {
    bool is_on; /* the line is wanted */
    uint32_t counts[DELIVERY_FATES];
    uint32_t text_len;
    char text[DELIVERY_TRACE_TEXT]; /* the first peers that are not sent it, and why */
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
/* A connection is closed because its client takes nothing for `lag_ms` or longer. */
void delivery_log_cut(const struct channel *channel, size_t unsent_bytes, uint64_t lag_ms,
                      const char *reason);
/* Around the search for subscriptions that a change concerns; and for each that matches, while
 * `is_on`. */
void delivery_log_change_begin(struct worker *worker);
void delivery_log_fate(const struct subscriber *subscriber, enum delivery_fate fate);
void delivery_log_change_end(struct worker *worker, const struct change *change);
void delivery_log_left_out(struct worker *worker, uint64_t now_ms);

#endif
