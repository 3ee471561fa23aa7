/* SPDX-License-Identifier: MIT
 *
 * The life of an HTTP connection over a socket pair: the state after each event, and the bytes that
 * the client receives. The tests meet deadlines by making connections older. */
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

#define PING "GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define READ "GET /resource?uri=mem%3A%2F%2Fx%2Fa HTTP/1.1\r\nHost: localhost\r\n\r\n"
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

/* ---- sequential requests --------------------------------------------------------------------- */

static void connection_is_kept_for_the_next_request(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    assert_int_equal(wire_state(&w, 0), CONN_IDLE);
    for (int i = 0; i < 3; i++) {
        wire_say(c, PING);
        wire_assert_has(wire_heard(c), "\r\n\r\npong");
        assert_int_equal(wire_state(&w, 0), CONN_IDLE);
        assert_null(wire_conn(&w, 0)->r->in.ptr); /* an idle one holds no buffer */
    }
    wire_say(c, "GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    wire_assert_has(wire_heard(c), "Connection: close\r\n");
    assert_true(c->over);
    assert_int_equal(wire_state(&w, 0), CONN_GONE);
    assert_int_equal(wire_connections(&w, 0), 0);
}

static void http_1_0_connection_is_kept_only_on_request(void **state)
{
    (void)state;
    struct wire_client *kept = wire_connect(&w, 0), *closed = wire_connect(&w, 1);
    wire_say(kept, "GET /ping HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n");
    wire_assert_has(wire_heard(kept), "Connection: keep-alive\r\n");
    assert_int_equal(wire_state(&w, 0), CONN_IDLE);
    wire_say(closed, "GET /ping HTTP/1.0\r\nHost: localhost\r\n\r\n");
    wire_assert_has(wire_heard(closed), "Connection: close\r\n");
    assert_true(closed->over);
    assert_false(kept->over);
}

static void request_may_arrive_in_any_pieces(void **state)
{
    (void)state;
    static const char text[] =
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nabcd"
        "POST /echo HTTP/1.1\r\nHost: localhost\r\n"
        "Transfer-Encoding: chunked\r\n\r\n2\r\nef\r\n2\r\ngh\r\n0\r\n\r\n";
    struct wire_client *c = wire_connect(&w, 0);
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        wire_say_bytes(c, text + i, 1);
        enum conn_state s = wire_state(&w, 0);
        assert_true(s == CONN_HEAD || s == CONN_BODY || s == CONN_IDLE);
    }
    const char *heard = wire_heard(c);
    wire_assert_has(heard, "\r\n\r\nabcdHTTP/1.1 200");
    wire_assert_has(heard, "\r\n\r\nefgh");
    assert_int_equal(wire_state(&w, 0), CONN_IDLE);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    char text[4096] = "";
    struct wire_client *c = wire_connect(&w, 0);
    for (int i = 0; i < 20; i++) { /* more than one turn takes */
        size_t len = strlen(text);
        snprintf(text + len, sizeof(text) - len,
                 "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n%02d", i);
    }
    wire_say(c, text);
    const char *at = wire_heard(c);
    assert_int_equal(wire_count(at, "HTTP/1.1 200"), 20);
    for (int i = 0; i < 20; i++) {
        char body[16];
        snprintf(body, sizeof(body), "\r\n\r\n%02d", i);
        wire_assert_has(at, body);
        at = strstr(at, body);
    }
}

