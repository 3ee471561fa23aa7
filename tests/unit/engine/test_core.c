/* SPDX-License-Identifier: MIT
 *
 * A worker as a whole: shutdown, disconnection during work, and no leaks after many clients. For
 * failed allocations see test_fault.c.
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
#include "engine/protocol/session.h"
#include "support/fail_alloc.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_provider.h"

#define CYCLES 10000

static struct harness b;
static struct fake fake;

static int setup(void **state)
{
    (void)state;
    fail_alloc_start(0);
    harness_init(&b);
    harness_start(&b);
    fake_mount(&fake, &b);
    fake_add(&fake, "mem://x/a");
    fake_add(&fake, "mem://x/b");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_run_until_idle(&b);
    harness_stop(&b);
    assert_int_equal(fail_alloc_live(), 0);
    return 0;
}

static void update(const char *uri)
{
    harness_update(&b, uri);
    harness_run_until_idle(&b);
}

/* ---- stopping -------------------------------------------------------------------------------- */

static void server_stop_answers_listens_and_ends_sessions(void **state)
{
    (void)state;
    struct client *http = client_http(&b), *pipe = client_pipe(&b), *arming = client_http(&b);
    client_listen(http, "7", "[\"mem://x/a\"]");
    client_listen(pipe, "\"p\"", "[\"mem://x/a\"]");
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    session_subscribe(&s, "mem://x/b");
    struct client *stream = session_stream(&s, NULL);
    harness_run_until_idle(&b);
    fake.holds_watches = true;
    fake_add(&fake, "mem://x/c");
    client_listen(arming, "8", "[\"mem://x/c\"]");
    harness_run_until_idle(&b);
    harness_update(&b, "mem://x/a"); /* changes known before the end are sent */
    harness_update(&b, "mem://x/b");
    loop_turn(b.loop);
    loop_turn(b.loop);
    drain_begin(b.worker[0], 0);
    static const char *const id = "result|_meta|io.modelcontextprotocol/subscriptionId";
    assert_int_equal(client_count(http, SAID_UPDATED), 1);
    const struct utterance *result = &http->said[http->count - 2];
    assert_json(result->text, "id", "7");
    assert_json(result->text, "result|resultType", "complete");
    assert_json(result->text, id, "7");
    assert_int_equal(http->said[http->count - 1].kind, SAID_END);
    size_t results = 0;
    for (size_t i = 0; i < pipe->count; i++) {
        results += pipe->said[i].text && json_at(pipe->said[i].text, id) != NULL;
    }
    assert_int_equal(results, 1);
    assert_int_equal(client_count(stream, SAID_UPDATED), 1);
    assert_int_equal(client_count_kind(stream, SAID_END), 1);
    assert_int_equal(client_count_kind(arming, SAID_END), 1);
    assert_int_equal(b.worker[0]->stats.sessions, 0);
    harness_run_until_idle(&b);
    fake_finish_watches(&fake, 0, NULL);
    harness_run_until_idle(&b);
    assert_int_equal(fake.armed, 0);
    assert_int_equal(b.worker[0]->delivery->match.count, 0);
    /* No new listens. */
    struct client *late = client_http(&b);
    client_listen(late, "9", "[\"mem://x/a\"]");
    assert_non_null(json_at(client_answer(late)->text, "error|message"));
    client_legacy(late, NULL, "1", "initialize", "\"protocolVersion\":\"2025-11-25\"");
    assert_non_null(json_at(late->said[1].text, "error|message"));
    client_free(late);
    client_free(http);
    client_free(pipe);
    client_free(arming);
    client_free(stream);
}

#define CROWD 40

static size_t ended_of(struct client *const *crowd)
{
    size_t ended = 0;
    for (size_t i = 0; i < CROWD; i++) {
        ended += client_count_kind(crowd[i], SAID_END);
    }
    return ended;
}

static void many_listens_end_gradually(void **state)
{
    (void)state;
    struct client *crowd[CROWD];
    for (size_t i = 0; i < CROWD; i++) {
        crowd[i] = client_http(&b);
        client_listen(crowd[i], "1", "[\"mem://x/a\"]");
    }
    struct client *pipe = client_pipe(&b);
    client_listen(pipe, "1", "[\"mem://x/a\"]");
    struct harness_session s; /* without a stream there is no recipient */
    harness_session(&b, "2025-11-25", &s);
    harness_run_until_idle(&b);
    drain_begin(b.worker[0], 3600 * 1000);
    loop_turn(b.loop);
    loop_turn(b.loop);
    assert_in_range(ended_of(crowd), 0, 1);
    assert_int_equal(b.worker[0]->stats.sessions, 1);
    update("mem://x/a"); /* the other lists exist as before */
    assert_int_equal(client_count(crowd[CROWD - 1], SAID_UPDATED), 1);
    assert_false(drain_is_done_with(b.worker[0], &pipe->channel));
    drain_begin(b.worker[0], 0);
    assert_true(drain_is_done_with(b.worker[0], &pipe->channel));
    client_free(pipe);
    assert_int_equal(ended_of(crowd), CROWD);
    assert_int_equal(b.worker[0]->stats.sessions, 0);
    for (size_t i = 0; i < CROWD; i++) {
        assert_json(crowd[i]->said[crowd[i]->count - 2].text, "result|resultType", "complete");
        client_free(crowd[i]);
    }
}

