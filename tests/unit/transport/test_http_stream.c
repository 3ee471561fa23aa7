/* SPDX-License-Identifier: MIT
 *
 * HTTP connections that become streams, long polls, streams of HTTP+SSE or connections of another
 * worker, and their end when the server stops. The tests use socket pairs, as in test_http_conn.c.
 * */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/harness_core.h"
#include "support/harness_provider.h"
#include "support/http_wire.h"

#define PING "GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define READ "GET /resource?uri=mem%3A%2F%2Fx%2Fa HTTP/1.1\r\nHost: localhost\r\n\r\n"

static struct wire w;

static int setup(void **state)
{
    (void)state;
    wire_start(&w);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    wire_stop(&w);
    return 0;
}

/* ---- streams --------------------------------------------------------------------------------- */

static void listen_stays_open_until_client_leaves(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    wire_say(c, wire_listen("mem://x/a"));
    wire_assert_has(wire_heard(c), "subscriptions/acknowledged");
    assert_int_equal(wire_state(&w, 0), CONN_STREAM);
    assert_null(wire_conn(&w, 0)->r); /* it holds no read buffer */
    harness_update(&w.b, "mem://x/a");
    wire_turn(&w);
    wire_assert_has(wire_heard(c), "notifications/resources/updated");
    wire_age(&w, 0, CONN_STREAM, w.config.keepalive_ms / 2);
    assert_string_equal(wire_heard(c), "");
    wire_age(&w, 0, CONN_STREAM, w.config.keepalive_ms / 2);
    assert_string_equal(wire_heard(c), ":\n\n");
    assert_int_equal(wire_state(&w, 0), CONN_STREAM);
    assert_int_equal(w.b.worker[0]->stats.subscriptions, 1);
    wire_leave(c);
    assert_int_equal(wire_state(&w, 0), CONN_GONE);
    assert_int_equal(w.b.worker[0]->stats.subscriptions, 0);
}

