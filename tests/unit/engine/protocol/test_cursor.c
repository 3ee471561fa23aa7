/* SPDX-License-Identifier: MIT
 *
 * Cursors as strings, and the position of a number in the store.
 */
#include "engine/protocol/cursor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fail_alloc.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void cursors_are_a_hexadecimal_epoch_and_a_decimal_number(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        uint64_t epoch, seq, position;
        uint32_t gap;
    } rows[] = {
        {"0.0", true, 0, 0, 0, 0},
        {"ff.10", true, 255, 10, 0, 0},
        {"ffffffffffffffff.18446744073709551615", true, UINT64_MAX, UINT64_MAX, 0, 0},
        {"1.007", true, 1, 7, 0, 0},
        {"", false, 0, 0, 0, 0},
        {".", false, 0, 0, 0, 0},
        {"1.", false, 0, 0, 0, 0},
        {".1", false, 0, 0, 0, 0},
        {"1", false, 0, 0, 0, 0},
        {"FF.1", false, 0, 0, 0, 0},
        {"g.1", false, 0, 0, 0, 0},
        {"1.a", false, 0, 0, 0, 0},
        {"1.-1", false, 0, 0, 0, 0},
        {"1. 1", false, 0, 0, 0, 0},
        {"1.2.3", true, 1, 2, 3, 0},
        {"a.0.18446744073709551615", true, 10, 0, UINT64_MAX, 0},
        {"1.1.", false, 0, 0, 0, 0},
        {"1..1", false, 0, 0, 0, 0},
        {"1.1.x", false, 0, 0, 0, 0},
        {"1.1.1.1", false, 0, 0, 0, 0},
        {"10000000000000000.1", false, 0, 0, 0, 0},
        {"1.18446744073709551616", false, 0, 0, 0, 0},
        {"-1.1", false, 0, 0, 0, 0},
        {"1.2~1", true, 1, 2, 0, 1},
        {"1.2.3~ffffffff", true, 1, 2, 3, UINT32_MAX},
        {"1.2~00000abc", true, 1, 2, 0, 0xabc},
        {"1.2~", false, 0, 0, 0, 0},
        {"1.2~0", false, 0, 0, 0, 0},
        {"1.2~100000000", false, 0, 0, 0, 0},
        {"1.2~A", false, 0, 0, 0, 0},
        {"1.2~1~1", false, 0, 0, 0, 0},
        {"1.2~1-0", true, 1, 2, 0, 1},
        {"1.2.3~abcdef01-abcd", true, 1, 2, 3, 0xabcdef01},
        {"1.2.3~abcdef01-abcc", false, 0, 0, 0, 0},
        {"1.2~1-", false, 0, 0, 0, 0},
        {"1.2~1-12345", false, 0, 0, 0, 0},
        {"1.2~1-1-1", false, 0, 0, 0, 0},
        {"1.2~-1", false, 0, 0, 0, 0},
        {"1~1.2", false, 0, 0, 0, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct log_cursor c = {77, 77, 77, true, 77, 77};
        bool good = cursor_parse(tidings_str(rows[i].text), &c);
        if (good != rows[i].good ||
            (good && (c.epoch != rows[i].epoch || c.seq != rows[i].seq ||
                      c.position != rows[i].position || c.gap != rows[i].gap))) {
            fail_msg("'%s' is %s", rows[i].text, good ? "good" : "bad");
        }
        assert_true(good || c.seq == 77);
    }
}

static void cursor_text_parses_to_the_same_cursor(void **state)
{
    (void)state;
    static const struct log_cursor rows[] = {
        {0xab, 12, 0, false, 0, 0},
        {0xab, 12, 0, true, 0, 0},
        {0xab, 12, 0, false, 1, 0},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, true, CURSOR_ALL_NOTIFIED, 0},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, true, 0xfffffffe, 0xffffffff},
        {0xab, 12, 7, true, 0x12345678, 0x1234ffff},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[CURSOR_TEXT];
        struct log_cursor c = {0};
        assert_true(cursor_parse(cursor_print(&rows[i], text), &c));
        assert_int_equal(c.epoch, rows[i].epoch);
        assert_int_equal(c.seq, rows[i].seq);
        assert_int_equal(c.position, rows[i].position);
        assert_int_equal(c.has_position, rows[i].has_position);
        assert_int_equal(c.gap, rows[i].gap);
        assert_int_equal(c.gap_to, rows[i].gap_to);
    }
}

