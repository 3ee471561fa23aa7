/* SPDX-License-Identifier: MIT
 *
 * The first updates of a new subscription: the current state (`initial`) or the changes since a
 * cursor. Nothing is sent twice or lost, and the cursor never runs ahead.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

#define INITIAL "params|_meta|dev.tidings/initial"
#define TRUNCATED "params|_meta|dev.tidings/truncated"

static struct harness b;
static struct stub stub;

static void start(size_t log_entries)
{
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    b.limits.outbox_max = 1000;
    b.options.log.max_entries = log_entries;
    harness_start(&b);
    stub_mount(&stub, &b, "mem://x/", 0);
    stub_add(&stub, "mem://x/a", false);
    stub_add(&stub, "mem://x/b", false);
    stub_add(&stub, "mem://x/dir/", true);
    stub_add(&stub, "mem://x/dir/c", false);
    stub_add(&stub, "mem://x/dir/d", false);
    stub_add(&stub, "mem://x/e", false);
}

static int begin(void **state)
{
    (void)state;
    start(1000);
    return 0;
}

static int begin_short(void **state)
{
    (void)state;
    start(2);
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_stop(&b);
    return 0;
}

static const char *cursor_text(uint64_t seq)
{
    return text_of("%llx.%llu", (unsigned long long)b.worker[0]->epoch, (unsigned long long)seq);
}

static struct client *listen_since(const char *uri, uint64_t seq)
{
    return listen_with(&b, text_of("[\"%s\"]", uri),
                       text_of("{\"since\":\"%s\"}", cursor_text(seq)));
}

static void update(const char *uri)
{
    harness_update(&b, uri);
    harness_run_until_idle(&b);
}

static void expect(const struct client *c, size_t n, const char *uri, uint64_t version)
{
    const char *text = update_nth(c, NULL, n);
    assert_json(text, "params|uri", uri);
    assert_int_equal(version_of(text), version);
    assert_no_json(text, TRUNCATED);
}

/* ---- initial --------------------------------------------------------------------------------- */

static void literal_receives_its_state_at_once(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/a\",\"mem://x/b\"]",
                                   "{\"uris\":{\"mem://x/a\":{\"initial\":true}}}");
    assert_int_equal(update_count(c, NULL), 1);
    const char *text = update_nth(c, "mem://x/a", 0);
    assert_json(text, INITIAL, "true");
    assert_json(text, "params|uri", "mem://x/a");
    assert_int_equal(cursor_of(text), 0); /* without earlier changes */
    update("mem://x/a");
    assert_int_equal(update_count(c, NULL), 2);
    assert_no_json(update_nth(c, NULL, 1), INITIAL);
    client_free(c);
}

static void container_and_pattern_receive_existing_resources(void **state)
{
    (void)state;
    static const struct {
        const char *uri, *options;
        const char *told[6];
    } table[] = {
        {"mem://x/dir/", "{\"initial\":true}", {"mem://x/dir/c", "mem://x/dir/d"}},
        {"mem://x/*", "{\"initial\":true}", {"mem://x/a", "mem://x/b", "mem://x/e"}},
        {"mem://x/{n}", "{\"initial\":true}", {"mem://x/a", "mem://x/b", "mem://x/e"}},
        {"/[ae]$", "{\"initial\":true,\"match\":\"regex\"}", {"mem://x/a", "mem://x/e"}},
        {"mem://x/none/", "{\"initial\":true}", {NULL}},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct client *c = listen_with(&b, text_of("[\"%s\"]", table[i].uri), table[i].options);
        size_t n = 0;
        for (; n < 6 && table[i].told[n]; n++) {
            const char *text = update_nth(c, table[i].uri, n);
            assert_json(text, "params|uri", table[i].told[n]);
            assert_json(text, INITIAL, "true");
            assert_int_equal(cursor_of(text), 0);
        }
        if (update_count(c, NULL) != n) {
            fail_msg("'%s': %zu told", table[i].uri, update_count(c, NULL));
        }
        client_free(c);
    }
}

