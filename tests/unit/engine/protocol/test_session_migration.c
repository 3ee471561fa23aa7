/* SPDX-License-Identifier: MIT
 *
 * Sessions that migrate to another node: nothing is lost or sent twice, the old node releases the
 * session, no other principal gets it, and subscriptions that cannot migrate are reported.
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

/* ---- resuming -------------------------------------------------------------------------------- */

static void session_resumes_at_another_node(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    subscribe("kept://x/b");
    struct client *first = stream(NULL);
    nodes_update(&all, "kept://x/a");
    assert_int_equal(client_count(first, SAID_UPDATED), 1);
    struct event_name id = last_id(first);
    client_vanish(first);
    nodes_update(&all, "kept://x/b");
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    assert_int_equal(sessions_at(A), 0);
    assert_int_equal(sessions_at(B), 1);
    struct client *second = stream(id.text);
    assert_int_equal(update_count(second, "kept://x/a"), 0);
    assert_int_equal(update_count(second, "kept://x/b"), 1);
    nodes_update(&all, "kept://x/a");
    assert_int_equal(update_count(second, "kept://x/a"), 1);
    assert_int_equal(update_count(second, "kept://x/b"), 1);
    assert_int_equal(client_count_kind(first, SAID_END), 0);
    client_free(second);
    client_free(first);
}

static void stream_at_the_old_node_ends(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    struct client *first = stream(NULL);
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    assert_int_equal(client_count_kind(first, SAID_END), 1);
    nodes_update(&all, "kept://x/a");
    assert_int_equal(client_count(first, SAID_UPDATED), 0);
    struct client *second = stream(last_id(first).text);
    assert_int_equal(update_count(second, "kept://x/a"), 1);
    client_free(second);
    client_free(first);
}

/* Nothing was written since it subscribed: the id of the last event is newer. */
static void event_ids_give_the_position_after_a_crash(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    subscribe("kept://x/b");
    struct client *first = stream(NULL);
    nodes_update(&all, "kept://x/a");
    nodes_update(&all, "kept://x/b");
    nodes_update(&all, "kept://x/a");
    assert_int_equal(client_count(first, SAID_UPDATED), 3);
    struct event_name id = last_id(first);
    nodes_kill(&all, A);
    nodes_update(&all, "kept://x/b");
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    struct client *second = stream(id.text);
    assert_int_equal(client_count(second, SAID_UPDATED), 1);
    assert_int_equal(update_count(second, "kept://x/b"), 1);
    /* Without an id the update is repeated rather than lost. */
    client_vanish(second);
    client_free(second);
    client_free(first);
}

static void stream_without_an_id_starts_at_the_last_stored_position(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    subscribe("kept://x/b");
    struct client *first = stream(NULL);
    nodes_update(&all, "kept://x/a");
    unsigned puts = all.puts;
    nodes_tick(&all, A);
    assert_int_equal(all.puts, puts + 1);
    nodes_tick(&all, A);
    assert_int_equal(all.puts, puts + 1); /* unchanged since */
    nodes_kill(&all, A);
    nodes_update(&all, "kept://x/b");
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    struct client *second = stream(NULL);
    assert_int_equal(update_count(second, "kept://x/a"), 0);
    assert_int_equal(update_count(second, "kept://x/b"), 1);
    client_free(second);
    client_free(first);
}

/* The client is ahead of the new node: nothing is sent twice when the node has caught up. */
static void lagging_node_catches_up_first(void **state)
{
    (void)state;
    struct session_wait wait;
    int code = 0;
    subscribe("kept://x/a");
    struct client *c = stream(NULL);
    all.at[B].is_behind = true;
    nodes_update(&all, "kept://x/a");
    char id[256];
    snprintf(id, sizeof(id), "%s", last_id(c).text);
    nodes_bring_stream(&all, B, &s, id, &wait, &code); /* the node has not caught up yet */
    nodes_run_until_idle(&all);
    assert_int_equal(code, SESSION_AWAITED);
    nodes_catch_up(&all, B);
    assert_int_equal(code, 0);
    client_free(c);
    c = stream(id);
    assert_int_equal(client_count(c, SAID_UPDATED), 0);
    client_vanish(c);
    client_free(c);
    /* The same when the node has caught up. */
    assert_int_equal(nodes_bring(&all, A, &s), 0);
    c = stream(id);
    nodes_update(&all, "kept://x/a");
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    all.at[B].is_behind = true;
    nodes_tick(&all, A);
    snprintf(id, sizeof(id), "%s", last_id(c).text);
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    nodes_update(&all, "kept://x/a");
    snprintf(strchr(strrchr(id, '.'), '\0') - 1, 2, "3"); /* sent by A just before the migration */
    nodes_bring_stream(&all, B, &s, id, &wait, &code);
    nodes_run_until_idle(&all);
    assert_int_equal(code, SESSION_AWAITED);
    nodes_catch_up(&all, B);
    assert_int_equal(code, 0);
    client_free(c);
    c = stream(id);
    assert_int_equal(client_count(c, SAID_UPDATED), 0);
    client_free(c);
}

