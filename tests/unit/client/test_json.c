/* SPDX-License-Identifier: MIT
 *
 * JSON for programs: members by pointer, decoded strings, output for users and machines, merge
 * patches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <tidings/json.h>

static const char text[] =
    "{\"a\":[1,{\"b/c\":\"x\\n\\u00e9\"}],\"s\":\"\",\"n\":null,\"nul\":\"a\\u0000b\"}";

static void check(char *got, const char *expected)
{
    if (expected) {
        assert_non_null(got);
        assert_string_equal(got, expected);
    } else {
        assert_null(got);
    }
    tidings_free(got);
}

static void members_are_found_by_pointer(void **state)
{
    (void)state;
    struct tidings_str json = tidings_str(text);
    check(tidings_json_get(json, "/a"), "[1,{\"b/c\":\"x\\né\"}]");
    check(tidings_json_get(json, "/a/0"), "1");
    check(tidings_json_get(json, "/a/1/b~1c"), "\"x\\né\"");
    check(tidings_json_get(json, "/n"), "null");
    check(tidings_json_get(json, "/b"), NULL);
    check(tidings_json_get(tidings_str(" {\"a\": 1} "), ""), "{\"a\":1}");
    check(tidings_json_get(tidings_str("{"), ""), NULL);
}

static void strings_are_returned_decoded(void **state)
{
    (void)state;
    struct tidings_str json = tidings_str(text);
    check(tidings_json_string(json, "/a/1/b~1c"), "x\né");
    check(tidings_json_string(json, "/s"), "");
    check(tidings_json_string(json, "/a/0"), NULL);
    check(tidings_json_string(json, "/nul"), NULL);
    check(tidings_json_string(json, "/b"), NULL);
    check(tidings_json_string(tidings_str("nonsense"), ""), NULL);
}

static void merge(const char *target, const char *patch, const char *expected)
{
    struct tidings_error err = {0, ""};
    check(tidings_json_merge(tidings_str(target), tidings_str(patch), &err), expected);
    assert_int_equal(expected == NULL, err.code < 0);
    assert_int_equal(expected == NULL, err.text[0] != '\0');
}

static void merge_patch_is_applied(void **state)
{
    (void)state;
    merge("{\"a\":1,\"b\":{\"c\":2}}", "{\"a\":null,\"b\":{\"d\":3}}", "{\"b\":{\"c\":2,\"d\":3}}");
    merge("[1]", "{\"a\":{\"b\":null}}", "{\"a\":{}}");
    merge("", "{\"a\":1}", "{\"a\":1}");
    merge("{\"a\":1}", "7", "7");
    merge("{\"a\":", "{}", NULL);
    merge("{}", "", NULL);
}

static void base64_is_decoded_to_bytes(void **state)
{
    (void)state;
    struct tidings_str json = tidings_str("{\"b\":\"AAH/\",\"e\":\"\",\"x\":\"A\",\"n\":1}");
    size_t len = 99;
    char *bytes = tidings_json_bytes(json, "/b", &len);
    assert_non_null(bytes);
    assert_int_equal(len, 3);
    assert_memory_equal(bytes, "\0\1\xff", 4); /* and a NUL */
    tidings_free(bytes);
    bytes = tidings_json_bytes(json, "/e", &len);
    assert_non_null(bytes);
    assert_int_equal(len, 0);
    assert_string_equal(bytes, "");
    tidings_free(bytes);
    assert_null(tidings_json_bytes(json, "/x", &len));
    assert_null(tidings_json_bytes(json, "/n", &len));
    assert_null(tidings_json_bytes(tidings_str("{"), "/n", &len));
}

