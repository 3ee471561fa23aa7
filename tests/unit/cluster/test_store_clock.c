/* SPDX-License-Identifier: MIT
 *
 * A node's estimate of the store's clock. It advances with the monotonic clock, prefers quick
 * answers over slow ones, and reports a difference only when it is certain. */
#include "cluster/postgres_nodes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void local_clock_counts_before_the_first_answer(void **state)
{
    (void)state;
    struct store_clock c = {0};
    assert_int_equal(store_clock_now(&c, 77, 1234567), 1234567);
    assert_int_equal(store_clock_off(&c, 77, 1234567), 0);
}

static void store_clock_advances_if_the_local_clock_is_set(void **state)
{
    (void)state;
    struct store_clock c = {0};
    store_clock_update(&c, 1000000, 500, 510);
    assert_int_equal(store_clock_now(&c, 505, 0), 1000000);
    assert_int_equal(store_clock_now(&c, 5505, 99), 1005000);
    /* Set by a minute, forward or back. */
    assert_int_equal(store_clock_off(&c, 5505, 1005000 + 60000), 60000);
    assert_int_equal(store_clock_off(&c, 5505, 1005000 - 60000), -60000);
    assert_int_equal(store_clock_off(&c, 5505, 1005000 + STORE_CLOCK_OFF_MS), 0);
    assert_int_equal(store_clock_off(&c, 5505, 1005000 + STORE_CLOCK_OFF_MS + 11),
                     STORE_CLOCK_OFF_MS + 11);
}

/* The node stalled between the answer and reading it. That does not mean the clock is wrong. */
static void slow_answer_does_not_override_a_quick_one(void **state)
{
    (void)state;
    struct store_clock c = {0};
    store_clock_update(&c, 1000000, 500, 510);
    store_clock_update(&c, 1001000, 1505, 8505);
    assert_int_equal(store_clock_now(&c, 8505, 0), 1008000);
    /* Without another answer it counts, with its uncertainty. */
    struct store_clock alone = {0};
    store_clock_update(&alone, 1001000, 1505, 8505);
    assert_int_equal(store_clock_off(&alone, 8505, 1008000), 0);
    assert_int_equal(store_clock_off(&alone, 8505, 1008000 + 60000), 60000 + 3500);
    /* It also counts if the quick one is old. */
    store_clock_update(&c, 1021000, 20505, 21505);
    assert_int_equal(store_clock_now(&c, 21005, 0), 1021000);
}

static void any_answer_is_accepted_after_doubt(void **state)
{
    (void)state;
    struct store_clock c = {0};
    store_clock_update(&c, 1000000, 500, 510);
    store_clock_doubt(&c);
    assert_int_equal(store_clock_now(&c, 505, 0), 1000000); /* until then */
    assert_int_equal(store_clock_off(&c, 505, 1000000 + 60000), 60000);
    store_clock_update(&c, 400000, 600, 800);
    assert_int_equal(store_clock_now(&c, 700, 0), 400000);
}

static void implausible_answers_are_ignored(void **state)
{
    (void)state;
    struct store_clock c = {0};
    store_clock_update(&c, INT64_MAX, 1, 2);
    store_clock_update(&c, -1, 1, 2);
    assert_int_equal(store_clock_now(&c, 5, 42), 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(local_clock_counts_before_the_first_answer),
        cmocka_unit_test(store_clock_advances_if_the_local_clock_is_set),
        cmocka_unit_test(slow_answer_does_not_override_a_quick_one),
        cmocka_unit_test(any_answer_is_accepted_after_doubt),
        cmocka_unit_test(implausible_answers_are_ignored),
    };
    return cmocka_run_group_tests_name("the clock of a store", tests, NULL, NULL);
}
