/* SPDX-License-Identifier: MIT
 *
 * The clock of a store as a node knows it: it goes on by the clock that nobody sets, quick answers
 * count more than slow ones, and a difference is told only when it is certain.
 */
#include "cluster/postgres_nodes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void before_it_was_heard_the_own_one_counts(void **state)
{
    (void)state;
    struct store_clock c = {0};
    assert_int_equal(store_clock_now(&c, 77, 1234567), 1234567);
    assert_int_equal(store_clock_off(&c, 77, 1234567), 0);
}

static void it_goes_on_without_the_own_one(void **state)
{
    (void)state;
    struct store_clock c = {0};
    store_clock_update(&c, 1000000, 500, 510);
    assert_int_equal(store_clock_now(&c, 505, 0), 1000000);
    assert_int_equal(store_clock_now(&c, 5505, 99), 1005000);
    /* Set by a minute, either way. */
    assert_int_equal(store_clock_off(&c, 5505, 1005000 + 60000), 60000);
    assert_int_equal(store_clock_off(&c, 5505, 1005000 - 60000), -60000);
    assert_int_equal(store_clock_off(&c, 5505, 1005000 + STORE_CLOCK_OFF_MS), 0);
    assert_int_equal(store_clock_off(&c, 5505, 1005000 + STORE_CLOCK_OFF_MS + 11),
                     STORE_CLOCK_OFF_MS + 11);
}

/* The node stood still between the answer and reading it: that is no wrong clock. */
static void a_slow_answer_does_not_count_beside_a_quick_one(void **state)
{
    (void)state;
    struct store_clock c = {0};
    store_clock_update(&c, 1000000, 500, 510);
    store_clock_update(&c, 1001000, 1505, 8505);
    assert_int_equal(store_clock_now(&c, 8505, 0), 1008000);
    /* But when there is no other, with what it cannot know. */
    struct store_clock alone = {0};
    store_clock_update(&alone, 1001000, 1505, 8505);
    assert_int_equal(store_clock_off(&alone, 8505, 1008000), 0);
    assert_int_equal(store_clock_off(&alone, 8505, 1008000 + 60000), 60000 + 3500);
    /* And when the quick one is old. */
    store_clock_update(&c, 1021000, 20505, 21505);
    assert_int_equal(store_clock_now(&c, 21005, 0), 1021000);
}

static void after_doubt_whatever_is_said_is_taken(void **state)
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

static void what_no_clock_says_is_not_believed(void **state)
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
        cmocka_unit_test(before_it_was_heard_the_own_one_counts),
        cmocka_unit_test(it_goes_on_without_the_own_one),
        cmocka_unit_test(a_slow_answer_does_not_count_beside_a_quick_one),
        cmocka_unit_test(after_doubt_whatever_is_said_is_taken),
        cmocka_unit_test(what_no_clock_says_is_not_believed),
    };
    return cmocka_run_group_tests_name("the clock of a store", tests, NULL, NULL);
}
