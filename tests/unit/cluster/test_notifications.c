/* SPDX-License-Identifier: MIT
 *
 * Notifications about other nodes' batches: a node follows only a batch that starts right after the
 * last one it followed. */
#include "cluster/follow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static struct notifications notifications;

static void hear(const char *text)
{
    assert_true(notifications_add(&notifications, tidings_str(text), 10));
}

static int forget(void **state)
{
    (void)state;
    notifications_clear(&notifications);
    assert_int_equal(notifications.count, 0);
    assert_int_equal(notifications.notified, 0);
    return 0;
}

static void next_batch_is_found_by_its_first_position(void **state)
{
    (void)state;
    struct notify_payload_head head;
    hear("15 15 x");
    hear("13 14 y");
    hear("11 12 z");
    assert_int_equal(notifications.notified, 15);
    assert_true(notifications_find(&notifications, 10, &head));
    assert_int_equal(head.to, 12);
    assert_true(notifications_find(&notifications, 12, &head));
    assert_int_equal(head.to, 14);
    assert_false(notifications_find(&notifications, 11, &head)); /* the middle of a batch */
    assert_false(notifications_find(&notifications, 13, &head));
    assert_false(notifications_find(&notifications, 15, &head));
    assert_false(notifications_find(&notifications, UINT64_MAX, &head));
}

static void followed_batches_are_skipped(void **state)
{
    (void)state;
    struct notify_payload_head head;
    hear("10");
    hear("9 10 x");
    assert_int_equal(notifications.count, 0);
    assert_int_equal(notifications.notified, 0);
    hear("9 11 x"); /* in part */
    assert_int_equal(notifications.notified, 11);
    assert_false(notifications_find(&notifications, 10, &head));
}

static void positions_without_payload_show_the_progress(void **state)
{
    (void)state;
    struct notify_payload_head head;
    hear("12");
    hear("11 11 x");
    assert_int_equal(notifications.notified, 12);
    assert_true(notifications_find(&notifications, 10, &head));
    assert_false(notifications_find(&notifications, 11, &head)); /* so the node queries the store */
}

static void untrusted_messages_are_not_notifications(void **state)
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
        if (notifications_add(&notifications, tidings_str(said[i]), 10)) {
            fail_msg("'%s' is taken", said[i]);
        }
    }
    assert_int_equal(notifications.count, 0);
    assert_int_equal(notifications.notified, 0);
}

static void overflowing_notifications_query_store(void **state)
{
    (void)state;
    struct notify_payload_head head;
    char text[32];
    for (unsigned i = 0; i < NOTIFICATIONS_MAX + 3; i++) {
        (void)snprintf(text, sizeof text, "%u %u x", 11 + i, 11 + i);
        hear(text);
    }
    assert_int_equal(notifications.count, NOTIFICATIONS_MAX);
    assert_int_equal(notifications.notified, 13 + NOTIFICATIONS_MAX);
    assert_true(notifications_find(&notifications, 9 + NOTIFICATIONS_MAX, &head));
    assert_false(notifications_find(&notifications, 10 + NOTIFICATIONS_MAX, &head));
}

#define CASE(name) cmocka_unit_test_teardown(name, forget)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(next_batch_is_found_by_its_first_position),
        CASE(followed_batches_are_skipped),
        CASE(positions_without_payload_show_the_progress),
        CASE(untrusted_messages_are_not_notifications),
        CASE(overflowing_notifications_query_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
