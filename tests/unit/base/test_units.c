/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void written_values_read_back(void **state)
{
    (void)state;
    static const uint64_t values[] = {0, 1, 999, 1000, 1024, 60000, 90000, 3600000, 1048576, 7};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct buf text;
        uint64_t back = 1;
        buf_init(&text, 64);
        units_put_duration(&text, values[i]);
        assert_true(units_parse_duration(buf_str(&text), &back));
        assert_int_equal(back, values[i]);
        buf_clear(&text);
        units_put_size(&text, values[i]);
        assert_true(units_parse_size(buf_str(&text), &back));
        assert_int_equal(back, values[i]);
        buf_deinit(&text);
    }
}

static void invalid_numbers_and_units_are_rejected(void **state)
{
    (void)state;
    static const char *const bad[] = {"",   "s",   "-1s", "1 s",
                                      "1d", "1.s", ".5s", "99999999999999999999"};
    uint64_t n;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(units_parse_duration(tidings_str(bad[i]), &n));
        assert_false(units_parse_size(tidings_str(bad[i]), &n));
    }
    assert_false(units_parse_duration(STR("18446744073709551615h"), &n));
    assert_false(units_parse_duration(STR("1.5ms"), &n));
    assert_false(units_parse_size(STR("1.5"), &n));
    assert_false(units_parse_duration(STR("1.0000000001s"), &n));
}

static void fraction_of_a_unit_is_rounded_up(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ms;
    } durations[] = {{"1.5", 1500},  {"1.5s", 1500}, {"0.5m", 30000}, {"1.25h", 4500000},
                     {"0.0001s", 1}, {"2.0s", 2000}, {"0.001", 1},    {"1.0011s", 1002}};
    uint64_t n;
    for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
        assert_true(units_parse_duration(tidings_str(durations[i].text), &n));
        assert_int_equal(n, durations[i].ms);
    }
    assert_true(units_parse_size(STR("1.5k"), &n));
    assert_int_equal(n, 1536);
    assert_true(units_parse_duration(STR("18446744073709551.615s"), &n));
    assert_int_equal(n, UINT64_MAX);
    assert_false(units_parse_duration(STR("18446744073709551.616s"), &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_values_read_back),
        cmocka_unit_test(invalid_numbers_and_units_are_rejected),
        cmocka_unit_test(fraction_of_a_unit_is_rounded_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
