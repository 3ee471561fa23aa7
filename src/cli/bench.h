/* SPDX-License-Identifier: MIT
 *
 * A histogram of durations: how often which value came, in buckets that grow with the value, 64 for
 * each doubling, so that every value is known to 1.6 % from 1 to 2^40 at the cost of 18 KB, however
 * many came.
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

/* What is larger than can be told apart counts as the largest. */
void histogram_add(struct histogram *h, uint64_t value);
/* The value that `share` (0 to 1) of all are at or below; 0 without any. */
uint64_t histogram_at(const struct histogram *h, double share);
/* How many are from `from` to below `to`, as far as buckets tell. */
uint64_t histogram_between(const struct histogram *h, uint64_t from, uint64_t to);

#endif
