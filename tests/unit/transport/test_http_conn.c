/* SPDX-License-Identifier: MIT
 *
 * The life of an HTTP connection over a socket pair: which state each thing that happens to it
 * leads to, and what the client hears. Deadlines are met by making connections older.
 */
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

/* ---- one request after the other ------------------------------------------------------------- */

static void a_connection_is_kept_for_the_next_request(void **state)
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

static void http_1_0_is_kept_only_when_it_asks_for_it(void **state)
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

static void a_request_may_come_in_any_pieces(void **state)
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

static void what_is_pipelined_is_answered_in_order(void **state)
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

static void who_asks_too_much_at_once_goes_on_in_the_next_turn(void **state)
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

static void what_follows_waits_for_an_answer_that_comes_later(void **state)
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

static void unread_answers_hold_back_what_is_pipelined(void **state)
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

/* ---- the client ends ------------------------------------------------------------------------- */

static void what_was_asked_before_a_half_close_is_answered(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    assert_int_equal(send(c->fd, PING PING, 2 * (sizeof(PING) - 1), 0), 2 * (sizeof(PING) - 1));
    wire_half_close(c);
    assert_int_equal(wire_count(wire_heard(c), "pong"), 2);
    assert_true(c->over);
    assert_int_equal(wire_state(&w, 0), CONN_GONE);
}

static void a_half_close_in_the_middle_of_a_request_ends_it_without_a_word(void **state)
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

static void who_goes_while_it_waits_cancels_what_it_asked(void **state)
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

/* It was refused: told why, and its input thrown away until it is done or a second went by. */
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

static void an_idle_connection_is_closed_in_time(void **state)
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

static void a_head_that_drips_is_refused_in_time(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    wire_say(c, "GET /ping HTTP/1.1\r\n");
    wire_age(&w, 0, CONN_HEAD, w.config.header_timeout_ms / 2);
    wire_say(c, "Host: localhost\r\n"); /* no progress that counts */
    assert_int_equal(wire_state(&w, 0), CONN_HEAD);
    wire_age(&w, 0, CONN_HEAD, w.config.header_timeout_ms / 2);
    assert_refused(c, "HTTP/1.1 408");
}

static void a_body_that_drips_is_refused_in_time(void **state)
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

static void a_body_that_comes_on_has_its_time_anew(void **state)
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

static void who_takes_nothing_is_cut(void **state)
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

static void what_is_too_large_is_refused_before_it_has_come(void **state)
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
    wire_say(c, text); /* just not too large */
    assert_int_equal(wire_state(&w, 0), CONN_BODY);
    wire_leave(c);
}

static void chunks_that_become_too_large_are_refused(void **state)
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

static void a_head_without_end_is_refused(void **state)
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

static void the_slowest_is_cut_when_all_hold_too_much(void **state)
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
    wire_assert_has(wire_heard(slowest), "HTTP/1.1 503"); /* which is room enough */
    wire_say(slow, "1");
    wire_assert_has(wire_heard(slow), "HTTP/1.1 200");
    wire_say(quick, "2");
    wire_assert_has(wire_heard(quick), "HTTP/1.1 200");
    assert_int_equal(limit_in_use(counters, LIMIT_INPUT), 0);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

static void a_mistake_is_answered_and_nothing_behind_it(void **state)
{
    (void)state;
    struct wire_client *c = wire_connect(&w, 0);
    wire_say(c, "GET /ping HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" PING);
    const char *heard = wire_heard(c);
    wire_assert_has(heard, "HTTP/1.1 400");
    assert_int_equal(wire_count(heard, "HTTP/1.1"), 1);
    assert_int_equal(wire_state(&w, 0), CONN_LINGER);
    wire_half_close(c); /* it has read it */
    assert_int_equal(wire_state(&w, 0), CONN_GONE);
}

static void a_refusal_after_a_head_request_has_its_text(void **state)
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

static void who_expects_to_be_told_to_go_on_is_told_once(void **state)
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
    /* What has come already is not asked for, and what is refused is not either. */
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
        CASE(a_connection_is_kept_for_the_next_request),
        CASE(http_1_0_is_kept_only_when_it_asks_for_it),
        CASE(a_request_may_come_in_any_pieces),
        CASE(what_is_pipelined_is_answered_in_order),
        CASE(who_asks_too_much_at_once_goes_on_in_the_next_turn),
        CASE(what_follows_waits_for_an_answer_that_comes_later),
        CASE(unread_answers_hold_back_what_is_pipelined),
        CASE(what_was_asked_before_a_half_close_is_answered),
        CASE(a_half_close_in_the_middle_of_a_request_ends_it_without_a_word),
        CASE(who_goes_while_it_waits_cancels_what_it_asked),
        CASE(an_idle_connection_is_closed_in_time),
        CASE(a_head_that_drips_is_refused_in_time),
        CASE(a_body_that_drips_is_refused_in_time),
        CASE(a_body_that_comes_on_has_its_time_anew),
        CASE(who_takes_nothing_is_cut),
        CASE(what_is_too_large_is_refused_before_it_has_come),
        CASE(chunks_that_become_too_large_are_refused),
        CASE(a_head_without_end_is_refused),
        CASE(the_slowest_is_cut_when_all_hold_too_much),
        CASE(a_mistake_is_answered_and_nothing_behind_it),
        CASE(a_refusal_after_a_head_request_has_its_text),
        CASE(who_expects_to_be_told_to_go_on_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
