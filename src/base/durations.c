/* SPDX-License-Identifier: MIT
 *
 * Counting durations in the buckets of a histogram, and adding histograms up.
 */
#include "base/durations.h"

const uint64_t durations_bounds_us[DURATIONS_BUCKETS - 1] = DURATIONS_BOUNDS;

static unsigned durations_bucket(uint64_t us)
{
    unsigned i = 0;
    while (i < DURATIONS_BUCKETS - 1 && us > durations_bounds_us[i]) {
        i++;
    }
    return i;
}

void durations_count(struct durations *d, uint64_t us)
{
    d->buckets[durations_bucket(us)]++;
    d->sum_us += us;
}

void durations_add(struct durations *to, const struct durations *from)
{
    for (unsigned i = 0; i < DURATIONS_BUCKETS; i++) {
        to->buckets[i] += from->buckets[i];
    }
    to->sum_us += from->sum_us;
}

uint64_t durations_total(const struct durations *d)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < DURATIONS_BUCKETS; i++) {
        n += d->buckets[i];
    }
    return n;
}

void durations_count_shared(struct durations *d, uint64_t us)
{
    __atomic_fetch_add(&d->buckets[durations_bucket(us)], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&d->sum_us, us, __ATOMIC_RELAXED);
}

void durations_copy_shared(struct durations *to, const struct durations *from)
{
    for (unsigned i = 0; i < DURATIONS_BUCKETS; i++) {
        to->buckets[i] = __atomic_load_n(&from->buckets[i], __ATOMIC_RELAXED);
    }
    to->sum_us = __atomic_load_n(&from->sum_us, __ATOMIC_RELAXED);
}
