/* SPDX-License-Identifier: MIT
 *
 * Newline framing: every input is read at once, in every two pieces, and byte by byte, with the
 * same lines and complaints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "formats/rpc.h"
#include "support/fail_alloc.h"

#define MAX 8u

/* The results in one string: "line|" for a line, "!|" for a complaint. */
static struct buf log_of;

static void drain(struct line_reader *r, bool at_end)
{
    for (;;) {
        struct tidings_str line = STR_EMPTY;
        enum line_result result =
            at_end ? line_reader_finish(r, &line) : line_reader_next(r, &line);
        if (result == LINE_MORE) {
            break;
        }
        buf_puts(&log_of, result == LINE_READY ? line : STR("!"));
        buf_putc(&log_of, '|');
    }
    if (r->in.len == 0) {
        assert_null(r->in.ptr); /* an emptied reader holds no memory */
    }
    assert_true(r->in.len <= MAX + 1);
}

static const char *run(struct tidings_str text, size_t cut, size_t step)
{
    struct line_reader r;
    line_reader_init(&r, MAX);
    buf_clear(&log_of);
    buf_puts(&log_of, STR("|"));
    for (size_t at = 0, n = cut; at < text.len; n = step) {
        n = n < text.len - at ? n : text.len - at;
        assert_int_equal(line_reader_feed(&r, text.ptr + at, n), 0);
        drain(&r, false);
        at += n;
    }
    drain(&r, true);
    line_reader_deinit(&r);
    return log_of.ptr;
}

static void lines_are_the_same_for_every_split(void **state)
{
    (void)state;
    static const struct {
        struct tidings_str text;
        const char *out;
    } rows[] = {
#define ROW(text, out) {{text, sizeof(text) - 1}, "|" out}
        ROW("", ""),
        ROW("a\nb\n", "a|b|"),
        ROW("a\r\nb\r\n", "a|b|"),
        ROW("a\n\n\r\n \t\r\nb\n", "a|b|"),
        ROW("a\r\r\n", "a\r|"),
        ROW("a\rb\n", "a\rb|"),
        ROW("\ra\n", "\ra|"),
        ROW("last", "last|"),
        ROW("last\r", "last|"),
        ROW("a\n  ", "a|"),
        ROW("12345678\n", "12345678|"),
        ROW("12345678\r\n", "12345678|"),
        ROW("12345678", "12345678|"),
        ROW("12345678\r", "12345678|"),
        ROW("12345678\r\r\n", "!|"),
        ROW("123456789\nok\n", "!|ok|"),
        ROW("123456789\r\nok\n", "!|ok|"),
        ROW("123456789", "!|"),
        ROW("0123456789012345678901234567890123456789\nok\n\n", "!|ok|"),
        ROW("0123456789\n0123456789\nok", "!|!|ok|"),
        ROW("0123456789012345678901234567890123456789", "!|"),
        ROW("                    \nok\n", "!|ok|"),
        ROW("\xff\xfe\n", "\xff\xfe|"),
#undef ROW
    };
    buf_init(&log_of, 4096);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(run(rows[i].text, 1, 1), rows[i].out);
        assert_string_equal(run(rows[i].text, 3, 3), rows[i].out);
        for (size_t cut = 1; cut <= rows[i].text.len; cut++) {
            assert_string_equal(run(rows[i].text, cut, rows[i].text.len), rows[i].out);
        }
    }
    buf_deinit(&log_of);
}

static void nul_is_an_ordinary_byte(void **state)
{
    (void)state;
    struct line_reader r;
    struct tidings_str line;
    line_reader_init(&r, MAX);
    assert_int_equal(line_reader_feed(&r, "a\0b\n", 4), 0);
    assert_int_equal(line_reader_next(&r, &line), LINE_READY);
    assert_true(str_eq(line, tidings_strn("a\0b", 3)));
    line_reader_deinit(&r);
}

static void line_stays_valid_until_the_next_is_requested(void **state)
{
    (void)state;
    struct line_reader r;
    struct tidings_str line;
    line_reader_init(&r, 100);
    assert_int_equal(line_reader_feed(&r, "one\ntwo\nthree", 13), 0);
    assert_int_equal(line_reader_next(&r, &line), LINE_READY);
    assert_true(str_eq(line, STR("one")));
    assert_int_equal(line_reader_next(&r, &line), LINE_READY);
    assert_true(str_eq(line, STR("two")));
    assert_int_equal(line_reader_feed(&r, "!\n", 2), 0); /* while it still holds a consumed part */
    assert_int_equal(line_reader_next(&r, &line), LINE_READY);
    assert_true(str_eq(line, STR("three!")));
    assert_int_equal(line_reader_finish(&r, &line), LINE_MORE);
    line_reader_deinit(&r);
    line_reader_deinit(NULL);
}

static void failed_allocation_consumes_nothing_and_can_be_retried(void **state)
{
    (void)state;
    struct line_reader r;
    struct tidings_str line;
    line_reader_init(&r, 100);
    fail_alloc_start(1);
    assert_int_equal(line_reader_feed(&r, "a\n", 2), TIDINGS_E_NOMEM);
    assert_int_equal(line_reader_next(&r, &line), LINE_MORE);
    assert_true(fail_alloc_stop());
    assert_int_equal(line_reader_feed(&r, "a\n", 2), 0);
    assert_int_equal(line_reader_next(&r, &line), LINE_READY);
    assert_true(str_eq(line, STR("a")));
    line_reader_deinit(&r);
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_the_same_for_every_split),
        cmocka_unit_test(nul_is_an_ordinary_byte),
        cmocka_unit_test(line_stays_valid_until_the_next_is_requested),
        cmocka_unit_test(failed_allocation_consumes_nothing_and_can_be_retried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
