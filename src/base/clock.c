/* SPDX-License-Identifier: MIT
 *
 * Time and randomness from the system, or from a test. Deliberately no caching: a loop keeps its
 * own time of the turn (loop_now_ms).
 */
#include "base/clock.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>

static const struct clock_fake *fake_clock;

uint64_t clock_monotonic_ms(void)
{
    return clock_monotonic_ns() / 1000000u;
}

uint64_t clock_boot_ms(void)
{
    if (fake_clock && !fake_clock->only_wall) {
        return fake_clock->monotonic_ns / 1000000u;
    }
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

uint64_t clock_monotonic_ns(void)
{
    if (fake_clock && !fake_clock->only_wall) {
        return fake_clock->monotonic_ns;
    }
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int64_t clock_wall_ms(void)
{
    if (fake_clock) {
        return __atomic_load_n(&fake_clock->wall_ms, __ATOMIC_RELAXED);
    }
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t clock_wall_coarse_ms(void)
{
    struct timespec now = {0};
    if (fake_clock || clock_gettime(CLOCK_REALTIME_COARSE, &now) < 0) {
        return clock_wall_ms();
    }
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void clock_set_fake(const struct clock_fake *fake)
{
    fake_clock = fake;
}

/* `width` decimal digits with leading zeros, then `after`. Returns the end. */
static char *clock_field(char *out, int64_t n, int width, char after)
{
    for (int i = width - 1; i >= 0; i--) {
        out[i] = (char)('0' + n % 10);
        n /= 10;
    }
    out[width] = after;
    return out + width + 1;
}

struct date {
    int64_t year, month, day;
};

/* The Gregorian date of a day counted from 1970-01-01; not earlier than year 0. Years are counted
 * from March, so that the leap day is the last of its year. gmtime_r would take a lock of the
 * process and read the time zone. */
static struct date date_of(int64_t days)
{
    int64_t since = days + 865565; /* -0400-03-01: 400 years before 0000-03-01 */
    int64_t era = since / 146097, in_era = since % 146097;
    int64_t year_of_era = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    int64_t in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * in_year + 2) / 153; /* 0: March */
    struct date date = {
        .year = era * 400 + year_of_era - 400 + (month >= 10),
        .month = month < 10 ? month + 3 : month - 9,
        .day = in_year - (153 * month + 2) / 5 + 1,
    };
    return date;
}

void clock_format_iso(int64_t wall_ms, char out[25])
{
    /* Years of four digits are all the format has: 0000-01-01 to 9999-12-31. */
    const int64_t first = -62167219200000, last = 253402300799999;
    wall_ms = wall_ms < first ? first : wall_ms > last ? last : wall_ms;
    const int64_t day_ms = 86400000;
    int64_t ms = (wall_ms % day_ms + day_ms) % day_ms; /* since midnight */
    struct date date = date_of((wall_ms - ms) / day_ms);
    out = clock_field(out, date.year, 4, '-');
    out = clock_field(out, date.month, 2, '-');
    out = clock_field(out, date.day, 2, 'T');
    out = clock_field(out, ms / 3600000, 2, ':');
    out = clock_field(out, ms / 60000 % 60, 2, ':');
    out = clock_field(out, ms / 1000 % 60, 2, '.');
    out = clock_field(out, ms % 1000, 3, 'Z');
    *out = '\0';
}

int random_bytes(void *out, size_t len)
{
    unsigned char *at = out;
    while (len > 0) {
        ssize_t n = getrandom(at, len, 0);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return TIDINGS_E_IO;
        }
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

uint32_t random_upto(uint32_t max)
{
    uint64_t chance = 0;
    if (random_bytes(&chance, sizeof(chance)) < 0) {
        return 0;
    }
    return (uint32_t)(chance % ((uint64_t)max + 1));
}
