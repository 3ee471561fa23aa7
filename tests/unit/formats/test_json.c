/* SPDX-License-Identifier: MIT
 *
 * Reading JSON: accepted text, rejected text and its messages, and accessors that tolerate a wrong
 * type or a missing value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "formats/json.h"

static struct json *parse(const char *text)
{
    struct json *root = NULL;
    struct tidings_error err = {0};
    int rc = jv_parse(tidings_str(text), JSON_MAX_DEPTH, &root, &err);
    if (rc < 0) {
        fail_msg("%s: %s", text, err.text);
    }
    return root;
}

static void malformed_text_is_rejected_with_place_and_reason(void **state)
{
    (void)state;
    static const struct {
        struct tidings_str text;
        const char *sentence;
    } rows[] = {
        {{"", 0}, "line 1 column 1: the text is empty"},
        {{" ", 1}, "line 1 column 1: the text ends too early"},
        {{"[1,", 3}, "line 1 column 3: the text ends too early"},
        {{"[", 1}, "line 1 column 1: the text ends too early"},
        {{"{", 1}, "line 1 column 1: the text ends too early"},
        {{"{\"a\"", 4}, "line 1 column 4: the text ends too early"},
        {{"{\"a\":", 5}, "line 1 column 5: the text ends too early"},
        {{"{\"a\":1", 6}, "line 1 column 6: the text ends too early"},
        {{"{\"a\":1,", 7}, "line 1 column 7: the text ends too early"},
        {{"\"abc", 4}, "line 1 column 4: the text ends too early"},
        {{"\"abcdefghijkl", 13}, "line 1 column 13: the text ends too early"},
        {{"\"a\\", 3}, "line 1 column 3: the text ends too early"},
        {{"[tru", 4}, "line 1 column 4: the text ends too early"},
        {{"[1]x", 4}, "line 1 column 4: more text after the value"},
        {{"{}{}", 4}, "line 1 column 3: more text after the value"},
        {{"1 2", 3}, "line 1 column 3: more text after the value"},
        {{"[1 2]", 5}, "line 1 column 4: ',' or ']' expected"},
        {{"[1}", 3}, "line 1 column 3: ',' or ']' expected"},
        {{"[truex]", 7}, "line 1 column 6: ',' or ']' expected"},
        {{"{\"a\":1]", 7}, "line 1 column 7: ',' or '}' expected"},
        {{"[1,]", 4}, "line 1 column 4: invalid token"},
        {{"[,1]", 4}, "line 1 column 2: invalid token"},
        {{"{\"a\" 1}", 7}, "line 1 column 6: ':' expected"},
        {{"{\"a\":1,}", 8}, "line 1 column 8: a key in double quotes expected"},
        {{"{a:1}", 5}, "line 1 column 2: a key in double quotes expected"},
        {{"{1:1}", 5}, "line 1 column 2: a key in double quotes expected"},
        {{"[\n  nul\n]", 9}, "line 2 column 3: invalid token"},
        {{"[\"\xc3\xa9\",x]", 7}, "line 1 column 6: invalid token"},
        {{"{\"a\":1,\"a\":2}", 13}, "line 1 column 8: duplicate object key"},
        {{"{\"a\":[],\"\\u0061\":{}}", 20}, "line 1 column 9: duplicate object key"},
        {{"{\"\\u0000\":1}", 12}, "line 1 column 2: U+0000 in an object key"},
        {{"[\"\xff\"]", 5}, "line 1 column 3: not UTF-8"},
        {{"[\"\xc3\"]", 5}, "line 1 column 3: not UTF-8"},
        {{"[\"ab\xc3\xa9\xc0\x80\"]", 10}, "line 1 column 6: not UTF-8"},
        {{"[\"\xed\xa0\x80\"]", 7}, "line 1 column 3: not UTF-8"},
        {{"[\"\xf4\x90\x80\x80\"]", 8}, "line 1 column 3: not UTF-8"},
        {{"[\"\\n\xff\"]", 7}, "line 1 column 5: not UTF-8"},
        {{"[\"\\ud800\"]", 10}, "line 1 column 3: half of a surrogate pair"},
        {{"[\"\\ud800\\u0041\"]", 16}, "line 1 column 3: half of a surrogate pair"},
        {{"[\"\\udc00\\ud800\"]", 16}, "line 1 column 3: half of a surrogate pair"},
        {{"[\"\\u12g4\"]", 10}, "line 1 column 3: four hexadecimal digits must follow '\\u'"},
        {{"[\"\\u123", 7}, "line 1 column 3: four hexadecimal digits must follow '\\u'"},
        {{"[\"\\x41\"]", 8}, "line 1 column 3: invalid escape"},
        {{"[\"\\\0\"]", 6}, "line 1 column 3: invalid escape"},
        {{"[\"a\x01\"]", 6},
         "line 1 column 4: a control character in a string must be written as an escape"},
        {{"[\"a\nb\"]", 7},
         "line 1 column 4: a control character in a string must be written as an escape"},
        {{"[\"abcdefgh\0\"]", 13},
         "line 1 column 11: a control character in a string must be written as an escape"},
        {{"[1\0]", 4}, "line 1 column 3: NUL byte"},
        {{"\n[1]\0", 5}, "line 2 column 4: NUL byte"},
        {{"\0", 1}, "line 1 column 1: NUL byte"},
        {{"[01]", 4}, "line 1 column 2: invalid number"},
        {{"[-]", 3}, "line 1 column 2: invalid number"},
        {{"[-a]", 4}, "line 1 column 2: invalid number"},
        {{"[-01]", 5}, "line 1 column 2: invalid number"},
        {{"[1.]", 4}, "line 1 column 2: invalid number"},
        {{"[1.e1]", 6}, "line 1 column 2: invalid number"},
        {{"[1e]", 4}, "line 1 column 2: invalid number"},
        {{"[1e+]", 5}, "line 1 column 2: invalid number"},
        {{"-", 1}, "line 1 column 1: invalid number"},
        {{"[0x1]", 5}, "line 1 column 3: ',' or ']' expected"},
        {{"[+1]", 4}, "line 1 column 2: invalid token"},
        {{"[.5]", 4}, "line 1 column 2: invalid token"},
        {{"[NaN]", 5}, "line 1 column 2: invalid token"},
        {{"[Infinity]", 10}, "line 1 column 2: invalid token"},
        {{"[True]", 6}, "line 1 column 2: invalid token"},
        {{"['a']", 5}, "line 1 column 2: invalid token"},
        {{"[1]//", 5}, "line 1 column 4: more text after the value"},
        {{"[1\f]", 4}, "line 1 column 3: ',' or ']' expected"},
        {{"\xef\xbb\xbf{}", 5}, "line 1 column 1: invalid token"},
        {{"[9223372036854775808]", 21},
         "line 1 column 2: number out of range (integers have 64 bits, others are doubles)"},
        {{"[-9223372036854775809]", 22},
         "line 1 column 2: number out of range (integers have 64 bits, others are doubles)"},
        {{"[1e999]", 7},
         "line 1 column 2: number out of range (integers have 64 bits, others are doubles)"},
        {{"[-1e999]", 8},
         "line 1 column 2: number out of range (integers have 64 bits, others are doubles)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json *root = NULL;
        struct tidings_error err = {0};
        assert_int_equal(jv_parse(rows[i].text, JSON_MAX_DEPTH, &root, &err), TIDINGS_E_PARSE);
        assert_string_equal(err.text, rows[i].sentence);
        assert_null(root);
        assert_int_equal(jv_parse(rows[i].text, JSON_MAX_DEPTH, &root, NULL), TIDINGS_E_PARSE);
    }
}

static void nesting_is_limited_during_parsing(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned max;
        int rc;
    } rows[] = {
        {"[]", 0, TIDINGS_E_LIMIT},
        {"1", 0, 0},
        {"[]", 1, 0},
        {"[[]]", 1, TIDINGS_E_LIMIT},
        {"[[],[],[]]", 2, 0},
        {"{\"a\":[{}]}", 3, 0},
        {"{\"a\":[{}]}", 2, TIDINGS_E_LIMIT},
        {"[\"[[[[\"]", 1, 0},
        {"[\"\\\"[[[[\"]", 1, 0},
        {"[\"\\\\\",[]]", 1, TIDINGS_E_LIMIT},
        {"\"\\", 1, TIDINGS_E_PARSE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json *root = NULL;
        int rc = jv_parse(tidings_str(rows[i].text), rows[i].max, &root, NULL);
        assert_int_equal(rc, rows[i].rc);
        jv_unref(root);
    }
}

static void million_brackets_use_no_stack(void **state)
{
    (void)state;
    size_t len = 1000000;
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, '[', len);
    text[10] = '\n';
    struct json *root = NULL;
    struct tidings_error err = {0};
    assert_int_equal(jv_parse(tidings_strn(text, len), JSON_MAX_DEPTH, &root, &err),
                     TIDINGS_E_LIMIT);
    assert_string_equal(err.text, "line 2 column 55: nested deeper than 64 levels");
    /* A caller without its own limit still gets the parser's. */
    assert_int_equal(jv_parse(tidings_strn(text, len), UINT32_MAX, &root, &err), TIDINGS_E_LIMIT);
    assert_string_equal(err.text, "line 2 column 503: nested deeper than 512 levels");
    assert_null(root);
    free(text);
}

