/* SPDX-License-Identifier: MIT
 *
 * The client stops requesting pages if they form a cycle, are too many, or take too long in total.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "cli/range.h"

static int next(struct pages *p, unsigned number, struct tidings_error *err)
{
    char cursor[16];
    snprintf(cursor, sizeof(cursor), "%u", number);
    return pages_next(p, cursor, 30000, err);
}

static void endless_pages_are_limited(void **state)
{
    (void)state;
    struct pages p = {0};
    struct tidings_error err = {0};
    unsigned count = 1;
    while (next(&p, count, &err) == 0) {
        count++;
    }
    assert_int_equal(count, 10000);
    assert_int_equal(err.code, TIDINGS_E_LIMIT);
    pages_deinit(&p);
}

static void page_cycle_is_detected(void **state)
{
    (void)state;
    struct pages p = {0};
    struct tidings_error err = {0};
    unsigned count = 0;
    while (next(&p, count < 5 ? count : 5 + count % 7, &err) == 0) {
        count++;
    }
    assert_in_range(count, 12, 36);
    assert_int_equal(err.code, TIDINGS_E_PARSE);
    pages_deinit(&p);
}

static void slow_pages_are_aborted(void **state)
{
    (void)state;
    struct pages p = {0};
    struct tidings_error err = {0};
    for (unsigned i = 1; i <= 10; i++) {
        p.waited_ms += 30000;
        assert_int_equal(next(&p, i, &err), 0);
    }
    p.waited_ms += 1;
    assert_int_equal(next(&p, 11, &err), TIDINGS_E_TIMEOUT);
    assert_string_equal(err.text, "11 pages took 300001 ms, and there are more");
    assert_int_equal(pages_next(&p, "12", 0, &err), TIDINGS_E_TIMEOUT); /* the same */
    p.waited_ms -= 1;
    assert_int_equal(pages_next(&p, "13", 0, &err), 0);
    assert_int_equal(pages_next(&p, "14", 60000, &err), 0);
    pages_deinit(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endless_pages_are_limited),
        cmocka_unit_test(page_cycle_is_detected),
        cmocka_unit_test(slow_pages_are_aborted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
