/* SPDX-License-Identifier: MIT
 *
 * Time and randomness from the system, or from a test. Deliberately no caching: a loop caches the
 * time of its turn (loop_now_ms).
 */
#include "base/time.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>

/* -------------------------------------------------------------------------------------------------
 * Parses dates and times, character by character.
 */

struct reader {
    const char *at, *end;
    bool ok;
};

static int64_t digits(struct reader *r, unsigned count)
{
    int64_t n = 0;
    for (unsigned i = 0; i < count; i++) {
        if (r->at == r->end || *r->at < '0' || *r->at > '9') {
            r->ok = false;
            return 0;
        }
        n = n * 10 + (*r->at++ - '0');
    }
    return n;
}

/* If the next character is one of these, skips and returns it; else NUL. */
static char instant_one_of(struct reader *r, const char *these)
{
    for (; r->ok && r->at < r->end && *these; these++) {
        if (*r->at == *these) {
            r->at++;
            return *these;
        }
    }
    return '\0';
}

static void instant_expect(struct reader *r, const char *these)
{
    r->ok = instant_one_of(r, these) != '\0' && r->ok;
}

static uint32_t fraction(struct reader *r)
{
    uint32_t ns = 0;
    unsigned n = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9' && n < 9; r->at++, n++) {
        ns = ns * 10 + (uint32_t)(*r->at - '0');
    }
    r->ok = r->ok && n > 0;
    for (; n < 9; n++) {
        ns *= 10;
    }
    return ns;
}

/* The offset in seconds, to be subtracted. */
static int64_t offset(struct reader *r, bool *ret_given)
{
    char sign = instant_one_of(r, "Zz+-");
    *ret_given = sign != '\0';
    if (sign != '+' && sign != '-') {
        return 0;
    }
    int64_t hours = digits(r, 2);
    instant_expect(r, ":");
    int64_t minutes = digits(r, 2);
    r->ok = r->ok && hours < 24 && minutes < 60;
    return (sign == '-' ? -60 : 60) * (hours * 60 + minutes);
}

static bool date_exists(int64_t year, int64_t month, int64_t day)
{
    static const int64_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month >= 1 && month <= 12 && day >= 1 &&
           day <= lengths[month - 1] + (month == 2 && leap ? 1 : 0);
}

/* Days since 1970-01-01 in the Gregorian calendar: years start in March, in eras of 400. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

bool instant_parse(struct tidings_str text, struct instant *ret)
{
    struct reader r = {text.ptr, text.ptr + text.len, true};
    *ret = (struct instant){0};
    int64_t year = digits(&r, 4);
    instant_expect(&r, "-");
    int64_t month = digits(&r, 2);
    instant_expect(&r, "-");
    int64_t day = digits(&r, 2);
    if (!r.ok || !date_exists(year, month, day)) {
        return false;
    }
    ret->second = days_of(year, month, day) * 86400;
    if (r.at == r.end) {
        return true;
    }
    char between = instant_one_of(&r, "Tt ");
    r.ok = r.ok && between != '\0';
    int64_t hour = digits(&r, 2);
    instant_expect(&r, ":");
    int64_t minute = digits(&r, 2), second = 0;
    ret->has_time = true;
    ret->has_space = between == ' ';
    ret->has_seconds = instant_one_of(&r, ":") != '\0';
    if (ret->has_seconds) {
        second = digits(&r, 2);
        ret->nanosecond = instant_one_of(&r, ".") ? fraction(&r) : 0;
    }
    int64_t away = offset(&r, &ret->has_offset);
    ret->second += (hour * 60 + minute) * 60 + second - away;
    return r.ok && r.at == r.end && hour < 24 && minute < 60 && second < 60;
}

/* -------------------------------------------------------------------------------------------------
 * Counts durations in the buckets of a histogram, and adds histograms.
 */

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

/* ---------------------------------------------------------------------------------------------- */

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
 * from March, so that the leap day is the last of its year. gmtime_r would take a process-wide lock
 * and read the time zone. */
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
    /* The format has years of four digits: 0000-01-01 to 9999-12-31. */
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
