/* SPDX-License-Identifier: MIT
 *
 * The clock of a store that several nodes share, as one of them knows it: what the store said last,
 * and how long ago that was by a clock that nobody sets. So entities get times of one clock whoever
 * writes them, and a node whose own clock is wrong is told so.
 */
#ifndef CLUSTER_POSTGRES_NODES_H
#define CLUSTER_POSTGRES_NODES_H

#include <tidings/types.h>

#define STORE_CLOCK_OFF_MS 5000 /* that clocks may differ before it is worth a word */

/* Zero: nothing was heard yet. */
struct store_clock {
    int64_t at_ms;      /* Unix time of the store … */
    uint64_t heard_ms;  /* … when the monotonic clock of this node stood there … */
    uint64_t within_ms; /* … or so much later or earlier */
    bool is_known;
};

/* The store said `at_ms` between the two (monotonic). An answer that took long says less than a
 * quick one of not long ago, and is not taken then. */
void store_clock_hear(struct store_clock *c, int64_t at_ms, uint64_t asked_ms, uint64_t heard_ms);
/* It may be another one from now on: whatever it says next is taken. */
void store_clock_doubt(struct store_clock *c);
/* Unix time of the store; `wall_ms` when nothing was heard. */
int64_t store_clock_now(const struct store_clock *c, uint64_t monotonic_ms, int64_t wall_ms);
/* How far `wall_ms` is ahead of it (below 0: behind). 0: not more than STORE_CLOCK_OFF_MS, as far
 * as can be known. */
int64_t store_clock_off(const struct store_clock *c, uint64_t monotonic_ms, int64_t wall_ms);

#endif
