/* SPDX-License-Identifier: MIT
 *
 * Adding values to a histogram, and finding the value below which a share of them lies.
 */
#include "bin/bench/histogram.h"

/* Values below 64 have a bucket each; above, the six bits behind the highest one name it. */
static unsigned histogram_slot(uint64_t value)
{
    if (value < HISTOGRAM_SUB) {
        return (unsigned)value;
    }
    unsigned top = 63u - (unsigned)__builtin_clzll(value); /* 6 or more */
    unsigned shift = top - 6u;
    unsigned bucket = (shift + 1u) * HISTOGRAM_SUB + (unsigned)((value >> shift) - HISTOGRAM_SUB);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1u;
}

/* The largest value of a bucket. */
static uint64_t top_of(unsigned bucket)
{
    if (bucket < HISTOGRAM_SUB) {
        return bucket;
    }
    unsigned shift = bucket / HISTOGRAM_SUB - 1u;
    uint64_t first = (uint64_t)(bucket % HISTOGRAM_SUB + HISTOGRAM_SUB) << shift;
    return first + (UINT64_C(1) << shift) - 1u;
}

void histogram_add(struct histogram *h, uint64_t value)
{
    h->counts[histogram_slot(value)]++;
    h->min = h->count == 0 || value < h->min ? value : h->min;
    h->max = value > h->max ? value : h->max;
    h->count++;
}

uint64_t histogram_at(const struct histogram *h, double share)
{
    uint64_t seen = 0;
    double wanted = share * (double)h->count;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->counts[i];
        if (seen > 0 && (double)seen >= wanted) {
            uint64_t top = top_of(i);
            return top < h->max ? top : h->max;
        }
    }
    return h->max;
}

uint64_t histogram_between(const struct histogram *h, uint64_t from, uint64_t to)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        uint64_t top = top_of(i);
        sum += top >= from && top < to ? h->counts[i] : 0;
    }
    return sum;
}