static void initial_state_includes_registered_resources(void **state)
{
    (void)state;
    harness_add(&b, "app:///one");
    harness_add(&b, "app:///two");
    struct client *c = listen_with(&b, "[\"app:///\"]", "{\"initial\":true}");
    assert_int_equal(update_count(c, NULL), 2);
    client_free(c);
}

static void pattern_receives_at_most_a_hundred_states(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 150; i++) {
        stub_add(&stub, text_of("mem://x/z%03u", i), false);
    }
    struct client *c = listen_with(&b, "[\"mem://x/z*\"]", "{\"initial\":true}");
    assert_int_equal(update_count(c, NULL), 100);
    assert_json(update_nth(c, NULL, 0), "params|uri", "mem://x/z000");
    assert_json(update_nth(c, NULL, 99), "params|uri", "mem://x/z099");
    client_free(c);
}

static void state_over_limit_becomes_one_truncated_update(void **state)
{
    (void)state;
    b.limits.outbox_max = 10;
    for (unsigned i = 0; i < 50; i++) {
        stub_add(&stub, text_of("mem://x/z%03u", i), false);
    }
    struct client *c = client_http(&b);
    c->pending = 1u << 20; /* only the acknowledgement can be written */
    client_listen_with(c, "1", "[\"mem://x/z*\"]", "{\"initial\":true}");
    harness_run_until_idle(&b);
    client_drain(c);
    harness_run_until_idle(&b);
    size_t n = update_count(c, NULL);
    assert_true(n >= 1 && n <= 11);
    assert_json(update_nth(c, NULL, n - 1), TRUNCATED, "true");
    client_free(c);
}

static void unlistable_state_becomes_a_truncated_update(void **state)
{
    (void)state;
    static struct stub other;
    stub_mount(&other, &b, "mem://y/", 0);
    stub_add(&other, "mem://y/a", false);
    stub.lists_fail = TIDINGS_E_IO;
    struct client *c =
        listen_with(&b, "[\"mem://x/dir/\",\"mem://y/\",\"mem://y/*\"]", "{\"initial\":true}");
    assert_json(update_nth(c, "mem://x/dir/", 0), TRUNCATED, "true");
    /* A client that does not request it does not receive it. */
    assert_int_equal(update_count(c, "mem://y/"), 1);
    assert_json(update_nth(c, "mem://y/", 0), INITIAL, "true");
    assert_int_equal(update_count(c, "mem://y/*"), 1);
    assert_json(update_nth(c, "mem://y/*", 0), INITIAL, "true");
    client_free(c);
    stub.lists_fail = 0;
}

static void initial_state_is_not_throttled(void **state)
{
    (void)state;
    struct client *c =
        listen_with(&b, "[\"mem://x/dir/\"]", "{\"initial\":true,\"windowMs\":60000}");
    assert_int_equal(update_count(c, NULL), 2);
    update("mem://x/dir/c"); /* the first change passes: no update was sent before */
    assert_int_equal(update_count(c, NULL), 3);
    client_free(c);
}

static void change_during_listing_is_sent_and_versions_do_not_decrease(void **state)
{
    (void)state;
    for (int stalls = 0; stalls < 2; stalls++) {
        stub.holds_lists = true;
        struct client *c = client_http(&b);
        client_listen_with(c, "1", "[\"mem://x/dir/\"]", "{\"initial\":true}");
        harness_run_until_idle(&b);
        assert_non_null(stub.waiting);
        c->pending = stalls ? 1u << 20 : 0;
        update("mem://x/dir/c");
        stub_finish_list(&stub);
        harness_run_until_idle(&b);
        client_drain(c);
        harness_run_until_idle(&b);
        uint64_t newest = b.worker[0]->last_seq, last = 0;
        bool told = false;
        for (size_t i = 0; i < update_count(c, NULL); i++) {
            const char *text = update_nth(c, NULL, i);
            if (strcmp(json_at(text, "params|uri"), "mem://x/dir/c") == 0) {
                assert_true(version_of(text) >= last);
                last = version_of(text);
                told = told || !json_at(text, INITIAL);
            }
        }
        assert_int_equal(last, newest);
        assert_true(told);
        client_free(c);
        harness_run_until_idle(&b);
    }
}

