/* SPDX-License-Identifier: MIT
 *
 * Requests whose session may be at another node: only these requests wait, and each gets an answer.
 * */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/protocol/session_migration.h"
#include "support/harness_core.h"
#include "support/harness_provider.h"
#include "support/http_wire.h"

#define ID "00-0123456789abcdef0123456789abcdef"
#define PING "GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define BODY "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"
#define HEAD                                                                                       \
    "Host: localhost\r\nContent-Type: application/json\r\n"                                        \
    "Accept: application/json, text/event-stream\r\nMcp-Session-Id: " ID "\r\n"
#define POST "POST /mcp HTTP/1.1\r\n" HEAD "Content-Length: 40\r\n\r\n" BODY
#define GET "GET /mcp HTTP/1.1\r\n" HEAD "\r\n"
#define DELETE "DELETE /mcp HTTP/1.1\r\n" HEAD "\r\n"
_Static_assert(sizeof(BODY) - 1 == 40, "Content-Length");

static struct wire w;
static struct session_job *asked[8];
static size_t asked_count;
static int put_code; /* of the output */

static void submit(struct session_store *store, struct session_job *job)
{
    (void)store;
    if (job->op == SESSION_TAKE) {
        assert_true(asked_count < 8);
        asked[asked_count++] = job;
    } else {
        job->code = job->op == SESSION_PUT ? put_code : job->code;
        session_job_answer(job);
    }
}

/* The answer to the oldest question: the session exists, it does not (0), or it is unknown. */
static void reply(int code)
{
    struct session_job *job = asked[0];
    assert_true(asked_count > 0);
    memmove(asked, asked + 1, --asked_count * sizeof(asked[0]));
    job->code = code;
    job->generation = 1;
    if (code > 0) {
        buf_putf(&job->state,
                 "{\"v\":1,\"revision\":\"2025-11-25\",\"cursor\":\"ea.1.1\","
                 "\"by\":{\"name\":\"uid:%u\",\"by\":\"user\"},\"initialized\":true}",
                 (unsigned)geteuid()); /* of a socket pair */
    }
    session_job_answer(job);
    wire_turn(&w);
}

static struct session_store store = {.max_bytes = 4096, .submit = submit};

static int setup(void **state)
{
    (void)state;
    wire_start(&w);
    asked_count = 0;
    put_code = 0;
    for (size_t i = 0; i < w.b.worker_count; i++) {
        assert_int_equal(sessions_share(w.b.worker[i], &store, NULL), 0);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    while (asked_count > 0) {
        reply(0);
    }
    wire_stop(&w);
    return 0;
}

static void request_waits_for_its_session(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    wire_say(c, POST PING);
    assert_int_equal(wire_state(&w, 0), CONN_ADOPTING);
    assert_string_equal(wire_heard(c), "");
    struct wire_client *other = wire_connect(&w, 0); /* the worker continues */
    wire_say(other, PING);
    wire_assert_has(wire_heard(other), "pong");
    wire_leave(other);
    reply(1);
    const char *heard = wire_heard(c);
    wire_assert_has(heard, "HTTP/1.1 200 OK");
    wire_assert_has(heard, "\"result\":{}");
    wire_assert_has(heard, "pong"); /* the request after it */
    assert_int_equal(w.b.worker[0]->stats.sessions, 1);
    wire_say(c, POST); /* now it is here */
    wire_assert_has(wire_heard(c), "HTTP/1.1 200 OK");
    assert_int_equal(asked_count, 0);
}

static void streams_and_session_ends_wait_for_their_session(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0), *d = wire_connect(&w, 0);
    wire_say(c, GET);
    wire_say(d, DELETE);
    assert_int_equal(asked_count, 1); /* at the same time */
    reply(1);
    wire_assert_has(wire_heard(c), "HTTP/1.1 200 OK");
    wire_assert_has(wire_heard(d), "HTTP/1.1 204");
    assert_int_equal(w.b.worker[0]->stats.sessions, 0);
}

/* The node stalled while its question was answered. Another node took the session in that time,
 * sent its client more events, and the client now returns: the answer is old. */
static void outdated_session_is_not_used_for_a_client_with_later_events(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0), *d = wire_connect(&w, 0);
    wire_say(c, GET);
    wire_say(d, "GET /mcp HTTP/1.1\r\n" HEAD "Last-Event-ID: 1.9000000.ea.2.2\r\n\r\n");
    assert_int_equal(asked_count, 1); /* at the same time */
    put_code = TIDINGS_E_CONFLICT;    /* it no longer belongs to this node */
    reply(1);
    put_code = 0;
    assert_string_equal(wire_heard(d), "");
    while (asked_count == 0) { /* so the node takes it again, though not immediately */
        (void)usleep(1000);
        wire_turn(&w);
    }
    reply(1);
    wire_assert_has(wire_heard(d), "no such event"); /* it is here: this is not one of its events */
}

