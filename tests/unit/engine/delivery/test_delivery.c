/* SPDX-License-Identifier: MIT
 *
 * Delivery of a matching change: windows and rates of client, mount and application, own changes,
 * changes to everything, replaced options. No cursor is above held changes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/catchup.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

#define TRUNCATED "params|_meta|dev.tidings/truncated"
#define MERGED "params|_meta|dev.tidings/merged"
#define LONG_WINDOW "{\"windowMs\":60000}"

static struct harness b;
static struct stub stub;

static int begin(void **state)
{
    (void)state;
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    harness_start(&b);
    stub_mount(&stub, &b, "mem://x/", 0);
    stub_add(&stub, "mem://x/a", false);
    stub_add(&stub, "mem://x/b", false);
    stub_add(&stub, "mem://x/c", false);
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_stop(&b);
    return 0;
}

static void update(const char *uri)
{
    harness_update(&b, uri);
    harness_run_until_idle(&b);
}

static struct client *pipe_open(void)
{
    struct client *pipe = client_pipe(&b);
    client_handshake(pipe, "2025-11-25");
    return pipe;
}

static void set_rate(const char *uri, uint64_t ms)
{
    assert_int_equal(hub_set_rate(b.hub, tidings_str(uri), ms, NULL), 0);
    harness_run_until_idle(&b);
}

/* ---- windows --------------------------------------------------------------------------------- */

static void first_change_is_sent_at_once_and_the_rest_at_window_end(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/\"]", "{\"windowMs\":300}");
    update("mem://x/a");
    assert_int_equal(update_count(c, NULL), 1);
    assert_no_json(update_nth(c, NULL, 0), MERGED);
    harness_change(&b, "mem://x/a", TIDINGS_CHANGE_DELETED);
    harness_change(&b, "mem://x/a", TIDINGS_CHANGE_CREATED);
    harness_change(&b, "mem://x/b", TIDINGS_CHANGE_CREATED);
    harness_update(&b, "mem://x/b");
    harness_run_until_idle(&b);
    harness_await_windows(&b); /* by the clock */
    assert_int_equal(update_count(c, NULL), 3);
    assert_json(update_nth(c, NULL, 1), "params|uri", "mem://x/a");
    assert_json(update_nth(c, NULL, 1), MERGED, "2");
    assert_json(update_nth(c, NULL, 1), "params|_meta|dev.tidings/change", "updated");
    assert_json(update_nth(c, NULL, 2), "params|uri", "mem://x/b");
    assert_json(update_nth(c, NULL, 2), "params|_meta|dev.tidings/change", "created");
    assert_int_equal(version_of(update_nth(c, NULL, 1)), 3);
    assert_int_equal(version_of(update_nth(c, NULL, 2)), 5);
    client_free(c);
}

static void subscriptions_have_separate_windows(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/a\",\"mem://x/\"]",
                                   "{\"uris\":{\"mem://x/\":{\"windowMs\":60000},"
                                   "\"mem://x/a\":{\"windowMs\":0}}}");
    for (unsigned i = 0; i < 5; i++) {
        update("mem://x/a");
    }
    assert_int_equal(update_count(c, "mem://x/a"), 5);
    assert_int_equal(update_count(c, "mem://x/"), 1);
    harness_end_windows(&b);
    assert_int_equal(update_count(c, "mem://x/"), 2);
    assert_json(update_nth(c, "mem://x/", 1), MERGED, "4");
    client_free(c);
}

static void longer_of_window_and_rate_applies(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        bool holds;
    } table[] = {
        {"{\"windowMs\":0,\"rateMs\":0}", false},
        {"{\"windowMs\":0,\"rateMs\":60000}", true},
        {"{\"windowMs\":60000,\"rateMs\":0}", true},
    };
    for (size_t i = 0; i < 3; i++) {
        struct client *c = listen_with(&b, "[\"mem://x/a\"]", table[i].options);
        update("mem://x/a");
        update("mem://x/a");
        assert_int_equal(update_count(c, NULL), table[i].holds ? 1 : 2);
        harness_end_windows(&b);
        assert_int_equal(update_count(c, NULL), 2);
        client_free(c);
    }
}

