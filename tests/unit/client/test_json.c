/* SPDX-License-Identifier: MIT
 *
 * JSON for programs: members by pointer, strings as they read, merge patches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

static void strings_are_given_as_they_read(void **state)
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

static void a_merge_patch_is_applied(void **state)
{
    (void)state;
    merge("{\"a\":1,\"b\":{\"c\":2}}", "{\"a\":null,\"b\":{\"d\":3}}", "{\"b\":{\"c\":2,\"d\":3}}");
    merge("[1]", "{\"a\":{\"b\":null}}", "{\"a\":{}}");
    merge("", "{\"a\":1}", "{\"a\":1}");
    merge("{\"a\":1}", "7", "7");
    merge("{\"a\":", "{}", NULL);
    merge("{}", "", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_found_by_pointer),
        cmocka_unit_test(strings_are_given_as_they_read),
        cmocka_unit_test(a_merge_patch_is_applied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
