/* SPDX-License-Identifier: MIT
 *
 * A histogram of how long things took, in fixed buckets from 0.1 ms to a minute: what monitoring
 * systems gather. Counting is one step through a small table; nothing is allocated.
 */
#ifndef BASE_DURATIONS_H
#define BASE_DURATIONS_H

#include <stdint.h>

/* Upper bounds of the buckets in microseconds; one more is for what is above the last. */
#define DURATIONS_BOUNDS                                                                           \
    {                                                                                              \
        100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000,     \
            2500000, 5000000, 10000000, 30000000, 60000000                                         \
    }
#define DURATIONS_BUCKETS 19u
extern const uint64_t durations_bounds_us[DURATIONS_BUCKETS - 1];

/* All zero: nothing yet. */
struct durations {
    uint64_t buckets[DURATIONS_BUCKETS];
    uint64_t sum_us;
};

/* Something took so long. */
void durations_count(struct durations *d, uint64_t us);
void durations_add(struct durations *to, const struct durations *from);
/* How many there were. */
uint64_t durations_total(const struct durations *d);
/* The same where another thread reads it: one thread counts, any copies. */
void durations_count_shared(struct durations *d, uint64_t us);
void durations_copy_shared(struct durations *to, const struct durations *from);

#endif
