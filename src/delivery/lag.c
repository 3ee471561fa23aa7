/* SPDX-License-Identifier: MIT
 *
 * The histogram of waiting: all since the start, and the last two periods.
 */
#include "delivery/lag.h"

#include "base/clock.h"

void lag_counts_add(struct lag_counts *to, const struct lag_counts *from)
{
    durations_add(&to->waited, &from->waited);
    to->max_us = from->max_us > to->max_us ? from->max_us : to->max_us;
}

uint64_t lag_counts_quantile(const struct lag_counts *c, unsigned per_mille)
{
    uint64_t all = durations_total(&c->waited), below = 0;
    uint64_t wanted = (all * per_mille + 999) / 1000;
    for (size_t i = 0; i < DURATIONS_BUCKETS; i++) {
        uint64_t n = c->waited.buckets[i], low = i > 0 ? durations_bounds_us[i - 1] : 0;
        uint64_t high = i < DURATIONS_BUCKETS - 1 ? durations_bounds_us[i] : c->max_us;
        high = high > c->max_us ? c->max_us : high;
        if (n > 0 && below + n >= wanted) {
            return high > low ? low + (high - low) * (wanted - below) / n : high;
        }
        below += n;
    }
    return 0;
}

uint32_t lag_due_now(void)
{
    return lag_due(clock_monotonic_ns() / 1000);
}

void lag_begin_flush(struct lag *lag, uint64_t now_us)
{
    lag->now_us = now_us;
    if (now_us - lag->period_us >= LAG_RECENT_US) {
        bool is_old = now_us - lag->period_us >= 2ull * LAG_RECENT_US;
        lag_counts_add(&lag->before, &lag->recent[1]);
        if (is_old) {
            lag_counts_add(&lag->before, &lag->recent[0]);
        }
        lag->recent[1] = is_old ? (struct lag_counts){0} : lag->recent[0];
        lag->recent[0] = (struct lag_counts){0};
        lag->period_us = now_us;
    }
}

void lag_count(struct lag *lag, uint64_t waited_us)
{
    struct lag_counts *c = &lag->recent[0];
    durations_count(&c->waited, waited_us);
    c->max_us = waited_us > c->max_us ? waited_us : c->max_us;
}

void lag_total(const struct lag *lag, struct lag_counts *ret)
{
    *ret = lag->before;
    lag_counts_add(ret, &lag->recent[0]);
    lag_counts_add(ret, &lag->recent[1]);
}

void lag_recent(const struct lag *lag, uint64_t now_us, struct lag_counts *ret)
{
    uint64_t age = now_us - lag->period_us;
    *ret = (struct lag_counts){0};
    if (age < 2ull * LAG_RECENT_US) {
        lag_counts_add(ret, &lag->recent[0]);
    }
    if (age < LAG_RECENT_US) {
        lag_counts_add(ret, &lag->recent[1]);
    }
}