static void listen_that_closes_during_listing_is_harmless(void **state)
{
    (void)state;
    stub.holds_lists = true;
    struct client *c = client_http(&b);
    client_listen_with(c, "1", "[\"mem://x/dir/\"]", "{\"initial\":true}");
    harness_run_until_idle(&b);
    assert_non_null(stub.waiting);
    client_free(c);
    harness_run_until_idle(&b);
    stub_finish_list(&stub);
    harness_run_until_idle(&b);
    assert_int_equal(stub_watched_all(&stub), 0);
}

static void unsubscription_during_listing_stops_it(void **state)
{
    (void)state;
    struct client *pipe = client_pipe(&b);
    client_handshake(pipe, "2025-11-25");
    stub.holds_lists = true;
    assert_empty_result(pipe_subscribe_with(pipe, "1", "mem://x/dir/", "{\"initial\":true}"));
    assert_non_null(stub.waiting);
    client_legacy(pipe, NULL, "2", "resources/unsubscribe", "\"uri\":\"mem://x/dir/\"");
    stub_finish_list(&stub);
    harness_run_until_idle(&b);
    assert_int_equal(update_count(pipe, NULL), 0);
    client_free(pipe);
}

static void session_without_a_stream_receives_state_when_it_opens_one(void **state)
{
    (void)state;
    struct harness_session s;
    update("mem://x/a");
    harness_session(&b, "2025-11-25", &s);
    const char *cursor = cursor_text(0);
    assert_empty_result(session_subscribe_with(&s, "mem://x/b", "{\"initial\":true}"));
    assert_empty_result(
        session_subscribe_with(&s, "mem://x/a", text_of("{\"since\":\"%s\"}", cursor)));
    assert_empty_result(session_subscribe_with(&s, "mem://x/e", "{\"since\":\"1.1\"}"));
    struct client *c = session_stream(&s, NULL);
    harness_run_until_idle(&b);
    assert_int_equal(update_count(c, NULL), 3);
    assert_json(update_nth(c, "mem://x/b", 0), INITIAL, "true");
    assert_int_equal(version_of(update_nth(c, "mem://x/a", 0)), 1);
    assert_json(update_nth(c, "mem://x/e", 0), TRUNCATED, "true");
    client_free(c);
    assert_int_equal(session_delete(&s), 204);
}

/* However long the listing takes: otherwise the result would depend on other listings. */
static void truncated_subscription_receives_no_state_listing(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    assert_empty_result(session_subscribe_with(&s, "mem://x/dir/", "{\"initial\":true}"));
    stub.holds_lists = true;
    struct client *c = session_stream(&s, "nothing.7.1");
    harness_run_until_idle(&b);
    assert_non_null(stub.waiting);
    assert_int_equal(update_count(c, NULL), 1);
    assert_json(update_nth(c, NULL, 0), TRUNCATED, "true");
    stub_finish_list(&stub);
    harness_run_until_idle(&b);
    assert_int_equal(update_count(c, NULL), 1);
    client_free(c);
    assert_int_equal(session_delete(&s), 204);
}

static void change_missed_by_session_and_subscription_is_sent_once(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    update("mem://x/a"); /* 1: missed by both */
    assert_empty_result(session_subscribe_with(
        &s, "mem://x/*", text_of("{\"since\":\"%s\",\"windowMs\":60000}", cursor_text(0))));
    update("mem://x/b"); /* 2 */
    struct client *c = session_stream(&s, NULL);
    harness_run_until_idle(&b);
    harness_end_windows(&b);
    assert_int_equal(update_count(c, NULL), 2);
    expect(c, 0, "mem://x/a", 1);
    expect(c, 1, "mem://x/b", 2);
    for (size_t i = 0; i < 2; i++) {
        assert_no_json(update_nth(c, NULL, i), "params|_meta|dev.tidings/merged");
    }
    client_free(c);
    assert_int_equal(session_delete(&s), 204);
}

/* ---- since ----------------------------------------------------------------------------------- */

