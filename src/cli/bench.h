/* SPDX-License-Identifier: MIT
 *
 * A histogram of durations, with 64 buckets for each doubling: values from 1 to 2^40 are known to
 * 1.6 % and need 18 KB, however many are added.
 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include <stdint.h>

#define HISTOGRAM_SUB 64u
#define HISTOGRAM_BUCKETS (36u * HISTOGRAM_SUB)

struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS];
    uint64_t count;
    uint64_t min, max; /* exact */
};

/* Values above the range count as the largest one. */
void histogram_add(struct histogram *h, uint64_t value);
/* The value that a `share` (0 to 1) of all values do not exceed; 0 if empty. */
uint64_t histogram_at(const struct histogram *h, double share);
/* The number of values from `from` to below `to`, to the precision of the buckets. */
uint64_t histogram_between(const struct histogram *h, uint64_t from, uint64_t to);

#endif
