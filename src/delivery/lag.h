/* SPDX-License-Identifier: MIT
 *
 * How long changes wait on one worker between being numbered by the hub and being written to a
 * stream: a histogram of what was written, and when a number was given out, which tells the age of
 * what waits. No clock is asked for each subscriber: one time is taken for each flush.
 *
 * Changes of the last seconds are known to LAG_FINE_US, older ones to LAG_COARSE_US; what is older
 * than all marks counts as old as the oldest of them.
 */
#ifndef DELIVERY_LAG_H
#define DELIVERY_LAG_H

#include <tidings/types.h>

#include "base/durations.h"

#define LAG_FINE_US 10000u
#define LAG_COARSE_US 1000000u
#define LAG_MARKS 512u /* of each kind */

struct lag_counts {
    struct durations waited;
    uint64_t max_us;
};
void lag_counts_add(struct lag_counts *to, const struct lag_counts *from);
/* The value that a share of `per_mille` of all lies below, in microseconds, by straight lines
 * within a bucket; 0: there are none. */
uint64_t lag_counts_quantile(const struct lag_counts *c, unsigned per_mille);

struct lag_marks {
    struct {
        uint64_t seq, us;
    } at[LAG_MARKS];
    unsigned count, next;
};

struct lag {
    uint64_t now_us;             /* of the flush that is under way, or was last */
    struct lag_counts before;    /* since the start, without … */
    struct lag_counts recent[2]; /* … the last LAG_RECENT_US: this period and the one before */
    uint64_t period_us;          /* when this one began */
    uint64_t asked_seq;          /* looked up last … */
    uint64_t asked_us;           /* … and the answer */
    struct lag_marks fine, coarse;
};
#define LAG_RECENT_US 10000000u

/* A change with that number was numbered then (microseconds of the monotonic clock). */
void lag_note(struct lag *lag, uint64_t seq, uint64_t us);
/* When it was, at the latest; 0: nobody knows. */
uint64_t lag_time(struct lag *lag, uint64_t seq);
/* A flush begins. */
void lag_begin_flush(struct lag *lag, uint64_t now_us);
/* Something that was numbered at `us` is written in this flush. */
void lag_count(struct lag *lag, uint64_t us);
/* All since the start; and those of the last ten to twenty seconds. */
void lag_total(const struct lag *lag, struct lag_counts *ret);
void lag_recent(const struct lag *lag, uint64_t now_us, struct lag_counts *ret);

#endif
