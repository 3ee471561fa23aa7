/* SPDX-License-Identifier: MIT
 *
 * Pending changes are bounded. A change over the bound is refused and truncates every subscription
 * once. All workers get the same numbers in the same order.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/hub_internal.h"
#include "security/client_account.h"
#include "security/limits.h"
#include "support/fail_alloc.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"

#define TRUNCATED "params|_meta|dev.tidings/truncated"
#define BOUND (64u << 10)

static struct harness b;

static int setup(void **state)
{
    (void)state;
    harness_init(&b);
    b.options.max_announced = BOUND;
    harness_start(&b);
    harness_add(&b, "mem://x/0");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_stop(&b);
    return 0;
}

static struct client *listener(void)
{
    struct client *c = client_http(&b);
    client_listen(c, "1", "[\"mem://x/0\"]");
    harness_run_until_idle(&b);
    return c;
}

static int announce(const char *uri, struct tidings_error *err)
{
    struct tidings_change change = {.uri = tidings_str(uri)};
    return hub_announce(b.hub, &change, err);
}

static bool has_numbered_all(void *user)
{
    (void)user;
    return limit_in_use(&b.shared->limits, LIMIT_ANNOUNCED) == 0;
}

static bool note_notice(void *user, const struct changelog_row *row)
{
    uint64_t *position = user;
    *position = row->change->everything ? row->change->position : *position;
    return true;
}

static void change_over_bound_is_refused_and_truncates_once(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct client *c = listener();
    for (int round = 1; round <= 2; round++) {
        unsigned accepted = 0;
        char uri[32];
        do {
            assert_true(accepted * sizeof(struct tidings_change) <= BOUND);
            snprintf(uri, sizeof(uri), "mem://x/%u", 1000 + accepted++);
        } while (announce(uri, &err) == 0);
        assert_true(accepted > 100);
        assert_int_equal(err.code, TIDINGS_E_BUSY);
        assert_non_null(strstr(err.text, "change queue is full"));
        assert_int_equal(announce("mem://x/elsewhere", NULL), TIDINGS_E_BUSY);
        assert_int_equal(b.worker[0]->limit_counters->hits[LIMIT_ANNOUNCED], 2 * round);
        harness_until(&b, has_numbered_all, NULL);
        harness_run_until_idle(&b);
        assert_int_equal(client_count(c, SAID_UPDATED), round);
        assert_json(client_nth(c, SAID_UPDATED, (size_t)round - 1), TRUNCATED, "true");
    }
    assert_int_equal(announce("mem://x/0", NULL), 0); /* as before the overflow */
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_UPDATED), 3);
    assert_no_json(client_nth(c, SAID_UPDATED, 2), TRUNCATED);
    client_free(c);
}

static int announce_as(const char *name, struct refusal *why)
{
    static unsigned count; /* equal changes would merge */
    char uri[32];
    snprintf(uri, sizeof(uri), "mem://x/elsewhere/%u", ++count);
    struct tidings_change change = {.uri = tidings_str(uri)};
    struct tidings_error err;
    struct client_account *account =
        client_accounts_find(b.shared->client_accounts, tidings_str(name), 0);
    const struct share_taker who = {.account = account};
    int rc = hub_announce_by(b.hub, &change, &who, NULL, why, &err);
    client_account_release(account);
    return rc;
}

static void client_is_limited_to_its_share_without_truncation(void **state)
{
    (void)state;
    struct refusal why = {0};
    struct client *c = listener();
    struct limit_counters *counters = &b.shared->limits;
    while (announce_as("token ada", &why) == 0) {
        assert_true(limit_in_use(counters, LIMIT_ANNOUNCED) <= BOUND / 4);
    }
    assert_true(why.is_own);
    assert_int_equal(why.share, BOUND / 4);
    assert_int_equal(counters->share_hits[LIMIT_ANNOUNCED], 1);
    assert_int_equal(announce_as("token bob", &why), 0);
    assert_int_equal(announce("mem://x/0", NULL), 0);
    harness_until(&b, has_numbered_all, NULL);
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    assert_no_json(client_nth(c, SAID_UPDATED, 0), TRUNCATED);
    struct client_account *ada =
        client_accounts_find(b.shared->client_accounts, STR("token ada"), 0);
    assert_int_equal(*client_account_used(ada, LIMIT_ANNOUNCED), 0);
    client_account_release(ada);
    client_free(c);
}

/* A client from another node with a lower position finds it in the log. */
static void refused_durable_change_keeps_its_position(void **state)
{
    (void)state;
    struct tidings_change change = {.uri = STR("mem://x/elsewhere")};
    uint64_t position = 100;
    struct client *c = listener();
    while (hub_announce_durable(b.hub, &change, ++position, NULL) == 0) {
        assert_true(position < BOUND);
    }
    assert_int_equal(hub_announce_durable(b.hub, &change, ++position, NULL), TIDINGS_E_BUSY);
    harness_until(&b, has_numbered_all, NULL);
    harness_run_until_idle(&b);
    assert_json(client_nth(c, SAID_UPDATED, 0), TRUNCATED, "true");
    uint64_t last = 0;
    (void)b.hub->log->ops->each(b.hub->log, 0, note_notice, &last);
    assert_int_equal(last, position);
    client_free(c);
}

