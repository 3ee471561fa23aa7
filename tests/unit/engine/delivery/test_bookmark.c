/* SPDX-License-Identifier: MIT
 *
 * Bookmarks: clients that request them receive the newest cursor from time to time. A client with
 * few matching changes can therefore resume after many other changes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/catchup.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "support/harness_access.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

#define SAID_BOOKMARK "notifications/dev.tidings/bookmark"
#define CURSOR "params|_meta|dev.tidings/cursor"
#define ASKED "{\"bookmarks\":true}"

static struct harness b;
static struct stub stub;

static int begin(void **state)
{
    (void)state;
    harness_init(&b);
    b.options.log.max_entries = 3;
    harness_start(&b);
    stub_mount(&stub, &b, "mem://x/", 0);
    stub_add(&stub, "mem://x/a", false);
    stub_add(&stub, "mem://x/b", false);
    return 0;
}

static int end(void **state)
{
    (void)state;
    b.principal.name = NULL;
    harness_run_until_idle(&b);
    assert_true(list_empty(&b.worker[0]->delivery->bookmarked));
    harness_stop(&b);
    return 0;
}

/* The timer fires. */
static void pass(void)
{
    harness_run_until_idle(&b);
    bookmark_on_period(b.worker[0]->delivery->bookmark_timer, b.worker[0]);
    harness_run_until_idle(&b);
}

static void change_others(void)
{
    for (unsigned i = 0; i < 10; i++) {
        harness_change(&b, text_of("mem://x/other%u", i), TIDINGS_CHANGE_UPDATED);
    }
    harness_run_until_idle(&b);
}

static void bookmark_is_sent_on_request_if_cursor_moved(void **state)
{
    (void)state;
    struct client *asked = listen_with(&b, "[\"mem://x/a\"]", ASKED);
    struct client *other = listen_with(&b, "[\"mem://x/a\"]", NULL);
    assert_true(loop_timer_is_running(b.worker[0]->delivery->bookmark_timer));
    pass();
    assert_int_equal(client_count(asked, SAID_BOOKMARK), 0);
    change_others();
    pass();
    pass();
    assert_int_equal(client_count(asked, SAID_BOOKMARK), 1);
    assert_int_equal(client_count(other, SAID_BOOKMARK), 0);
    const char *text = client_nth(asked, SAID_BOOKMARK, 0);
    assert_int_equal(cursor_of(text), b.worker[0]->last_seq);
    assert_json(text, "params|_meta|io.modelcontextprotocol/subscriptionId", "1");
    client_free(asked);
    client_free(other);
    harness_run_until_idle(&b);
    pass();
    assert_true(list_empty(&b.worker[0]->delivery->bookmarked));
}

/* The updates of a client that resumes with that cursor. */
static bool must_look_again(const char *cursor)
{
    struct client *c = listen_with(&b, "[\"mem://x/a\"]", text_of("{\"since\":\"%s\"}", cursor));
    harness_run_until_idle(&b);
    bool must = update_count(c, NULL) > 0;
    assert_true(!must || json_at(update_nth(c, NULL, 0), "params|_meta|dev.tidings/truncated"));
    client_free(c);
    return must;
}

static void bookmark_preserves_a_cursor_that_would_leave_the_log(void **state)
{
    (void)state;
    char acked[256], marked[256];
    struct client *c = listen_with(&b, "[\"mem://x/a\"]", ASKED);
    change_others();
    pass();
    snprintf(acked, sizeof(acked), "%s", json_at(client_nth(c, SAID_ACK, 0), CURSOR));
    snprintf(marked, sizeof(marked), "%s", json_at(client_nth(c, SAID_BOOKMARK, 0), CURSOR));
    client_free(c);
    assert_true(must_look_again(acked));
    assert_false(must_look_again(marked));
}

static void bookmark_stays_below_held_changes(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/\"]", "{\"bookmarks\":true,\"windowMs\":60000}");
    harness_update(&b, "mem://x/a");
    harness_run_until_idle(&b);
    uint64_t told = cursor_of(client_nth(c, SAID_UPDATED, 0));
    harness_update(&b, "mem://x/b");
    change_others();
    pass();
    assert_int_equal(cursor_of(client_nth(c, SAID_BOOKMARK, 0)), told);
    client_free(c);
}

static void stalled_stream_receives_no_bookmark(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/a\"]", ASKED);
    c->pending = 1u << 20;
    change_others();
    pass();
    assert_int_equal(client_count(c, SAID_BOOKMARK), 0);
    client_drain(c);
    pass();
    assert_int_equal(client_count(c, SAID_BOOKMARK), 1);
    client_free(c);
}

static void bookmark_timing_reveals_no_hidden_changes(void **state)
{
    (void)state;
    static const struct harness_rule rules[] = {{"reader", NULL, "mem://x/a", HARNESS_SEE}};
    harness_rules(&b, rules, 1);
    harness_is(&b, "reader", "");
    struct client *c = listen_with(&b, "[\"mem://x/a\"]", ASKED);
    pass();
    change_others();
    pass();
    assert_int_equal(client_count(c, SAID_BOOKMARK), 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(strlen(json_at(client_nth(c, SAID_BOOKMARK, i), CURSOR)) > CURSOR_TEXT);
    }
    assert_int_equal(client_nth_said(c, SAID_BOOKMARK, 0)->len,
                     client_nth_said(c, SAID_BOOKMARK, 1)->len);
    client_free(c);
}

static void session_receives_bookmark_as_an_event_id(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    assert_non_null(json_at(session_subscribe_with(&s, "mem://x/a", ASKED), "result"));
    pass(); /* without a stream there is no recipient */
    struct client *c = session_stream(&s, NULL);
    change_others();
    pass();
    assert_int_equal(client_count(c, SAID_BOOKMARK), 1);
    assert_no_json(client_nth(c, SAID_BOOKMARK, 0),
                   "params|_meta|io.modelcontextprotocol/subscriptionId");
    char id[256];
    snprintf(id, sizeof(id), "%s", client_nth_said(c, SAID_BOOKMARK, 0)->id);
    client_free(c);
    harness_run_until_idle(&b);
    c = session_stream(&s, id);
    harness_run_until_idle(&b);
    assert_int_equal(update_count(c, NULL), 0); /* nothing was missed */
    session_unsubscribe(&s, "mem://x/a");
    change_others();
    pass();
    assert_int_equal(client_count(c, SAID_BOOKMARK), 0);
    client_free(c);
    assert_int_equal(session_delete(&s), 204);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(bookmark_is_sent_on_request_if_cursor_moved),
        TEST(bookmark_preserves_a_cursor_that_would_leave_the_log),
        TEST(bookmark_stays_below_held_changes),
        TEST(stalled_stream_receives_no_bookmark),
        TEST(bookmark_timing_reveals_no_hidden_changes),
        TEST(session_receives_bookmark_as_an_event_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
