/* SPDX-License-Identifier: MIT
 *
 * Sessions that migrate with the last received event id. Messages written and stored as sent after
 * that id are repeated at the new node. A copy that another node has replaced does not claim
 * unknown state.
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
#include "base/thread.h"
#include "engine/delivery/hub.h"
#include "engine/protocol/enforce.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"
#include "support/nodes.h"
#include "support/nodes_fixture.h"

/* Requests the session at B, for a stream that resumes after that event. */
static void bring_with(const struct event_name *id, struct session_wait *wait, int *code)
{
    nodes_bring_stream(&all, B, &s, id->text, wait, code);
    nodes_run_until_idle(&all);
}

/* ---- written, but not received --------------------------------------------------------------- */

/* b was written to a stream that its client had lost, and the store has it as sent. */
static void unreceived_change_is_sent_at_the_next_node(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    subscribe("kept://x/b");
    struct client *first = stream(NULL);
    nodes_update(&all, "kept://x/a");
    struct event_name arrived = last_id(first);
    nodes_update(&all, "kept://x/b");
    nodes_tick(&all, A);
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    struct client *second = stream(arrived.text);
    assert_int_equal(update_count(second, "kept://x/a"), 0);
    assert_int_equal(update_count(second, "kept://x/b"), 1);
    client_free(second);
    client_free(first);
}

/* The second node has it for a moment, and its stream does not arrive either. */
static void unreceived_change_survives_a_second_migration(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    subscribe("kept://x/b");
    struct client *first = stream(NULL);
    nodes_update(&all, "kept://x/a");
    struct event_name arrived = last_id(first);
    nodes_update(&all, "kept://x/b");
    nodes_tick(&all, A);
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    struct client *second = stream(arrived.text);
    nodes_update(&all, "kept://x/a");
    nodes_tick(&all, B);
    nodes_forget_losses(&all);
    assert_int_equal(nodes_bring(&all, A, &s), 0);
    struct client *third = stream(arrived.text);
    assert_int_equal(update_count(third, "kept://x/a"), 1);
    assert_int_equal(update_count(third, "kept://x/b"), 1);
    client_free(third);
    client_free(second);
    client_free(first);
}

/* c was subscribed from an earlier position without a stream: earlier ids do not cover it. */
static void pending_replay_survives_migration(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    subscribe("kept://x/b");
    struct client *first = stream(NULL);
    nodes_update(&all, "kept://x/a");
    char since[128];
    snprintf(since, sizeof(since), "{\"since\":\"%s\"}",
             json_at(client_nth(first, SAID_UPDATED, 0), "params|_meta|dev.tidings/cursor"));
    nodes_update(&all, "kept://x/c");
    nodes_update(&all, "kept://x/a");
    struct event_name arrived = last_id(first);
    client_vanish(first);
    subscribe_with("kept://x/c", since);
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    nodes_forget_losses(&all);
    assert_int_equal(nodes_bring(&all, A, &s), 0);
    struct client *second = stream(arrived.text);
    assert_int_equal(update_count(second, "kept://x/a"), 0);
    assert_int_equal(update_count(second, "kept://x/c"), 1);
    nodes_update(&all, "kept://x/c");
    assert_int_equal(update_count(second, "kept://x/c"), 2);
    client_free(second);
    client_free(first);
}

/* ---- truncated updates ----------------------------------------------------------------------- */

/* The first id of a stream. */
static struct event_name first_id(const struct client *c)
{
    struct event_name id = {""};
    for (size_t i = 0; i < c->count && !id.text[0]; i++) {
        snprintf(id.text, sizeof(id.text), "%s", c->said[i].id);
    }
    assert_true(id.text[0]);
    return id;
}

/* B truncates the local resources of A. Only the start of the stream arrives: durable resources
 * need no truncation because of it. */
static void truncation_is_limited_to_local_resources(void **state)
{
    (void)state;
    static const char *const kept[] = {"kept://x/a", "kept://x/b", "kept://x/c", "kept://x/d"};
    const char *local = "mem://x/a";
    size_t after = 0; /* in the order of their updates */
    if (cursor_order(STR("mem://x/b")) < cursor_order(tidings_str(local))) {
        local = "mem://x/b";
    }
    subscribe(local);
    for (size_t i = 0; i < 4; i++) {
        subscribe(kept[i]);
        after += cursor_order(tidings_str(kept[i])) > cursor_order(tidings_str(local));
    }
    assert_true(after > 0);
    struct client *first = stream(NULL);
    nodes_update(&all, "kept://x/a");
    struct event_name id = last_id(first);
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    struct client *second = stream(id.text);
    assert_int_equal(update_count(second, local), 1);
    struct event_name began = first_id(second);
    assert_non_null(strchr(began.text, '~'));
    nodes_forget_losses(&all);
    assert_int_equal(nodes_bring(&all, A, &s), 0);
    struct client *third = stream(began.text);
    assert_int_equal(update_count(third, local), 1);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(update_count(third, kept[i]), 0);
    }
    client_free(third);
    client_free(second);
    client_free(first);
}