static void accessors_return_the_written_values(void **state)
{
    (void)state;
    struct json *v = parse("{\"s\":\"a\\u0000b\",\"i\":-9223372036854775808,\"r\":1.5,\"t\":true,"
                           "\"f\":false,\"n\":null,\"a\":[10,20],\"o\":{\"x\":1}}");
    assert_int_equal(jv_type(v), JV_OBJECT);
    assert_int_equal(jv_count(v), 8);
    assert_true(str_eq(jv_str(jv_get(v, "s")), tidings_strn("a\0b", 3)));
    assert_true(jv_int(jv_get(v, "i")) == INT64_MIN);
    assert_true(jv_real(jv_get(v, "r")) == 1.5);
    assert_true(jv_real(jv_at(jv_get(v, "a"), 1)) == 20.0);
    assert_true(jv_is_true(jv_get(v, "t")));
    assert_false(jv_is_true(jv_get(v, "f")));
    static const struct {
        const char *key;
        enum jv_type type;
    } types[] = {{"s", JV_STRING}, {"i", JV_INT},  {"r", JV_REAL},  {"t", JV_TRUE},
                 {"f", JV_FALSE},  {"n", JV_NULL}, {"a", JV_ARRAY}, {"o", JV_OBJECT}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        assert_true(jv_is(jv_get(v, types[i].key), types[i].type));
    }
    jv_unref(v);
}

