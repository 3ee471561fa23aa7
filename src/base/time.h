/* SPDX-License-Identifier: MIT
 *
 * Time and randomness, replaceable in tests. Monotonic time never decreases, and only its
 * differences are meaningful; wall time is Unix time.
 */
#ifndef BASE_TIME_H
#define BASE_TIME_H

#include <stdint.h>

#include <tidings/types.h>

uint64_t clock_monotonic_ms(void);
uint64_t clock_monotonic_ns(void);
uint64_t clock_boot_ms(void); /* the same, but also counts while the machine is suspended */
int64_t clock_wall_ms(void);
int64_t clock_wall_coarse_ms(void); /* up to 10 ms old; a fifth of the cost of the exact time */

/* Tests only: from now on the functions above return these values until reset with NULL. The struct
 * is read at each call, so a test moves time by changing it; it must live until the reset. Setting
 * it is not thread-safe; `wall_ms` may be changed while threads run, atomically. */
struct clock_fake {
    uint64_t monotonic_ns;
    int64_t wall_ms;
    bool only_wall; /* monotonic time stays real */
};
void clock_set_fake(const struct clock_fake *fake);

/* RFC 3339 in UTC with milliseconds: "2026-07-28T10:00:00.000Z". `out` gets 24 bytes and a NUL. */
void clock_format_iso(int64_t wall_ms, char out[25]);

/* Fills from getrandom(2); cannot fail once the system is up, otherwise returns TIDINGS_E_IO. */
int random_bytes(void *out, size_t len) TIDINGS_MUST_CHECK;
/* Random number in 0 … `max`, to spread simultaneous actions; 0 without randomness. */
uint32_t random_upto(uint32_t max);

/* -------------------------------------------------------------------------------------------------
 * Dates and times as in RFC 3339, parsed from text. Strict and bounded: rejects a date that does
 * not exist, and a leap second too (our instants do not count them).
 */

struct instant {
    int64_t second; /* since 1970-01-01T00:00:00Z; a date: its start. No offset counts as Z */
    uint32_t nanosecond;
    bool has_time, has_seconds, has_offset; /* else a date without time; ends with the minute; … */
    bool has_space;                         /* between date and time, instead of T */
};

/* "2024-01-01", "2024-01-01T10:00", "2024-01-01 10:00:00.123456789+01:00": years of four digits, at
 * most nine decimals. false: invalid. */
bool instant_parse(struct tidings_str text, struct instant *ret);

/* -------------------------------------------------------------------------------------------------
 * A histogram of durations, in fixed buckets from 0.1 ms to a minute, for monitoring systems.
 * Counting searches a small table; nothing is allocated.
 */

/* Upper bounds of the buckets in microseconds; one more bucket is for values above the last. */
#define DURATIONS_BOUNDS                                                                           \
    {                                                                                              \
        100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000,     \
            2500000, 5000000, 10000000, 30000000, 60000000                                         \
    }
#define DURATIONS_BUCKETS 19u
extern const uint64_t durations_bounds_us[DURATIONS_BUCKETS - 1];

/* All zero: empty. */
struct durations {
    uint64_t buckets[DURATIONS_BUCKETS];
    uint64_t sum_us;
};

/* Counts one duration. */
void durations_count(struct durations *d, uint64_t us);
void durations_add(struct durations *to, const struct durations *from);
/* The number of durations. */
uint64_t durations_total(const struct durations *d);
/* The same if another thread reads it: one thread counts, any thread copies. */
void durations_count_shared(struct durations *d, uint64_t us);
void durations_copy_shared(struct durations *to, const struct durations *from);

#endif
