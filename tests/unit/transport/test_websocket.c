/* SPDX-License-Identifier: MIT
 *
 * The life of a WebSocket over a socket pair, starting with the upgrade of its HTTP connection: the
 * state after each event, and the bytes that the client receives. The tests meet deadlines by
 * making connections older. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "support/harness_core.h"
#include "support/harness_provider.h"
#include "support/http_wire.h"
#include "transport/websocket.h"

#define TEXT 0x81u
#define FIRST_PART 0x01u
#define LAST_PART 0x80u
#define CLOSE 0x88u
#define PING 0x89u
#define PONG 0x8au
#define LINGER_MS 1000u

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

/* The only WebSocket of the first worker; NULL if none. */
static struct websocket *find(void)
{
    return (struct websocket *)(void *)wire_only(&w.hw[0]->websockets->conns);
}

static enum websocket_state state_now(void)
{
    const struct websocket *ws = find();
    return ws ? (enum websocket_state)ws->base.state : WEBSOCKET_GONE;
}

static void age(enum websocket_state state, uint64_t ms)
{
    struct websocket *ws = find();
    if (ws && ws->base.state == state) {
        ws->base.deadline.noted -= (uint32_t)ms;
        ws->base.deadline.listed_ms -= (uint32_t)ms;
    }
    deadlines_run(&w.hw[0]->base.deadlines);
    wire_turn(&w);
}

static struct wire_client *open_one(void)
{
    struct wire_client *c = wire_connect(&w, 0);
    wire_say(c, wire_upgrade);
    const char *heard = wire_heard(c);
    if (strstr(heard, "HTTP/1.1 501")) {
        wire_leave(c);
        skip(); /* a build without the library */
    }
    wire_assert_has(heard, "HTTP/1.1 101");
    return c;
}

static void say_frame(struct wire_client *c, unsigned first_byte, const char *payload)
{
    char frame[8192];
    wire_say_bytes(c, frame, wire_frame(frame, first_byte, payload, strlen(payload)));
}

/* Returns true if the last frame received is a close frame with this code. */
static void assert_close(struct wire_client *c, unsigned code)
{
    assert_true(c->heard.len >= 4);
    const unsigned char *at = (const unsigned char *)c->heard.ptr;
    assert_int_equal(at[0], CLOSE);
    assert_int_equal(at[2] << 8 | at[3], code);
    buf_clear(&c->heard);
}

#define ASK "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}"

/* ---- the upgrade ----------------------------------------------------------------------------- */

static void upgrade_ends_the_http_connection_and_keeps_the_socket(void **state)
{
    (void)state;
    struct wire_client *c = open_one();
    assert_int_equal(wire_state(&w, 0), CONN_GONE);
    assert_int_equal(state_now(), WEBSOCKET_OPEN);
    assert_int_equal(wire_connections(&w, 0), 1); /* still one */
    assert_non_null(find()->base.channel.principal);
    say_frame(c, TEXT, ASK);
    wire_assert_has(wire_heard(c), "\"id\":7");
    wire_leave(c);
    assert_int_equal(state_now(), WEBSOCKET_GONE);
    assert_int_equal(wire_connections(&w, 0), 0);
}

static void data_before_and_after_the_upgrade_is_answered_in_order(void **state)
{
    (void)state;
    char text[1024];
    wire_leave(open_one());
    struct wire_client *c = wire_connect(&w, 0);
    int n = snprintf(text, sizeof(text), "GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n%s",
                     wire_upgrade);
    size_t len = (size_t)n + wire_frame(text + n, TEXT, ASK, strlen(ASK));
    wire_say_bytes(c, text, len);
    const char *heard = wire_heard(c);
    wire_assert_has(heard, "pongHTTP/1.1 101");
    wire_assert_has(strstr(heard, "HTTP/1.1 101"), "\"id\":7");
    assert_int_equal(state_now(), WEBSOCKET_OPEN);
}