/* ---- in the outbox --------------------------------------------------------------------------- */

/* A change that A has not yet written to its stream when the turn ends. */
static void change_in_this_turn(const char *uri)
{
    struct tidings_change change = {.uri = tidings_str(uri), .kind = TIDINGS_CHANGE_UPDATED};
    all.position++;
    for (size_t i = 0; i < NODES; i++) {
        assert_int_equal(hub_announce_durable(all.at[i].b.hub, &change, all.position, NULL), 0);
        hub_announce_applied(all.at[i].b.hub, all.position);
    }
    (void)mailbox_drain(hub_mailbox(all.at[A].b.hub));
    (void)mailbox_drain(all.at[A].b.worker[0]->mailbox);
}

/* It has an id like every other message, and is stored as sent. */
static void change_written_at_shutdown_is_not_sent_again(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    subscribe("kept://x/b");
    struct client *first = stream(NULL);
    nodes_update(&all, "kept://x/a");
    struct event_name before = last_id(first);
    change_in_this_turn("kept://x/b");
    drain_begin(all.at[A].b.worker[0], 0);
    nodes_run_until_idle(&all);
    assert_int_equal(update_count(first, "kept://x/b"), 1);
    struct event_name id = last_id(first);
    assert_string_not_equal(id.text, before.text);
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    struct client *second = stream(NULL);
    assert_int_equal(client_count(second, SAID_UPDATED), 0);
    client_vanish(second);
    struct client *third = stream(id.text);
    assert_int_equal(client_count(third, SAID_UPDATED), 0);
    client_free(third);
    client_free(second);
    client_free(first);
}

/* Pending updates are sent at the new node: sent here too they would arrive twice. */
static void migrated_session_receives_nothing_at_the_old_node(void **state)
{
    (void)state;
    subscribe("kept://x/a");
    struct client *first = stream(NULL);
    nodes_update(&all, "kept://x/a");
    struct event_name id = last_id(first);
    all.at[A].is_deaf = true;
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    change_in_this_turn("kept://x/a");
    session_migrated(all.at[A].b.worker[0], tidings_str(nodes_row(&all, &s)->key));
    nodes_run_until_idle(&all);
    assert_int_equal(client_count_kind(first, SAID_END), 1);
    assert_int_equal(update_count(first, "kept://x/a"), 1);
    struct client *second = stream(id.text);
    assert_int_equal(update_count(second, "kept://x/a"), 1);
    client_free(second);
    client_free(first);
}

/* ---- copies that were replaced --------------------------------------------------------------- */

/* B replaced the copy of A, and A has no notice of it. A does not know the events after an event
 * of B, and its client need not read everything again because of that. */
static void old_copy_does_not_resume_from_successor_ids(void **state)
{
    (void)state;
    struct session_wait wait;
    int code = 0;
    subscribe("kept://x/a");
    struct client *first = stream(NULL);
    struct event_name old = last_id(first);
    client_vanish(first);
    all.at[A].is_deaf = true;
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    struct client *second = stream(old.text);
    nodes_update(&all, "kept://x/a");
    struct event_name id = last_id(second);
    all.is_unreachable = true;
    nodes_bring_stream(&all, A, &s, id.text, &wait, &code);
    nodes_run_until_idle(&all);
    assert_int_equal(code, TIDINGS_E_BUSY); /* 503: it keeps its session */
    nodes_bring_stream(&all, A, &s, old.text, &wait, &code);
    nodes_run_until_idle(&all);
    assert_int_equal(code, 0); /* A resumes from the ids that it knows */
    all.is_unreachable = false;
    nodes_bring_stream(&all, A, &s, id.text, &wait, &code);
    nodes_run_until_idle(&all);
    assert_int_equal(code, TIDINGS_E_CONFLICT); /* ask again */
    client_free(second);
    client_free(first);
}

/* B dies before it has stored its claim, and A resumes from its own row: all numbers of B are
 * below the current ones. */
static void ids_of_a_node_without_writes_are_valid(void **state)
{
    (void)state;
    struct session_wait wait;
    int code = 0;
    subscribe("kept://x/a");
    struct client *first = stream(NULL);
    struct event_name id = last_id(first);
    client_vanish(first);
    char *written = str_dup(tidings_str(nodes_row(&all, &s)->state));
    assert_non_null(written);
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    struct client *second = stream(NULL);
    nodes_update(&all, "kept://x/a");
    nodes_update(&all, "kept://x/a");
    id = last_id(second);
    nodes_kill(&all, B);
    struct session_memory_row *row = nodes_row(&all, &s);
    mem_free(row->state);
    row->state = str_dup(tidings_str(written));
    mem_free(written);
    nodes_forget_losses(&all);
    nodes_bring_stream(&all, A, &s, id.text, &wait, &code);
    nodes_run_until_idle(&all);
    assert_int_equal(code, 0);
    struct client *third = stream(id.text);
    assert_int_equal(client_count(third, SAID_UPDATED), 0); /* nor is it truncated */
    client_free(third);
    client_free(second);
    client_free(first);
}