/* A later subscription does not receive earlier changes. */
static void subscriptions_each_know_their_start(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    nodes_update(&all, "kept://x/a");
    nodes_update(&all, "kept://x/b");
    subscribe("kept://x/b");
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    struct client *c = stream(NULL);
    assert_int_equal(update_count(c, "kept://x/a"), 1);
    assert_int_equal(update_count(c, "kept://x/b"), 0);
    client_free(c);
}

/* The old node still writes to its stream while the new node has one more subscription: ids of
 * the old node do not cover it. */
static void new_subscription_is_replayed_regardless_of_old_node_ids(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    struct client *first = stream(NULL);
    all.at[A].is_deaf = true;
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    subscribe("kept://x/b");
    nodes_update(&all, "kept://x/b");
    nodes_update(&all, "kept://x/a");
    assert_int_equal(client_count(first, SAID_UPDATED), 1);
    struct client *second = stream(last_id(first).text);
    assert_int_equal(update_count(second, "kept://x/b"), 1);
    assert_int_equal(update_count(second, "kept://x/a"), 0);
    client_free(second);
    client_free(first);
}

/* A node that does not know yet, and could not query the store, opens another stream of its old
 * copy. */
static void ids_of_unwritten_streams_prove_nothing(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    struct client *first = stream(NULL);
    client_vanish(first);
    all.at[A].is_deaf = true;
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    nodes_update(&all, "kept://x/a");
    s.harness = &all.at[A].b;
    struct client *second = stream(NULL);
    assert_int_equal(client_count(second, SAID_UPDATED), 1);
    s.harness = &all.at[B].b;
    struct client *third = stream(last_id(second).text);
    assert_int_equal(client_count(third, SAID_UPDATED), 1); /* a duplicate rather than a loss */
    client_free(third);
    client_free(second);
    client_free(first);
}

static void store_is_queried_before_a_stream_opens(void **state)
{
    (void)state;
    struct session_wait wait;
    int code = 0;
    subscribe("kept://x/a");
    nodes_bring_stream(&all, A, &s, "", &wait, &code);
    assert_int_equal(code, SESSION_AWAITED);
    nodes_run_until_idle(&all);
    assert_int_equal(code, 0);
    all.at[A].is_deaf = true;
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    subscribe("kept://x/b");
    nodes_bring_stream(&all, A, &s, "", &wait, &code);
    nodes_run_until_idle(&all);
    assert_int_equal(code, TIDINGS_E_CONFLICT); /* ask again */
    assert_int_equal(sessions_at(A), 0);
    assert_int_equal(nodes_bring(&all, A, &s), 0);
    assert_int_equal(all.at[A].b.worker[0]->stats.subscriptions, 2);
    all.is_unreachable = true; /* then the session is valid where it is */
    nodes_bring_stream(&all, A, &s, "", &wait, &code);
    nodes_run_until_idle(&all);
    assert_int_equal(code, 0);
}

static void local_resources_are_truncated_after_migration(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    subscribe("mem://x/a");
    struct client *first = stream(NULL);
    nodes_update(&all, "kept://x/a");
    struct event_name id = last_id(first);
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    struct client *second = stream(id.text);
    assert_int_equal(update_count(second, "mem://x/a"), 1);
    assert_json(update_nth(second, "mem://x/a", 0), "params|_meta|dev.tidings/truncated", "true");
    assert_int_equal(update_count(second, "kept://x/a"), 0);
    harness_update(&all.at[B].b, "mem://x/a");
    nodes_run_until_idle(&all);
    assert_int_equal(update_count(second, "mem://x/a"), 2);
    client_free(second);
    client_free(first);
}

static void session_migrates_back_and_forth(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    struct client *c = stream(NULL);
    char id[256];
    for (unsigned i = 0; i < 6; i++) {
        nodes_update(&all, "kept://x/a");
        assert_int_equal(client_count(c, SAID_UPDATED), 1);
        snprintf(id, sizeof(id), "%s", last_id(c).text);
        client_vanish(c);
        client_free(c);
        size_t next = i % 2 == 0 ? B : A;
        assert_int_equal(nodes_bring(&all, next, &s), 0);
        assert_int_equal(sessions_at(next), 1);
        assert_int_equal(sessions_at(1 - next), 0);
        c = stream(id);
        assert_int_equal(client_count(c, SAID_UPDATED), 0);
    }
    assert_int_equal(nodes_row(&all, &s)->generation, 6);
    client_free(c);
}

