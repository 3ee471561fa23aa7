/* SPDX-License-Identifier: MIT
 *
 * Migratable sessions and their store: the time of writes, and a store that is slow, unreachable,
 * out of date, too small, or has invalid rows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/protocol/session_migration_import.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"
#include "support/nodes.h"
#include "support/nodes_fixture.h"

static void clients_are_answered_after_the_store_write(void **state)
{
    (void)state;
    all.is_stuck = true;
    struct client *c = client_http(&all.at[A].b);
    client_legacy(c, NULL, "1", "initialize",
                  "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
                  "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}");
    struct client *d = session_request(&s, "5", "resources/subscribe", "\"uri\":\"kept://x/a\"");
    nodes_run_until_idle(&all);
    assert_int_equal(client_count_kind(c, SAID_ANSWER), 0);
    assert_int_equal(client_count_kind(d, SAID_ANSWER), 0);
    struct client *e = session_request(&s, "6", "ping", NULL); /* without effect */
    assert_int_equal(client_count_kind(e, SAID_ANSWER), 1);
    struct client *f = session_request(&s, "7", "resources/subscribe", "\"uri\":\"kept://x/b\"");
    nodes_run_until_idle(&all);
    assert_int_equal(all.stuck_count, 2); /* one write of a session at a time */
    nodes_unstick(&all);
    assert_int_equal(client_answer(c)->status, 200);
    assert_non_null(strstr(client_answer(d)->text, "\"result\""));
    assert_non_null(strstr(client_answer(f)->text, "\"result\""));
    assert_non_null(strstr(nodes_row(&all, &s)->state, "kept://x/b"));
    client_free(c);
    client_free(d);
    client_free(e);
    client_free(f);
}

static void session_stays_valid_during_a_store_outage(void **state)
{
    (void)state;
    all.is_unreachable = true;
    subscribe("kept://x/a");
    assert_true(nodes_bring(&all, B, &s) < 0); /* unknown */
    assert_int_equal(sessions_at(A), 1);
    assert_int_equal(sessions_at(B), 0);
    all.is_unreachable = false;
    nodes_tick(&all, A);
    assert_non_null(strstr(nodes_row(&all, &s)->state, "kept://x/a"));
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    assert_int_equal(all.at[B].b.worker[0]->stats.subscriptions, 1);
}

static bool has_answered(void *user)
{
    nodes_run_until_idle(&all);
    return client_has_answer(user);
}

/* The old node does not know yet, and receives a request that changes the session. */
static void request_at_an_old_copy_moves_the_session_back(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    all.at[A].is_deaf = true;
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    subscribe("kept://x/b");
    s.harness = &all.at[A].b;
    assert_int_equal(sessions_at(A), 1);
    struct client *c = session_request(&s, "5", "resources/subscribe", "\"uri\":\"kept://x/c\"");
    harness_until(&all.at[A].b, has_answered, c);
    assert_non_null(strstr(client_answer(c)->text, "\"result\""));
    client_free(c);
    assert_int_equal(sessions_at(A), 1);
    assert_int_equal(sessions_at(B), 0);
    assert_int_equal(all.at[A].b.worker[0]->stats.subscriptions, 3);
    assert_int_equal(nodes_row(&all, &s)->generation, 2);
    /* A late notice does not remove the session again. */
    all.at[A].is_deaf = false;
    nodes_run_until_idle(&all);
    assert_int_equal(sessions_at(A), 1);
}

/* B claims it and dies before it has restored it. */
static void session_of_a_crashed_node_can_be_claimed_again(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    struct session_memory_row *row = nodes_row(&all, &s);
    row->generation++;
    row->node = B;
    session_migrated(all.at[A].b.worker[0], tidings_str(row->key));
    assert_int_equal(sessions_at(A), 0);
    assert_int_equal(nodes_bring(&all, A, &s), 0);
    assert_int_equal(all.at[A].b.worker[0]->stats.subscriptions, 1);
    assert_int_equal(ping(), 200);
}

static void requests_for_a_migrating_session_wait_together(void **state)
{
    (void)state;
    all.is_stuck = true;
    struct client *c = client_http(&all.at[B].b);
    struct refusal why;
    const struct session_lookup asked = {.id = tidings_str(s.id)};
    struct session_wait one = {.done = NULL}, two = {.done = NULL};
    assert_int_equal(session_await(&one, &c->channel, &asked, &why), SESSION_AWAITED);
    assert_int_equal(session_await(&two, &c->channel, &asked, &why), SESSION_AWAITED);
    assert_int_equal(all.stuck_count, 1);
    session_await_cancel(&one);
    session_await_cancel(&two);
    nodes_unstick(&all);
    assert_int_equal(sessions_at(B), 1); /* it was claimed: one node must have it */
    client_free(c);
}

