/* SPDX-License-Identifier: MIT
 *
 * Marks of when numbers were given out, in two rings, and the histogram of waiting.
 */
#include "delivery/lag.h"

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

static void lag_mark(struct lag_marks *m, uint64_t seq, uint64_t us, uint64_t apart_us)
{
    unsigned last = (m->next + LAG_MARKS - 1) % LAG_MARKS;
    if (m->count > 0 && us - m->at[last].us < apart_us) {
        return;
    }
    m->at[m->next].seq = seq;
    m->at[m->next].us = us;
    m->next = (m->next + 1) % LAG_MARKS;
    m->count += m->count < LAG_MARKS;
}

void lag_note(struct lag *lag, uint64_t seq, uint64_t us)
{
    lag_mark(&lag->fine, seq, us, LAG_FINE_US);
    lag_mark(&lag->coarse, seq, us, LAG_COARSE_US);
}

/* The newest mark that is not above `seq`; without one the oldest, and *ret_found is false. */
static uint64_t lag_find(const struct lag_marks *m, uint64_t seq, bool *ret_found)
{
    unsigned low = 0, high = m->count; /* by age, oldest first */
    unsigned oldest = (m->next + LAG_MARKS - m->count) % LAG_MARKS;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (m->at[(oldest + middle) % LAG_MARKS].seq <= seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *ret_found = low > 0;
    return m->count == 0 ? 0 : m->at[(oldest + (low > 0 ? low - 1 : 0)) % LAG_MARKS].us;
}

uint64_t lag_time(struct lag *lag, uint64_t seq)
{
    if (lag->asked_seq != seq || lag->asked_us == 0) {
        bool is_found = false;
        uint64_t us = lag_find(&lag->fine, seq, &is_found);
        lag->asked_us = is_found ? us : lag_find(&lag->coarse, seq, &is_found);
        lag->asked_seq = seq;
    }
    return lag->asked_us;
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

void lag_count(struct lag *lag, uint64_t us)
{
    uint64_t waited = lag->now_us > us ? lag->now_us - us : 0;
    struct lag_counts *c = &lag->recent[0];
    durations_count(&c->waited, waited);
    c->max_us = waited > c->max_us ? waited : c->max_us;
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
