/* SPDX-License-Identifier: MIT
 *
 * Ranges in command line syntax, and cutting full content to a range.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <tidings/json.h>

#include "cli/output.h"
#include "cli/range.h"

static void ranges_are_parsed_as_written(void **state)
{
    static const struct {
        const char *text;
        bool is_lines, is_good;
        int64_t from, to, last;
    } rows[] = {
        {"0-9", false, true, 0, 10, 0},
        {"7", false, true, 7, 8, 0},
        {"7-", false, true, 7, -1, 0},
        {"-7", false, true, 0, -1, 7},
        {"1-2", true, true, 0, 2, 0},
        {"3-", true, true, 2, -1, 0},
        {"9223372036854775806-", false, true, INT64_MAX - 1, -1, 0},
        {"0-1", true, false, 0, 0, 0},
        {"2-1", false, false, 0, 0, 0},
        {"-0", false, false, 0, 0, 0},
        {"", false, false, 0, 0, 0},
        {"-", false, false, 0, 0, 0},
        {"1-2-3", false, false, 0, 0, 0},
        {"+1", false, false, 0, 0, 0},
        {"9223372036854775807-", false, false, 0, 0, 0},
        {"99999999999999999999", false, false, 0, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct range_spec r;
        assert_int_equal(range_spec_parse(rows[i].text, rows[i].is_lines, &r), rows[i].is_good);
        if (rows[i].is_good) {
            assert_int_equal(r.from, rows[i].from);
            assert_int_equal(r.to, rows[i].to);
            assert_int_equal(r.last, rows[i].last);
        }
    }
}

static void full_content_is_cut_to_range(void **state)
{
    static const struct {
        const char *whole, *range;
        bool is_lines;
        const char *cut; /* NULL: it ends before */
    } rows[] = {
        {"abcdef", "1-2", false, "bc"},
        {"abcdef", "4-100", false, "ef"},
        {"abcdef", "6-", false, ""},
        {"abcdef", "7-", false, NULL},
        {"abcdef", "-2", false, "ef"},
        {"abcdef", "-20", false, "abcdef"},
        {"a\xc3\xa4z", "2-", false, "\xc3\xa4z"},
        {"a\xc3\xa4z", "0-1", false, "a"},
        {"a\nb\nc\n", "2", true, "b\n"},
        {"a\nb\nc", "3-9", true, "c"},
        {"a\nb\nc\n", "-2", true, "b\nc\n"},
        {"a\nb\nc", "-2", true, "b\nc"},
        {"a\n", "2-", true, ""},
        {"a\n", "3-", true, NULL},
        {"", "-5", true, ""},
        {"", "1-", true, ""},
        {"\n\n\n", "-2", true, "\n\n"},
        {"a\nb", "-9", true, "a\nb"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct range_spec range;
        struct range p;
        struct tidings_error err = {0};
        char *quoted = tidings_json_quote(tidings_str(rows[i].whole)), json[128];
        snprintf(json, sizeof(json), "{\"text\":%s}", quoted);
        tidings_free(quoted);
        assert_true(range_spec_parse(rows[i].range, rows[i].is_lines, &range));
        assert_int_equal(range_parse(&p, tidings_str(json), &err), 0);
        int rc = range_cut(&p, &range, &err);
        assert_int_equal(rc, rows[i].cut ? 0 : TIDINGS_E_INVALID);
        if (rows[i].cut) {
            assert_string_equal(p.bytes, rows[i].cut);
        }
        range_release(&p);
    }
}

static void line_feeds_are_counted_across_pieces(void **state)
{
    (void)state;
    int64_t feeds = range_feeds_of(TIDINGS_STR("y\nz\n"), 3);
    assert_int_equal(feeds, 4);
    assert_int_equal(range_behind_feed(TIDINGS_STR("y\nz\n"), &feeds), 0);
    assert_int_equal(feeds, 2);
    assert_int_equal(range_behind_feed(TIDINGS_STR("v\nw\nx"), &feeds), 2);
    assert_int_equal(feeds, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_parsed_as_written),
        cmocka_unit_test(full_content_is_cut_to_range),
        cmocka_unit_test(line_feeds_are_counted_across_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
