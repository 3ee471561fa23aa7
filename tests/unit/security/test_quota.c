/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "security/limits.h"
#include "support/fail_alloc.h"

static struct limit_counters counters;
static struct quotas *quotas;

static const struct quotas_options options = {
    .remote =
        {
            .max_connections = 2,
            .max_sessions = 1,
            .connections = {.count = 10, .burst = 100, .period_ms = 1000},
            .requests = {.count = 10, .burst = 2, .period_ms = 1000},
            .subscribes = {.count = 1, .burst = 1, .period_ms = 1000},
            .refusals = {.count = 3, .burst = 3, .period_ms = 60000},
            .block_ms = 5000,
        },
    .max_clients = 5, /* the last one for users of Unix sockets */
};

static int setup(void **state)
{
    (void)state;
    limit_counters_init(&counters);
    quotas = quotas_create(&counters);
    assert_non_null(quotas);
    quotas_set(quotas, &options);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    quotas_destroy(quotas);
    return 0;
}

static struct quota *enter(const char *name, uint64_t now)
{
    struct quota *q = NULL;
    struct refusal why;
    assert_int_equal(quotas_enter(quotas, tidings_str(name), false, now, &q, &why), 0);
    assert_non_null(q);
    return q;
}

static struct refusal turned_away(const char *name, uint64_t now)
{
    struct quota *q = NULL;
    struct refusal why = {0};
    assert_int_equal(quotas_enter(quotas, tidings_str(name), false, now, &q, &why),
                     TIDINGS_E_LIMIT);
    assert_null(q);
    return why;
}

static void connections_are_limited_per_client(void **state)
{
    (void)state;
    struct quota *a = enter("a", 0), *b = enter("a", 0);
    assert_ptr_equal(a, b);
    struct refusal why = turned_away("a", 0);
    assert_int_equal(why.limit, LIMIT_CLIENT_CONNECTIONS);
    assert_int_equal(why.value, 2);
    assert_true(why.is_own);
    assert_int_equal(counters.hits[LIMIT_CLIENT_CONNECTIONS], 1);
    struct quota *other = enter("b", 0);
    quota_leave(a);
    a = enter("a", 0);
    quota_leave(a);
    quota_leave(b);
    quota_leave(other);
}

static void rates_are_counted_separately_and_give_a_retry_time(void **state)
{
    (void)state;
    struct quota *q = enter("a", 1000);
    struct refusal why = {0};
    assert_true(quota_take_request(q, 1000, &why));
    assert_true(quota_take_request(q, 1000, &why));
    assert_false(quota_take_request(q, 1000, &why));
    assert_int_equal(why.limit, LIMIT_REQUEST_RATE);
    assert_int_equal(why.value, 10);
    assert_int_equal(why.retry_ms, 100);
    assert_int_equal(refusal_seconds(&why), 1);
    assert_int_equal(refusal_status(&why), 429);
    assert_true(quota_take_subscribe(q, 1000, &why));
    assert_false(quota_take_subscribe(q, 1000, &why));
    assert_int_equal(why.limit, LIMIT_SUBSCRIBE_RATE);
    assert_int_equal(why.retry_ms, 1000);
    assert_true(quota_take_request(q, 1100, &why));
    quota_leave(q);
}

static void sessions_count_beyond_their_connection(void **state)
{
    (void)state;
    struct quota *q = enter("a", 0);
    struct refusal why = {0};
    assert_true(quota_open_session(q, &why));
    quota_leave(q);
    q = enter("a", 0);
    assert_false(quota_open_session(q, &why));
    assert_int_equal(why.limit, LIMIT_CLIENT_SESSIONS);
    quota_close_session(q);
    assert_true(quota_open_session(q, &why));
    quota_close_session(q);
    quota_leave(q);
}

static void client_is_blocked_after_too_many_refusals(void **state)
{
    (void)state;
    struct quota *q = enter("a", 0);
    struct refusal why = {0};
    unsigned refused = 0;
    for (; why.limit != LIMIT_BLOCKED && refused < 100; refused++) {
        while (quota_take_request(q, 0, &why)) {
        }
    }
    assert_int_equal(refused, 5); /* three pass; the fourth blocks it, which is reported */
    assert_int_equal(why.retry_ms, 5000);
    assert_int_equal(turned_away("a", 4999).limit, LIMIT_BLOCKED);
    assert_true(quota_take_request(q, 5000, &why));
    struct quota *again = enter("a", 5000);
    quota_leave(again);
    quota_leave(q);
}

static void unlimited_client_is_not_counted(void **state)
{
    (void)state;
    struct quota *q = NULL;
    struct refusal why;
    assert_int_equal(quotas_enter(quotas, tidings_str("127.0.0.1"), true, 0, &q, &why), 0);
    assert_null(q);
    assert_int_equal(limit_in_use(&counters, LIMIT_CLIENTS), 0);
    assert_true(quota_take_request(q, 0, &why));
    assert_true(quota_take_subscribe(q, 0, &why));
    assert_true(quota_open_session(q, &why));
    quota_close_session(q);
    quota_leave(q);
}