static void disconnection_during_work_leaks_nothing(void **state)
{
    (void)state;
    fake.holds_watches = true;
    struct client *listen = client_http(&b), *pipe = client_pipe(&b);
    client_listen(listen, "1", "[\"mem://x/a\",\"mem://x/b\"]");
    client_handshake(pipe, "2025-06-18");
    client_legacy(pipe, NULL, "2", "resources/subscribe", "\"uri\":\"mem://x/a\"");
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    struct client *stream = session_stream(&s, NULL);
    harness_run_until_idle(&b);
    /* One more listen that has not reached the hub. */
    struct client *late = client_http(&b);
    client_listen(late, "3", "[\"mem://x/a\"]");
    harness_update(&b, "mem://x/a");
    client_free(listen);
    client_free(pipe);
    client_free(late);
    client_free(stream);
    core_deinit(harness_core(&b, 0));
    hub_detach_all(b.hub);
    loop_turn(b.loop);
    harness_stop_hub(&b);
    assert_int_equal(fail_alloc_live(), 0);
}

/* As when a directory scan still runs at the end of the server and reports afterwards. */
static void watch_answered_after_its_worker_ended_is_dropped(void **state)
{
    (void)state;
    fake.holds_watches = true;
    struct client *listen = client_http(&b);
    client_listen(listen, "1", "[\"mem://x/a\"]");
    harness_run_until_idle(&b);
    assert_int_equal(fake.watch_count, 1);
    client_free(listen);
    core_deinit(harness_core(&b, 0));
    fake_finish_watches(&fake, 0, NULL);
    assert_true(mailbox_drain(hub_mailbox(b.hub)) > 0);
    hub_detach_all(b.hub);
    loop_turn(b.loop);
    harness_stop_hub(&b);
    assert_int_equal(fail_alloc_live(), 0);
}

/* ---- many ------------------------------------------------------------------------------------ */

static void listens_leak_nothing_after_ten_thousand_clients(void **state)
{
    (void)state;
    struct client *pipe = client_pipe(&b);
    client_handshake(pipe, "2025-06-18");
    harness_run_until_idle(&b);
    long before = 0;
    for (int i = 0; i < CYCLES + 10; i++) {
        if (i == 10) {
            harness_run_until_idle(&b);
            before = fail_alloc_live();
        }
        client_legacy(pipe, NULL, "1", "resources/subscribe", "\"uri\":\"mem://x/a\"");
        struct client *c = client_http(&b);
        client_listen(c, "1", i % 2 ? "[\"mem://x/a\",\"mem://x/d/\"]" : "[\"mem://x/b\"]");
        if (i % 3) {
            harness_run_until_idle(&b);
        }
        if (i % 5 == 0) {
            harness_update(&b, "mem://x/a");
        }
        client_legacy(pipe, NULL, "2", "resources/unsubscribe", "\"uri\":\"mem://x/a\"");
        client_free(c);
        for (size_t k = 0; k < pipe->count; k++) {
            free(pipe->said[k].text);
        }
        pipe->count = 0;
    }
    harness_run_until_idle(&b);
    assert_int_equal(fail_alloc_live(), before);
    assert_int_equal(b.worker[0]->delivery->match.count, 0);
    assert_int_equal(b.worker[0]->stats.subscriptions, 0);
    assert_int_equal(b.worker[0]->stats.subscribers, 1); /* the pipe's */
    assert_int_equal(b.worker[0]->jobs, 0);
    client_free(pipe);
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->stats.subscribers, 0);
    assert_int_equal(fake.armed, 0);
}

static void sessions_leak_nothing_after_a_thousand(void **state)
{
    (void)state;
    long before = 0;
    for (int i = 0; i < 1010; i++) {
        if (i == 10) {
            harness_run_until_idle(&b);
            before = fail_alloc_live();
        }
        struct harness_session s;
        harness_session(&b, i % 2 ? "2025-11-25" : "2025-03-26", &s);
        session_subscribe(&s, "mem://x/a");
        struct client *one = session_stream(&s, NULL), *two = session_stream(&s, "1.1.0");
        update("mem://x/a");
        if (i % 3) {
            client_vanish(two);
        }
        assert_int_equal(session_delete(&s), 204);
        client_free(one);
        client_free(two);
    }
    harness_run_until_idle(&b);
    assert_int_equal(fail_alloc_live(), before);
    assert_int_equal(b.worker[0]->stats.sessions + b.worker[0]->stats.subscribers, 0);
    assert_int_equal(b.worker[0]->delivery->match.count, 0);
    assert_int_equal(fake.armed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(server_stop_answers_listens_and_ends_sessions),
        TEST(many_listens_end_gradually),
        cmocka_unit_test_setup(disconnection_during_work_leaks_nothing, setup),
        cmocka_unit_test_setup(watch_answered_after_its_worker_ended_is_dropped, setup),
        TEST(listens_leak_nothing_after_ten_thousand_clients),
        TEST(sessions_leak_nothing_after_a_thousand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
