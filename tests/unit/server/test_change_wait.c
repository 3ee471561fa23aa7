/* SPDX-License-Identifier: MIT
 *
 * Calls that wait for a change: no change is lost between two calls, and every way a wait ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/hub_internal.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "store/change.h"
#include "support/harness_change.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"
#include "support/harness_tool.h"

/* ---- existing resources ---------------------------------------------------------------------- */

static void first_wait_reports_existing_resources(void **state)
{
    (void)state;
    const char *uris = "\"uris\":[\"mem:///b\",\"mem:///a\",\"mem:///row/\"]";
    const char *text = ask_changes("wait", uris);
    assert_count(text, 2);
    assert_change(text, 0, "mem:///b", "exists");
    assert_change(text, 1, "mem:///a", "exists");
    assert_json(text, FOUND "timedOut", "false");
    assert_no_json(text, FOUND "changes|0|at"); /* without a modification time */
    struct client *c = begin_call("wait", with_cursor(uris));
    assert_true(c->is_waiting); /* the client has received it */
    harness_update(&harness_changes, "mem:///a");
    harness_run_until_idle(&harness_changes);
    text = end_call(c);
    assert_count(text, 1);
    assert_change(text, 0, "mem:///a", "updated");
}

static void read_new(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    struct tidings_error err = {0, ""};
    tidings_read_done(read, tidings_read_text(read, NULL, STR("new"), &err), &err);
}

static void existing_resources_have_time_and_content(void **state)
{
    (void)state;
    struct tidings_resource about = tidings_resource("mem:///built", "built", NULL);
    about.modified_ms = 1000;
    struct catalog_entry *e = catalog_entry_create(&about, false, read_new, NULL, NULL);
    assert_int_equal(hub_add_entry(harness_changes.hub, e, NULL), 0);
    harness_run_until_idle(&harness_changes);
    const char *text = ask_changes("wait", "\"uris\":[\"mem:///built\"],\"includeContent\":true");
    assert_change(text, 0, "mem:///built", "exists");
    assert_json(text, FOUND "changes|0|at", "1970-01-01T00:00:01.000Z");
    assert_content(text, 0, 1, "new");
}

