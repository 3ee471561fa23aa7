/* SPDX-License-Identifier: MIT
 *
 * Fair shares: one principal gets its part of a limit, all anonymous local clients get everything
 * but the reserve, and an operator gets the reserve. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "security/client_account.h"
#include "security/limits.h"

#define MOST 256u

static struct limit_counters counters;
static struct client_accounts *all;

static int setup(void **state)
{
    (void)state;
    limit_counters_init(&counters);
    all = client_accounts_create();
    return all ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    client_accounts_destroy(all);
    return 0;
}

static struct share_taker taker(const char *name, bool is_operator)
{
    return (struct share_taker){.account = client_accounts_find(all, tidings_str(name), 0),
                                .is_operator = is_operator};
}

static bool take(const struct share_taker *who, size_t n, struct refusal *why)
{
    return share_take(&counters, LIMIT_CALLS, MOST, n, who, why);
}

static size_t take_all(const struct share_taker *who, struct refusal *why)
{
    size_t n = 0;
    while (take(who, 1, why)) {
        n++;
    }
    return n;
}

static void give(const struct share_taker *who, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        share_give(&counters, LIMIT_CALLS, 1, who->account);
    }
}

static void each_principal_gets_its_share(void **state)
{
    (void)state;
    struct share_taker ada = taker("token ada", false), bob = taker("token bob", false);
    struct refusal why;
    char text[REFUSAL_JSON], sentence[REFUSAL_SENTENCE];
    assert_int_equal(take_all(&ada, &why), 64);
    assert_true(why.is_own);
    assert_int_equal(why.share, 64);
    assert_string_equal(refusal_sentence(&why, sentence),
                        "too many tools and prompts under way at a time (--max-calls 256, at most "
                        "64 of one client); try again in 1 s");
    struct tidings_str json = refusal_json(&why, text);
    assert_true(str_eq(
        json, STR("{\"limit\":\"max-calls\",\"value\":256,\"share\":64,\"retryAfterMs\":1000}")));
    assert_int_equal(counters.hits[LIMIT_CALLS], 1);
    assert_int_equal(counters.share_hits[LIMIT_CALLS], 1);
    assert_int_equal(take_all(&bob, &why), 64);
    give(&ada, 64);
    give(&bob, 64);
    assert_int_equal(limit_in_use(&counters, LIMIT_CALLS), 0);
    assert_int_equal(*client_account_used(ada.account, LIMIT_CALLS), 0);
    client_account_release(ada.account);
    client_account_release(bob.account);
}

static void local_clients_get_all_but_the_reserve_for_an_operator(void **state)
{
    (void)state;
    struct share_taker local = taker(CLIENT_ACCOUNT_MACHINE, false),
                       ada = taker("token ada", false);
    struct share_taker root = taker("user uid:0", true);
    struct refusal why;
    assert_int_equal(take_all(&local, &why), 252);
    assert_false(why.is_own);
    assert_int_equal(why.share, 0);
    assert_false(take(&ada, 1, &why));
    assert_false(why.is_own);
    assert_int_equal(take_all(&root, &why), 4);
    assert_false(why.is_own);
    assert_int_equal(limit_in_use(&counters, LIMIT_CALLS), MOST);
    give(&local, 252);
    assert_int_equal(take_all(&root, &why), 64); /* its share and the reserve, including the four */
    assert_true(why.is_own);
    give(&root, 68);
    assert_int_equal(limit_in_use(&counters, LIMIT_CALLS), 0);
    client_account_release(local.account);
    client_account_release(ada.account);
    client_account_release(root.account);
}

static void bytes_are_shared_like_counts(void **state)
{
    (void)state;
    struct share_taker ada = taker("token ada", false);
    struct refusal why;
    assert_false(take(&ada, 65, &why));
    assert_int_equal(limit_in_use(&counters, LIMIT_CALLS), 0);
    assert_true(take(&ada, 60, &why));
    assert_true(take(&ada, 4, &why));
    assert_false(take(&ada, 1, &why));
    share_give(&counters, LIMIT_CALLS, 60, ada.account);
    share_give(&counters, LIMIT_CALLS, 4, ada.account);
    client_account_release(ada.account);
}

/* The parts of a limit for one principal, for all anonymous local clients, and for an operator
 * beside them. */
