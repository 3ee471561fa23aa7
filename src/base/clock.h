/* SPDX-License-Identifier: MIT
 *
 * Time and randomness as values that can be replaced in tests. Monotonic time never goes back and
 * has no meaning but differences; wall time is Unix time.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

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

#endif
