/* SPDX-License-Identifier: MIT
 *
 * Scopes as sets: adding, and whether one contains another.
 */
#include "client/oauth/documents.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void scopes_are_sets(void **state)
{
    struct buf all;
    (void)state;
    buf_init(&all, 64);
    scope_add(&all, STR("b a"));
    scope_add(&all, STR("a  c \x1b[1m \"q\""));
    assert_string_equal(all.ptr, "b a c");
    assert_true(scope_has(buf_str(&all), STR("c a")));
    assert_true(scope_has(buf_str(&all), STR("")));
    assert_false(scope_has(buf_str(&all), STR("c d")));
    assert_false(scope_has(STR(""), STR("d")));
    buf_deinit(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scopes_are_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
