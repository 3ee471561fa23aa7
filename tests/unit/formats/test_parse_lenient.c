/* SPDX-License-Identifier: MIT
 *
 * Text from peers that jv_parse rejects: the lenient parser keeps every value as well as possible,
 * counts its repairs, and rejects unreadable text with its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <float.h>
#include <stdio.h>

#include "base/str.h"
#include "formats/json.h"
#include "formats/json_write.h"
#include "support/fail_alloc.h"

/* The text written after reading `text`; free it. */
static char *written(struct json *value)
{
    struct buf out;
    struct jw w;
    buf_init(&out, 1u << 20);
    jw_init(&w, &out);
    jw_value(&w, value);
    assert_int_equal(out.failed, 0);
    return buf_detach(&out, NULL);
}

static void check(const char *text, const char *wanted, unsigned halves, unsigned repeated)
{
    struct json *root = NULL, *strict = NULL;
    struct jv_mended mended = {9, 9};
    struct tidings_error err = {0};
    if (json_parse_lenient(tidings_str(text), &root, &mended, &err) < 0) {
        fail_msg("%s: %s", text, err.text);
    }
    char *got = written(root);
    assert_string_equal(got, wanted);
    assert_int_equal(mended.halves, halves);
    assert_int_equal(mended.repeated, repeated);
    assert_true(jv_parse(tidings_str(text), JSON_MAX_DEPTH, &strict, NULL) < 0);
    tidings_free(got);
    jv_unref(root);
}

static void numbers_keep_their_spelling(void **state)
{
    (void)state;
    check("[18446744073709551616]", "[18446744073709551616]", 0, 0);
    check("[-9223372036854775809,1]", "[-9223372036854775809,1]", 0, 0);
    check("{\"a\":1e400,\"b\":-1E+400}", "{\"a\":1e400,\"b\":-1E+400}", 0, 0);
    check("99999999999999999999", "99999999999999999999", 0, 0);
    struct json *root = NULL, *other = NULL;
    assert_int_equal(
        json_parse_lenient(STR("[3.14159265358979323846,18446744073709551616,-1e999,1.5]"), &root,
                           NULL, NULL),
        0);
    assert_true(jv_is_number(jv_at(root, 1)) && !jv_is(jv_at(root, 1), JV_INT));
    assert_true(jv_real(jv_at(root, 0)) == 3.14159265358979323846);
    assert_true(jv_real(jv_at(root, 1)) == 18446744073709551616.0);
    assert_true(jv_real(jv_at(root, 2)) == -DBL_MAX);
    assert_true(str_eq(jv_written(jv_at(root, 0)), STR("3.14159265358979323846")));
    assert_int_equal(jv_written(jv_at(root, 3)).len, 0);
    struct json *copy = merge_apply(NULL, root);
    char *text = written(copy);
    assert_string_equal(text, "[3.14159265358979323846,18446744073709551616,-1e999,1.5]");
    assert_true(jv_equal(root, copy));
    assert_int_equal(json_parse_lenient(STR("18446744073709551617"), &other, NULL, NULL), 0);
    assert_false(jv_equal(jv_at(root, 1), other)); /* the same double */
    tidings_free(text);
    jv_unref(other);
    jv_unref(copy);
    jv_unref(root);
}

static void lone_surrogate_becomes_the_replacement_character(void **state)
{
    (void)state;
    check("[\"a\\ud83dz\"]", "[\"a\xEF\xBF\xBDz\"]", 1, 0);
    check("[\"\\ude00\\ud83d\"]", "[\"\xEF\xBF\xBD\xEF\xBF\xBD\"]", 2, 0);
    check("[\"\\ud83d\\ud83d\\ude00\"]", "[\"\xEF\xBF\xBD\xF0\x9F\x98\x80\"]", 1, 0);
    check("[\"\\ud83d\\u0041\"]",
          "[\"\xEF\xBF\xBD"
          "A\"]",
          1, 0);
    check("{\"\\udc00\":1}", "{\"\xEF\xBF\xBD\":1}", 1, 0);
    /* Two keys that become equal count as one. */
    check("{\"\\udc00\":1,\"\\udc01\":2}", "{\"\xEF\xBF\xBD\":2}", 2, 1);
}

static void last_value_of_a_repeated_key_takes_the_first_place(void **state)
{
    (void)state;
    check("{\"a\":1,\"b\":2,\"a\":3}", "{\"a\":3,\"b\":2}", 0, 1);
    check("{\"a\":{\"x\":1},\"a\":{\"y\":[1,{}]},\"a\":{\"z\":2,\"z\":3}}", "{\"a\":{\"z\":3}}", 0,
          3);
    check("[{\"a\":1,\"a\":[]},{\"a\":1}]", "[{\"a\":[]},{\"a\":1}]", 0, 1);
    check("{\"a\\u0000b\":1}", "{\"a\\u0000b\":1}", 0, 0);
}