static void wait_with_cursor_omits_existing_resources(void **state)
{
    (void)state;
    assert_count(ask_changes("since", "\"uris\":[\"mem:///a\"]"), 0);
    assert_count(ask_changes("wait", with_cursor("\"uris\":[\"mem:///a\"],\"timeoutMs\":0")), 0);
    assert_count(ask_changes("wait", "\"timeoutMs\":0"), 0); /* nothing is named */
    assert_count(ask_changes("wait", "\"uris\":[\"mem:///a\"],\"timeoutMs\":0"), 1);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* A pending wait: its client has seen the existing resources. */
static struct client *begin_wait(const char *uris)
{
    ask_changes("since", uris);
    struct client *c = begin_call("wait", with_cursor(uris));
    assert_true(c->is_waiting);
    return c;
}

static void wait_returns_on_first_change(void **state)
{
    (void)state;
    struct client *c = begin_call("wait", "\"uris\":[\"mem:///row/\"]");
    harness_update(&harness_changes, "mem:///a");
    harness_run_until_idle(&harness_changes);
    assert_true(c->is_waiting);
    assert_int_equal(harness_changes.worker[0]->stats.subscribers, 1);
    harness_change(&harness_changes, "mem:///row/1", TIDINGS_CHANGE_CREATED);
    harness_run_until_idle(&harness_changes);
    const char *text = end_call(c);
    assert_count(text, 1);
    assert_change(text, 0, "mem:///row/1", "created");
    assert_json(text, FOUND "timedOut", "false");
}

static void wait_with_cursor_returns_missed_changes_at_once(void **state)
{
    (void)state;
    ask_changes("since", "");
    harness_update(&harness_changes, "mem:///a");
    harness_run_until_idle(&harness_changes);
    assert_change(ask_changes("wait", with_cursor("\"uris\":[\"mem:///a\"]")), 0, "mem:///a",
                  "updated");
    struct client *c = begin_call("wait", with_cursor("\"uris\":[\"mem:///a\"]"));
    assert_true(c->is_waiting);
    harness_update(&harness_changes, "mem:///a");
    harness_run_until_idle(&harness_changes);
    assert_change(end_call(c), 0, "mem:///a", "updated");
}

static void changes_between_two_waits_are_kept(void **state)
{
    (void)state;
    enum { CHANGES = 2000 };
    unsigned char seen[CHANGES] = {0};
    unsigned random = 12345;
    size_t count = 0;
    int announced = 0;
    ask_changes("since", "\"uris\":[\"mem:///row/{id}\"]");
    while (count < CHANGES) {
        struct client *c = client_http(&harness_changes);
        client_call(c, "1", "wait",
                    text_of("\"arguments\":{%s}", with_cursor("\"uris\":[\"mem:///row/{id}\"]")),
                    NULL);
        while (c->is_waiting) { /* a few at any moment of its life */
            random = random * 1103515245u + 12345u;
            for (unsigned k = (random >> 16) % 4; k > 0 && announced < CHANGES; k--) {
                harness_update(&harness_changes, text_of("mem:///row/%d", announced++));
            }
            loop_turn(harness_changes.loop);
        }
        const char *text = end_call(c), *uri;
        for (int i = 0; (uri = json_at(text, text_of(FOUND "changes|%d|uri", i))) != NULL; i++) {
            long n = strtol(uri + strlen("mem:///row/"), NULL, 10);
            assert_in_range(n, 0, CHANGES - 1);
            assert_int_equal(seen[n]++, 0);
            count++;
        }
        assert_no_json(text, FOUND "gap");
    }
}

static void wait_reports_timeout_at_deadline(void **state)
{
    (void)state;
    struct client *c = begin_call("wait", "\"timeoutMs\":30");
    harness_until(&harness_changes, client_has_answer, c);
    const char *text = end_call(c);
    assert_json(text, FOUND "timedOut", "true");
    assert_count(text, 0);
    harness_update(&harness_changes, "mem:///a");
    harness_run_until_idle(&harness_changes);
    assert_count(ask_changes("wait", with_cursor("\"timeoutMs\":0")), 1);
    assert_json(ask_changes("wait", with_cursor("\"timeoutMs\":0")), FOUND "timedOut", "true");
}

/* ---- waits that nothing can match ------------------------------------------------------------ */

static void wait_returns_at_once_if_nothing_can_match(void **state)
{
    (void)state;
    const char *never = "\"uris\":[\"mem:///no/*\",\"mem:///none/{x}\"]";
    for (int round = 0; round < 2; round++) {
        const char *text = ask_changes("wait", round == 0 ? never : with_cursor(never));
        assert_count(text, 0);
        assert_json(text, FOUND "timedOut", "false");
        assert_json(text, FOUND "warnings|0|uri", "mem:///no/*");
        assert_json(text, FOUND "warnings|1|uri", "mem:///none/{x}");
        assert_non_null(strstr(json_at(text, FOUND "warnings|1|reason"), "registered later"));
        assert_no_json(text, FOUND "warnings|2");
        assert_no_json(text, FOUND "refused");
    }
    assert_json(ask_changes("since", never), FOUND "warnings|1|uri", "mem:///none/{x}");
    /* A change announced anyway is reported. */
    harness_change(&harness_changes, "mem:///no/1", TIDINGS_CHANGE_CREATED);
    harness_run_until_idle(&harness_changes);
    const char *text = ask_changes("wait", with_cursor(never));
    assert_count(text, 1);
    assert_change(text, 0, "mem:///no/1", "created");
}

static void wait_continues_if_one_uri_can_change(void **state)
{
    (void)state;
    const char *uris = "\"uris\":[\"mem:///no/*\",\"mem:///row/*\",\"other:///x\"]";
    struct client *c = begin_call("wait", uris);
    assert_true(c->is_waiting);
    harness_change(&harness_changes, "mem:///row/1", TIDINGS_CHANGE_CREATED);
    harness_run_until_idle(&harness_changes);
    const char *text = end_call(c);
    assert_change(text, 0, "mem:///row/1", "created");
    assert_json(text, FOUND "warnings|0|uri", "mem:///no/*");
    assert_no_json(text, FOUND "warnings|1");
    assert_json(text, FOUND "refused|0|uri", "other:///x");
    text = ask_changes("wait", text_of("\"timeoutMs\":0,%s", with_cursor(uris)));
    assert_json(text, FOUND "timedOut", "true");
    assert_no_json(ask_changes("since", "\"uris\":[\"mem:///row/*\"]"), FOUND "warnings");
}

/* ---- end of a wait --------------------------------------------------------------------------- */

static void wait_is_dropped_if_client_disconnects(void **state)
{
    (void)state;
    struct client *c = begin_call("wait", "");
    assert_int_equal(harness_changes.worker[0]->stats.subscribers, 1);
    client_free(c);
    harness_run_until_idle(&harness_changes);
    assert_int_equal(harness_changes.worker[0]->stats.subscribers, 0);
    c = client_http(
        &harness_changes); /* and a client that disconnects before its URIs are resolved */
    client_call(c, "1", "wait", "\"arguments\":{}", NULL);
    client_free(c);
    harness_run_until_idle(&harness_changes);
    struct client *pipe = client_pipe(&harness_changes);
    client_handshake(pipe, "2025-11-25");
    client_legacy(pipe, NULL, "7", "tools/call", "\"name\":\"wait\"");
    harness_run_until_idle(&harness_changes);
    client_notify(pipe, NULL, "notifications/cancelled", "\"requestId\":7");
    harness_run_until_idle(&harness_changes);
    assert_true(list_empty(&harness_changes.worker[0]->handlers->calls));
    client_free(pipe);
}

static bool has_no_handlings(void *user)
{
    (void)user;
    return list_empty(&harness_changes.worker[0]->handlers->calls);
}

static void lost_session_connection_ends_wait(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&harness_changes, "2025-11-25", &s);
    struct client *c = session_request(&s, "1", "tools/call", "\"name\":\"wait\"");
    harness_run_until_idle(&harness_changes);
    client_free(c);
    assert_false(has_no_handlings(NULL)); /* in that era this cancels nothing … */
    harness_until(&harness_changes, has_no_handlings,
                  NULL); /* … but no client remains for the answer */
    assert_int_equal(session_delete(&s), 204);
}