static void since_replays_each_changed_resource_once(void **state)
{
    (void)state;
    update("mem://x/a");     /* 1 */
    update("mem://x/b");     /* 2 */
    update("mem://x/a");     /* 3 */
    update("mem://x/dir/c"); /* 4 */
    struct client *c = listen_since("mem://x/", 1);
    assert_int_equal(update_count(c, NULL), 3);
    expect(c, 0, "mem://x/b", 2);
    expect(c, 1, "mem://x/a", 3);
    expect(c, 2, "mem://x/dir/c", 4);
    update("mem://x/b");
    assert_int_equal(update_count(c, NULL), 4);
    expect(c, 3, "mem://x/b", 5);
    assert_int_equal(cursor_of(update_nth(c, NULL, 3)), 5);
    client_free(c);
}

static void since_now_replays_nothing(void **state)
{
    (void)state;
    update("mem://x/a");
    struct client *c = listen_since("mem://x/a", 1);
    assert_int_equal(update_count(c, NULL), 0);
    client_free(c);
}

static void uris_can_have_separate_cursors(void **state)
{
    (void)state;
    update("mem://x/a");
    update("mem://x/b");
    char one[64];
    snprintf(one, sizeof(one), "%s", cursor_text(1));
    struct client *c =
        listen_with(&b, "[\"mem://x/a\",\"mem://x/b\",\"mem://x/*\"]",
                    text_of("{\"since\":\"%s\",\"uris\":{\"mem://x/a\":{\"since\":\"%s\"}}}", one,
                            cursor_text(0)));
    assert_int_equal(update_count(c, "mem://x/a"), 1);
    assert_int_equal(update_count(c, "mem://x/b"), 1);
    assert_int_equal(update_count(c, "mem://x/*"), 1);
    client_free(c);
}

static void created_is_sent_only_if_creation_is_after_the_cursor(void **state)
{
    (void)state;
    harness_change(&b, "mem://x/a", TIDINGS_CHANGE_CREATED); /* 1 */
    harness_update(&b, "mem://x/a");                         /* 2 */
    harness_run_until_idle(&b);
    char one[64];
    snprintf(one, sizeof(one), "%s", cursor_text(1));
    struct client *c =
        listen_with(&b, "[\"mem://x/a\",\"mem://x/*\"]",
                    text_of("{\"since\":\"%s\",\"uris\":{\"mem://x/a\":{\"since\":\"%s\"}}}",
                            cursor_text(0), one));
    assert_json(update_nth(c, "mem://x/*", 0), "params|_meta|dev.tidings/change", "created");
    assert_json(update_nth(c, "mem://x/a", 0), "params|_meta|dev.tidings/change", "updated");
    client_free(c);
}

static void unknown_cursor_truncates(void **state)
{
    (void)state;
    update("mem://x/a");
    for (size_t i = 0; i < 2; i++) {
        /* Another epoch, as after a restart; and a number that was not issued yet. */
        const char *given = i == 0 ? "1.1" : cursor_text(100);
        struct client *c =
            listen_with(&b, "[\"mem://x/a\",\"mem://x/*\"]", text_of("{\"since\":\"%s\"}", given));
        assert_int_equal(update_count(c, NULL), 2);
        assert_json(update_nth(c, "mem://x/a", 0), TRUNCATED, "true");
        assert_json(update_nth(c, "mem://x/a", 0), "params|uri", "mem://x/a");
        assert_json(update_nth(c, "mem://x/*", 0), TRUNCATED, "true");
        assert_json(update_nth(c, "mem://x/*", 0), "params|uri", "mem://x/*");
        uint64_t newest = b.worker[0]->last_seq;
        assert_int_equal(cursor_of(update_nth(c, NULL, 1)), newest);
        /* Until then the cursor of the client does not move: an acknowledgement that arrives
         * first must not let it skip the read. */
        struct log_cursor at = {0};
        const char *ack = json_at(client_nth(c, SAID_ACK, 0), "params|_meta|dev.tidings/cursor");
        assert_true(!ack || (cursor_parse(tidings_str(ack), &at) &&
                             (at.epoch != b.worker[0]->epoch || at.seq > newest || at.seq == 0)));
        update("mem://x/b");
        assert_int_equal(update_count(c, NULL), 3);
        client_free(c);
        harness_run_until_idle(&b);
    }
}