static void pending_subscriptions_are_a_range(void **state)
{
    (void)state;
    struct log_cursor a = {.gap = 10, .gap_to = 20}, b = {.gap = 5, .gap_to = 12}, none = {0};
    assert_true(cursor_has_gap(&a, 10) && cursor_has_gap(&a, 20));
    assert_false(cursor_has_gap(&a, 9) || cursor_has_gap(&a, 21) || cursor_has_gap(&none, 1));
    cursor_join_gap(&a, &b);
    assert_true(a.gap == 5 && a.gap_to == 20);
    cursor_join_gap(&a, &none);
    cursor_join_gap(&a, &(struct log_cursor){.gap = CURSOR_ALL_NOTIFIED});
    assert_true(a.gap == 5 && a.gap_to == 20);
    cursor_join_gap(&none, &a);
    assert_true(none.gap == 5 && none.gap_to == 20);
    cursor_join_gap(&a, &(struct log_cursor){.gap = 7}); /* from that number on */
    assert_true(a.gap == 5 && a.gap_to == 0 && cursor_has_gap(&a, UINT32_MAX));
    a = (struct log_cursor){.gap = CURSOR_ALL_NOTIFIED};
    cursor_join_gap(&a, &b);
    assert_true(a.gap == 5 && a.gap_to == 12);
}

/* Every 3rd change is durable; positions skip some. */
static uint64_t seq_of(uint64_t n)
{
    return 100 + 3 * n;
}

static uint64_t position_of(uint64_t n)
{
    return 100 + 2 * n;
}

static void position_of_a_number_is_that_of_the_last_durable_change_up_to_it(void **state)
{
    (void)state;
    struct position_map m;
    assert_true(position_map_init(&m, 100));
    assert_int_equal(position_map_find(&m, 7), 7);
    assert_int_equal(position_map_find(&m, 100), 100);
    assert_int_equal(position_map_find(&m, 5000), 100);
    for (uint64_t n = 1; n <= 1000; n++) {
        position_map_add(&m, seq_of(n), position_of(n));
    }
    for (uint64_t seq = 0; seq < seq_of(1000) + 50; seq++) {
        uint64_t n = seq < 100 ? 0 : (seq - 100) / 3;
        n = n > 1000 ? 1000 : n;
        assert_int_equal(position_map_find(&m, seq), seq < 100 ? seq : position_of(n));
    }
    position_map_deinit(&m);
}

static void position_of_an_old_number_is_never_too_high(void **state)
{
    (void)state;
    struct position_map m;
    uint64_t last = 0;
    assert_true(position_map_init(&m, 100));
    for (uint64_t n = 1; n <= 20000; n++) {
        position_map_add(&m, seq_of(n), position_of(n));
    }
    for (uint64_t n = 1; n <= 20000; n++) {
        uint64_t found = position_map_find(&m, seq_of(n) + 1);
        assert_true(found <= position_of(n) && found >= last);
        assert_true(n <= 16000 || found == position_of(n));
        last = found;
    }
    position_map_deinit(&m);
}

static void map_has_no_marks_without_memory(void **state)
{
    (void)state;
    struct position_map m;
    fail_alloc_start(1);
    assert_false(position_map_init(&m, 0));
    assert_true(fail_alloc_stop());
    fail_alloc_end();
    position_map_deinit(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cursors_are_a_hexadecimal_epoch_and_a_decimal_number),
        cmocka_unit_test(cursor_text_parses_to_the_same_cursor),
        cmocka_unit_test(pending_subscriptions_are_a_range),
        cmocka_unit_test(position_of_a_number_is_that_of_the_last_durable_change_up_to_it),
        cmocka_unit_test(position_of_an_old_number_is_never_too_high),
        cmocka_unit_test(map_has_no_marks_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
