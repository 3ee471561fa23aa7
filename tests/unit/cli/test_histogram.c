/* SPDX-License-Identifier: MIT
 *
 * The histogram resolves values of any size to 1.6 %.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/bench.h"

static void values_are_accurate_to_1_6_percent(void **state)
{
    (void)state;
    for (uint64_t value = 1; value < UINT64_C(1) << 40; value += value / 7 + 1) {
        struct histogram *h = calloc(1, sizeof(*h));
        assert_non_null(h);
        histogram_add(h, value);
        histogram_add(h, UINT64_C(1) << 40);
        uint64_t at = histogram_at(h, 0.5);
        assert_true(at >= value && (double)(at - value) <= (double)value / 64);
        assert_int_equal(h->min, value);
        free(h);
    }
}

static void percentiles_count_from_lowest_value(void **state)
{
    (void)state;
    static struct histogram h;
    assert_int_equal(histogram_at(&h, 0.5), 0);
    for (uint64_t i = 1; i <= 1000; i++) {
        histogram_add(&h, i <= 990 ? 10 : 5000 + i);
    }
    assert_int_equal(h.count, 1000);
    assert_int_equal(histogram_at(&h, 0.5), 10);
    assert_int_equal(histogram_at(&h, 0.99), 10);
    assert_true(histogram_at(&h, 0.995) > 5990);
    assert_int_equal(histogram_at(&h, 1), 6000);
    assert_int_equal(h.max, 6000);
}

static void ranges_contain_their_values(void **state)
{
    (void)state;
    static struct histogram h;
    for (uint64_t i = 1; i < 4096; i++) {
        histogram_add(&h, i);
    }
    uint64_t sum = 0;
    for (uint64_t from = 1; from < 4096; from *= 2) {
        assert_int_equal(histogram_between(&h, from, 2 * from), from);
        sum += histogram_between(&h, from, 2 * from);
    }
    assert_int_equal(sum, h.count);
}

static void oversized_value_counts_as_the_largest(void **state)
{
    (void)state;
    static struct histogram h;
    histogram_add(&h, UINT64_MAX);
    assert_int_equal(h.count, 1);
    assert_true(h.max == UINT64_MAX);
    assert_true(histogram_at(&h, 0.5) >= UINT64_C(1) << 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_accurate_to_1_6_percent),
        cmocka_unit_test(percentiles_count_from_lowest_value),
        cmocka_unit_test(ranges_contain_their_values),
        cmocka_unit_test(oversized_value_counts_as_the_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
