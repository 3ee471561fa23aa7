/* SPDX-License-Identifier: MIT
 *
 * Writing JSON: exact bytes, and output that always reads back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <float.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "formats/json_write.h"
#include "support/fail_alloc.h"

static struct buf out;

static int setup(void **state)
{
    (void)state;
    buf_init(&out, 1u << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buf_deinit(&out);
    return 0;
}

static struct json *reread(void)
{
    struct json *v = NULL;
    struct tidings_error err = {0};
    if (jv_parse(buf_str(&out), JSON_MAX_DEPTH, &v, &err) < 0) {
        fail_msg("%s: %s", out.ptr, err.text);
    }
    return v;
}

static void writer_places_commas_and_quotes(void **state)
{
    (void)state;
    struct jw w;
    jw_init(&w, &out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("s"), STR("x"));
    jw_key(&w, STR("a"));
    jw_begin_array(&w);
    jw_integer(&w, -1);
    jw_begin_object(&w);
    jw_end_object(&w);
    jw_begin_array(&w);
    jw_end_array(&w);
    jw_null(&w);
    jw_bool(&w, true);
    jw_number(&w, 0.5);
    jw_raw(&w, STR("{\"r\":1}"));
    jw_base64(&w, STR("hello"));
    jw_string(&w, STR(""));
    jw_end_array(&w);
    jw_put_integer(&w, STR("n"), INT64_MIN);
    jw_put_bool(&w, STR("b"), false);
    jw_put_raw(&w, STR("r"), STR("[]"));
    jw_key(&w, STR(""));
    jw_begin_object(&w);
    jw_end_object(&w);
    jw_end_object(&w);
    assert_int_equal(out.failed, 0);
    assert_string_equal(out.ptr,
                        "{\"s\":\"x\",\"a\":[-1,{},[],null,true,0.5,{\"r\":1},\"aGVsbG8=\",\"\"],"
                        "\"n\":-9223372036854775808,\"b\":false,\"r\":[],\"\":{}}");
    jv_unref(reread());
}

static void strings_are_escaped_and_repaired(void **state)
{
    (void)state;
    static const struct {
        struct tidings_str in;
        const char *quoted;
    } rows[] = {
        {{"", 0}, "\"\""},
        {{"plain text", 10}, "\"plain text\""},
        {{"0123456701234567", 16}, "\"0123456701234567\""},
        {{"01234567\"", 9}, "\"01234567\\\"\""},
        {{"a\"b\\c/d", 7}, "\"a\\\"b\\\\c/d\""},
        {{"\b\t\n\f\r", 5}, "\"\\b\\t\\n\\f\\r\""},
        {{"\0\x01\x1f\x7f", 4}, "\"\\u0000\\u0001\\u001f\x7f\""},
        {{"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", 12},
         "\"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
        {{"\xe2\x80\xa8", 3}, "\"\xe2\x80\xa8\""},
        {{"\xff", 1}, "\"\xef\xbf\xbd\""},
        {{"a\x80z", 3}, "\"a\xef\xbf\xbdz\""},
        {{"\xc0\x80", 2}, "\"\xef\xbf\xbd\xef\xbf\xbd\""},
        {{"\xc1\xbf", 2}, "\"\xef\xbf\xbd\xef\xbf\xbd\""},
        {{"\xe2\x82", 2}, "\"\xef\xbf\xbd\""},
        {{"\xe2\x82x", 3}, "\"\xef\xbf\xbdx\""},
        {{"\xe0\x80\x80", 3}, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {{"\xed\xa0\x80", 3}, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {{"\xf0\x9f\x98", 3}, "\"\xef\xbf\xbd\""},
        {{"\xf4\x90\x80\x80", 4}, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {{"\xf5\xc3\xa9", 3}, "\"\xef\xbf\xbd\xc3\xa9\""},
        {{"\xc3", 1}, "\"\xef\xbf\xbd\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        buf_clear(&out);
        assert_int_equal(jw_quote(&out, rows[i].in), 0);
        assert_string_equal(out.ptr, rows[i].quoted);
        assert_true(str_is_utf8(buf_str(&out)));
        jv_unref(reread());
    }
}

static void check_survives(struct tidings_str text)
{
    buf_clear(&out);
    assert_int_equal(jw_quote(&out, text), 0);
    struct json *v = reread();
    assert_true(str_eq(jv_str(v), text));
    jv_unref(v);
}

/* Every byte at every position of strings of up to two words and a byte, so that neither the
 * eight-byte check nor the check of the string's end can hide an error. */