/* An unknown result is not a refusal. */
static void session_does_not_migrate_if_subscriptions_fail(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    all.at[B].kept.stats_fail = TIDINGS_E_BUSY;
    assert_int_equal(nodes_bring(&all, B, &s), TIDINGS_E_BUSY);
    assert_int_equal(sessions_at(B), 0);
    assert_non_null(strstr(nodes_row(&all, &s)->state, "kept://x/a"));
    all.at[B].kept.stats_fail = 0;
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    assert_int_equal(all.at[B].b.worker[0]->stats.subscriptions, 1);
}

static bool is_held(void *user)
{
    return ((struct stub *)user)->held_stat != NULL;
}

static void migrating_session_is_not_stored_before_it_is_complete(void **state)
{
    (void)state;
    struct session_wait wait;
    int code = 0;
    struct stub *there = &all.at[B].kept;
    subscribe("kept://x/a");
    there->holds_stats = true;
    nodes_bring_stream(&all, B, &s, NULL, &wait, &code);
    harness_until(&all.at[B].b, is_held, there);
    nodes_tick(&all, B); /* the session exists, its subscription does not */
    assert_non_null(strstr(nodes_row(&all, &s)->state, "kept://x/a"));
    there->holds_stats = false;
    there->stats_fail = TIDINGS_E_BUSY; /* the store became unreachable */
    stub_finish_stat(there);
    nodes_run_until_idle(&all);
    assert_int_equal(code, TIDINGS_E_BUSY);
    assert_non_null(strstr(nodes_row(&all, &s)->state, "kept://x/a"));
    there->stats_fail = 0;
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    assert_int_equal(all.at[B].b.worker[0]->stats.subscriptions, 1);
}

static void lost_row_is_stored_again(void **state)
{
    (void)state;
    char *old = str_dup(tidings_str(nodes_row(&all, &s)->state));
    subscribe("kept://x/a");
    mem_free(nodes_row(&all, &s)->state);
    nodes_row(&all, &s)->state = old;
    sessions_write_again(all.at[A].b.worker[0]);
    nodes_tick(&all, A);
    assert_non_null(strstr(nodes_row(&all, &s)->state, "kept://x/a"));
}

static void oversized_session_stays(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    all.at[A].store.max_bytes = strlen(nodes_row(&all, &s)->state) + 8;
    subscribe("kept://x/b");
    assert_null(nodes_row(&all, &s)); /* the stored row is incomplete */
    assert_int_equal(ping(), 200);
    unsigned drops = all.drops;
    subscribe("kept://x/c");
    nodes_tick(&all, A);
    assert_int_equal(all.drops, drops);
    session_unsubscribe(&s, "kept://x/b");
    session_unsubscribe(&s, "kept://x/c");
    nodes_run_until_idle(&all);
    assert_non_null(nodes_row(&all, &s)); /* it fits again */
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    assert_int_equal(ping(), 200);
}

static void invalid_row_yields_no_session(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "[]",
        "{\"v\":2,\"revision\":\"2025-11-25\",\"cursor\":\"ea.1\",\"by\":{\"by\":\"program\"}}",
        "{\"v\":1,\"revision\":\"2099-01-01\",\"cursor\":\"ea.1\",\"by\":{\"by\":\"program\"}}",
        "{\"v\":1,\"revision\":\"2025-11-25\",\"cursor\":\"ea.1\",\"by\":{\"by\":\"token\"}}",
    };
    struct session_memory_row *row = nodes_row(&all, &s);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        mem_free(row->state);
        row->state = str_dup(tidings_str(rows[i]));
        assert_int_equal(nodes_bring(&all, B, &s), 0);
        assert_int_equal(ping(), 404);
        assert_int_equal(sessions_at(B), 0);
    }
    mem_free(row->state); /* another version: newer and older */
    row->state =
        str_dup(tidings_str("{\"v\":1,\"new\":{\"deep\":[1]},\"revision\":\"2025-11-25\","
                            "\"cursor\":\"ea.1.2\",\"by\":{\"by\":\"program\"},\"subscriptions\":"
                            "[{\"uri\":\"kept://x/a\",\"new\":1},"
                            "{\"uri\":\"kept://x/b\",\"options\":{\"new\":1}}]}"));
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    assert_int_equal(ping(), 200);
    assert_int_equal(all.at[B].b.worker[0]->stats.subscriptions, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(clients_are_answered_after_the_store_write),
        TEST(session_stays_valid_during_a_store_outage),
        TEST(request_at_an_old_copy_moves_the_session_back),
        TEST(session_of_a_crashed_node_can_be_claimed_again),
        TEST(requests_for_a_migrating_session_wait_together),
        TEST(session_does_not_migrate_if_subscriptions_fail),
        TEST(migrating_session_is_not_stored_before_it_is_complete),
        TEST(lost_row_is_stored_again),
        TEST(oversized_session_stays),
        TEST(invalid_row_yields_no_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