/* ---- pending changes ------------------------------------------------------------------------- */

/* The hub of B has numbered changes that its worker has not received: no more than its client
 * knows. */
static void change_queued_for_the_worker_does_not_truncate(void **state)
{
    (void)state;
    struct tidings_change change = {.uri = STR("kept://x/a"), .kind = TIDINGS_CHANGE_UPDATED};
    subscribe("kept://x/a");
    struct client *first = stream(NULL);
    all.at[B].is_behind = true;
    nodes_update(&all, "kept://x/a");
    struct event_name id = last_id(first);
    assert_int_equal(nodes_bring(&all, B, &s), 0);
    assert_int_equal(hub_announce_durable(all.at[B].b.hub, &change, all.position, NULL), 0);
    (void)mailbox_drain(hub_mailbox(all.at[B].b.hub));
    struct client *second = stream(id.text);
    assert_int_equal(client_count(second, SAID_UPDATED), 0);
    all.at[B].is_behind = false;
    memset(all.at[B].missed, 0, sizeof(all.at[B].missed));
    nodes_update(&all, "kept://x/a");
    assert_int_equal(client_count(second, SAID_UPDATED), 1);
    assert_no_json(client_nth(second, SAID_UPDATED, 0), "params|_meta|dev.tidings/truncated");
    client_free(second);
    client_free(first);
}

/* A started after B last read the node list: B is about to learn the epoch of A's cursors. */
static void newly_started_node_is_awaited(void **state)
{
    (void)state;
    struct session_wait wait;
    int code = 0;
    subscribe("kept://x/a");
    struct client *first = stream(NULL);
    struct event_name id = last_id(first);
    all.at[B].is_lonely = true;
    bring_with(&id, &wait, &code);
    assert_int_equal(code, SESSION_AWAITED);
    nodes_catch_up(&all, B);
    assert_int_equal(code, 0);
    struct client *second = stream(id.text);
    assert_int_equal(client_count(second, SAID_UPDATED), 0);
    client_vanish(second);
    /* The same with the session already at the node. */
    nodes_forget_losses(&all);
    all.at[B].is_lonely = true;
    bring_with(&id, &wait, &code);
    assert_int_equal(code, SESSION_AWAITED);
    nodes_catch_up(&all, B);
    assert_int_equal(code, 0);
    client_free(second);
    client_free(first);
}

/* A was silent until other nodes considered its run over, and continues. B does not know that yet:
 * in B's view its client is ahead of A's run. */
static void node_presumed_dead_is_awaited(void **state)
{
    (void)state;
    struct session_wait wait;
    int code = 0;
    subscribe("kept://x/a");
    struct client *first = stream(NULL);
    nodes_update(&all, "kept://x/a");
    nodes_update(&all, "kept://x/a");
    struct event_name id = last_id(first);
    all.at[B].others_ended = all.position - 1;
    bring_with(&id, &wait, &code);
    assert_int_equal(code, SESSION_AWAITED);
    /* Until then it has no subscriptions, and no request may use it. */
    assert_false(session_has_arrived(all.at[B].b.worker[0], tidings_str(s.id)));
    nodes_catch_up(&all, B);
    assert_int_equal(code, 0);
    assert_true(session_has_arrived(all.at[B].b.worker[0], tidings_str(s.id)));
    struct client *second = stream(id.text);
    assert_int_equal(client_count(second, SAID_UPDATED), 0);
    client_free(second);
    client_free(first);
}

/* ---- newer state at the client --------------------------------------------------------------- */

/* The stored row is from before the store lost data. The client received a truncated update for
 * that and has continued since. */
static void session_is_truncated_only_once(void **state)
{
    (void)state;
    struct session_wait wait;
    int code = 0;
    subscribe("kept://x/a");
    struct client *first = stream(NULL);
    nodes_update(&all, "kept://x/a");
    struct event_name id = last_id(first);
    all.lost_below = all.position;
    bring_with(&id, &wait, &code);
    assert_int_equal(code, 0);
    struct client *second = stream(id.text);
    assert_int_equal(client_count(second, SAID_UPDATED), 0);
    nodes_update(&all, "kept://x/a");
    assert_int_equal(client_count(second, SAID_UPDATED), 1);
    client_free(second);
    client_free(first);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(unreceived_change_is_sent_at_the_next_node),
        TEST(unreceived_change_survives_a_second_migration),
        TEST(pending_replay_survives_migration),
        TEST(old_copy_does_not_resume_from_successor_ids),
        TEST(ids_of_a_node_without_writes_are_valid),
        TEST(change_queued_for_the_worker_does_not_truncate),
        TEST(newly_started_node_is_awaited),
        TEST(node_presumed_dead_is_awaited),
        TEST(truncation_is_limited_to_local_resources),
        TEST(change_written_at_shutdown_is_not_sent_again),
        TEST(migrated_session_receives_nothing_at_the_old_node),
        TEST(session_is_truncated_only_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
