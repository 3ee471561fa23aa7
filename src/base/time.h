/* SPDX-License-Identifier: MIT
 *
 * Time and randomness as values that can be replaced in tests. Monotonic time never goes back and
 * has no meaning but differences; wall time is Unix time.
 */
#ifndef BASE_TIME_H
#define BASE_TIME_H

#include <stdint.h>

#include <tidings/types.h>

uint64_t clock_monotonic_ms(void);
uint64_t clock_monotonic_ns(void);
uint64_t clock_boot_ms(void); /* the same, and it counts while the machine is suspended */
int64_t clock_wall_ms(void);
int64_t clock_wall_coarse_ms(void); /* up to 10 ms ago; a fifth of the time it takes to ask */

/* Tests only: from now on the functions above return these values until reset with NULL.
 * The struct is read at each call, so a test moves time by changing it; it must live until the
 * reset. Setting it is not thread-safe; `wall_ms` may be moved while threads run, atomically. */
struct clock_fake {
    uint64_t monotonic_ns;
    int64_t wall_ms;
    bool only_wall; /* monotonic time goes on as it does */
};
void clock_set_fake(const struct clock_fake *fake);

/* RFC 3339 in UTC with milliseconds: "2026-07-28T10:00:00.000Z". `out` gets 24 bytes and a NUL. */
void clock_format_iso(int64_t wall_ms, char out[25]);

/* Fill from getrandom(2); cannot fail once the system is up, returns TIDINGS_E_IO otherwise. */
int random_bytes(void *out, size_t len) TIDINGS_MUST_CHECK;
/* 0 … `max`, to spread what would else happen at once; 0 where there is no randomness. */
uint32_t random_upto(uint32_t max);

/* -------------------------------------------------------------------------------------------------
 * Dates and times as RFC 3339 writes them, read from text. Strict and bounded: a date that does not
 * exist is refused, a leap second too (our instants count none).
 */

struct instant {
    int64_t second; /* since 1970-01-01T00:00:00Z; a date: when it begins. No offset counts as Z */
    uint32_t nanosecond;
    bool has_time, has_seconds, has_offset; /* else it is a date alone; ends with the minute; … */
    bool has_space;                         /* between date and time, instead of T */
};

/* "2024-01-01", "2024-01-01T10:00", "2024-01-01 10:00:00.123456789+01:00": years of four digits, at
 * most nine decimals. false: it is none. */
bool instant_parse(struct tidings_str text, struct instant *ret);

/* -------------------------------------------------------------------------------------------------
 * A histogram of how long things took, in fixed buckets from 0.1 ms to a minute: what monitoring
 * systems gather. Counting is one step through a small table; nothing is allocated.
 */

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