static void wrong_types_and_null_pointers_are_harmless(void **state)
{
    (void)state;
    struct json *v = parse("[\"x\", 7, {}]");
    struct json *with[] = {NULL, v, jv_at(v, 0), jv_at(v, 1), jv_at(v, 2)};
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        struct tidings_str key;
        struct json *value;
        assert_null(jv_get(with[i], "missing"));
        assert_null(jv_at(with[i], 99));
        assert_null(jv_next(with[i], NULL, &key, &value));
        assert_false(jv_is_true(with[i]));
        assert_int_equal(jv_int(with[i]), i == 3 ? 7 : 0);
        assert_int_equal(jv_str(with[i]).len, i == 2 ? 1 : 0);
        assert_non_null(jv_str(with[i]).ptr);
        assert_int_equal(jv_count(with[i]), i == 1 ? 3 : 0);
    }
    assert_int_equal(jv_type(NULL), JV_NULL);
    assert_false(jv_is(NULL, JV_NULL));
    assert_null(jv_ref(NULL));
    jv_unref(NULL);
    jv_unref(v);
}

static void members_are_iterated_in_order(void **state)
{
    (void)state;
    struct json *v = parse("{\"one\":1,\"two\":2,\"three\":3}");
    static const char *const keys[] = {"one", "two", "three"};
    struct tidings_str key;
    struct json *value;
    int64_t n = 0;
    for (void *at = NULL; (at = jv_next(v, at, &key, &value));) {
        assert_true(n < 3 && str_eq(key, tidings_str(keys[n])));
        assert_int_equal(jv_int(value), ++n);
    }
    assert_int_equal(n, 3);
    jv_unref(v);
}

static void json_reference_keeps_subtree_alive(void **state)
{
    (void)state;
    struct json *v = parse("{\"id\":\"abc\"}");
    struct json *id = jv_ref(jv_get(v, "id"));
    jv_unref(v);
    assert_true(str_eq(jv_str(id), STR("abc")));
    jv_unref(id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_text_is_rejected_with_place_and_reason),
        cmocka_unit_test(nesting_is_limited_during_parsing),
        cmocka_unit_test(million_brackets_use_no_stack),
        cmocka_unit_test(accessors_return_the_written_values),
        cmocka_unit_test(wrong_types_and_null_pointers_are_harmless),
        cmocka_unit_test(members_are_iterated_in_order),
        cmocka_unit_test(json_reference_keeps_subtree_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
