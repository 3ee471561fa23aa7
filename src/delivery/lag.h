/* SPDX-License-Identifier: MIT
 *
 * How long notifications wait on one worker between being due and being written to a stream: a
 * histogram of what was written. A change is due when the hub numbers it; what a window held back,
 * when that lets it go; what is told from the log or as the state at the beginning, when it is
 * found. No clock is asked for each subscriber: one time is taken for each batch of streams.
 */
#ifndef DELIVERY_LAG_H
#define DELIVERY_LAG_H

#include <tidings/types.h>

#include "base/durations.h"

/* When something was due, as each notification that waits keeps it: tenths of a millisecond of the
 * monotonic clock. It comes round after five days, and nothing waits for half as long. */
static inline uint32_t lag_due(uint64_t us)
{
    return (uint32_t)(us / 100);
}
uint32_t lag_due_now(void);
/* Microseconds since then; 0: it is yet to come. */
static inline uint64_t lag_since(uint32_t due, uint64_t now_us)
{
    uint32_t tenths = lag_due(now_us) - due;
    return tenths <= INT32_MAX ? tenths * 100ull : 0;
}

struct lag_counts {
    struct durations waited;
    uint64_t max_us;
};
void lag_counts_add(struct lag_counts *to, const struct lag_counts *from);
/* The value that a share of `per_mille` of all lies below, in microseconds, by straight lines
 * within a bucket; 0: there are none. */
uint64_t lag_counts_quantile(const struct lag_counts *c, unsigned per_mille);

struct lag {
    uint64_t now_us;             /* of the batch that is being written, or was last */
    struct lag_counts before;    /* since the start, without … */
    struct lag_counts recent[2]; /* … the last LAG_RECENT_US: this period and the one before */
    uint64_t period_us;          /* when this one began */
};
#define LAG_RECENT_US 10000000u

/* A flush begins. */
void lag_begin_flush(struct lag *lag, uint64_t now_us);
/* Something that waited for so long was written. */
void lag_count(struct lag *lag, uint64_t waited_us);
/* All since the start; and those of the last ten to twenty seconds. */
void lag_total(const struct lag *lag, struct lag_counts *ret);
void lag_recent(const struct lag *lag, uint64_t now_us, struct lag_counts *ret);

#endif
