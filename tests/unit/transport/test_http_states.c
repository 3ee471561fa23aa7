/* SPDX-License-Identifier: MIT
 *
 * The state transition tables of HTTP connections, WebSockets and line-framed connections, compared
 * with the drawings above their enums. An undrawn transition must fail. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/harness_core.h"
#include "support/harness_provider.h"
#include "support/http_wire.h"
#include "transport/lines.h"
#include "transport/websocket.h"

#define MOVES_MAX 16u

/* One row of a drawing: from a state to these states, terminated by -1. */
struct row {
    int from;
    int to[MOVES_MAX];
};

static void check_table(const struct row *rows, int states, bool (*may_move)(int from, int to))
{
    for (int from = 0; from < states; from++) {
        const struct row *row = &rows[from];
        assert_int_equal(row->from, from); /* each has its row */
        for (int to = 0; to < states; to++) {
            bool drawn = false;
            for (size_t i = 0; row->to[i] >= 0; i++) {
                drawn = drawn || row->to[i] == to;
            }
            if (may_move(from, to) != drawn) {
                fail_msg("from %d to %d: drawn %d", from, to, drawn);
            }
        }
    }
}

static bool http_may_move(int from, int to)
{
    return connection_may_move(&http_kind, from, to);
}

static void http_transitions_match_the_drawing(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {CONN_HANDSHAKE, {CONN_IDLE, CONN_CLOSING, CONN_REFUSED, CONN_GONE, -1}},
        {CONN_IDLE, {CONN_HEAD, CONN_CLOSING, CONN_REFUSED, CONN_GONE, -1}},
        {CONN_HEAD,
         {CONN_BODY, CONN_AUTHENTICATING, CONN_THROTTLED, CONN_RUNNING, CONN_CLOSING, CONN_REFUSED,
          CONN_GONE, -1}},
        {CONN_BODY,
         {CONN_BODY, CONN_THROTTLED, CONN_RUNNING, CONN_CLOSING, CONN_REFUSED, CONN_GONE, -1}},
        {CONN_AUTHENTICATING, {CONN_HEAD, CONN_REFUSED, CONN_GONE, -1}},
        {CONN_THROTTLED, {CONN_HEAD, CONN_GONE, -1}},
        {CONN_RUNNING,
         {CONN_AWAITING, CONN_ADOPTING, CONN_IDLE, CONN_HEAD, CONN_STREAM, CONN_POLL, CONN_CLOSING,
          CONN_REFUSED, CONN_GONE, -1}},
        {CONN_AWAITING,
         {CONN_IDLE, CONN_HEAD, CONN_STREAM, CONN_POLL, CONN_CLOSING, CONN_GONE, -1}},
        {CONN_ADOPTING, {CONN_HEAD, CONN_GONE, -1}},
        {CONN_STREAM, {CONN_STREAM, CONN_CLOSING, CONN_GONE, -1}},
        {CONN_POLL, {CONN_POLLED, CONN_CLOSING, CONN_GONE, -1}},
        {CONN_POLLED, {CONN_CLOSING, CONN_GONE, -1}},
        {CONN_CLOSING, {CONN_GONE, -1}},
        {CONN_REFUSED, {CONN_LINGER, CONN_GONE, -1}},
        {CONN_LINGER, {CONN_REFUSED, CONN_GONE, -1}},
        {CONN_GONE, {-1}},
    };
    assert_int_equal(sizeof(rows) / sizeof(rows[0]), CONN_STATES);
    check_table(rows, CONN_STATES, http_may_move);
}

static bool ws_may_move(int from, int to)
{
    return connection_may_move(&websocket_kind, from, to);
}