static void server_default_window_is_replaced_by_mount_default(void **state)
{
    (void)state;
    static struct stub other;
    b.option_limits.window_ms = 60000;
    stub_mount(&other, &b, "mem://y/", 0);
    stub_add(&other, "mem://y/a", false);
    struct option_rule rule = {.prefix = STR("mem://y/"), .defaults = {.given = OPTION_WINDOW}};
    b.option_limits.rules = &rule;
    b.option_limits.rule_count = 1;
    struct client *c = listen_with(
        &b, "[\"mem://x/a\",\"mem://y/a\",\"mem://y/*\",\"mem://x/b\"]",
        "{\"uris\":{\"mem://x/b\":{\"windowMs\":0},\"mem://y/*\":{\"windowMs\":60000}}}");
    for (unsigned i = 0; i < 3; i++) {
        update("mem://x/a");
        update("mem://x/b");
        update("mem://y/a");
    }
    assert_int_equal(update_count(c, "mem://x/a"), 1); /* the server's */
    assert_int_equal(update_count(c, "mem://x/b"), 3); /* the client's rate */
    assert_int_equal(update_count(c, "mem://y/a"), 3); /* the mount's */
    assert_int_equal(update_count(c, "mem://y/*"), 1); /* the client's rate */
    client_free(c);
    rule.defaults.given |= OPTION_RATE;
    rule.defaults.rate_ms = 60000;
    c = listen_with(&b, "[\"mem://y/a\"]", NULL);
    update("mem://y/a");
    update("mem://y/a");
    assert_int_equal(update_count(c, NULL), 1);
    client_free(c);
}

static void window_overflow_becomes_truncated_update(void **state)
{
    (void)state;
    b.limits.outbox_max = 4;
    struct client *c = listen_with(&b, "[\"mem://x/\"]", LONG_WINDOW);
    update("mem://x/a");
    for (unsigned i = 0; i < 10; i++) {
        update(text_of("mem://x/n%u", i));
    }
    harness_end_windows(&b);
    bool told = false;
    for (size_t i = 0; i < update_count(c, NULL); i++) {
        told = told || json_at(update_nth(c, NULL, i), TRUNCATED);
    }
    assert_true(told);
    client_free(c);
}

static void vanished_client_leaves_no_window(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/a\",\"mem://x/\"]", LONG_WINDOW);
    update("mem://x/a");
    update("mem://x/a");
    assert_int_equal(b.worker[0]->delivery->windows.count, 2);
    client_free(c);
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->delivery->windows.count, 0);
}

static void server_stop_sends_held_updates(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/a\"]", LONG_WINDOW);
    update("mem://x/a");
    update("mem://x/a");
    assert_int_equal(update_count(c, NULL), 1);
    drain_begin(b.worker[0], 0);
    assert_int_equal(update_count(c, NULL), 2); /* before the graceful result */
    assert_int_equal(client_count_kind(c, SAID_END), 1);
    client_free(c);
}

/* ---- cursors --------------------------------------------------------------------------------- */

static void cursor_stays_below_held_changes(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/a\",\"mem://x/b\"]",
                                   "{\"uris\":{\"mem://x/a\":{\"windowMs\":60000}}}");
    update("mem://x/a"); /* 1: told */
    update("mem://x/a"); /* 2: held */
    update("mem://x/b"); /* 3: told */
    update("mem://x/b"); /* 4: told */
    assert_int_equal(cursor_of(update_nth(c, "mem://x/a", 0)), 1);
    assert_int_equal(cursor_of(update_nth(c, "mem://x/b", 0)), 1);
    assert_int_equal(cursor_of(update_nth(c, "mem://x/b", 1)), 1);
    /* A notice for everything must not overtake it either. */
    struct subscription *sub = NULL;
    list_each (it, next, &b.worker[0]->delivery->subscribers) {
        struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        struct subscription_group *listen =
            list_entry(subscriber->groups.next, struct subscription_group, link);
        sub = list_entry(listen->subs.prev, struct subscription, link);
        resync_flag(sub, b.worker[0]->last_seq);
    }
    harness_run_until_idle(&b);
    assert_json(update_nth(c, "mem://x/b", 2), TRUNCATED, "true");
    assert_int_equal(cursor_of(update_nth(c, "mem://x/b", 2)), 1);
    harness_end_windows(&b);
    assert_int_equal(version_of(update_nth(c, "mem://x/a", 1)), 2);
    assert_int_equal(cursor_of(update_nth(c, "mem://x/a", 1)), 4);
    client_free(c);
}

