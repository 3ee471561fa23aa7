/* SPDX-License-Identifier: MIT
 *
 * Page cursor cycles are detected, at any start and of any length; other cursor sequences pass.
 */
#include "client/calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static int next(struct page_cursors *c, unsigned number)
{
    char text[16];
    int n = snprintf(text, sizeof(text), "%u", number);
    return page_cursors_next(c, tidings_strn(text, (size_t)n));
}

static void distinct_cursors_pass(void **state)
{
    (void)state;
    struct page_cursors c = {0};
    for (unsigned i = 0; i < 20000; i++) {
        assert_int_equal(next(&c, i), 0);
    }
    struct page_cursors empty = {0};
    assert_int_equal(page_cursors_next(&empty, tidings_str("")), 0);
    assert_int_equal(page_cursors_next(&empty, tidings_str("")), TIDINGS_E_PARSE);
}

static void cursor_cycles_are_detected(void **state)
{
    (void)state;
    for (unsigned tail = 0; tail < 40; tail++) {
        for (unsigned length = 1; length < 40; length++) {
            struct page_cursors c = {0};
            unsigned n = 0;
            while (next(&c, n < tail ? n : tail + (n - tail) % length) == 0) {
                n++;
            }
            assert_true(n >= tail + length);
            assert_true(n < 3 * (tail + length) + 1);
        }
    }
}

static void long_cursors_are_rejected(void **state)
{
    (void)state;
    struct page_cursors c = {0};
    char *text = calloc(1, PAGE_CURSOR_MAX + 1);
    assert_non_null(text);
    assert_int_equal(page_cursors_next(&c, tidings_strn(text, PAGE_CURSOR_MAX)), 0);
    assert_int_equal(page_cursors_next(&c, tidings_strn(text, PAGE_CURSOR_MAX + 1)),
                     TIDINGS_E_LIMIT);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distinct_cursors_pass),
        cmocka_unit_test(cursor_cycles_are_detected),
        cmocka_unit_test(long_cursors_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