static void short_history_truncates(void **state)
{
    (void)state;
    update("mem://x/a");
    update("mem://x/b");
    update("mem://x/dir/c");
    update("mem://x/dir/d"); /* the log keeps 3 and 4 */
    struct client *c = listen_since("mem://x/a", 1);
    assert_int_equal(update_count(c, NULL), 1);
    assert_json(update_nth(c, NULL, 0), TRUNCATED, "true");
    assert_int_equal(cursor_of(update_nth(c, NULL, 0)), 4);
    client_free(c);
    c = listen_since("mem://x/dir/", 2);
    assert_int_equal(update_count(c, NULL), 2);
    expect(c, 0, "mem://x/dir/c", 3);
    client_free(c);
}

static void acknowledgement_cursor_excludes_pending_changes(void **state)
{
    (void)state;
    update("mem://x/a");
    update("mem://x/b");
    struct client *c = client_http(&b);
    client_listen_with(c, "1", "[\"mem://x/\"]", text_of("{\"since\":\"%s\"}", cursor_text(0)));
    /* Turn by turn: whatever the client has seen at any moment, its newest cursor is safe. */
    uint64_t known = 0, cursor = 0;
    size_t seen = 0;
    for (unsigned turn = 0; turn < 50; turn++) {
        for (; seen < c->count; seen++) {
            const char *text = c->said[seen].text;
            if (strcmp(json_at(text, "method"), SAID_UPDATED) == 0) {
                known = version_of(text) > known ? version_of(text) : known;
            }
            cursor = cursor_of(text);
            assert_true(cursor <= known);
        }
        loop_turn(b.loop);
    }
    assert_int_equal(known, 2);
    client_free(c);
}

static void change_during_the_log_query_is_sent_once(void **state)
{
    (void)state;
    /* Wherever the change falls between the request, the watch, the query and its answer. */
    for (unsigned turns = 0; turns < 12; turns++) {
        update("mem://x/a");
        uint64_t before = b.worker[0]->last_seq;
        struct client *c = client_http(&b);
        client_listen_with(c, "1", "[\"mem://x/a\",\"mem://x/b\"]",
                           text_of("{\"since\":\"%s\"}", cursor_text(before - 1)));
        for (unsigned i = 0; i < turns; i++) {
            loop_turn(b.loop);
        }
        harness_update(&b, "mem://x/b");
        harness_run_until_idle(&b);
        assert_int_equal(update_count(c, "mem://x/a"), 1);
        assert_int_equal(version_of(update_nth(c, "mem://x/a", 0)), before);
        assert_int_equal(update_count(c, "mem://x/b"), 1);
        assert_int_equal(version_of(update_nth(c, "mem://x/b", 0)), before + 1);
        assert_no_json(update_nth(c, "mem://x/b", 0), "params|_meta|dev.tidings/merged");
        client_free(c);
        harness_run_until_idle(&b);
    }
}

static void concurrent_log_queries_each_receive_their_own_changes(void **state)
{
    (void)state;
    update("mem://x/a");
    update("mem://x/b");
    struct client *pipe = client_pipe(&b);
    client_handshake(pipe, "2025-11-25");
    const char *options = text_of("{\"since\":\"%s\"}", cursor_text(0));
    client_legacy(pipe, NULL, "1", "resources/subscribe",
                  text_of("\"uri\":\"mem://x/*\",\"_meta\":{\"dev.tidings/options\":%s}", options));
    client_legacy(pipe, NULL, "2", "resources/subscribe",
                  text_of("\"uri\":\"mem://x/\",\"_meta\":{\"dev.tidings/options\":%s}", options));
    harness_run_until_idle(&b);
    assert_int_equal(update_count(pipe, "mem://x/*"), 2);
    assert_int_equal(update_count(pipe, "mem://x/"), 2);
    for (size_t i = 0; i < 4; i++) {
        assert_no_json(update_nth(pipe, NULL, i), "params|_meta|dev.tidings/merged");
    }
    client_free(pipe);
}