static void windows_that_end_together_keep_the_cursor_order(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/[ac]\",\"mem://x/b\"]",
                                   "{\"uris\":{\"mem://x/[ac]\":{\"windowMs\":50000},"
                                   "\"mem://x/b\":{\"windowMs\":60000}}}");
    update("mem://x/a"); /* 1 */
    update("mem://x/b"); /* 2 */
    update("mem://x/b"); /* 3: held, and due later … */
    update("mem://x/a"); /* 4: … than this … */
    update("mem://x/c"); /* 5: … and this */
    harness_end_windows(&b);
    assert_int_equal(update_count(c, NULL), 5);
    uint64_t untold[] = {3, 4, 5};
    for (size_t i = 2; i < 5; i++) {
        const char *text = update_nth(c, NULL, i);
        untold[version_of(text) - 3] = UINT64_MAX;
        for (size_t k = 0; k < 3; k++) {
            assert_true(cursor_of(text) < untold[k]);
        }
    }
    assert_int_equal(cursor_of(update_nth(c, NULL, 4)), 5);
    client_free(c);
}

static void result_cursor_excludes_changes_held_by_others(void **state)
{
    (void)state;
    struct client *pipe = pipe_open();
    assert_empty_result(pipe_subscribe_with(pipe, "1", "mem://x/a", LONG_WINDOW));
    update("mem://x/a");
    update("mem://x/a"); /* 2: held */
    const char *answer = pipe_subscribe_with(pipe, "2", "mem://x/b", NULL);
    assert_true(number_of(json_at(answer, "result|_meta|dev.tidings/cursor")) <= 1);
    client_listen_with(pipe, "3", "[\"mem://x/c\"]", NULL);
    client_free(pipe);
    /* The same with listens that share a pipe. */
    pipe = client_pipe(&b);
    client_listen_with(pipe, "1", "[\"mem://x/a\"]", LONG_WINDOW);
    harness_run_until_idle(&b);
    update("mem://x/a"); /* 3 */
    update("mem://x/a"); /* 4: held */
    client_listen_with(pipe, "2", "[\"mem://x/b\"]", NULL);
    harness_run_until_idle(&b);
    assert_true(cursor_of(client_nth(pipe, SAID_ACK, 1)) <= 3);
    client_free(pipe);
}

/* ---- rates of the application ---------------------------------------------------------------- */

static void rate_applies_to_current_and_later_subscriptions(void **state)
{
    (void)state;
    struct client *before = listen_with(&b, "[\"mem://x/a\",\"mem://x/\"]", NULL);
    set_rate("mem://x/a", 60000);
    struct client *after = listen_with(&b, "[\"mem://x/a\",\"mem://x/*\",\"mem://x/b\"]", NULL);
    for (unsigned i = 0; i < 4; i++) {
        update("mem://x/a");
        update("mem://x/b");
    }
    assert_int_equal(update_count(before, "mem://x/a"), 1);
    assert_int_equal(update_count(before, "mem://x/"), 1);
    assert_int_equal(update_count(after, "mem://x/a"), 1);
    assert_int_equal(update_count(after, "mem://x/*"), 1);
    assert_int_equal(update_count(after, "mem://x/b"), 4);
    harness_end_windows(&b);
    assert_json(update_nth(before, "mem://x/a", 1), MERGED, "3");
    client_free(before);
    client_free(after);
}

static void held_changes_are_sent_first_when_rate_is_lifted(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/a\"]", NULL);
    set_rate("mem://x/a", 60000);
    update("mem://x/a"); /* 1 */
    update("mem://x/a"); /* 2: held */
    set_rate("mem://x/a", 0);
    update("mem://x/a");       /* 3 */
    harness_await_windows(&b); /* nothing waits for the finished period */
    uint64_t last = 0;
    for (size_t i = 0; i < update_count(c, NULL); i++) {
        assert_true(version_of(update_nth(c, NULL, i)) > last);
        last = version_of(update_nth(c, NULL, i));
    }
    assert_int_equal(last, 3);
    update("mem://x/a");
    update("mem://x/a");
    assert_int_equal(version_of(update_nth(c, NULL, update_count(c, NULL) - 1)), 5);
    client_free(c);
}

