/* SPDX-License-Identifier: MIT
 *
 * Leases: never two holders, however long the answers take. */
#include "cluster/owned_mounts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NEVER INT64_MIN

static void lease_is_granted_if_free_or_to_its_holder(void **state)
{
    (void)state;
    assert_true(lease_may_be_given(false, 0, NEVER, 10000, 1));
    assert_false(lease_may_be_given(false, 100, NEVER, 10000, 99));
    assert_true(lease_may_be_given(false, 100, NEVER, 10000, 100));
    assert_true(lease_may_be_given(true, 100, NEVER, 10000, 50));
    assert_true(lease_may_be_given(true, 100, NEVER, 10000, 500));
    assert_false(lease_may_be_given(true, 100, NEVER, 0, 500));
    assert_false(lease_may_be_given(true, 100, NEVER, -1, 500));
    assert_true(lease_may_be_given(true, 100, NEVER, LEASE_MAX_MS, 500));
    assert_false(lease_may_be_given(true, 100, NEVER, LEASE_MAX_MS + 1, 500));
}

static void leases_are_withheld_after_a_loss_until_all_expired(void **state)
{
    (void)state;
    assert_false(lease_may_be_given(false, 0, 1000, 10, 1000));
    assert_false(lease_may_be_given(true, 5000, 1000, 10, 1000 + LEASE_MAX_MS - 1));
    assert_true(lease_may_be_given(false, 0, 1000, 10, 1000 + LEASE_MAX_MS));
    /* that server's clock was slow */
    assert_false(lease_may_be_given(false, 0, 1000, 10, -100000));
}

static void holder_stops_before_the_store_frees_the_lease(void **state)
{
    (void)state;
    struct lease l = {0};
    assert_false(lease_is_held(&l, 0));
    lease_answered(&l, true, 1000, 8000);
    assert_true(lease_is_held(&l, 1000));
    assert_true(lease_is_held(&l, 7999));
    assert_false(lease_is_held(&l, 8000)); /* 9000 minus one eighth */
    assert_true(l.renew_ms > 1000 && l.renew_ms < 8000 / 2);
    lease_answered(&l, true, 4000, 8000);
    assert_true(lease_is_held(&l, 10999));
    assert_false(lease_is_held(&l, 11000));
    lease_answered(&l, false, 5000, 8000);
    assert_false(lease_is_held(&l, 5001));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lease_is_granted_if_free_or_to_its_holder),
        cmocka_unit_test(leases_are_withheld_after_a_loss_until_all_expired),
        cmocka_unit_test(holder_stops_before_the_store_frees_the_lease),
    };
    return cmocka_run_group_tests_name("leases", tests, NULL, NULL);
}