static void everything_changes_are_in_the_log(void **state)
{
    (void)state;
    update("mem://x/a");                                       /* 1 */
    assert_int_equal(hub_announce_everything(b.hub, NULL), 0); /* 2 */
    harness_run_until_idle(&b);
    update("mem://x/b"); /* 3 */
    struct client *c = listen_since("mem://x/e", 1);
    assert_int_equal(update_count(c, NULL), 1);
    assert_json(update_nth(c, NULL, 0), TRUNCATED, "true");
    client_free(c);
    c = listen_with(&b, "[\".\"]",
                    text_of("{\"match\":\"regex\",\"since\":\"%s\"}", cursor_text(2)));
    assert_int_equal(update_count(c, NULL), 1);
    expect(c, 0, "mem://x/b", 3);
    client_free(c);
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    session_subscribe(&s, "mem://x/e");
    assert_int_equal(hub_announce_everything(b.hub, NULL), 0);
    harness_run_until_idle(&b);
    c = session_stream(&s, NULL); /* changed while no client was subscribed */
    harness_run_until_idle(&b);
    assert_int_equal(update_count(c, NULL), 1);
    assert_json(update_nth(c, NULL, 0), TRUNCATED, "true");
    client_free(c);
    assert_int_equal(session_delete(&s), 204);
}

static void newer_change_does_not_hide_an_older_matching_one(void **state)
{
    (void)state;
    struct tidings_change error = {.uri = STR("mem://x/a"), .metadata = STR("{\"t\":\"error\"}")};
    struct tidings_change info = {.uri = STR("mem://x/a"), .metadata = STR("{\"t\":\"info\"}")};
    struct tidings_change other = {.uri = STR("mem://x/b"), .metadata = STR("{\"t\":\"info\"}")};
    harness_announce(&b, &error); /* 1 */
    harness_announce(&b, &info);  /* 2 */
    harness_announce(&b, &other); /* 3 */
    harness_run_until_idle(&b);
    struct client *c = listen_since("mem://x/?t=error", 0);
    assert_int_equal(update_count(c, NULL), 1); /* about a: it may have been an error */
    assert_json(update_nth(c, NULL, 0), "params|uri", "mem://x/a");
    client_free(c);
    c = listen_since("mem://x/?t=error", 1); /* the query excludes the info */
    assert_int_equal(update_count(c, NULL), 0);
    client_free(c);
}

int main(void)
{
#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        WITH_BENCH(literal_receives_its_state_at_once),
        WITH_BENCH(container_and_pattern_receive_existing_resources),
        WITH_BENCH(initial_state_includes_registered_resources),
        WITH_BENCH(pattern_receives_at_most_a_hundred_states),
        WITH_BENCH(state_over_limit_becomes_one_truncated_update),
        WITH_BENCH(unlistable_state_becomes_a_truncated_update),
        WITH_BENCH(initial_state_is_not_throttled),
        WITH_BENCH(change_during_listing_is_sent_and_versions_do_not_decrease),
        WITH_BENCH(listen_that_closes_during_listing_is_harmless),
        WITH_BENCH(unsubscription_during_listing_stops_it),
        WITH_BENCH(session_without_a_stream_receives_state_when_it_opens_one),
        WITH_BENCH(truncated_subscription_receives_no_state_listing),
        WITH_BENCH(change_missed_by_session_and_subscription_is_sent_once),
        WITH_BENCH(since_replays_each_changed_resource_once),
        WITH_BENCH(since_now_replays_nothing),
        WITH_BENCH(uris_can_have_separate_cursors),
        WITH_BENCH(created_is_sent_only_if_creation_is_after_the_cursor),
        WITH_BENCH(unknown_cursor_truncates),
        cmocka_unit_test_setup_teardown(short_history_truncates, begin_short, end),
        WITH_BENCH(acknowledgement_cursor_excludes_pending_changes),
        WITH_BENCH(change_during_the_log_query_is_sent_once),
        WITH_BENCH(concurrent_log_queries_each_receive_their_own_changes),
        WITH_BENCH(everything_changes_are_in_the_log),
        WITH_BENCH(newer_change_does_not_hide_an_older_matching_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