static void rate_does_not_shorten_the_requested_window(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/a\"]", LONG_WINDOW);
    set_rate("mem://x/a", 1);
    update("mem://x/a");
    update("mem://x/a");
    assert_int_equal(update_count(c, NULL), 1);
    assert_true(windows_next(&b.worker[0]->delivery->windows) > loop_now_ms(b.loop) + 50000);
    client_free(c);
}

/* ---- own changes ----------------------------------------------------------------------------- */

static void announce_as(const char *uri, const char *origin)
{
    struct tidings_change change = {.uri = tidings_str(uri), .origin = tidings_str(origin)};
    harness_announce(&b, &change);
    harness_run_until_idle(&b);
}

static void own_changes_are_omitted_on_request(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        bool hears_me, hears_you, hears_nobody;
    } table[] = {
        {"{\"origin\":\"me\",\"echo\":false}", false, true, true},
        {"{\"origin\":\"me\",\"echo\":true}", true, true, true},
        {"{\"origin\":\"me\"}", true, true, true},
        {"{\"echo\":false}", true, true, true},
    };
    for (size_t i = 0; i < 4; i++) {
        struct client *c = listen_with(&b, "[\"mem://x/a\"]", table[i].options);
        struct client *pipe = pipe_open();
        assert_empty_result(pipe_subscribe_with(pipe, "1", "mem://x/a", table[i].options));
        announce_as("mem://x/a", "me");
        assert_int_equal(update_count(c, NULL), table[i].hears_me);
        announce_as("mem://x/a", "you");
        announce_as("mem://x/a", "");
        announce_as("mem://x/a", "mee");
        size_t expected = 2u + table[i].hears_me + table[i].hears_you + table[i].hears_nobody - 1u;
        assert_int_equal(update_count(c, NULL), expected);
        assert_int_equal(update_count(pipe, NULL), expected);
        client_free(c);
        client_free(pipe);
    }
}

static void own_change_does_not_hide_changes_by_others(void **state)
{
    (void)state;
    struct client *c =
        listen_with(&b, "[\"mem://x/a\"]", "{\"origin\":\"me\",\"echo\":false,\"windowMs\":60000}");
    announce_as("mem://x/a", "you"); /* 1: passes */
    announce_as("mem://x/a", "you"); /* 2: held */
    announce_as("mem://x/a", "me");  /* omitted before merging */
    harness_end_windows(&b);
    assert_int_equal(update_count(c, NULL), 2);
    assert_int_equal(version_of(update_nth(c, NULL, 1)), 2);
    assert_no_json(update_nth(c, NULL, 1), MERGED);
    client_free(c);
}

/* ---- everything ------------------------------------------------------------------------------ */

static void everything_change_sends_one_update_per_subscription(void **state)
{
    (void)state;
    struct client *c =
        listen_with(&b, "[\"mem://x/a\",\"mem://x/b\",\"mem://x/\",\"mem://x/*\"]", LONG_WINDOW);
    struct client *pipe = pipe_open();
    assert_empty_result(pipe_subscribe_with(pipe, "1", "mem://x/a", NULL));
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(hub_announce_everything(b.hub, NULL), 0);
    }
    harness_run_until_idle(&b);
    assert_int_equal(update_count(c, NULL), 4);
    assert_int_equal(update_count(pipe, NULL), 1);
    for (size_t i = 0; i < 4; i++) {
        assert_json(update_nth(c, NULL, i), TRUNCATED, "true");
        assert_json(update_nth(c, NULL, i), "params|uri",
                    json_at(update_nth(c, NULL, i), "params|subscribedUri"));
    }
    assert_int_equal(cursor_of(update_nth(c, NULL, 3)), 3);
    client_free(c);
    client_free(pipe);
}

/* ---- resubscription -------------------------------------------------------------------------- */

