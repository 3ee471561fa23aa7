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

uint64_t clock_monotonic_ns(void)
{
    if (fake_clock) {
        return fake_clock->monotonic_ns;
    }
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int64_t clock_wall_ms(void)
{
    if (fake_clock) {
        return fake_clock->wall_ms;
    }
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void clock_set_fake(const struct clock_fake *fake)
{
    fake_clock = fake;
}

/* `width` decimal digits with leading zeros, then `after`. Returns the end. */
static char *field(char *out, int64_t n, int width, char after)
{
    for (int i = width - 1; i >= 0; i--) {
        out[i] = (char)('0' + n % 10);
        n /= 10;
    }
    out[width] = after;
    return out + width + 1;
}

void clock_format_iso(int64_t wall_ms, char out[25])
{
    /* Years of four digits are all the format has: 0000-01-01 to 9999-12-31. */
    const int64_t first = -62167219200000, last = 253402300799999;
    wall_ms = wall_ms < first ? first : wall_ms > last ? last : wall_ms;
    int64_t ms = (wall_ms % 1000 + 1000) % 1000;
    time_t seconds = (time_t)((wall_ms - ms) / 1000);
    struct tm utc = {0};
    (void)gmtime_r(&seconds, &utc);
    out = field(out, utc.tm_year + 1900, 4, '-');
    out = field(out, utc.tm_mon + 1, 2, '-');
    out = field(out, utc.tm_mday, 2, 'T');
    out = field(out, utc.tm_hour, 2, ':');
    out = field(out, utc.tm_min, 2, ':');
    out = field(out, utc.tm_sec, 2, '.');
    out = field(out, ms, 3, 'Z');
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
