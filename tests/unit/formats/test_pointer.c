/* SPDX-License-Identifier: MIT
 *
 * JSON pointers: the examples of RFC 6901 §5, and invalid pointers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "formats/json.h"

static struct json *root;

static int setup(void **state)
{
    (void)state;
    static const char text[] =
        "{\"foo\":[\"bar\",\"baz\"],\"\":0,\"a/b\":1,\"c%d\":2,\"e^f\":3,\"g|h\":4,"
        "\"i\\\\j\":5,\"k\\\"l\":6,\" \":7,\"m~n\":8,\"0\":9}";
    return jv_parse(tidings_str(text), 8, &root, NULL);
}

static int teardown(void **state)
{
    (void)state;
    jv_unref(root);
    return 0;
}

static void rfc_examples_give_their_values(void **state)
{
    (void)state;
    static const struct {
        const char *pointer;
        int value;
    } rows[] = {{"/", 0},     {"/a~1b", 1}, {"/c%d", 2}, {"/e^f", 3},  {"/g|h", 4},
                {"/i\\j", 5}, {"/k\"l", 6}, {"/ ", 7},   {"/m~0n", 8}, {"/0", 9}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct json *v = jv_point(root, tidings_str(rows[i].pointer));
        assert_true(jv_is(v, JV_INT));
        assert_int_equal(jv_int(v), rows[i].value);
    }
    assert_ptr_equal(jv_point(root, tidings_str("")), root);
    assert_true(jv_is(jv_point(root, tidings_str("/foo")), JV_ARRAY));
    assert_int_equal(jv_str(jv_point(root, tidings_str("/foo/1"))).ptr[2], 'z');
}

static void invalid_pointers_find_nothing(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "foo", "/foo/2", "/foo/-",   "/foo/01", "/foo/+1", "/foo/",   "/m~n",
        "/m~", "/m~2n",  "/foo/0/x", "/a~1b/",  "/nope",   "/foo/ 1", "/foo/18446744073709551616"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_null(jv_point(root, tidings_str(rows[i])));
    }
    char longest[2000];
    memset(longest, 'x', sizeof(longest));
    longest[0] = '/';
    assert_null(jv_point(root, tidings_strn(longest, sizeof(longest))));
    assert_null(jv_point(NULL, tidings_str("/foo")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc_examples_give_their_values),
        cmocka_unit_test(invalid_pointers_find_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
