/* SPDX-License-Identifier: MIT
 *
 * The JSON parser's own guarantees: failed allocations are reported without leaks; escapes, strings
 * of every length and numbers are exact; locales have no effect. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <locale.h>
#include <stdio.h>

#include "base/str.h"
#include "formats/json.h"
#include "support/fail_alloc.h"

static struct json *parse(const char *text)
{
    struct json *root = NULL;
    struct tidings_error err = {0};
    if (jv_parse(tidings_str(text), 8, &root, &err) < 0) {
        fail_msg("%s: %s", text, err.text);
    }
    return root;
}

static void parser_reports_any_failed_allocation(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\\n\":\"b\\n\",\"c\":[1,2,3,4,5,6,7,8,9,true],\"d\":{\"e\":1.5},"
        "\"f\":0.000000000000000000000000000000000000000000000000000000001,"
        "\"1\":1,\"2\":2,\"3\":3,\"4\":4,\"5\":5,\"6\":6}";
    bool reached = true;
    for (long n = 1; reached; n++) {
        struct json *root = NULL;
        struct tidings_error err = {0};
        fail_alloc_start(n);
        int rc = jv_parse(tidings_str(text), 8, &root, &err);
        reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        assert_true(reached == (root == NULL));
        assert_string_equal(err.text, reached ? "out of memory while reading JSON" : "");
        jv_unref(root);
        assert_int_equal(fail_alloc_live(), 0);
        assert_true(n < 1000);
    }
    fail_alloc_end();
}

static void strings_of_every_length_are_read_completely(void **state)
{
    (void)state;
    for (size_t len = 0; len < 40; len++) {
        for (size_t escape = 0; escape <= len; escape++) { /* len: none */
            char text[64], wanted[64];
            size_t n = 0;
            text[n++] = '"';
            for (size_t i = 0; i < len; i++) {
                wanted[i] = i == escape ? '"' : (char)('a' + i % 26);
                if (i == escape) {
                    text[n++] = '\\';
                }
                text[n++] = wanted[i];
            }
            text[n++] = '"';
            struct json *root = NULL;
            assert_int_equal(jv_parse(tidings_strn(text, n), 0, &root, NULL), 0);
            assert_int_equal(jv_str(root).len, len);
            assert_memory_equal(jv_str(root).ptr, wanted, len);
            jv_unref(root);
            /* The same with its end removed. */
            assert_int_equal(jv_parse(tidings_strn(text, n - 1), 0, &root, NULL), TIDINGS_E_PARSE);
        }
    }
}

static void escapes_become_their_characters(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct tidings_str value;
    } rows[] = {
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", {"\"\\/\b\f\n\r\t", 8}},
        {"\"\\u0000\"", {"\0", 1}},
        {"\"\\u007f\\u0080\\u07FF\\u0800\\uffff\"",
         {"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf", 11}},
        {"\"\\uD800\\uDC00\\udbff\\udfff\"", {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8}},
        {"\"\\uD7FF\\uE000\"", {"\xed\x9f\xbf\xee\x80\x80", 6}},
        {"\"a\\u00e9b\xc3\xa9\"",
         {"a\xc3\xa9"
          "b\xc3\xa9",
          6}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json *root = parse(rows[i].text);
        assert_int_equal(jv_str(root).len, rows[i].value.len);
        assert_memory_equal(jv_str(root).ptr, rows[i].value.ptr, rows[i].value.len);
        jv_unref(root);
    }
}

static void numbers_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } reals[] = {
        {"1.0", 1.0},
        {"-0.0", -0.0},
        {"0.1", 0.1},
        {"1e2", 1e2},
        {"1E+2", 1e2},
        {"12.5e-1", 1.25},
        {"1.7976931348623157e308", 1.7976931348623157e308},
        {"4.9e-324", 4.9e-324},
        {"1e-999", 0.0},
        {"9007199254740993.0", 9007199254740992.0},
        {"0.1000000000000000055511151231257827021181583404541015625000000000000000000000001", 0.1},
    };
    static const struct {
        const char *text;
        int64_t value;
    } integers[] = {
        {"0", 0},
        {"-0", 0},
        {"7", 7},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        struct json *root = parse(reals[i].text);
        double value = jv_real(root);
        assert_true(jv_is(root, JV_REAL));
        assert_memory_equal(&value, &reals[i].value, sizeof value);
        jv_unref(root);
    }
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        struct json *root = parse(integers[i].text);
        assert_true(jv_is(root, JV_INT) && jv_int(root) == integers[i].value);
        jv_unref(root);
    }
}

static void locale_with_a_decimal_comma_has_no_effect(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8",
                                        "fr_FR.utf8",  "ps_AF",      "de_DE"};
    size_t found = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (setlocale(LC_ALL, names[i])) {
            struct json *root = parse("[1.5,2.5e1]");
            assert_true(jv_real(jv_at(root, 0)) == 1.5);
            assert_true(jv_real(jv_at(root, 1)) == 25.0);
            jv_unref(root);
            found++;
        }
    }
    setlocale(LC_ALL, "C");
    if (found == 0) {
        skip(); /* no such locale is installed: the test cannot detect a failure */
    }
}

static void many_members_keep_their_order(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    struct buf text;
    buf_init(&text, 1u << 20);
    for (int i = 0; i < COUNT; i++) {
        buf_putf(&text, "%s\"key %d\":%d", i ? "," : "{", COUNT - i, i);
    }
    buf_putc(&text, '}');
    struct json *root = parse(text.ptr);
    struct tidings_str key;
    struct json *value;
    int n = 0;
    for (void *at = NULL; (at = jv_next(root, at, &key, &value)) != NULL;) {
        char wanted[32];
        (void)snprintf(wanted, sizeof wanted, "key %d", COUNT - n);
        assert_string_equal(key.ptr, wanted);
        assert_int_equal(jv_int(value), n++);
    }
    assert_int_equal(n, COUNT);
    jv_unref(root);
    buf_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parser_reports_any_failed_allocation),
        cmocka_unit_test(strings_of_every_length_are_read_completely),
        cmocka_unit_test(escapes_become_their_characters),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(locale_with_a_decimal_comma_has_no_effect),
        cmocka_unit_test(many_members_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
