/* SPDX-License-Identifier: MIT
 *
 * Watches for list changes. Legacy clients receive list changes without a request, so the server
 * watches what lists need, and only while a stream is open.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/protocol/session.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

static struct harness b;
static struct stub stub, fixed;
static struct harness_session s;

static int begin(void **state)
{
    (void)state;
    harness_init(&b);
    b.options.list_changed_ms = 0;
    harness_start(&b);
    stub_mount(&stub, &b, "mem://x/", 0);
    stub_mount(&fixed, &b, "mem://y/", STUB_FIXED);
    stub_add(&stub, "mem://x/a", false);
    stub_add(&fixed, "mem://y/a", false);
    harness_session(&b, "2025-11-25", &s);
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (s.id[0]) {
        assert_int_equal(session_delete(&s), 204);
    }
    harness_run_until_idle(&b);
    assert_int_equal(stub_watched_all(&stub), 0);
    assert_int_equal(stub_watched_all(&fixed), 0);
    harness_stop(&b);
    return 0;
}

static void list(void)
{
    struct client *c = session_request(&s, "9", "resources/list", NULL);
    harness_run_until_idle(&b);
    assert_non_null(json_at(client_answer(c)->text, "result|resources|0"));
    client_free(c);
}

static struct client *stream(void)
{
    struct client *c = session_stream(&s, NULL);
    harness_run_until_idle(&b);
    return c;
}

static void go(struct client *c)
{
    client_free(c);
    harness_run_until_idle(&b);
}

/* The time within which the stream may return passes. */
static void let_linger_pass(void)
{
    uint64_t before = b.limits.list_linger_ms;
    b.limits.list_linger_ms = 0;
    session_sweep(b.worker[0]);
    b.limits.list_linger_ms = before;
    harness_run_until_idle(&b);
}

static void session_without_a_stream_starts_no_watch(void **state)
{
    (void)state;
    list();
    assert_int_equal(stub_watched_all(&stub), 0);
    assert_int_equal(stub_watched_all(&fixed), 0);
}

static void listed_resources_are_watched_while_a_stream_is_open(void **state)
{
    (void)state;
    struct client *c = stream();
    assert_int_equal(stub_watched(&stub, "mem://x/"), 1);
    assert_int_equal(stub_watched_all(&fixed), 0);
    harness_change(&b, "mem://x/b", TIDINGS_CHANGE_CREATED);
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_LIST), 1);
    go(c);
}

static void stream_reopened_at_once_keeps_the_watch(void **state)
{
    (void)state;
    list();
    go(stream());
    assert_int_equal(stub_watched(&stub, "mem://x/"), 1);
    session_sweep(b.worker[0]);
    harness_run_until_idle(&b);
    assert_int_equal(stub_watched(&stub, "mem://x/"), 1);
    struct client *c = stream();
    let_linger_pass();
    assert_int_equal(stub_watched(&stub, "mem://x/"), 1);
    assert_int_equal(client_count(c, SAID_LIST), 0);
    go(c);
}

static void watch_ends_without_a_stream(void **state)
{
    (void)state;
    go(stream());
    let_linger_pass();
    assert_int_equal(stub_watched_all(&stub), 0);
}

static void session_that_listed_receives_a_list_change(void **state)
{
    (void)state;
    list();
    struct client *c = stream();
    assert_int_equal(client_count(c, SAID_LIST), 1); /* between the list and the stream */
    go(c);
    let_linger_pass();
    c = stream();
    assert_int_equal(client_count(c, SAID_LIST), 1); /* without a stream */
    go(c);
}

static void session_that_never_listed_receives_no_list_change(void **state)
{
    (void)state;
    go(stream());
    let_linger_pass();
    struct client *c = stream();
    assert_int_equal(client_count(c, SAID_LIST), 0);
    go(c);
}

static void stream_closed_while_watch_starts_leaves_nothing(void **state)
{
    (void)state;
    client_free(session_stream(&s, NULL));
    harness_run_until_idle(&b);
    let_linger_pass();
    assert_int_equal(stub_watched_all(&stub), 0);
}

static void session_end_leaves_no_watch(void **state)
{
    (void)state;
    struct client *c = stream();
    assert_int_equal(session_delete(&s), 204);
    s.id[0] = '\0';
    go(c);
    assert_int_equal(stub_watched_all(&stub), 0);
}

static void list_changed_listen_needs_no_uri(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    client_modern(c, "1", "subscriptions/listen",
                  "\"notifications\":{\"resourcesListChanged\":true}");
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_ACK), 1);
    assert_int_equal(stub_watched(&stub, "mem://x/"), 1);
    assert_int_equal(stub_watched_all(&fixed), 0);
    go(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(session_without_a_stream_starts_no_watch),
        TEST(listed_resources_are_watched_while_a_stream_is_open),
        TEST(stream_reopened_at_once_keeps_the_watch),
        TEST(watch_ends_without_a_stream),
        TEST(session_that_listed_receives_a_list_change),
        TEST(session_that_never_listed_receives_no_list_change),
        TEST(stream_closed_while_watch_starts_leaves_nothing),
        TEST(session_end_leaves_no_watch),
        TEST(list_changed_listen_needs_no_uri),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
