/* SPDX-License-Identifier: MIT
 *
 * Server output can neither control a terminal nor imitate another line, and JSON keeps its value.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <tidings/json.h>

#include "cli/output.h"

typedef void (*put_fn)(FILE *out, struct tidings_str text);

static void check(put_fn put, const char *text, const char *expected)
{
    char out[256];
    FILE *stream = fmemopen(out, sizeof(out), "w");
    assert_non_null(stream);
    put(stream, tidings_str(text));
    fclose(stream);
    assert_string_equal(out, expected);
}

static void put_line(FILE *out, struct tidings_str text)
{
    put_text(out, text);
}

static void controls_are_shown_as_escapes(void **state)
{
    (void)state;
    check(put_line, "plain é 漢 😀", "plain é 漢 😀");
    check(put_line, "\x1b[31m\x07\x7f\r\n\t", "\\x1b[31m\\x07\\x7f\\r\\n\\t");
    check(put_line,
          "\xc2\x9b"
          "1m \xc2\xa0",
          "\\x9b"
          "1m \xc2\xa0");
    check(put_lines, "a\tb\n\x1b", "a\tb\n\\x1b");
}

static void direction_controls_are_shown_as_escapes(void **state)
{
    (void)state;
    check(put_line,
          "a\xe2\x80\xae"
          "b\xe2\x81\xa6",
          "a\\u202e"
          "b\\u2066");
    check(put_line, "\xe2\x80\xa8\xef\xbb\xbf", "\\u2028\\ufeff");
}

static void invalid_utf8_is_shown_as_escapes(void **state)
{
    (void)state;
    check(put_line, "\xff\xc3", "\\xff\\xc3");
    check(put_line, "\xc0\x9b", "\\xc0\\x9b");          /* overlong */
    check(put_line, "\xed\xa0\x80", "\\xed\\xa0\\x80"); /* half of a pair */
    check(put_line, "\xf8\x88\x80\x80\x80", "\\xf8\\x88\\x80\\x80\\x80");
    check(put_line, "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80");
}

static void escaped_json_keeps_its_value(void **state)
{
    (void)state;
    const char *json = "{\"a\":\"\x7f\xc2\x9b \xe2\x80\xae é\"}";
    const char *safe = "{\"a\":\"\\u007f\\u009b \\u202e é\"}";
    check(put_json_text, json, safe);
    char *one = tidings_json_string(tidings_str(json), "/a");
    char *other = tidings_json_string(tidings_str(safe), "/a");
    assert_string_equal(one, other);
    tidings_free(one);
    tidings_free(other);
    check(put_quoted, "\"\x1b\xff", "\"\\\"\\u001b\xef\xbf\xbd\"");
}

static void sizes_are_human_readable(void **state)
{
    (void)state;
    const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {
        {0, "0 B"},        {1023, "1023 B"},     {1024, "1.0 KiB"},
        {1536, "1.5 KiB"}, {1048575, "1.0 MiB"}, {UINT64_MAX, "16.0 EiB"},
    };
    char out[SIZE_TEXT_MAX];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_string_equal(size_text(rows[i].bytes, out), rows[i].text);
    }
}

static void wide_characters_take_two_columns(void **state)
{
    (void)state;
    char out[64] = "";
    assert_int_equal(text_columns(TIDINGS_STR("plain é")), 7);
    assert_int_equal(text_columns(TIDINGS_STR("漢字")), 4);
    assert_int_equal(text_columns(TIDINGS_STR("e\xcc\x81")), 1); /* a combining accent */
    assert_int_equal(text_columns(TIDINGS_STR("😀\xff")), 3);
    FILE *stream = fmemopen(out, sizeof(out), "w");
    assert_non_null(stream);
    assert_int_equal(put_columns(stream, TIDINGS_STR("a漢字"), 4), 3);
    assert_int_equal(put_text(stream, TIDINGS_STR("漢\n")), 4);
    fclose(stream);
    assert_string_equal(out, "a漢漢\\n");
}

static void text_is_distinguished_from_binary(void **state)
{
    (void)state;
    assert_true(is_text(tidings_str("")));
    assert_true(is_text(tidings_str("é\x1b")));
    assert_false(is_text(tidings_str("\xff")));
    assert_false(is_text(tidings_strn("a\0b", 3)));
    assert_false(is_text(tidings_strn("\xc3\xa9", 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(controls_are_shown_as_escapes),
        cmocka_unit_test(direction_controls_are_shown_as_escapes),
        cmocka_unit_test(invalid_utf8_is_shown_as_escapes),
        cmocka_unit_test(escaped_json_keeps_its_value),
        cmocka_unit_test(sizes_are_human_readable),
        cmocka_unit_test(text_is_distinguished_from_binary),
        cmocka_unit_test(wide_characters_take_two_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