static void excess_requests_are_handled_in_the_next_turn(void **state)
{
    (void)state;
    char text[8192] = "";
    struct wire_client *c = wire_connect(&w, 0);
    for (unsigned i = 0; i < 2 * CHANNEL_QUANTUM; i++) {
        strncat(text, PING, sizeof(text) - strlen(text) - 1);
    }
    assert_int_equal(send(c->fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    for (int i = 0; i < 100 && wire_state(&w, 0) != CONN_THROTTLED; i++) {
        loop_turn(w.b.loop);
    }
    assert_int_equal(wire_state(&w, 0), CONN_THROTTLED);
    assert_true(w.b.worker[0]->stats.pauses > 0);
    wire_turn(&w);
    assert_int_equal(wire_count(wire_heard(c), "pong"), 2 * CHANNEL_QUANTUM);
    assert_int_equal(wire_state(&w, 0), CONN_IDLE);
}

static void pipelined_request_waits_for_a_delayed_answer(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    w.fake.holds_reads = true;
    wire_say(c, READ PING);
    assert_int_equal(wire_state(&w, 0), CONN_AWAITING);
    wire_say(c, PING); /* not read while it waits */
    assert_string_equal(wire_heard(c), "");
    fake_finish_reads(&w.fake);
    wire_turn(&w);
    const char *heard = wire_heard(c);
    wire_assert_has(heard, "content of mem://x/aHTTP/1.1 200");
    assert_int_equal(wire_count(heard, "pong"), 2);
    assert_int_equal(wire_state(&w, 0), CONN_IDLE);
}

static void unread_answers_delay_pipelined_requests(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    w.fake.content_bytes = 60000;
    c->deaf = true;
    for (int i = 0; i < 40; i++) { /* all of them before the first is answered */
        assert_int_equal(send(c->fd, READ, sizeof(READ) - 1, MSG_NOSIGNAL), sizeof(READ) - 1);
    }
    wire_turn(&w);
    struct http_conn *conn = wire_conn(&w, 0);
    assert_true(deadline_is_listed(&conn->base.stall));
    assert_in_range(conn->base.out.pending, 1, PIPELINE_HIGH_WATER + 2 * 60000);
    assert_true(w.fake.reads < 40);
    c->deaf = false;
    wire_turn(&w);
    assert_int_equal(w.fake.reads, 40);
    assert_int_equal(wire_count(wire_heard(c), "HTTP/1.1 200"), 40);
    assert_false(deadline_is_listed(&conn->base.stall));
    assert_int_equal(wire_state(&w, 0), CONN_IDLE);
}

/* ---- the client closes ----------------------------------------------------------------------- */

static void requests_before_a_half_close_are_answered(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    assert_int_equal(send(c->fd, PING PING, 2 * (sizeof(PING) - 1), 0), 2 * (sizeof(PING) - 1));
    wire_half_close(c);
    assert_int_equal(wire_count(wire_heard(c), "pong"), 2);
    assert_true(c->over);
    assert_int_equal(wire_state(&w, 0), CONN_GONE);
}

static void half_close_within_a_request_closes_without_an_answer(void **state)
{
    (void)state;
    static const char *const halves[] = {
        "", "GET /pi", "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nab"};
    for (size_t i = 0; i < 3; i++) {
        struct wire_client *c = wire_connect(&w, 0);
        wire_say(c, halves[i]);
        wire_half_close(c);
        assert_string_equal(wire_heard(c), "");
        assert_true(c->over);
        assert_int_equal(wire_state(&w, 0), CONN_GONE);
    }
}

static void disconnect_cancels_the_pending_request(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    w.fake.holds_reads = true;
    wire_say(c, READ);
    assert_int_equal(wire_state(&w, 0), CONN_AWAITING);
    wire_leave(c);
    assert_int_equal(wire_state(&w, 0), CONN_GONE);
    assert_int_equal(wire_connections(&w, 0), 0);
    fake_finish_reads(&w.fake);
    wire_turn(&w);
    assert_true(w.fake.saw_cancel);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

/* The connection was refused: the client gets the reason, and the server discards its input until
 * it closes or a second has passed. */
static void assert_refused(struct wire_client *c, const char *status)
{
    const char *heard = wire_heard(c);
    wire_assert_has(heard, status);
    wire_assert_has(heard, "Connection: close\r\n");
    assert_int_equal(wire_state(&w, 0), CONN_LINGER);
    assert_int_equal(send(c->fd, "more", 4, MSG_NOSIGNAL), 4);
    wire_turn(&w);
    assert_int_equal(wire_state(&w, 0), CONN_LINGER);
    wire_age(&w, 0, CONN_LINGER, LINGER_MS);
    assert_int_equal(wire_state(&w, 0), CONN_GONE);
}

static void idle_connection_is_closed_in_time(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    wire_age(&w, 0, CONN_IDLE, w.config.idle_timeout_ms / 2);
    assert_int_equal(wire_state(&w, 0), CONN_IDLE);
    wire_age(&w, 0, CONN_IDLE, w.config.idle_timeout_ms / 2);
    assert_int_equal(wire_state(&w, 0), CONN_GONE);
    assert_true(c->over);
    assert_string_equal(wire_heard(c), "");
}

static void slow_head_is_refused_in_time(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    wire_say(c, "GET /ping HTTP/1.1\r\n");
    wire_age(&w, 0, CONN_HEAD, w.config.header_timeout_ms / 2);
    wire_say(c, "Host: localhost\r\n"); /* too little to count as progress */
    assert_int_equal(wire_state(&w, 0), CONN_HEAD);
    wire_age(&w, 0, CONN_HEAD, w.config.header_timeout_ms / 2);
    assert_refused(c, "HTTP/1.1 408");
}

static void slow_body_is_refused_in_time(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    wire_say(c, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n1");
    assert_int_equal(wire_state(&w, 0), CONN_BODY);
    wire_age(&w, 0, CONN_BODY, w.config.body_timeout_ms / 2);
    wire_say(c, "2");
    assert_int_equal(wire_state(&w, 0), CONN_BODY);
    wire_age(&w, 0, CONN_BODY, w.config.body_timeout_ms / 2);
    assert_refused(c, "HTTP/1.1 408");
    assert_int_equal(limit_in_use(w.b.worker[0]->limit_counters, LIMIT_INPUT), 0);
}

static void body_progress_restarts_the_deadline(void **state)
{
    (void)state;
    static char half[70000]; /* more than 64 KiB of progress */
    w.config.max_body = 200000;
    struct wire_client *c = wire_connect(&w, 0);
    memset(half, 'x', sizeof(half));
    wire_say(c, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 140000\r\n\r\n");
    wire_age(&w, 0, CONN_BODY, w.config.body_timeout_ms / 2);
    wire_say_bytes(c, half, sizeof(half));
    wire_age(&w, 0, CONN_BODY, w.config.body_timeout_ms / 2);
    assert_int_equal(wire_state(&w, 0), CONN_BODY);
    wire_say_bytes(c, half, sizeof(half));
    wire_assert_has(wire_heard(c), "HTTP/1.1 200");
}

static void stalled_reader_is_disconnected(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    w.fake.content_bytes = 60000;
    c->deaf = true;
    for (int i = 0; i < 20; i++) {
        wire_say(c, READ);
    }
    struct http_conn *conn = wire_conn(&w, 0);
    assert_true(deadline_is_listed(&conn->base.stall));
    conn->base.stall.listed_ms -= (uint32_t)w.config.stall_timeout_ms / 2;
    wire_age(&w, 0, CONN_GONE, 0);
    assert_ptr_equal(wire_conn(&w, 0), conn);
    conn->base.stall.listed_ms -= (uint32_t)w.config.stall_timeout_ms / 2;
    wire_age(&w, 0, CONN_GONE, 0);
    assert_int_equal(wire_state(&w, 0), CONN_GONE);
    assert_int_equal(w.b.worker[0]->stats.cut, 1);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void oversized_request_is_refused_before_it_arrives(void **state)
{
    (void)state;
    char text[512];
    struct wire_client *c = wire_connect(&w, 0);
    snprintf(text, sizeof(text),
             "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: %u\r\n\r\n",
             WIRE_MAX_BODY + 1);
    wire_say(c, text);
    assert_refused(c, "HTTP/1.1 413");

    c = wire_connect(&w, 0);
    snprintf(text, sizeof(text),
             "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: %u\r\n\r\n", WIRE_MAX_BODY);
    wire_say(c, text); /* at the limit */
    assert_int_equal(wire_state(&w, 0), CONN_BODY);
    wire_leave(c);
}

static void chunks_are_refused_if_they_exceed_the_limit(void **state)
{
    (void)state;
    static char chunk[WIRE_MAX_BODY + 1];
    struct wire_client *c = wire_connect(&w, 0);
    memset(chunk, 'x', sizeof(chunk));
    wire_say(
        c, "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1001\r\n");
    assert_int_equal(wire_state(&w, 0), CONN_BODY);
    assert_int_equal(send(c->fd, chunk, sizeof(chunk), MSG_NOSIGNAL), sizeof(chunk));
    wire_turn(&w);
    assert_refused(c, "HTTP/1.1 413");
}

static void endless_head_is_refused(void **state)
{
    (void)state;
    static char field[HTTP_MAX_HEAD];
    struct wire_client *c = wire_connect(&w, 0);
    memset(field, 'x', sizeof(field));
    wire_say(c, "GET /ping HTTP/1.1\r\nX: ");
    assert_int_equal(send(c->fd, field, sizeof(field), MSG_NOSIGNAL), sizeof(field));
    wire_turn(&w);
    assert_refused(c, "HTTP/1.1 431");
}

static void age_one(struct connection *c, void *user)
{
    const uint32_t *ms = user;
    c->deadline.listed_ms -= *ms;
}

static void make_older(enum conn_state state, uint32_t ms)
{
    connections_each(&w.hw[0]->conns, 1u << state, age_one, &ms);
}

static void slowest_connection_is_closed_if_memory_runs_out(void **state)
{
    (void)state;
    static char part[3000];
    struct wire_client *slowest = wire_connect(&w, 0), *slow = wire_connect(&w, 0),
                       *quick = wire_connect(&w, 0);
    memset(part, 'x', sizeof(part));
    struct limit_counters *counters = w.b.worker[0]->limit_counters;
    wire_say(slowest, "GET /ping HTTP/1.1\r\nX: ");
    wire_say_bytes(slowest, part, sizeof(part));
    make_older(CONN_HEAD, 10);
    wire_say(slow, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3001\r\n\r\n");
    wire_say_bytes(slow, part, sizeof(part));
    make_older(CONN_BODY, 5);
    uint64_t held = limit_in_use(counters, LIMIT_INPUT);
    assert_true(held >= 2 * sizeof(part));
    counters->values[LIMIT_INPUT] = held;
    wire_say(quick, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n1");
    wire_assert_has(wire_heard(slowest), "HTTP/1.1 503"); /* which frees enough memory */
    wire_say(slow, "1");
    wire_assert_has(wire_heard(slow), "HTTP/1.1 200");
    wire_say(quick, "2");
    wire_assert_has(wire_heard(quick), "HTTP/1.1 200");
    assert_int_equal(limit_in_use(counters, LIMIT_INPUT), 0);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void malformed_request_is_answered_and_later_ones_ignored(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    wire_say(c, "GET /ping HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" PING);
    const char *heard = wire_heard(c);
    wire_assert_has(heard, "HTTP/1.1 400");
    assert_int_equal(wire_count(heard, "HTTP/1.1"), 1);
    assert_int_equal(wire_state(&w, 0), CONN_LINGER);
    wire_half_close(c); /* the client has read it */
    assert_int_equal(wire_state(&w, 0), CONN_GONE);
}

static void refusal_after_a_head_request_has_its_body(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    wire_say(c, "HEAD /resource?uri=mem%3A%2F%2Fx%2Fa HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const char *heard = wire_heard(c);
    wire_assert_has(heard, "HTTP/1.1 200");
    assert_null(strstr(heard, "content of"));
    wire_say(c, "nonsense\r\n\r\n");
    heard = wire_heard(c);
    wire_assert_has(heard, "HTTP/1.1 400");
    wire_assert_has(heard, "\r\n\r\nthe request line");
}

static void expect_header_gets_one_continue(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    wire_say(c, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
                "Expect: 100-continue\r\n\r\n");
    assert_string_equal(wire_heard(c), "HTTP/1.1 100 Continue\r\n\r\n");
    assert_int_equal(wire_state(&w, 0), CONN_BODY);
    wire_say(c, "ab");
    assert_string_equal(wire_heard(c), "");
    wire_say(c, "cd");
    wire_assert_has(wire_heard(c), "\r\n\r\nabcd");
    /* The server does not ask for a body that has arrived or that it refuses. */
    wire_say(c, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
                "Expect: 100-continue\r\n\r\nef");
    assert_null(strstr(wire_heard(c), "100 Continue"));
    wire_say(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
                "Expect: 100-continue\r\n\r\n");
    const char *heard = wire_heard(c);
    wire_assert_has(heard, "HTTP/1.1 415");
    assert_null(strstr(heard, "100 Continue"));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(connection_is_kept_for_the_next_request),
        CASE(http_1_0_connection_is_kept_only_on_request),
        CASE(request_may_arrive_in_any_pieces),
        CASE(pipelined_requests_are_answered_in_order),
        CASE(excess_requests_are_handled_in_the_next_turn),
        CASE(pipelined_request_waits_for_a_delayed_answer),
        CASE(unread_answers_delay_pipelined_requests),
        CASE(requests_before_a_half_close_are_answered),
        CASE(half_close_within_a_request_closes_without_an_answer),
        CASE(disconnect_cancels_the_pending_request),
        CASE(idle_connection_is_closed_in_time),
        CASE(slow_head_is_refused_in_time),
        CASE(slow_body_is_refused_in_time),
        CASE(body_progress_restarts_the_deadline),
        CASE(stalled_reader_is_disconnected),
        CASE(oversized_request_is_refused_before_it_arrives),
        CASE(chunks_are_refused_if_they_exceed_the_limit),
        CASE(endless_head_is_refused),
        CASE(slowest_connection_is_closed_if_memory_runs_out),
        CASE(malformed_request_is_answered_and_later_ones_ignored),
        CASE(refusal_after_a_head_request_has_its_body),
        CASE(expect_header_gets_one_continue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
