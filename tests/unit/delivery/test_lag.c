/* SPDX-License-Identifier: MIT
 *
 * How long changes waited: when numbers were given out, and the histogram.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "delivery/lag.h"

static struct lag lag;

static int clear(void **state)
{
    (void)state;
    lag = (struct lag){0};
    return 0;
}

static void a_number_is_as_old_as_the_newest_mark_below_it(void **state)
{
    (void)state;
    assert_int_equal(lag_time(&lag, 5), 0); /* nobody knows */
    lag_note(&lag, 10, 1000000);
    lag_note(&lag, 11, 1001000); /* too soon for a mark of its own */
    lag_note(&lag, 20, 1020000);
    assert_int_equal(lag_time(&lag, 10), 1000000);
    assert_int_equal(lag_time(&lag, 11), 1000000);
    assert_int_equal(lag_time(&lag, 19), 1000000);
    assert_int_equal(lag_time(&lag, 20), 1020000);
    assert_int_equal(lag_time(&lag, 1000), 1020000);
    assert_int_equal(lag_time(&lag, 3), 1000000); /* older than all: as old as the oldest */
}

static void what_is_old_is_known_to_a_second_and_nothing_is_ever_newer_than_it_is(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 30000; i++) { /* five minutes, a change every 10 ms */
        lag_note(&lag, i, i * LAG_FINE_US);
    }
    for (uint64_t i = 1; i <= 30000; i += 97) {
        uint64_t at = lag_time(&lag, i), is = i * LAG_FINE_US;
        assert_true(at <= is);
        assert_true(is - at < (i > 30000 - LAG_MARKS ? LAG_FINE_US : LAG_COARSE_US));
    }
}

static void waiting_is_counted_in_buckets_and_quantiles_lie_within_them(void **state)
{
    (void)state;
    struct lag_counts c;
    lag_begin_flush(&lag, 100000000);
    for (int i = 0; i < 98; i++) {
        lag_count(&lag, 100000000 - 200);
    }
    lag_count(&lag, 100000000 - 70000000); /* above the last bound */
    lag_count(&lag, 100000000 + 5);        /* numbered after this turn began */
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

static void what_is_long_ago_is_in_the_total_and_not_among_the_recent(void **state)
{
    (void)state;
    struct lag_counts c;
    uint64_t now = 1000000000;
    for (int i = 0; i < 5; i++, now += LAG_RECENT_US) {
        lag_begin_flush(&lag, now);
        lag_count(&lag, now - 1000);
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
    lag_begin_flush(&lag, now + 5 * (uint64_t)LAG_RECENT_US); /* nothing for long */
    lag_total(&lag, &c);
    assert_int_equal(durations_total(&c.waited), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_number_is_as_old_as_the_newest_mark_below_it, clear),
        cmocka_unit_test_setup(
            what_is_old_is_known_to_a_second_and_nothing_is_ever_newer_than_it_is, clear),
        cmocka_unit_test_setup(waiting_is_counted_in_buckets_and_quantiles_lie_within_them, clear),
        cmocka_unit_test_setup(what_is_long_ago_is_in_the_total_and_not_among_the_recent, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
