/* SPDX-License-Identifier: MIT
 *
 * Clocks, their fake, the ISO form, random bytes.
 */
#include "base/time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void real_clocks_run_forward(void **state)
{
    (void)state;
    uint64_t before = clock_monotonic_ns();
    uint64_t ms = clock_monotonic_ms();
    uint64_t after = clock_monotonic_ns();
    assert_true(before <= after);
    assert_true(ms >= before / 1000000 && ms <= after / 1000000);
    assert_true(clock_wall_ms() > 1700000000000);
    int64_t coarse = clock_wall_coarse_ms();
    assert_true(coarse > 1700000000000 && coarse <= clock_wall_ms());
}

static void fake_clock_is_used_until_reset(void **state)
{
    (void)state;
    struct clock_fake fake = {.monotonic_ns = 5000000, .wall_ms = 42};
    clock_set_fake(&fake);
    assert_int_equal(clock_monotonic_ns(), 5000000);
    assert_int_equal(clock_monotonic_ms(), 5);
    assert_int_equal(clock_wall_ms(), 42);
    assert_int_equal(clock_wall_coarse_ms(), 42);
    fake.monotonic_ns += 1000000;
    assert_int_equal(clock_monotonic_ms(), 6);
    clock_set_fake(NULL);
    assert_true(clock_wall_ms() > 42);
}

static void iso_form_is_utc_with_milliseconds(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1785232800000, "2026-07-28T10:00:00.000Z"},
        {951782399999, "2000-02-28T23:59:59.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {-1000, "1969-12-31T23:59:59.000Z"},
        {253402300799999, "9999-12-31T23:59:59.999Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
        {-62167219200000, "0000-01-01T00:00:00.000Z"},
        {INT64_MIN, "0000-01-01T00:00:00.000Z"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[25];
        clock_format_iso(rows[i].ms, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void random_bytes_fill_everything(void **state)
{
    (void)state;
    unsigned char seen[1000] = {0}, bytes[1000];
    for (int round = 0; round < 8; round++) {
        assert_int_equal(random_bytes(bytes, sizeof bytes), 0);
        for (size_t i = 0; i < sizeof bytes; i++) {
            seen[i] |= bytes[i];
        }
    }
    for (size_t i = 0; i < sizeof seen; i++) {
        assert_true(seen[i] != 0); /* a random failure once in 2^54 runs */
    }
    assert_int_equal(random_bytes(bytes, 0), 0);
}

static void random_numbers_reach_both_ends(void **state)
{
    (void)state;
    unsigned seen = 0;
    assert_int_equal(random_upto(0), 0);
    for (int i = 0; i < 200; i++) {
        uint32_t n = random_upto(3);
        assert_true(n <= 3);
        seen |= 1u << n;
    }
    assert_int_equal(seen, 15); /* a random failure once in 2^81 runs */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_clocks_run_forward),
        cmocka_unit_test(fake_clock_is_used_until_reset),
        cmocka_unit_test(iso_form_is_utc_with_milliseconds),
        cmocka_unit_test(random_bytes_fill_everything),
        cmocka_unit_test(random_numbers_reach_both_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
