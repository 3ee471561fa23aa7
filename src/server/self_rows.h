/* SPDX-License-Identifier: MIT
 *
 * One worker's rows of tidings://self/stats, /peers and /subscriptions, a page at a time.
 *
 * Rows ascend by the number of their subscriber and, within a subscriber, by place. A page begins
 * after a row: "PEER" or "PEER.PLACE", as the member `row` of each says it. A page ends where it is
 * full; what comes and goes between two pages may be missed or told twice.
 */
#ifndef SERVER_SELF_ROWS_H
#define SERVER_SELF_ROWS_H

#include "delivery/delivery.h"

#define SELF_PAGE_ROWS 1000u
#define SELF_PAGE_BYTES (1u << 20)

enum self_rows {
    SELF_ROWS_STATS,
    SELF_ROWS_PEERS,
    SELF_ROWS_SUBSCRIPTIONS,
};

struct self_after {
    uint64_t subscriber, place; /* 0, 0: the beginning */
};

/* false: not a row. */
bool self_after_parse(struct tidings_str text, struct self_after *ret);

/* Appends `{…},{…}`. On the worker's thread. true: that is all it has; false: the page is full. A
 * single row larger than a page is written whole. */
bool self_write_rows(struct buf *out, const struct worker *worker, enum self_rows what,
                     const struct self_after *after);

/* The array of all limits; any thread. */
struct jw;
void self_write_limits(struct jw *w, const struct limit_book *book);

/* The object of counters of tokens; any thread. `auth` NULL: all of them are 0. */
struct auth;
void self_write_tokens(struct jw *w, const struct auth *auth);

#endif
