/* SPDX-License-Identifier: MIT
 *
 * What was heard of others' batches: only what begins right after what was followed is followed.
 */
#include "cluster/follow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static struct heard heard;

static void hear(const char *text)
{
    assert_true(heard_add(&heard, tidings_str(text), 10));
}

static int forget(void **state)
{
    (void)state;
    heard_clear(&heard);
    assert_int_equal(heard.count, 0);
    assert_int_equal(heard.notified, 0);
    return 0;
}

static void the_one_that_begins_right_after_is_found(void **state)
{
    (void)state;
    struct row_notice_head head;
    hear("15 15 x");
    hear("13 14 y");
    hear("11 12 z");
    assert_int_equal(heard.notified, 15);
    assert_true(heard_find(&heard, 10, &head));
    assert_int_equal(head.to, 12);
    assert_true(heard_find(&heard, 12, &head));
    assert_int_equal(head.to, 14);
    assert_false(heard_find(&heard, 11, &head)); /* the middle of one */
    assert_false(heard_find(&heard, 13, &head));
    assert_false(heard_find(&heard, 15, &head));
    assert_false(heard_find(&heard, UINT64_MAX, &head));
}

static void what_was_followed_is_passed_over(void **state)
{
    (void)state;
    struct row_notice_head head;
    hear("10");
    hear("9 10 x");
    assert_int_equal(heard.count, 0);
    assert_int_equal(heard.notified, 0);
    hear("9 11 x"); /* partly */
    assert_int_equal(heard.notified, 11);
    assert_false(heard_find(&heard, 10, &head));
}

static void positions_alone_say_how_far_it_is(void **state)
{
    (void)state;
    struct row_notice_head head;
    hear("12");
    hear("11 11 x");
    assert_int_equal(heard.notified, 12);
    assert_true(heard_find(&heard, 10, &head));
    assert_false(heard_find(&heard, 11, &head)); /* so it is asked for */
}

static void what_strangers_say_is_no_notification(void **state)
{
    (void)state;
    static const char *const said[] = {"",
                                       "x",
                                       "-1",
                                       " 11 12 x",
                                       "11 12",
                                       "11 12 ",
                                       "12 11 x",
                                       "0 11 x",
                                       "1e3",
                                       "11 12x y",
                                       "11  12 x",
                                       "99999999999999999999",
                                       "11 9999999 x"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        if (heard_add(&heard, tidings_str(said[i]), 10)) {
            fail_msg("'%s' is taken", said[i]);
        }
    }
    assert_int_equal(heard.count, 0);
    assert_int_equal(heard.notified, 0);
}

static void of_more_than_there_is_room_for_the_store_is_asked(void **state)
{
    (void)state;
    struct row_notice_head head;
    char text[32];
    for (unsigned i = 0; i < HEARD_MAX + 3; i++) {
        (void)snprintf(text, sizeof text, "%u %u x", 11 + i, 11 + i);
        hear(text);
    }
    assert_int_equal(heard.count, HEARD_MAX);
    assert_int_equal(heard.notified, 13 + HEARD_MAX);
    assert_true(heard_find(&heard, 9 + HEARD_MAX, &head));
    assert_false(heard_find(&heard, 10 + HEARD_MAX, &head));
}

#define CASE(name) cmocka_unit_test_teardown(name, forget)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_one_that_begins_right_after_is_found),
        CASE(what_was_followed_is_passed_over),
        CASE(positions_alone_say_how_far_it_is),
        CASE(what_strangers_say_is_no_notification),
        CASE(of_more_than_there_is_room_for_the_store_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