/* Two nodes with alternating requests must not claim the session all the time. */
static void node_that_lost_a_session_waits_before_claiming_it(void **state)
{
    (void)state;
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    unsigned takes = all.takes;
    struct client *c = client_http(&all.at[A].b);
    struct refusal why;
    const struct session_lookup asked = {.id = tidings_str(s.id)};
    struct session_wait wait = {.done = NULL};
    assert_int_equal(session_await(&wait, &c->channel, &asked, &why), SESSION_AWAITED);
    nodes_run_until_idle(&all);
    assert_int_equal(all.takes, takes);
    session_await_cancel(&wait);
    client_free(c);
}

static void options_and_level_migrate(void **state)
{
    (void)state;
    static const char *const options =
        "{\"match\":\"literal\",\"include\":\"metadata\",\"detail\":\"slim\","
        "\"filter\":{\"type\":\"object\"},\"origin\":\"me\",\"echo\":false}";
    (void)session_subscribe_with(&s, "kept://x/a", options);
    struct client *c = session_request(&s, "9", "logging/setLevel", "\"level\":\"error\"");
    nodes_run_until_idle(&all);
    assert_empty_result(client_answer(c)->text);
    client_free(c);
    char before[4096];
    snprintf(before, sizeof(before), "%s", strstr(nodes_row(&all, &s)->state, "\"options\""));
    assert_non_null(strstr(before, "\"filter\":{\"type\":\"object\"}"));
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    nodes_run_until_idle(&all);
    const char *after = nodes_row(&all, &s)->state;
    size_t len = (size_t)(strchr(before, '}') - before);
    assert_int_equal(strncmp(strstr(after, "\"options\""), before, len), 0);
    assert_non_null(strstr(after, "\"level\":4"));
    assert_int_equal(nodes_row(&all, &s)->node, B);
}

/* ---- ownership ------------------------------------------------------------------------------- */

static void session_of_another_principal_does_not_migrate(void **state)
{
    (void)state;
    nodes_stop(&all);
    nodes_init(&all);
    for (size_t i = 0; i < NODES; i++) {
        all.at[i].b.principal.kind = PRINCIPAL_TOKEN;
        all.at[i].b.principal.name = "alice";
    }
    nodes_start(&all);
    nodes_session(&all, A, &s);
    subscribe("kept://x/a");
    all.at[B].b.principal.name = "mallory";
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    assert_int_equal(ping(), 404);
    assert_int_equal(sessions_at(A), 1);
    assert_int_equal(sessions_at(B), 0);
    assert_int_equal(nodes_row(&all, &s)->generation, 0);
    all.at[B].b.principal.kind = PRINCIPAL_CERTIFICATE; /* same name, other authentication */
    all.at[B].b.principal.name = "alice";
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    assert_int_equal(ping(), 404);
    all.at[B].b.principal.kind = PRINCIPAL_TOKEN;
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    assert_int_equal(ping(), 200);
    assert_int_equal(sessions_at(A), 0);
}

static void unsubscribable_resource_is_reported_after_migration(void **state)
{
    (void)state;
    stub_add(&all.at[A].kept, "kept://x/only", false);
    stub_add(&all.at[B].kept, "kept://x/only", false);
    all.at[B].kept.is_mute[all.at[B].kept.count - 1] = true;
    subscribe("kept://x/a");
    subscribe("kept://x/only");
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    struct client *c = stream(NULL);
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    const char *told = client_nth(c, SAID_UPDATED, 0);
    assert_json(told, "params|uri", "kept://x/only");
    assert_json(told, "params|_meta|dev.tidings/suspended", "true");
    client_vanish(c);
    client_free(c);
    c = stream(NULL); /* once */
    assert_int_equal(client_count(c, SAID_UPDATED), 0);
    client_free(c);
    assert_null(strstr(nodes_row(&all, &s)->state, "only"));
}