static void every_byte_survives_at_every_position(void **state)
{
    (void)state;
    for (size_t len = 1; len <= 17; len++) {
        for (unsigned c = 0; c < 0x80; c++) {
            for (size_t at = 0; at < len; at++) {
                char text[17];
                memset(text, 'x', len);
                text[at] = (char)c;
                check_survives(tidings_strn(text, len));
            }
        }
    }
}

static void keys_are_escaped(void **state)
{
    (void)state;
    struct jw w;
    jw_init(&w, &out);
    jw_begin_object(&w);
    jw_put_integer(&w, STR("a\"b"), 1);
    jw_put_integer(&w, STR("c\n"), 2);
    jw_end_object(&w);
    assert_string_equal(out.ptr, "{\"a\\\"b\":1,\"c\\n\":2}");
}

static void numbers_are_short_and_exact(void **state)
{
    (void)state;
    static const struct {
        double n;
        const char *text;
    } rows[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {0.1, "0.1"},
        {-1.5, "-1.5"},
        {100000.0, "100000.0"},
        {1e21, "1e21"},
        {-1e-10, "-1e-10"},
        {1.5e-9, "1.5e-9"},
        {2.5e100, "2.5e100"},
        {DBL_MIN, "2.2250738585072014e-308"},
        {1e-7, "1e-7"},
        {0.30000000000000004, "0.30000000000000004"},
        {DBL_MAX, "1.7976931348623157e308"},
        {5e-324, "5e-324"},
        {9007199254740993.0, "9007199254740992.0"},
        {INFINITY, "null"},
        {-INFINITY, "null"},
        {NAN, "null"},
    };
    struct jw w;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        buf_clear(&out);
        jw_init(&w, &out);
        jw_number(&w, rows[i].n);
        assert_string_equal(out.ptr, rows[i].text);
        struct json *v = reread();
        if (isfinite(rows[i].n)) {
            assert_true(jv_is(v, JV_REAL));
            assert_true(jv_real(v) == rows[i].n);
        }
        jv_unref(v);
    }
}

static void numbers_ignore_the_locale(void **state)
{
    (void)state;
    static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "ps_AF.UTF-8"};
    struct jw w;
    for (size_t i = 0; i < sizeof locales / sizeof *locales; i++) {
        setlocale(LC_NUMERIC, locales[i]); /* if the locale is not installed, this proves nothing */
        buf_clear(&out);
        jw_init(&w, &out);
        jw_number(&w, -12.25);
        assert_string_equal(out.ptr, "-12.25");
        setlocale(LC_NUMERIC, "C");
    }
}

static void parsed_value_is_written_compactly_and_exactly(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {" { \"a\" : [ 1 , 2.5 , null , true , false , \"x\\u0000\\u00e9\" ] , \"b\" : { } } ",
         "{\"a\":[1,2.5,null,true,false,\"x\\u0000\xc3\xa9\"],\"b\":{}}"},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"[[],[[]],{\"k\":[]}]", "[[],[[]],{\"k\":[]}]"},
        {"1.0", "1.0"},
        {"1E2", "100.0"},
        {"\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json *v = NULL;
        struct jw w;
        assert_int_equal(jv_parse(tidings_str(rows[i][0]), JSON_MAX_DEPTH, &v, NULL), 0);
        buf_clear(&out);
        jw_init(&w, &out);
        jw_begin_array(&w);
        jw_value(&w, v);
        jw_value(&w, NULL);
        jw_end_array(&w);
        struct buf expected;
        buf_init(&expected, 1000);
        buf_putf(&expected, "[%s,null]", rows[i][1]);
        assert_string_equal(out.ptr, expected.ptr);
        buf_deinit(&expected);
        jv_unref(v);
    }
}

static void deepest_value_fits_inside_an_envelope(void **state)
{
    (void)state;
    char text[2 * JSON_MAX_DEPTH];
    memset(text, '[', JSON_MAX_DEPTH);
    memset(text + JSON_MAX_DEPTH, ']', JSON_MAX_DEPTH);
    struct json *v = NULL;
    struct jw w;
    assert_int_equal(jv_parse(tidings_strn(text, sizeof text), JSON_MAX_DEPTH, &v, NULL), 0);
    jw_init(&w, &out);
    jw_begin_object(&w);
    jw_key(&w, STR("deep"));
    jw_value(&w, v);
    jw_put_integer(&w, STR("after"), 1);
    jw_end_object(&w);
    jv_unref(v);
    assert_int_equal(out.failed, 0);
    assert_int_equal(jv_parse(buf_str(&out), JSON_MAX_DEPTH + 1, &v, NULL), 0);
    assert_int_equal(jv_int(jv_get(v, "after")), 1);
    jv_unref(v);
}