static void unknown_session_is_not_found(void **state)
{
    (void)state;
    static const char *const requests[] = {POST, GET, DELETE};
    struct wire_client *c = wire_connect(&w, 0);
    for (size_t i = 0; i < 3; i++) {
        wire_say(c, requests[i]);
        reply(0);
        wire_assert_has(wire_heard(c), "HTTP/1.1 404");
    }
    assert_int_equal(w.b.worker[0]->stats.sessions, 0);
}

static void store_outage_refuses_sessions_only_temporarily(void **state)
{
    (void)state;
    static const char *const requests[] = {POST, GET, DELETE};
    struct wire_client *c = wire_connect(&w, 0);
    for (size_t i = 0; i < 3; i++) {
        wire_say(c, requests[i]);
        reply(TIDINGS_E_BUSY);
        const char *heard = wire_heard(c);
        wire_assert_has(heard, "HTTP/1.1 503");
        wire_assert_has(heard, "Retry-After: 1\r\n");
        wire_assert_has(heard, "try again");
        assert_int_equal(wire_state(&w, 0), CONN_IDLE);
    }
}

/* The answer to the first waits until it is written; in that time the second ends the session. */
static void request_after_a_delayed_answer_may_end_the_session(void **state)
{
    (void)state;
    static const char level[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"logging/setLevel\","
                                "\"params\":{\"level\":\"error\"}}";
    char text[2048];
    struct wire_client *c = wire_connect(&w, 0), *d = wire_connect(&w, 0);
    wire_say(c, POST);
    reply(1);
    (void)wire_heard(c);
    snprintf(text, sizeof(text), "POST /mcp HTTP/1.1\r\n" HEAD "Content-Length: %zu\r\n\r\n%s",
             strlen(level), level);
    strncat(text, DELETE GET, sizeof(text) - strlen(text) - 1);
    wire_say(d, GET);
    wire_assert_has(wire_heard(d), "HTTP/1.1 200");
    wire_say(c, text);
    const char *heard = wire_heard(c);
    wire_assert_has(heard, "HTTP/1.1 200");
    wire_assert_has(heard, "HTTP/1.1 204");
    assert_int_equal(w.b.worker[0]->stats.sessions, 0);
    reply(0);
    wire_assert_has(wire_heard(c), "HTTP/1.1 404");
}

static void wait_for_a_session_is_limited(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    wire_say(c, POST);
    wire_age(&w, 0, CONN_ADOPTING, SESSION_AWAIT_MS - 1000);
    assert_int_equal(wire_state(&w, 0), CONN_ADOPTING);
    wire_age(&w, 0, CONN_ADOPTING, 1001);
    wire_assert_has(wire_heard(c), "HTTP/1.1 503");
    assert_int_equal(wire_state(&w, 0), CONN_IDLE);
    reply(1); /* the node took it anyway and keeps it for a returning client */
    wire_say(c, POST);
    wire_assert_has(wire_heard(c), "HTTP/1.1 200");
}

static void disconnected_request_leaves_nothing_behind(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    wire_say(c, POST);
    wire_leave(c);
    wire_turn(&w);
    assert_int_equal(wire_connections(&w, 0), 0);
    reply(1);
    assert_int_equal(w.b.worker[0]->stats.sessions, 1);
}

/* Modern requests ignore sessions, and an invalid id causes no lookup. */
static void other_requests_do_not_wait(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    wire_say(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                "Accept: application/json, text/event-stream\r\nMcp-Session-Id: nonsense\r\n"
                "Content-Length: 40\r\n\r\n" BODY);
    wire_assert_has(wire_heard(c), "HTTP/1.1 404");
    wire_say(c, "POST /mcp HTTP/1.1\r\n" HEAD "MCP-Protocol-Version: 2026-07-28\r\n"
                "Content-Length: 40\r\n\r\n" BODY);
    wire_assert_has(wire_heard(c), "HTTP/1.1 400");
    wire_say(c, "OPTIONS /mcp HTTP/1.1\r\n" HEAD "\r\n");
    wire_assert_has(wire_heard(c), "HTTP/1.1 ");
    assert_int_equal(asked_count, 0);
}

static void stopping_server_sends_clients_to_other_nodes(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    w.b.worker[0]->stopping = true;
    wire_say(c, POST);
    wire_assert_has(wire_heard(c), "HTTP/1.1 503");
    assert_int_equal(asked_count, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(request_waits_for_its_session),
        TEST(streams_and_session_ends_wait_for_their_session),
        TEST(outdated_session_is_not_used_for_a_client_with_later_events),
        TEST(unknown_session_is_not_found),
        TEST(store_outage_refuses_sessions_only_temporarily),
        TEST(request_after_a_delayed_answer_may_end_the_session),
        TEST(wait_for_a_session_is_limited),
        TEST(disconnected_request_leaves_nothing_behind),
        TEST(other_requests_do_not_wait),
        TEST(stopping_server_sends_clients_to_other_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