static const char *initialize(struct wire_client *c, char id[128])
{
    static const char body[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
        "\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}";
    char text[1024];
    snprintf(text, sizeof(text),
             "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
             "Accept: application/json, text/event-stream\r\nContent-Length: %zu\r\n\r\n%s",
             sizeof(body) - 1, body);
    wire_say(c, text);
    const char *heard = wire_heard(c), *at = strstr(heard, "Mcp-Session-Id: ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "Mcp-Session-Id: %127s", id), 1);
    return id;
}

static void say_in_session(struct wire_client *c, const char *id, const char *body)
{
    char text[2048];
    snprintf(text, sizeof(text),
             "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
             "Accept: application/json, text/event-stream\r\nMcp-Session-Id: %s\r\n"
             "MCP-Protocol-Version: 2025-06-18\r\nContent-Length: %zu\r\n\r\n%s",
             id, strlen(body), body);
    wire_say(c, text);
}

static void long_poll_ends_with_its_pending_messages(void **state)
{
    (void)state;
    char id[128], text[512];
    struct wire_client *c = wire_connect(&w, 0);
    initialize(c, id);
    say_in_session(c, id, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    say_in_session(c, id,
                   "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/subscribe\",\"params\":{"
                   "\"uri\":\"mem://x/a\"}}");
    wire_leave(c);
    snprintf(text, sizeof(text),
             "GET /events?sessionId=%s HTTP/1.1\r\nHost: localhost\r\n"
             "Accept: application/json\r\n\r\n",
             id);
    c = wire_connect(&w, 0);
    wire_say(c, text);
    assert_int_equal(wire_state(&w, 0), CONN_POLL);
    (void)wire_heard(c);
    harness_update(&w.b, "mem://x/a");
    wire_turn(&w);
    const char *heard = wire_heard(c);
    assert_int_equal(heard[0], '[');
    wire_assert_has(heard, "notifications/resources/updated");
    wire_assert_has(heard, "}]\n");
    assert_true(c->over);
    assert_int_equal(wire_state(&w, 0), CONN_GONE);

    c = wire_connect(&w, 0); /* no messages */
    wire_say(c, text);
    assert_int_equal(wire_state(&w, 0), CONN_POLL);
    (void)wire_heard(c);
    wire_age(&w, 0, CONN_POLL, w.config.keepalive_ms);
    assert_string_equal(wire_heard(c), "[]\n");
    assert_true(c->over);
}

static void legacy_stream_carries_answers_to_posts_on_other_connections(void **state)
{
    (void)state;
    char id[128], text[512];
    struct wire_client *stream = wire_connect(&w, 0), *poster = wire_connect(&w, 1);
    wire_say(stream, "GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n");
    const char *at = strstr(wire_heard(stream), "/messages?sessionId=");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "/messages?sessionId=%127s", id), 1);
    assert_int_equal(wire_state(&w, 0), CONN_STREAM);
    snprintf(text, sizeof(text),
             "POST /messages?sessionId=%s HTTP/1.1\r\nHost: localhost\r\n"
             "Content-Type: application/json\r\nContent-Length: 40\r\n\r\n"
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
             id);
    wire_say(poster, text); /* which moves to the stream's worker */
    wire_assert_has(wire_heard(poster), "HTTP/1.1 202");
    wire_assert_has(wire_heard(stream), "\"id\":1");
    assert_int_equal(wire_connections(&w, 0), 2);
    assert_int_equal(wire_connections(&w, 1), 0);
    wire_leave(stream);
    wire_say(poster, text);
    wire_assert_has(wire_heard(poster), "HTTP/1.1 404");
}

/* ---- moves to another worker ----------------------------------------------------------------- */

static void connection_moves_to_the_worker_of_its_session(void **state)
{
    (void)state;
    char id[128], text[1024];
    struct wire_client *c = wire_connect(&w, 1);
    initialize(c, id);
    wire_leave(c);
    c = wire_connect(&w, 0);
    snprintf(text, sizeof(text),
             PING "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: %s\r\n\r\n" PING, id);
    wire_say(c, text); /* earlier answers are written first; later requests move with it */
    const char *heard = wire_heard(c);
    assert_int_equal(wire_count(heard, "HTTP/1.1 200"),
                     2 + (strstr(heard, "HTTP/1.1 204") == NULL));
    assert_int_equal(wire_count(heard, "pong"), 2);
    assert_int_equal(wire_state(&w, 0), CONN_GONE);
    assert_int_equal(wire_connections(&w, 0), 0);
    assert_int_equal(wire_state(&w, 1), CONN_IDLE);
    assert_int_equal(wire_connections(&w, 1), 1);
    wire_say(c, PING);
    wire_assert_has(wire_heard(c), "pong");
}

/* ---- server shutdown ------------------------------------------------------------------------- */

static void draining_closes_idle_connections_and_answers_pending_requests(void **state)
{
    (void)state;
    struct wire_client *idle = wire_connect(&w, 0), *half = wire_connect(&w, 0),
                       *waiting = wire_connect(&w, 0);
    w.fake.holds_reads = true;
    wire_say(half, "GET /pi");
    wire_say(waiting, READ);
    wire_drain(&w, 0);
    assert_true(idle->over);
    assert_true(half->over);
    assert_false(waiting->over);
    assert_int_equal(wire_state(&w, 0), CONN_AWAITING);
    assert_int_equal(w.drained, 0);
    fake_finish_reads(&w.fake);
    wire_turn(&w);
    const char *heard = wire_heard(waiting);
    wire_assert_has(heard, "content of mem://x/a");
    wire_assert_has(heard, "Connection: close\r\n");
    assert_true(waiting->over);
    assert_int_equal(w.drained, 1);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(listen_stays_open_until_client_leaves),
        CASE(long_poll_ends_with_its_pending_messages),
        CASE(legacy_stream_carries_answers_to_posts_on_other_connections),
        CASE(connection_moves_to_the_worker_of_its_session),
        CASE(draining_closes_idle_connections_and_answers_pending_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
