/* SPDX-License-Identifier: MIT
 *
 * The owner of a mount: it watches before it announces anything, first asks every client to read
 * again, and stops in time. */
#include "cluster/owned_mounts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define OVER (OWNER_LEASE_MS - OWNER_LEASE_MS / 8) /* when the holder stops, after its request */

static struct owner given(uint64_t asked_ms)
{
    struct owner o = {0};
    assert_true(owner_must_ask(&o, asked_ms));
    owner_answered(&o, true, 0, asked_ms, asked_ms + 10);
    assert_int_equal(o.stage, OWNER_STARTING);
    return o;
}

static struct owner owning(uint64_t asked_ms)
{
    struct owner o = given(asked_ms);
    owner_started(&o, o.term, asked_ms + 20);
    owner_entered(&o, o.term, asked_ms + 30);
    assert_int_equal(o.stage, OWNER_OWNING);
    return o;
}

static void announcements_wait_for_the_watch_and_the_reread_request(void **state)
{
    (void)state;
    struct owner o = given(1000);
    assert_false(
        owner_may_enter(&o, o.term, 1020)); /* changes before the watch starts are unseen */
    assert_false(owner_may_announce(&o, 1020));
    owner_entered(&o, o.term, 1020);
    assert_int_equal(o.stage, OWNER_STARTING);
    owner_started(&o, o.term, 1030);
    assert_true(owner_may_enter(&o, o.term, 1030));
    assert_false(owner_may_announce(&o, 1030));
    owner_entered(&o, o.term, 1040);
    assert_true(owner_may_announce(&o, 1040));
    assert_true(owner_may_enter(&o, o.term, 1040));
}

static void lease_is_renewed_in_time(void **state)
{
    (void)state;
    struct owner o = owning(1000);
    uint64_t term = o.term;
    assert_false(owner_must_ask(&o, 1100));
    assert_true(owner_must_ask(&o, 1000 + OWNER_LEASE_MS / 3));
    owner_answered(&o, true, 0, 3000, 3010);
    assert_int_equal(o.stage, OWNER_OWNING);
    assert_int_equal(o.term, term);
    assert_true(owner_may_announce(&o, 3000 + OVER - 1));
    assert_false(owner_may_announce(&o, 3000 + OVER));
}

static void ownership_ends_if_the_store_is_unreachable(void **state)
{
    (void)state;
    struct owner o = owning(1000);
    owner_unanswered(&o, 3000);
    assert_int_equal(o.stage, OWNER_OWNING);
    assert_false(owner_must_ask(&o, 3001));
    assert_true(owner_must_ask(&o, 3000 + OWNER_ASK_MS));
    assert_true(owner_may_announce(&o, 1000 + OVER - 1));
    assert_false(owner_may_announce(&o, 1000 + OVER)); /* although the state was not checked yet */
    assert_false(owner_may_enter(&o, o.term, 1000 + OVER));
    owner_unanswered(&o, 1000 + OVER);
    assert_int_equal(o.stage, OWNER_WAITING);
}

/* Between the two it dropped the changes it saw. */
static void owner_starts_over_if_it_regains_an_expired_lease(void **state)
{
    (void)state;
    struct owner o = owning(1000);
    uint64_t term = o.term;
    owner_answered(&o, true, 0, 1000 + OVER - 5,
                   1000 + OVER + 1); /* asked in time, answered late */
    assert_int_equal(o.stage, OWNER_STARTING);
    assert_int_equal(o.term, term + 1);
    owner_started(&o, term, 1000 + OVER + 2);
    assert_int_equal(o.stage, OWNER_STARTING); /* of the previous term */
    owner_started(&o, term + 1, 1000 + OVER + 2);
    owner_entered(&o, term, 1000 + OVER + 3);
    assert_int_equal(o.stage, OWNER_ENTERING);
    assert_false(owner_may_enter(&o, term, 1000 + OVER + 3));
    assert_false(owner_may_announce(&o, 1000 + OVER + 3));
}

static void grant_is_ignored_if_the_answer_took_a_lease_time(void **state)
{
    (void)state;
    struct owner o = {0};
    owner_answered(&o, true, 0, 1000, 1000 + OVER);
    assert_int_equal(o.stage, OWNER_WAITING);
}

static void former_owner_waits_until_the_lease_is_free(void **state)
{
    (void)state;
    struct owner o = owning(1000);
    owner_answered(&o, false, 4000, 3000, 3010);
    assert_int_equal(o.stage, OWNER_WAITING);
    assert_false(owner_may_announce(&o, 3010));
    assert_false(owner_must_ask(&o, 3009 + OWNER_ASK_MS));
    assert_true(owner_must_ask(&o, 3010 + OWNER_ASK_MS));
    owner_answered(&o, false, 300, 4010, 4010); /* it becomes free before the next request is due */
    assert_false(owner_must_ask(&o, 4309));
    assert_true(owner_must_ask(&o, 4310));
    owner_answered(&o, false, -1, 5000, 5000); /* it has no holder and is not granted now */
    assert_true(owner_must_ask(&o, 5000 + OWNER_ASK_MS));
    assert_false(owner_must_ask(&o, 4999 + OWNER_ASK_MS));
}

static void owner_releases_the_lease_if_it_cannot_watch(void **state)
{
    (void)state;
    struct owner o = given(1000);
    owner_give_up(&o, o.term + 1, 1010);
    assert_int_equal(o.stage, OWNER_STARTING);
    owner_give_up(&o, o.term, 1010);
    assert_int_equal(o.stage, OWNER_WAITING);
    assert_false(owner_must_ask(&o, 1009 + OWNER_GIVEN_UP_MS));
    assert_true(owner_must_ask(&o, 1010 + OWNER_GIVEN_UP_MS));
    owner_started(&o, o.term, 1020);
    assert_int_equal(o.stage, OWNER_WAITING);
    owner_answered(&o, true, 0, 1005, 1030); /* requested before the release */
    assert_int_equal(o.stage, OWNER_WAITING);
    assert_false(owner_must_ask(&o, 1009 + OWNER_GIVEN_UP_MS));
    owner_answered(&o, true, 0, 1010 + OWNER_GIVEN_UP_MS, 1020 + OWNER_GIVEN_UP_MS);
    assert_int_equal(o.stage, OWNER_STARTING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(announcements_wait_for_the_watch_and_the_reread_request),
        cmocka_unit_test(lease_is_renewed_in_time),
        cmocka_unit_test(ownership_ends_if_the_store_is_unreachable),
        cmocka_unit_test(owner_starts_over_if_it_regains_an_expired_lease),
        cmocka_unit_test(grant_is_ignored_if_the_answer_took_a_lease_time),
        cmocka_unit_test(former_owner_waits_until_the_lease_is_free),
        cmocka_unit_test(owner_releases_the_lease_if_it_cannot_watch),
    };
    return cmocka_run_group_tests_name("owners", tests, NULL, NULL);
}