static void full_table_drops_idle_clients_or_refuses(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d"};
    struct quota *held[4];
    for (int i = 0; i < 4; i++) {
        held[i] = enter(names[i], 0);
    }
    struct refusal why = turned_away("e", 0);
    assert_int_equal(why.limit, LIMIT_CLIENTS);
    assert_false(why.is_own);
    assert_int_equal(refusal_status(&why), 503);
    assert_int_equal(counters.hits[LIMIT_CLIENTS], 1);
    quota_leave(held[2]);
    why = turned_away("e", 0); /* it has just arrived: its bucket shows that */
    assert_int_equal(why.limit, LIMIT_CLIENTS);
    struct quota *e = enter("e", 10000);
    assert_int_equal(limit_in_use(&counters, LIMIT_CLIENTS), 4);
    quota_leave(e);
    quota_leave(held[0]);
    quota_leave(held[1]);
    quota_leave(held[3]);
    struct quota *last = enter("f", 20000);
    assert_int_equal(limit_in_use(&counters, LIMIT_CLIENTS), 1); /* all others are dropped */
    quota_leave(last);
}

static void used_quota_is_kept_after_a_disconnect(void **state)
{
    (void)state;
    struct quota *q = enter("a", 0);
    struct refusal why = {0};
    while (quota_take_request(q, 0, &why)) {
    }
    quota_leave(q);
    quota_leave(enter("b", 50)); /* a good moment to drop it */
    q = enter("a", 50);
    assert_false(quota_take_request(q, 50, &why));
    assert_int_equal(why.limit, LIMIT_REQUEST_RATE);
    quota_leave(q);
}

static void refusals_give_the_limit_its_value_and_the_retry_time(void **state)
{
    (void)state;
    char sentence[REFUSAL_SENTENCE], json[REFUSAL_JSON];
    struct refusal why = limit_refusal(LIMIT_SESSIONS, 10000, false);
    assert_string_equal(
        refusal_sentence(&why, sentence),
        "too many legacy sessions at a time (--max-sessions 10000); try again in 1 s");
    struct tidings_str text = refusal_json(&why, json);
    assert_int_equal(text.len, strlen("{\"limit\":\"max-sessions\",\"value\":10000,"
                                      "\"retryAfterMs\":1000}"));
    why.retry_ms = 0;
    text = refusal_json(&why, json);
    assert_memory_equal(text.ptr, "{\"limit\":\"max-sessions\",\"value\":10000}", text.len);
    for (int i = 0; i < LIMIT_COUNT; i++) { /* the longest message fits too */
        why = limit_refusal((enum limit)i, UINT64_MAX, true);
        why.retry_ms = UINT64_MAX;
        text = refusal_json(&why, json);
        assert_int_equal(text.ptr[text.len - 1], '}');
        assert_non_null(strstr(refusal_sentence(&why, sentence), " s"));
    }
}

static void failed_allocation_changes_nothing(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        struct quota *q = NULL;
        struct refusal why;
        fail_alloc_start(n);
        int rc = quotas_enter(quotas, tidings_str("a"), false, 0, &q, &why);
        if (!fail_alloc_stop()) {
            assert_true(n > 1);
            assert_int_equal(rc, 0);
            quota_leave(q);
            return;
        }
        assert_int_equal(rc, TIDINGS_E_NOMEM);
        assert_null(q);
        assert_int_equal(limit_in_use(&counters, LIMIT_CLIENTS), 0);
    }
}

#define THREADS 4

/* Clients connect, send requests and disconnect on several threads; there are more clients than
 * table rows. */
static void *come_and_go(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (uint64_t i = 0; i < 20000; i++) {
        char name[16];
        struct quota *q = NULL;
        struct refusal why;
        uint64_t now = i * 10;
        snprintf(name, sizeof(name), "c%d", rand_r(&seed) % 8);
        if (quotas_enter(quotas, tidings_str(name), false, now, &q, &why) == 0) {
            (void)quota_take_request(q, now, &why);
            bool has_session = quota_open_session(q, &why);
            quota_leave(q);
            if (has_session) {
                quota_close_session(q);
            }
        }
        quota_release(quotas_find(quotas, tidings_str(name), now));
    }
    return NULL;
}

static void threads_never_exceed_the_table_and_leave_it_empty(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_in_range(limit_in_use(&counters, LIMIT_CLIENTS), 0, options.max_clients);
    uint64_t later = UINT64_C(1000000000);
    for (int i = 0; i < 4; i++) { /* no thread holds a row: all are dropped, two are added */
        quota_leave(enter("x", later + (uint64_t)i * 1000));
        quota_leave(enter("y", later + (uint64_t)i * 1000));
    }
    assert_in_range(limit_in_use(&counters, LIMIT_CLIENTS), 1, 2);
    struct quota *one = enter("x", later + 10000), *two = enter("x", later + 10000);
    assert_int_equal(turned_away("x", later + 10000).limit, LIMIT_CLIENT_CONNECTIONS);
    quota_leave(one);
    quota_leave(two);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(connections_are_limited_per_client),
        TEST(rates_are_counted_separately_and_give_a_retry_time),
        TEST(sessions_count_beyond_their_connection),
        TEST(client_is_blocked_after_too_many_refusals),
        TEST(unlimited_client_is_not_counted),
        TEST(full_table_drops_idle_clients_or_refuses),
        TEST(used_quota_is_kept_after_a_disconnect),
        TEST(refusals_give_the_limit_its_value_and_the_retry_time),
        TEST(failed_allocation_changes_nothing),
        TEST(threads_never_exceed_the_table_and_leave_it_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
