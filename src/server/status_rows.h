/* SPDX-License-Identifier: MIT
 *
 * One worker's rows of tidings://self/stats, /peers and /subscriptions, a page at a time.
 *
 * Rows ascend by the number of their peer and, within a peer, by index. A page begins
 * after a row: "PEER" or "PEER.INDEX", as the member `row` of each says it. A page ends
 * where it is full; what comes and goes between two pages may be missed or told twice.
 */
#ifndef SERVER_STATUS_ROWS_H
#define SERVER_STATUS_ROWS_H

#include "delivery/delivery.h"

#define STATUS_PAGE_ROWS 1000u
#define STATUS_PAGE_BYTES (1u << 20)

enum status_rows {
    STATUS_ROWS_STATS,
    STATUS_ROWS_PEERS,
    STATUS_ROWS_SUBSCRIPTIONS,
    STATUS_ROWS_FAILURES,
};

struct status_after {
    uint64_t peer, index; /* 0, 0: the beginning */
};

/* false: not a row. */
bool status_after_parse(struct tidings_str text, struct status_after *ret);

/* Appends `{…},{…}`. On the worker's thread. true: that is all it has; false: the page is full. A
 * single row larger than a page is written whole. */
bool status_write_rows(struct buf *out, const struct worker *worker, enum status_rows what,
                       const struct status_after *after);

/* The members that say whose a subscription is: `principal`, `by`, `address`, `client`. */
struct jw;
struct subscriber;
struct subscription;
void status_put_who(struct jw *w, const struct subscriber *subscriber);
/* What it is subscribed to. The id of a task is cut: among clients that nobody asked who they are
 * whoever has it may read the task. */
struct tidings_str status_shown_uri(const struct subscription *sub);

/* The array of all limits; any thread. */
void status_write_limits(struct jw *w, const struct limit_counters *counters);

/* The object of counters of tokens; any thread. `auth` NULL: all of them are 0. */
struct auth;
void status_write_tokens(struct jw *w, const struct auth *auth);

#endif