static void websocket_transitions_match_the_drawing(void **state)
{
    (void)state;
#define ENDS WEBSOCKET_CLOSING, WEBSOCKET_LEAVING, WEBSOCKET_REFUSED, WEBSOCKET_GONE, -1
    static const struct row rows[] = {
        {WEBSOCKET_OPEN,
         {WEBSOCKET_OPEN, WEBSOCKET_PINGED, WEBSOCKET_PARTIAL, WEBSOCKET_THROTTLED, ENDS}},
        {WEBSOCKET_PINGED,
         {WEBSOCKET_OPEN, WEBSOCKET_PINGED, WEBSOCKET_PARTIAL, WEBSOCKET_THROTTLED, ENDS}},
        {WEBSOCKET_PARTIAL, {WEBSOCKET_OPEN, WEBSOCKET_PARTIAL, WEBSOCKET_THROTTLED, ENDS}},
        {WEBSOCKET_THROTTLED, {WEBSOCKET_OPEN, WEBSOCKET_THROTTLED, ENDS}},
        {WEBSOCKET_CLOSING, {WEBSOCKET_GONE, -1}},
        {WEBSOCKET_LEAVING, {WEBSOCKET_AWAITING_CLOSE, WEBSOCKET_GONE, -1}},
        {WEBSOCKET_REFUSED, {WEBSOCKET_LINGER, WEBSOCKET_GONE, -1}},
        {WEBSOCKET_AWAITING_CLOSE, {WEBSOCKET_REFUSED, WEBSOCKET_GONE, -1}},
        {WEBSOCKET_LINGER, {WEBSOCKET_REFUSED, WEBSOCKET_GONE, -1}},
        {WEBSOCKET_GONE, {-1}},
    };
    assert_int_equal(sizeof(rows) / sizeof(rows[0]), WEBSOCKET_STATES);
    check_table(rows, WEBSOCKET_STATES, ws_may_move);
}

static bool line_may_move(int from, int to)
{
    return connection_may_move(&line_kind, from, to);
}

static void line_framed_transitions_match_the_drawing(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {LINE_HANDSHAKE, {LINE_FRESH, LINE_ENDING, LINE_LINGER, LINE_GONE, -1}},
        {LINE_FRESH, {LINE_MIDLINE, LINE_OPEN, LINE_ENDING, LINE_LINGER, LINE_GONE, -1}},
        {LINE_MIDLINE, {LINE_MIDLINE, LINE_OPEN, LINE_ENDING, LINE_LINGER, LINE_GONE, -1}},
        {LINE_OPEN, {LINE_MIDLINE, LINE_OPEN, LINE_ENDING, LINE_LINGER, LINE_GONE, -1}},
        {LINE_ENDING, {LINE_LINGER, LINE_GONE, -1}},
        {LINE_LINGER, {LINE_GONE, -1}},
        {LINE_GONE, {-1}},
    };
    assert_int_equal(sizeof(rows) / sizeof(rows[0]), LINE_STATES);
    check_table(rows, LINE_STATES, line_may_move);
}

/* In a child process: 0: it was closed; 1: it was moved; aborted: an assertion failed. */
static int move_in_child(struct http_conn *conn, enum conn_state to)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stderr);
        signal(SIGABRT, SIG_DFL);
        connection_set_state(&conn->base, to);
        _exit(conn->base.state == CONN_GONE ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void undrawn_transition_aborts_or_closes_the_connection(void **state)
{
    (void)state;
    static struct wire w;
    wire_start(&w);
    struct wire_client *c = wire_connect(&w, 0);
    struct http_conn *conn = wire_conn(&w, 0);
    assert_int_equal(conn->base.state, CONN_IDLE);
    int good = move_in_child(conn, CONN_HEAD), bad = move_in_child(conn, CONN_STREAM);
    assert_true(WIFEXITED(good) && WEXITSTATUS(good) == 1);
    assert_true((WIFSIGNALED(bad) && WTERMSIG(bad) == SIGABRT) ||
                (WIFEXITED(bad) && WEXITSTATUS(bad) == 0));
    /* the child may have removed it from the epoll instance that both share */
    connection_close(&conn->base, "test");
    wire_leave(c);
    wire_stop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_transitions_match_the_drawing),
        cmocka_unit_test(websocket_transitions_match_the_drawing),
        cmocka_unit_test(line_framed_transitions_match_the_drawing),
        cmocka_unit_test(undrawn_transition_aborts_or_closes_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
