/* SPDX-License-Identifier: MIT
 *
 * Notification delays: their timestamps and the histogram.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/delivery/delivery.h"

static struct lag lag;

static int clear(void **state)
{
    (void)state;
    lag = (struct lag){0};
    return 0;
}

static void timestamps_have_a_tenth_of_a_millisecond_and_wrap(void **state)
{
    (void)state;
    const uint64_t days = 86400ull * 1000000;
    const uint64_t starts[] = {0,       1,        99,          100,
                               1000000, 5 * days, 1000 * days, (1ull << 32) * 100 - 1};
    const uint64_t waits[] = {0, 1, 99, 100, 5000, 60000000, days, 2 * days};
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        for (size_t k = 0; k < sizeof(waits) / sizeof(waits[0]); k++) {
            uint64_t got = lag_since(lag_due(starts[i]), starts[i] + waits[k]);
            assert_true(got + 100 > waits[k] && got < waits[k] + 100);
        }
    }
    assert_int_equal(lag_since(lag_due(2000000), 1000000), 0); /* in the future */
}

static void waits_are_counted_in_buckets_and_quantiles_lie_within(void **state)
{
    (void)state;
    struct lag_counts c;
    lag_begin_flush(&lag, 100000000);
    for (int i = 0; i < 98; i++) {
        lag_count(&lag, 200);
    }
    lag_count(&lag, 70000000); /* above the last bound */
    lag_count(&lag, 0);
    lag_total(&lag, &c);
    assert_int_equal(durations_total(&c.waited), 100);
    assert_int_equal(c.waited.buckets[0], 1);
    assert_int_equal(c.waited.buckets[1], 98);
    assert_int_equal(c.waited.buckets[DURATIONS_BUCKETS - 1], 1);
    assert_int_equal(c.max_us, 70000000);
    uint64_t p50 = lag_counts_quantile(&c, 500);
    assert_true(p50 > 100 && p50 <= 250);
    assert_true(lag_counts_quantile(&c, 1000) > 60000000);
    assert_int_equal(lag_counts_quantile(&(struct lag_counts){0}, 500), 0);
}

static void old_waits_count_in_the_total_but_not_as_recent(void **state)
{
    (void)state;
    struct lag_counts c;
    uint64_t now = 1000000000;
    for (int i = 0; i < 5; i++, now += LAG_RECENT_US) {
        lag_begin_flush(&lag, now);
        lag_count(&lag, 1000);
    }
    now -= LAG_RECENT_US;
    lag_total(&lag, &c);
    assert_int_equal(durations_total(&c.waited), 5);
    lag_recent(&lag, now, &c);
    assert_int_equal(durations_total(&c.waited), 2);
    lag_recent(&lag, now + LAG_RECENT_US, &c);
    assert_int_equal(durations_total(&c.waited), 1);
    lag_recent(&lag, now + 2 * LAG_RECENT_US, &c);
    assert_int_equal(durations_total(&c.waited), 0);
    lag_begin_flush(&lag, now + 5 * (uint64_t)LAG_RECENT_US); /* a long silence */
    lag_total(&lag, &c);
    assert_int_equal(durations_total(&c.waited), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(timestamps_have_a_tenth_of_a_millisecond_and_wrap, clear),
        cmocka_unit_test_setup(waits_are_counted_in_buckets_and_quantiles_lie_within, clear),
        cmocka_unit_test_setup(old_waits_count_in_the_total_but_not_as_recent, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