/* The pending wait; fails the test if there is none. */
static struct subscriber *subscriber_that_waits(void)
{
    const struct list *all = &harness_changes.worker[0]->delivery->subscribers;
    assert_false(list_empty(all));
    return list_entry(all->next, struct subscriber, link);
}

static void server_stop_ends_wait_with_cursor(void **state)
{
    (void)state;
    struct client *c = begin_wait("\"uris\":[\"mem:///a\"]");
    drain_begin(harness_changes.worker[0], 10000);
    harness_run_until_idle(&harness_changes);
    const char *text = end_call(c);
    assert_json(text, FOUND "timedOut", "true");
    assert_non_null(json_at(text, FOUND "cursor"));
    assert_json(ask_changes("wait", ""), FOUND "timedOut", "true"); /* and a new one arrives now */
}

static void application_can_end_wait(void **state)
{
    (void)state;
    struct client *c = begin_wait("\"uris\":[\"mem:///a\"]");
    subscriber_disconnect(subscriber_that_waits());
    harness_run_until_idle(&harness_changes);
    assert_json(end_call(c), FOUND "timedOut", "true");
}

static void wait_ends_if_its_subscriptions_are_revoked(void **state)
{
    (void)state;
    struct client *c = begin_wait("\"uris\":[\"mem:///a\",\"mem:///b\"]");
    struct subscription_group *listen =
        list_entry(subscriber_that_waits()->groups.next, struct subscription_group, link);
    subscription_withdraw(list_entry(listen->subs.next, struct subscription, link));
    harness_run_until_idle(&harness_changes);
    assert_true(c->is_waiting);
    subscription_withdraw(list_entry(listen->subs.next, struct subscription, link));
    harness_run_until_idle(&harness_changes);
    assert_json(end_call(c), FOUND "timedOut", "true");
}