static void resubscription_replaces_the_options(void **state)
{
    (void)state;
    struct client *pipe = pipe_open();
    assert_empty_result(pipe_subscribe_with(pipe, "1", "mem://x/a", LONG_WINDOW));
    assert_empty_result(
        pipe_subscribe_with(pipe, "2", "mem://x/a", "{\"windowMs\":0,\"include\":\"metadata\"}"));
    update("mem://x/a");
    update("mem://x/a");
    assert_int_equal(update_count(pipe, NULL), 2);
    assert_json(update_nth(pipe, NULL, 1), "params|metadata|change_type", "updated");
    assert_int_equal(b.worker[0]->stats.subscriptions, 1);
    assert_int_equal(stub_watched(&stub, "mem://x/a"), 1);
    /* Another kind with the same spelling. */
    assert_empty_result(pipe_subscribe_with(pipe, "3", "mem://x/a", "{\"match\":\"container\"}"));
    assert_int_equal(stub_watched(&stub, "mem://x/a"), 0);
    assert_int_equal(stub_watched(&stub, "mem://x/a/"), 1);
    update("mem://x/a/below");
    assert_int_equal(update_count(pipe, NULL), 3);
    client_free(pipe);
    harness_run_until_idle(&b);
    assert_int_equal(stub_watched_all(&stub), 0);
}

static void resubscription_keeps_held_changes(void **state)
{
    (void)state;
    struct client *pipe = pipe_open();
    assert_empty_result(pipe_subscribe_with(pipe, "1", "mem://x/a", LONG_WINDOW));
    update("mem://x/a"); /* 1 */
    update("mem://x/a"); /* 2: held */
    assert_empty_result(pipe_subscribe_with(pipe, "2", "mem://x/a", "{\"windowMs\":0}"));
    assert_int_equal(update_count(pipe, NULL), 2); /* the change, or "read again" */
    pipe->pending = 1u << 20;
    update("mem://x/a"); /* 3: waits for room */
    assert_empty_result(pipe_subscribe_with(pipe, "3", "mem://x/a", LONG_WINDOW));
    client_drain(pipe);
    harness_run_until_idle(&b);
    harness_end_windows(&b);
    assert_int_equal(update_count(pipe, NULL), 3);
    client_free(pipe);
}

static void refused_resubscription_keeps_old_options(void **state)
{
    (void)state;
    struct client *pipe = pipe_open();
    assert_empty_result(pipe_subscribe_with(pipe, "1", "mem://x/a", "{\"windowMs\":0}"));
    const char *answer = pipe_subscribe_with(pipe, "2", "mem://x/a", "{\"windowMs\":\"no\"}");
    assert_json(answer, "error|code", "-32602");
    assert_non_null(strstr(json_at(answer, "error|message"), "windowMs"));
    update("mem://x/a");
    assert_int_equal(update_count(pipe, NULL), 1);
    client_free(pipe);
}

int main(void)
{
#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        WITH_BENCH(first_change_is_sent_at_once_and_the_rest_at_window_end),
        WITH_BENCH(subscriptions_have_separate_windows),
        WITH_BENCH(longer_of_window_and_rate_applies),
        WITH_BENCH(server_default_window_is_replaced_by_mount_default),
        WITH_BENCH(window_overflow_becomes_truncated_update),
        WITH_BENCH(vanished_client_leaves_no_window),
        WITH_BENCH(server_stop_sends_held_updates),
        WITH_BENCH(cursor_stays_below_held_changes),
        WITH_BENCH(windows_that_end_together_keep_the_cursor_order),
        WITH_BENCH(result_cursor_excludes_changes_held_by_others),
        WITH_BENCH(rate_applies_to_current_and_later_subscriptions),
        WITH_BENCH(held_changes_are_sent_first_when_rate_is_lifted),
        WITH_BENCH(rate_does_not_shorten_the_requested_window),
        WITH_BENCH(own_changes_are_omitted_on_request),
        WITH_BENCH(own_change_does_not_hide_changes_by_others),
        WITH_BENCH(everything_change_sends_one_update_per_subscription),
        WITH_BENCH(resubscription_replaces_the_options),
        WITH_BENCH(resubscription_keeps_held_changes),
        WITH_BENCH(refused_resubscription_keeps_old_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