static void limits_apply_to_migrating_sessions(void **state)
{
    (void)state;
    struct harness_session other;
    all.at[B].b.limits.max_sessions = all.at[B].b.limits.max_subscriptions = 1;
    subscribe("kept://x/a");
    subscribe("kept://x/b");
    nodes_session(&all, B, &other);
    assert_int_equal(nodes_bring(&all, B, &s), SESSION_REFUSED);
    assert_int_equal(nodes_row(&all, &s)->node, A); /* the migration had an effect */
    assert_int_equal(session_delete(&other), 204);
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    assert_int_equal(all.at[B].b.worker[0]->stats.subscriptions, 1);
    struct client *c = stream(NULL);
    assert_json(client_nth(c, SAID_UPDATED, 0), "params|_meta|dev.tidings/suspended", "true");
    client_free(c);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void session_can_be_deleted_at_any_node(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    assert_int_equal(session_delete(&s), 204);
    nodes_run_until_idle(&all);
    assert_null(nodes_row(&all, &s));
    assert_int_equal(nodes_bring(&all, A, &s), 0);
    assert_int_equal(ping(), 404);
    assert_int_equal(sessions_at(A) + sessions_at(B), 0);
}

/* B has the session and does not know yet that A has claimed it. */
static void session_can_be_deleted_at_a_node_that_lost_it(void **state)
{
    (void)state;
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    all.at[B].is_deaf = true;
    assert_int_equal(nodes_bring(&all, A, &s), 0);
    assert_int_equal(sessions_at(B), 1);
    s.harness = &all.at[B].b;
    assert_int_equal(session_delete(&s), 204);
    nodes_run_until_idle(&all);
    assert_int_equal(sessions_at(A), 0);
    assert_null(nodes_row(&all, &s));
}

/* A session that is idle there and is used elsewhere. */
static void idle_old_copy_ends_without_the_session(void **state)
{
    (void)state;
    all.at[A].is_deaf = true;
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    all.at[A].b.limits.session_timeout_ms = 0;
    session_sweep(all.at[A].b.worker[0]);
    nodes_run_until_idle(&all);
    assert_int_equal(sessions_at(A), 0);
    assert_non_null(nodes_row(&all, &s));
    assert_int_equal(ping(), 200);
}

static void idle_session_ends_everywhere(void **state)
{
    (void)state;
    all.at[A].b.limits.session_timeout_ms = 0;
    session_sweep(all.at[A].b.worker[0]);
    nodes_run_until_idle(&all);
    assert_null(nodes_row(&all, &s));
}

static void stopping_node_stores_the_position(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    subscribe("kept://x/b");
    struct client *first = stream(NULL);
    nodes_update(&all, "kept://x/a");
    drain_begin(all.at[A].b.worker[0], 0);
    nodes_run_until_idle(&all);
    assert_int_equal(client_count_kind(first, SAID_END), 1);
    assert_int_equal(sessions_at(A), 0);
    assert_int_equal(nodes_bring(&all, A, &s), SESSION_BUSY); /* use another node, do not fail */
    nodes_update(&all, "kept://x/b");
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    struct client *second = stream(NULL);
    assert_int_equal(update_count(second, "kept://x/a"), 0);
    assert_int_equal(update_count(second, "kept://x/b"), 1);
    client_free(second);
    client_free(first);
}

/* ---- ids ------------------------------------------------------------------------------------- */

static void id_leads_to_one_worker_at_every_node(void **state)
{
    (void)state;
    struct worker here = {.count = 3};
    unsigned seen[2] = {0};
    for (unsigned i = 0; i < 300; i++) {
        char id[SESSION_ID_LEN + 1];
        here.index = i % 3;
        assert_int_equal(session_make_id(&here, id), 0);
        assert_int_equal(session_worker(tidings_str(id), here.count), here.index);
        int other = session_worker(tidings_str(id), 2);
        assert_true(other == 0 || other == 1);
        seen[other]++;
    }
    assert_true(seen[0] > 50 && seen[1] > 50);
}

static void session_of_a_single_node_has_no_migration_state(void **state)
{
    (void)state;
    struct harness alone;
    harness_init(&alone);
    harness_start(&alone);
    struct harness_session one;
    harness_session(&alone, "2025-11-25", &one);
    const struct session *session =
        map_find(&alone.worker[0]->sessions->by_id, tidings_str(one.id));
    assert_null(session->migration);
    assert_null(alone.worker[0]->sessions->movers);
    assert_null(alone.worker[0]->requests->hold);
    harness_stop(&alone);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(session_resumes_at_another_node),
        TEST(stream_at_the_old_node_ends),
        TEST(event_ids_give_the_position_after_a_crash),
        TEST(stream_without_an_id_starts_at_the_last_stored_position),
        TEST(lagging_node_catches_up_first),
        TEST(subscriptions_each_know_their_start),
        TEST(new_subscription_is_replayed_regardless_of_old_node_ids),
        TEST(ids_of_unwritten_streams_prove_nothing),
        TEST(store_is_queried_before_a_stream_opens),
        TEST(local_resources_are_truncated_after_migration),
        TEST(session_migrates_back_and_forth),
        TEST(node_that_lost_a_session_waits_before_claiming_it),
        TEST(options_and_level_migrate),
        TEST(session_of_another_principal_does_not_migrate),
        TEST(unsubscribable_resource_is_reported_after_migration),
        TEST(limits_apply_to_migrating_sessions),
        TEST(session_can_be_deleted_at_any_node),
        TEST(session_can_be_deleted_at_a_node_that_lost_it),
        TEST(idle_old_copy_ends_without_the_session),
        TEST(idle_session_ends_everywhere),
        TEST(stopping_node_stores_the_position),
        cmocka_unit_test(id_leads_to_one_worker_at_every_node),
        cmocka_unit_test(session_of_a_single_node_has_no_migration_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