static void assert_divided(uint64_t most, size_t own, size_t local, size_t operators)
{
    struct share_taker ada = taker("token ada", false), root = taker("user uid:0", true);
    struct share_taker machine = taker(CLIENT_ACCOUNT_MACHINE, false);
    const struct share_taker *const who[] = {&ada, &machine, &root};
    const size_t expected[] = {own, local, operators};
    size_t held[] = {0, 0, 0};
    struct refusal why;
    for (size_t i = 0; i < 3; i++) {
        while (share_take(&counters, LIMIT_CALLS, most, 1, who[i], &why)) {
            held[i]++;
        }
        assert_int_equal(held[i], expected[i]);
        for (; i == 0 && held[0] > 0; held[0]--) {
            share_give(&counters, LIMIT_CALLS, 1, ada.account);
        }
    }
    for (size_t i = 0; i < 3; i++) {
        for (; held[i] > 0; held[i]--) {
            share_give(&counters, LIMIT_CALLS, 1, who[i]->account);
        }
        client_account_release(who[i]->account);
    }
    assert_int_equal(limit_in_use(&counters, LIMIT_CALLS), 0);
}

static void small_limits_are_divided_too(void **state)
{
    (void)state;
    assert_divided(1, 1, 1, 0); /* impossible */
    assert_divided(2, 1, 2, 0);
    assert_divided(3, 1, 3, 0);
    assert_divided(4, 1, 3, 1);
    assert_divided(5, 2, 4, 1);
    assert_divided(7, 2, 6, 1);
    assert_divided(8, 2, 7, 1);
    assert_divided(9, 3, 8, 1);
    counters.fair_share = 99; /* never all of it … */
    for (uint64_t most = 2; most < 8; most++) {
        assert_int_equal(share_part(&counters, most), most - 1);
    }
    counters.fair_share = 100; /* … unless the operator configures that */
    assert_divided(2, 2, 2, 0);
    assert_divided(4, 3, 3, 1);
}

static void share_can_be_configured(void **state)
{
    (void)state;
    assert_int_equal(share_part(&counters, 1000), 250);
    assert_int_equal(share_part(&counters, 1001), 251);
    assert_int_equal(share_part(&counters, 0), 0);
    assert_int_equal(share_reserve(3), 0);
    assert_int_equal(share_reserve(4), 1);
    assert_int_equal(share_reserve(10000), 156);
    counters.fair_share = 10;
    assert_int_equal(share_part(&counters, 1000), 100);
    assert_int_equal(share_part(&counters, 8), 1);
    assert_int_equal(share_part(&counters, UINT64_MAX), UINT64_MAX / 100 * 10 + 2);
    counters.fair_share = 100;
    struct share_taker ada = taker("token ada", false);
    struct refusal why;
    assert_int_equal(take_all(&ada, &why), 252);
    assert_true(share_take(&counters, LIMIT_CALLS, 0, 1000, &ada, &why)); /* no limit */
    share_give(&counters, LIMIT_CALLS, 1000, ada.account);
    give(&ada, 252);
    client_account_release(ada.account);
}

static void names_cannot_reach_the_local_account(void **state)
{
    (void)state;
    struct share_taker liar = taker("token machine 127.0.0.1", false);
    assert_false(client_account_is_whole(liar.account));
    assert_true(str_eq(client_account_name(liar.account), STR("machine 127.0.0.1")));
    client_account_release(liar.account);
}

/* ---- several threads ------------------------------------------------------------------------- */

static void *hammer(void *arg)
{
    const struct share_taker *who = arg;
    struct refusal why;
    for (int i = 0; i < 20000; i++) {
        if (take(who, 7, &why)) {
            if (limit_in_use(&counters, LIMIT_CALLS) > MOST + 8 * 7) {
                return arg; /* refused requests count for a moment */
            }
            share_give(&counters, LIMIT_CALLS, 7, who->account);
        }
    }
    return NULL;
}

static void threads_leave_nothing_booked(void **state)
{
    (void)state;
    struct share_taker who[2] = {taker("token ada", false), taker(CLIENT_ACCOUNT_MACHINE, false)};
    pthread_t threads[8];
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &who[i % 2]), 0);
    }
    for (size_t i = 0; i < 8; i++) {
        void *wrong = NULL;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    assert_int_equal(limit_in_use(&counters, LIMIT_CALLS), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(*client_account_used(who[i].account, LIMIT_CALLS), 0);
        client_account_release(who[i].account);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(each_principal_gets_its_share),
        TEST(local_clients_get_all_but_the_reserve_for_an_operator),
        TEST(bytes_are_shared_like_counts),
        TEST(small_limits_are_divided_too),
        TEST(share_can_be_configured),
        TEST(names_cannot_reach_the_local_account),
        TEST(threads_leave_nothing_booked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