static void unwritten_answers_move_with_the_socket(void **state)
{
    (void)state;
    wire_leave(open_one());
    struct wire_client *c = wire_connect(&w, 0);
    w.fake.content_bytes = 60000;
    c->deaf = true;
    for (int i = 0; i < 6; i++) {
        wire_say(c, "GET /resource?uri=mem%3A%2F%2Fx%2Fa HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    wire_say(c, wire_upgrade);
    struct websocket *ws = find();
    assert_non_null(ws);
    assert_true(ws->base.out.pending > 0 && deadline_is_listed(&ws->base.stall));
    c->deaf = false;
    wire_turn(&w);
    const char *heard = wire_heard(c);
    assert_int_equal(wire_count(heard, "HTTP/1.1 200"), 6);
    wire_assert_has(heard, "HTTP/1.1 101");
    assert_false(deadline_is_listed(&ws->base.stall));
    say_frame(c, TEXT, ASK);
    wire_assert_has(wire_heard(c), "\"id\":7");
}

static void impossible_upgrade_is_refused_over_http(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    wire_say(c, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\nSec-WebSocket-Version: 12\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    const char *heard = wire_heard(c);
    wire_assert_has(heard, "HTTP/1.1 426");
    wire_assert_has(heard, "Sec-WebSocket-Version: 13");
    assert_int_equal(wire_state(&w, 0), CONN_LINGER);
    assert_int_equal(state_now(), WEBSOCKET_GONE);
}

static void disconnect_during_the_upgrade_closes_the_connection(void **state)
{
    (void)state;
    wire_leave(open_one());
    struct wire_client *c = wire_connect(&w, 0);
    assert_int_equal(send(c->fd, wire_upgrade, strlen(wire_upgrade), MSG_NOSIGNAL),
                     strlen(wire_upgrade));
    wire_half_close(c);
    assert_true(c->over);
    assert_int_equal(state_now(), WEBSOCKET_GONE);
    assert_int_equal(wire_connections(&w, 0), 0);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void fragmented_message_stays_partial_until_complete(void **state)
{
    (void)state;
    char frame[256];
    struct wire_client *c = open_one();
    size_t len = wire_frame(frame, TEXT, ASK, strlen(ASK));
    for (size_t i = 0; i < len; i++) {
        wire_say_bytes(c, frame + i, 1);
        assert_int_equal(state_now(), i + 1 < len ? WEBSOCKET_PARTIAL : WEBSOCKET_OPEN);
        assert_true((find()->reader != NULL) == (i + 1 < len)); /* an idle one has none */
    }
    wire_assert_has(wire_heard(c), "\"id\":7");
    say_frame(c, FIRST_PART, "{\"jsonrpc\":\"2.0\",");
    assert_int_equal(state_now(), WEBSOCKET_PARTIAL);
    say_frame(c, PING, "?"); /* between two parts */
    assert_int_equal(state_now(), WEBSOCKET_PARTIAL);
    wire_assert_has(wire_heard(c), "?");
    say_frame(c, LAST_PART, "\"id\":8,\"method\":\"ping\"}");
    assert_int_equal(state_now(), WEBSOCKET_OPEN);
    wire_assert_has(wire_heard(c), "\"id\":8");
}

static void excess_messages_are_handled_in_the_next_turn(void **state)
{
    (void)state;
    char text[8192];
    size_t len = 0;
    struct wire_client *c = open_one();
    for (unsigned i = 0; i < 2 * CHANNEL_QUANTUM; i++) {
        len += wire_frame(text + len, TEXT, ASK, strlen(ASK));
    }
    assert_int_equal(send(c->fd, text, len, MSG_NOSIGNAL), len);
    for (int i = 0; i < 100 && state_now() != WEBSOCKET_THROTTLED; i++) {
        loop_turn(w.b.loop);
    }
    assert_int_equal(state_now(), WEBSOCKET_THROTTLED);
    wire_turn(&w);
    assert_int_equal(wire_count(wire_heard(c), "\"id\":7"), 2 * CHANNEL_QUANTUM);
    assert_int_equal(state_now(), WEBSOCKET_OPEN);
}

static void listen_ends_with_its_client(void **state)
{
    (void)state;
    struct wire_client *c = open_one();
    say_frame(c, TEXT, strstr(wire_listen("mem://x/a"), "{\"jsonrpc\""));
    wire_assert_has(wire_heard(c), "subscriptions/acknowledged");
    assert_int_equal(w.b.worker[0]->stats.subscriptions, 1);
    harness_update(&w.b, "mem://x/a");
    wire_turn(&w);
    wire_assert_has(wire_heard(c), "notifications/resources/updated");
    wire_leave(c);
    assert_int_equal(state_now(), WEBSOCKET_GONE);
    assert_int_equal(w.b.worker[0]->stats.subscriptions, 0);
}

/* ---- silence and deadlines ------------------------------------------------------------------- */

static void silent_client_is_pinged_and_stays_if_it_answers(void **state)
{
    (void)state;
    struct wire_client *c = open_one();
    age(WEBSOCKET_OPEN, w.config.keepalive_ms / 2);
    assert_int_equal(state_now(), WEBSOCKET_OPEN);
    age(WEBSOCKET_OPEN, w.config.keepalive_ms / 2);
    assert_int_equal(state_now(), WEBSOCKET_PINGED);
    assert_int_equal((unsigned char)c->heard.ptr[0], PING);
    buf_clear(&c->heard);
    say_frame(c, PONG, "");
    assert_int_equal(state_now(), WEBSOCKET_OPEN);
    age(WEBSOCKET_OPEN, w.config.keepalive_ms);
    assert_int_equal(state_now(), WEBSOCKET_PINGED);
    age(WEBSOCKET_PINGED, w.config.stall_timeout_ms);
    assert_int_equal(state_now(), WEBSOCKET_GONE);
    assert_true(c->over);
    assert_int_equal(w.b.worker[0]->stats.cut, 1);
}

/* It was refused: the server discards its input until a second has passed. */
static void assert_lingers(struct wire_client *c)
{
    assert_int_equal(state_now(), WEBSOCKET_LINGER);
    assert_true(c->over); /* the server sends nothing more */
    assert_int_equal(send(c->fd, "more", 4, MSG_NOSIGNAL), 4);
    wire_turn(&w);
    assert_int_equal(state_now(), WEBSOCKET_LINGER);
    age(WEBSOCKET_LINGER, LINGER_MS);
    assert_int_equal(state_now(), WEBSOCKET_GONE);
    assert_int_equal(limit_in_use(w.b.worker[0]->limit_counters, LIMIT_INPUT), 0);
}

static void slow_message_is_refused_in_time(void **state)
{
    (void)state;
    struct wire_client *c = open_one();
    say_frame(c, FIRST_PART, "{\"jsonrpc\"");
    age(WEBSOCKET_PARTIAL, w.config.body_timeout_ms / 2);
    say_frame(c, 0, ":"); /* another part, too small to count as progress */
    assert_int_equal(state_now(), WEBSOCKET_PARTIAL);
    age(WEBSOCKET_PARTIAL, w.config.body_timeout_ms / 2);
    assert_close(c, WS_POLICY);
    assert_lingers(c);
}

static void partial_message_is_dropped_if_memory_runs_out(void **state)
{
    (void)state;
    struct limit_counters *counters = w.b.worker[0]->limit_counters;
    struct wire_client *c = open_one();
    say_frame(c, FIRST_PART, "{\"jsonrpc\"");
    uint64_t held = limit_in_use(counters, LIMIT_INPUT);
    assert_true(held > 0);
    counters->values[LIMIT_INPUT] = held - 1;
    say_frame(c, 0, ":");
    assert_close(c, WS_TRY_AGAIN);
    assert_lingers(c);
}

static void stalled_reader_is_disconnected(void **state)
{
    (void)state;
    struct wire_client *c = open_one();
    w.fake.content_bytes = 60000;
    c->deaf = true;
    for (int i = 0; i < 20; i++) {
        say_frame(c, TEXT,
                  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{\"uri\":"
                  "\"mem://x/a\",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":"
                  "\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}}}");
    }
    struct websocket *ws = find();
    assert_true(deadline_is_listed(&ws->base.stall));
    ws->base.stall.listed_ms -= (uint32_t)w.config.stall_timeout_ms / 2;
    age(WEBSOCKET_GONE, 0);
    assert_ptr_equal(find(), ws);
    ws->base.stall.listed_ms -= (uint32_t)w.config.stall_timeout_ms / 2;
    age(WEBSOCKET_GONE, 0);
    assert_int_equal(state_now(), WEBSOCKET_GONE);
    assert_int_equal(w.b.worker[0]->stats.cut, 1);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void close_frame_is_answered_and_ends_the_connection(void **state)
{
    (void)state;
    struct wire_client *c = open_one();
    say_frame(c, CLOSE, "\x03\xe8");
    assert_close(c, WS_NORMAL);
    assert_true(c->over);
    assert_int_equal(state_now(), WEBSOCKET_GONE);
}

static void malformed_frame_is_refused(void **state)
{
    (void)state;
    struct wire_client *c = open_one();
    wire_say_bytes(c, "\x81\x02{}", 4); /* not masked */
    assert_close(c, WS_PROTOCOL_ERROR);
    assert_lingers(c);
}

static void oversized_message_is_refused(void **state)
{
    (void)state;
    static char large[WIRE_MAX_BODY + 2];
    struct wire_client *c = open_one();
    memset(large, 'x', sizeof(large) - 1);
    say_frame(c, TEXT, large);
    assert_close(c, WS_TOO_BIG);
    assert_lingers(c);
}

static void draining_sends_a_close_frame_and_awaits_the_clients(void **state)
{
    (void)state;
    struct wire_client *c = open_one();
    wire_drain(&w, 0);
    assert_close(c, WS_GOING_AWAY);
    assert_int_equal(state_now(), WEBSOCKET_AWAITING_CLOSE);
    assert_false(c->over);
    assert_int_equal(w.drained, 0);
    say_frame(c, TEXT, ASK); /* too late */
    assert_string_equal(wire_heard(c), "");
    say_frame(c, CLOSE, "\x03\xe9");
    assert_true(c->over);
    assert_int_equal(state_now(), WEBSOCKET_GONE);
    assert_int_equal(w.drained, 1);
}

static void draining_answers_pending_requests_first(void **state)
{
    (void)state;
    struct wire_client *c = open_one();
    w.fake.holds_reads = true;
    say_frame(c, TEXT,
              "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{\"uri\":"
              "\"mem://x/a\",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":"
              "\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}}}");
    wire_drain(&w, 0);
    assert_int_equal(state_now(), WEBSOCKET_OPEN);
    fake_finish_reads(&w.fake);
    wire_turn(&w);
    wire_assert_has(wire_heard(c), "content of mem://x/a");
    age(WEBSOCKET_GONE, 0); /* the next tick */
    assert_close(c, WS_GOING_AWAY);
    age(WEBSOCKET_AWAITING_CLOSE, LINGER_MS);
    assert_int_equal(state_now(), WEBSOCKET_GONE);
    assert_int_equal(w.drained, 1);
}

static bool is_everybody(void *user, const struct principal *principal)
{
    (void)user;
    return principal != NULL;
}

static void dismissed_client_gets_a_policy_close_frame(void **state)
{
    (void)state;
    struct wire_client *c = open_one();
    connection_worker_dismiss(&w.hw[0]->base, is_everybody, NULL);
    assert_int_equal(state_now(), WEBSOCKET_LEAVING);
    wire_turn(&w);
    assert_close(c, WS_POLICY);
    assert_int_equal(state_now(), WEBSOCKET_AWAITING_CLOSE);
    wire_leave(c);
    assert_int_equal(state_now(), WEBSOCKET_GONE);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(upgrade_ends_the_http_connection_and_keeps_the_socket),
        CASE(data_before_and_after_the_upgrade_is_answered_in_order),
        CASE(unwritten_answers_move_with_the_socket),
        CASE(impossible_upgrade_is_refused_over_http),
        CASE(disconnect_during_the_upgrade_closes_the_connection),
        CASE(fragmented_message_stays_partial_until_complete),
        CASE(excess_messages_are_handled_in_the_next_turn),
        CASE(listen_ends_with_its_client),
        CASE(silent_client_is_pinged_and_stays_if_it_answers),
        CASE(slow_message_is_refused_in_time),
        CASE(partial_message_is_dropped_if_memory_runs_out),
        CASE(stalled_reader_is_disconnected),
        CASE(close_frame_is_answered_and_ends_the_connection),
        CASE(malformed_frame_is_refused),
        CASE(oversized_message_is_refused),
        CASE(draining_sends_a_close_frame_and_awaits_the_clients),
        CASE(draining_answers_pending_requests_first),
        CASE(dismissed_client_gets_a_policy_close_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