static void strings_can_contain_nul(void **state)
{
    (void)state;
    struct tidings_str json = tidings_str("{\"t\":\"a\\u0000b\",\"n\":1}");
    size_t len = 99;
    char *held = tidings_json_text(json, "/t", &len);
    assert_non_null(held);
    assert_int_equal(len, 3);
    assert_memory_equal(held, "a\0b", 4); /* and a NUL */
    tidings_free(held);
    assert_null(tidings_json_text(json, "/n", &len));
    assert_null(tidings_json_text(json, "/none", &len));
    assert_null(tidings_json_text(tidings_str("{"), "/t", &len));
}

struct notifications {
    char text[256];
    int stop_after;
};

static int hear(void *user, struct tidings_str key, struct tidings_str value)
{
    struct notifications *h = user;
    size_t n = strlen(h->text);
    assert_int_equal(strlen(value.ptr), value.len);
    snprintf(h->text + n, sizeof(h->text) - n, "%s=%s;", key.ptr, value.ptr);
    return --h->stop_after == 0 ? 7 : 0;
}

static void each(const char *json, const char *pointer, int stop_after, int rc, const char *told)
{
    struct notifications h = {"", stop_after};
    assert_int_equal(tidings_json_each(tidings_str(json), pointer, hear, &h), rc);
    assert_string_equal(h.text, told);
}

static void members_and_elements_are_visited_in_order(void **state)
{
    (void)state;
    const char *json = "{ \"z\": [1, \"x\"], \"a\": {\"b\": null} }";
    each(json, "", 0, 0, "z=[1,\"x\"];a={\"b\":null};");
    each(json, "", 1, 7, "z=[1,\"x\"];");
    each(json, "/z", 0, 0, "=1;=\"x\";");
    each(json, "/a", 0, 0, "b=null;");
    each(json, "/a/b", 0, TIDINGS_E_NOTFOUND, "");
    each(json, "/q", 0, TIDINGS_E_NOTFOUND, "");
    each("[]", "", 0, 0, "");
    each("nonsense", "", 0, TIDINGS_E_NOTFOUND, "");
}

static void text_is_quoted(void **state)
{
    (void)state;
    check(tidings_json_quote(tidings_str("a\"\n\x1b é")), "\"a\\\"\\n\\u001b é\"");
    check(tidings_json_quote(tidings_str("\xff")), "\"\xef\xbf\xbd\"");
    check(tidings_json_quote(tidings_str("")), "\"\"");
    check(tidings_json_quote_bytes(tidings_strn("\0\1\xff", 3)), "\"AAH/\"");
    check(tidings_json_quote_bytes(tidings_str("")), "\"\"");
}

static void compact(const char *json, const char *expected, const char *why)
{
    struct tidings_error err = {0, ""};
    check(tidings_json_compact(tidings_str(json), &err), expected);
    assert_non_null(strstr(err.text, why));
}

static void loose_input_becomes_json(void **state)
{
    (void)state;
    compact("// a\n{\"a\": [1, 2, /* , */ ], \"b\": \"//,}\",\n}\n", "{\"a\":[1,2],\"b\":\"//,}\"}",
            "");
    compact("{\"a\": \"\\\",]\",}", "{\"a\":\"\\\",]\"}", "");
    compact("[,]", "[]", "");
    compact("{\n/* never", NULL, "line 2");
    compact("{\n\n\"a\":}", NULL, "line 3");
}

static void json_is_pretty_printed(void **state)
{
    (void)state;
    check(tidings_json_pretty(tidings_str("{\"a\": [1], \"b\":{}}")),
          "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}");
    check(tidings_json_pretty(tidings_str("{")), NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_found_by_pointer),
        cmocka_unit_test(strings_are_returned_decoded),
        cmocka_unit_test(base64_is_decoded_to_bytes),
        cmocka_unit_test(strings_can_contain_nul),
        cmocka_unit_test(members_and_elements_are_visited_in_order),
        cmocka_unit_test(text_is_quoted),
        cmocka_unit_test(loose_input_becomes_json),
        cmocka_unit_test(json_is_pretty_printed),
        cmocka_unit_test(merge_patch_is_applied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