/* Numbered and stored, but its message to the worker is not sent. */
static void change_in_the_log_alone(const char *uri)
{
    struct changelog *log = harness_changes.hub->log;
    struct tidings_change about = {.uri = tidings_str(uri)};
    struct change *change = change_create(&about, log->ops->epoch(log), log->ops->next(log));
    assert_int_equal(log->ops->append(log, change), 0);
    change_unref(change);
}

static void watcher_rescans_after_lost_messages(void **state)
{
    (void)state;
    struct client *c = begin_wait("\"uris\":[\"mem:///a\"]");
    delivery_overflow(harness_changes.worker[0]);
    harness_run_until_idle(&harness_changes);
    assert_true(c->is_waiting); /* the log has nothing */
    change_in_the_log_alone("mem:///a");
    harness_run_until_idle(&harness_changes);
    assert_true(c->is_waiting);
    delivery_overflow(harness_changes.worker[0]);
    harness_run_until_idle(&harness_changes);
    const char *text = end_call(c);
    assert_count(text, 1);
    assert_change(text, 0, "mem:///a", "updated");
}

static void waits_count_as_calls_and_as_broad_subscriptions(void **state)
{
    (void)state;
    struct client *c[16];
    for (size_t i = 0; i < 16; i++) {
        c[i] = begin_call("wait", "");
    }
    struct client *beyond = begin_call("since", "\"uris\":[\"mem:///a\"]");
    assert_non_null(strstr(client_answer(beyond)->text, "--max-calls"));
    client_free(beyond);
    for (size_t i = 0; i < 16; i++) {
        client_free(c[i]);
    }
    harness_run_until_idle(&harness_changes);
    harness_changes.limits.max_broad = 0;
    assert_non_null(strstr(ask_changes("since", ""), "'**'"));
    assert_count(ask_changes("since", "\"uris\":[\"mem:///a\"]"), 0);
}

static void change_tools_require_subscriptions(void **state)
{
    (void)state;
    harness_changes.self.no_subscriptions = true;
    assert_non_null(strstr(ask_changes("since", ""), "offers no subscriptions"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(first_wait_reports_existing_resources, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(existing_resources_have_time_and_content, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(wait_with_cursor_omits_existing_resources, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(wait_returns_on_first_change, changes_begin, changes_end),
        cmocka_unit_test_setup_teardown(wait_with_cursor_returns_missed_changes_at_once,
                                        changes_begin, changes_end),
        cmocka_unit_test_setup_teardown(changes_between_two_waits_are_kept,
                                        changes_begin_with_a_long_log, changes_end),
        cmocka_unit_test_setup_teardown(wait_reports_timeout_at_deadline, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(wait_returns_at_once_if_nothing_can_match, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(wait_continues_if_one_uri_can_change, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(wait_is_dropped_if_client_disconnects, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(lost_session_connection_ends_wait, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(server_stop_ends_wait_with_cursor, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(application_can_end_wait, changes_begin, changes_end),
        cmocka_unit_test_setup_teardown(wait_ends_if_its_subscriptions_are_revoked, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(watcher_rescans_after_lost_messages, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(waits_count_as_calls_and_as_broad_subscriptions,
                                        changes_begin, changes_end),
        cmocka_unit_test_setup_teardown(change_tools_require_subscriptions, changes_begin,
                                        changes_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