static void excessive_levels_fail_without_output(void **state)
{
    (void)state;
    struct jw w;
    jw_init(&w, &out);
    for (unsigned i = 0; i < 64; i++) {
        jw_begin_array(&w);
    }
    assert_int_equal(out.failed, 0);
    jw_begin_array(&w);
    jw_integer(&w, 1);
    for (unsigned i = 0; i < 65; i++) {
        jw_end_array(&w);
    }
    assert_int_equal(out.failed, TIDINGS_E_LIMIT);
}

static void string_that_does_not_fit_leaves_the_buffer_unchanged(void **state)
{
    (void)state;
    static const char *const rows[] = {"longer than that", "\"\"\"\"\"\"\"\"", "a\xff\xff\xff\xff"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf small;
        buf_init(&small, 12);
        buf_puts(&small, STR("ab"));
        assert_int_equal(jw_quote(&small, tidings_str(rows[i])), TIDINGS_E_LIMIT);
        assert_int_equal(small.failed, TIDINGS_E_LIMIT);
        assert_string_equal(small.ptr, "ab");
        buf_deinit(&small);
    }
}

/* Every split of the text, and every buffer size. */
static void escaping_in_pieces_equals_escaping_at_once(void **state)
{
    (void)state;
    struct tidings_str text =
        STR("plain text of some length, \"\\\" \n\x01\x1f \xc3\xa4\xe2\x82\xac"
            "\xf0\x9f\x98\x80 and more of it\t");
    struct jw w;
    jw_init(&w, &out);
    jw_string(&w, text);
    assert_int_equal(jw_escaped_len(text), out.len - 2);
    for (size_t cut = 0; cut <= text.len; cut++) {
        assert_int_equal(jw_escaped_len(tidings_strn(text.ptr, cut)) +
                             jw_escaped_len(tidings_strn(text.ptr + cut, text.len - cut)),
                         out.len - 2);
    }
    for (size_t room = 6; room < 100; room++) {
        char got[200];
        size_t at = 0, told = 0, used = 0;
        while (at < text.len) {
            size_t piece = text.len - at < 7 ? text.len - at : 7;
            told += jw_escape_piece(tidings_strn(text.ptr + at, piece), &used, got + told, room);
            assert_true(used > 0);
            at += used;
        }
        assert_int_equal(told, out.len - 2);
        assert_memory_equal(got, out.ptr + 1, told);
    }
    size_t used = 1;
    char none[1] = "x";
    assert_int_equal(jw_escape_piece(STR("\x01"), &used, none, 1), 0);
    assert_int_equal(used, 0);
    assert_int_equal(none[0], 'x');
}

static void failed_allocation_stays_set_in_the_buffer(void **state)
{
    (void)state;
    bool reached = true;
    for (long n = 1; reached; n++) {
        struct buf b;
        struct jw w;
        fail_alloc_start(n);
        buf_init(&b, 10000);
        jw_init(&w, &b);
        jw_begin_object(&w);
        for (int i = 0; i < 50; i++) {
            jw_put_string(&w, STR("key"), STR("value with \"quotes\" \xff"));
            jw_put_integer(&w, STR("n\n"), i);
        }
        jw_end_object(&w);
        reached = fail_alloc_stop();
        assert_int_equal(b.failed, reached ? TIDINGS_E_NOMEM : 0);
        buf_deinit(&b);
        assert_int_equal(fail_alloc_live(), 0);
    }
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(writer_places_commas_and_quotes, setup, teardown),
        cmocka_unit_test_setup_teardown(strings_are_escaped_and_repaired, setup, teardown),
        cmocka_unit_test_setup_teardown(every_byte_survives_at_every_position, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_are_escaped, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers_are_short_and_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers_ignore_the_locale, setup, teardown),
        cmocka_unit_test_setup_teardown(parsed_value_is_written_compactly_and_exactly, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(deepest_value_fits_inside_an_envelope, setup, teardown),
        cmocka_unit_test_setup_teardown(excessive_levels_fail_without_output, setup, teardown),
        cmocka_unit_test_setup_teardown(string_that_does_not_fit_leaves_the_buffer_unchanged, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(escaping_in_pieces_equals_escaping_at_once, setup,
                                        teardown),
        cmocka_unit_test(failed_allocation_stays_set_in_the_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