/* Enough members that they have an index, or that the stack becomes a block. */
static void repeated_keys_among_many_members_are_found(void **state)
{
    (void)state;
    static const unsigned counts[] = {15, 16, 17, 33, 100, 3000, 9000};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        struct buf text;
        struct json *root = NULL;
        struct jv_mended mended;
        unsigned n = counts[c];
        buf_init(&text, 1u << 20);
        buf_putc(&text, '{');
        for (unsigned i = 0; i < 2 * n; i++) {
            buf_putf(&text, "%s\"k%u\":[%u]", i > 0 ? "," : "", i % n, i);
        }
        buf_putc(&text, '}');
        assert_int_equal(json_parse_lenient(buf_str(&text), &root, &mended, NULL), 0);
        assert_int_equal(mended.repeated, n);
        assert_int_equal(jv_count(root), n);
        for (unsigned i = 0; i < n; i++) {
            char key[16];
            (void)snprintf(key, sizeof key, "k%u", i);
            assert_int_equal(jv_int(jv_at(jv_get(root, key), 0)), n + i);
        }
        assert_null(jv_get(root, "k"));
        jv_unref(root);
        buf_deinit(&text);
    }
}

static void nesting_is_limited_to_512_levels(void **state)
{
    (void)state;
    char text[2 * 513 + 1];
    for (size_t depth = 512; depth <= 513; depth++) {
        struct json *root = NULL;
        struct tidings_error err = {0};
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        int rc = json_parse_lenient(tidings_strn(text, 2 * depth), &root, NULL, &err);
        assert_int_equal(rc, depth == 512 ? 0 : TIDINGS_E_LIMIT);
        assert_string_equal(err.text,
                            depth == 512 ? "" : "line 1 column 513: nested deeper than 512 levels");
        jv_unref(root);
    }
}

static void text_that_is_not_json_is_rejected(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",           "{",   "[1,]",  "{\"a\":1,}", "[\"\\u12\"]", "[01]",
        "[\"\xff\"]", "NaN", "{} {}", "[1e]",       "[\"\t\"]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct json *root = NULL;
        struct tidings_error err = {0};
        assert_int_equal(json_parse_lenient(tidings_str(texts[i]), &root, NULL, &err),
                         TIDINGS_E_PARSE);
        assert_null(root);
        assert_true(str_starts(tidings_str(err.text), STR("line 1 column ")));
    }
}

static void lenient_parser_reports_any_failed_allocation(void **state)
{
    (void)state;
    struct buf text;
    bool reached = true;
    buf_init(&text, 1u << 16);
    buf_puts(&text, STR("[18446744073709551616,{"));
    for (unsigned i = 0; i < 80; i++) {
        buf_putf(&text, "%s\"k%u\":{\"a\":1,\"a\":2}", i > 0 ? "," : "", i % 60);
    }
    buf_puts(&text, STR("}]"));
    for (long n = 1; reached; n++) {
        struct json *root = NULL;
        fail_alloc_start(n);
        int rc = json_parse_lenient(buf_str(&text), &root, NULL, NULL);
        reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        jv_unref(root);
        assert_int_equal(fail_alloc_live(), 0);
        assert_true(n < 1000);
    }
    fail_alloc_end();
    buf_deinit(&text);
}

static void member_is_found_in_unparsable_text(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
    } rows[] = {
        {"{\"id\":7,\"result\":{\"x\":[1,}", "7"},
        {"{\"result\":{\"id\":1,\"x\":tru},\"jsonrpc\":\"2.0\" , \"id\" : 42 }", "42"},
        {"{\"id\":\"seven\",,,", "\"seven\""},
        {"{\"a\":\"\\\"id\\\":3\",\"id\":4,\"id\":5", "4"},
        {"{\"a\":\"id\",\"b\":{\"id\":1}}", ""},
        {"{\"id\":null}", ""},
        {"{\"id\":", ""},
        {"{\"id", ""},
        {"[{\"id\":1}]", ""},
        {"\"id\":1", ""},
        {"", ""},
        {"{\"a\":\"\\", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tidings_str got = json_peek(tidings_str(rows[i].text), STR("id"));
        assert_true(str_eq(got, tidings_str(rows[i].wanted)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_keep_their_spelling),
        cmocka_unit_test(lone_surrogate_becomes_the_replacement_character),
        cmocka_unit_test(last_value_of_a_repeated_key_takes_the_first_place),
        cmocka_unit_test(repeated_keys_among_many_members_are_found),
        cmocka_unit_test(nesting_is_limited_to_512_levels),
        cmocka_unit_test(text_that_is_not_json_is_rejected),
        cmocka_unit_test(lenient_parser_reports_any_failed_allocation),
        cmocka_unit_test(member_is_found_in_unparsable_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
