/* SPDX-License-Identifier: MIT
 *
 * Counts of calls: rows by name, their bound, and sums over workers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/protocol/feature.h"

static struct tool_counts *counts_new(void)
{
    struct tool_counts *t = test_calloc(1, sizeof(*t));
    return t;
}

static void calls_are_counted_by_tool_and_outcome(void **state)
{
    (void)state;
    struct tool_counts *t = counts_new();
    tool_counts_add(t, STR("a"), TIDINGS_CALL_OK, 300);
    tool_counts_add(t, STR("b"), TIDINGS_CALL_ERROR, 5);
    tool_counts_add(t, STR("a"), TIDINGS_CALL_OK, 100);
    tool_counts_add(t, STR("a"), TIDINGS_CALL_TIMEOUT, 200);
    assert_int_equal(t->count, 2);
    const struct tool_count *a = &t->rows[0];
    assert_string_equal(a->name, "a");
    assert_int_equal(a->outcomes[TIDINGS_CALL_OK], 2);
    assert_int_equal(a->outcomes[TIDINGS_CALL_TIMEOUT], 1);
    assert_int_equal(a->min_us, 100);
    assert_int_equal(a->max_us, 300);
    assert_int_equal(a->took.sum_us, 600);
    assert_int_equal(durations_total(&a->took), 3);
    assert_int_equal(t->rows[1].outcomes[TIDINGS_CALL_ERROR], 1);
    test_free(t);
}

static void tools_over_the_bound_share_a_row(void **state)
{
    (void)state;
    struct tool_counts *t = counts_new(), *sum = counts_new();
    char name[16];
    for (unsigned i = 0; i < TOOL_COUNTS_ROWS + 10; i++) {
        snprintf(name, sizeof(name), "tool%u", i);
        tool_counts_add(t, tidings_str(name), TIDINGS_CALL_OK, 1);
    }
    assert_int_equal(t->count, TOOL_COUNTS_ROWS);
    const struct tool_count *others = &t->rows[TOOL_COUNTS_ROWS];
    assert_string_equal(others->name, "");
    assert_int_equal(others->outcomes[TIDINGS_CALL_OK], 10);
    /* Another worker had other tools first: the sum is bounded too, and no call is lost. */
    tool_counts_add(sum, STR("z"), TIDINGS_CALL_OK, 7);
    tool_counts_merge(sum, t);
    tool_counts_merge(sum, t);
    assert_int_equal(sum->count, TOOL_COUNTS_ROWS);
    uint64_t calls = 0;
    for (size_t i = 0; i <= TOOL_COUNTS_ROWS; i++) {
        calls += durations_total(&sum->rows[i].took);
    }
    assert_int_equal(calls, 1 + 2 * (TOOL_COUNTS_ROWS + 10));
    assert_int_equal(sum->rows[TOOL_COUNTS_ROWS].outcomes[TIDINGS_CALL_OK], 22);
    assert_int_equal(sum->rows[TOOL_COUNTS_ROWS].min_us, 1);
    test_free(t);
    test_free(sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_counted_by_tool_and_outcome),
        cmocka_unit_test(tools_over_the_bound_share_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