static void change_without_memory_truncates_all_subscriptions(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct client *c = listener();
    fail_alloc_start(1);
    assert_int_equal(announce("mem://x/elsewhere", &err), TIDINGS_E_NOMEM);
    assert_true(fail_alloc_stop());
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    assert_json(client_nth(c, SAID_UPDATED, 0), TRUNCATED, "true");
    client_free(c);
}

static void lagging_worker_truncates_once_and_loses_nothing_else(void **state)
{
    (void)state;
    struct client *c = listener();
    size_t *waiting = &b.worker[0]->delivery->announced;
    *waiting += BOUND; /* as if this many bytes were pending */
    harness_update(&b, "mem://x/elsewhere");
    harness_update(&b, "mem://x/anywhere");
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_UPDATED), 0); /* the worker may catch up … */
    harness_until(&b, has_numbered_all, NULL);          /* … and delivers normally */
    harness_run_until_idle(&b);
    *waiting -= BOUND;
    assert_int_equal(*waiting, 0);
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    assert_json(client_nth(c, SAID_UPDATED, 0), TRUNCATED, "true");
    harness_update(&b, "mem://x/0"); /* its number shows the gap: already reported */
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_UPDATED), 2);
    assert_no_json(client_nth(c, SAID_UPDATED, 1), TRUNCATED);
    client_free(c);
}

static void worker_that_catches_up_loses_nothing(void **state)
{
    (void)state;
    struct client *c = listener();
    size_t *waiting = &b.worker[0]->delivery->announced;
    *waiting += BOUND;
    for (int i = 0; i < 1000; i++) { /* at most one of them waits */
        assert_int_equal(announce("mem://x/0", NULL), 0);
        assert_int_equal(announce("mem://x/elsewhere", NULL), 0);
        harness_run_until_idle(&b);
    }
    assert_int_equal(client_count(c, SAID_UPDATED), 0);
    *waiting -= BOUND;
    harness_until(&b, has_numbered_all, NULL);
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    assert_no_json(client_nth(c, SAID_UPDATED, 0), TRUNCATED);
    client_free(c);
}

/* ---- two workers, two threads --------------------------------------------------------------- */

static int setup_two(void **state)
{
    (void)state;
    harness_init(&b);
    b.worker_count = 2;
    b.options.list_changed = false; /* so that changes have consecutive numbers */
    harness_start(&b);
    return 0;
}

static void *announce_many(void *arg)
{
    for (int i = 0; i < 200; i++) {
        /* Each change is different: equal changes may merge. */
        struct tidings_change change = {.uri = tidings_str(arg), .modified_ms = i + 1};
        assert_int_equal(hub_announce(b.hub, &change, NULL), 0);
    }
    return NULL;
}

static bool has_all(void *user)
{
    (void)user;
    return b.worker[0]->last_seq == 400 && b.worker[1]->last_seq == 400;
}

static void changes_from_two_threads_get_the_same_numbers_everywhere(void **state)
{
    (void)state;
    harness_add(&b, "app:1");
    harness_add(&b, "app:2");
    struct client *c[2];
    for (size_t i = 0; i < 2; i++) {
        c[i] = client_http_at(&b, i);
        client_listen(c[i], "1", "[\"app:1\",\"app:2\"]");
    }
    harness_run_until_idle(&b);
    char uris[2][8] = {"app:1", "app:2"};
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, announce_many, uris[i]), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    harness_until(&b, has_all, NULL);
    harness_run_until_idle(&b);
    for (size_t i = 0; i < 2; i++) {
        uint64_t last = 0;
        for (size_t k = 0; k < client_count(c[i], SAID_UPDATED); k++) {
            const char *u = client_nth(c[i], SAID_UPDATED, k);
            assert_no_json(u, "params|_meta|dev.tidings/truncated");
            assert_true(cursor_of(u) >= last);
            last = cursor_of(u);
        }
        assert_int_equal(last, 400);
        client_free(c[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define WITH_BENCH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        WITH_BENCH(change_over_bound_is_refused_and_truncates_once),
        WITH_BENCH(refused_durable_change_keeps_its_position),
        WITH_BENCH(client_is_limited_to_its_share_without_truncation),
        WITH_BENCH(change_without_memory_truncates_all_subscriptions),
        WITH_BENCH(worker_that_catches_up_loses_nothing),
        WITH_BENCH(lagging_worker_truncates_once_and_loses_nothing_else),
        cmocka_unit_test_setup_teardown(changes_from_two_threads_get_the_same_numbers_everywhere,
                                        setup_two, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
