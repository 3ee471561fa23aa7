/* SPDX-License-Identifier: MIT
 *
 * Fairness among the HTTP connections and WebSockets of a worker: each handles so many messages in
 * one turn of the loop (CHANNEL_QUANTUM), and goes on in the next with what is left.
 */
#include "transport/http_private.h"

bool conn_may_go_on(struct http_conn *conn)
{
    struct http_worker *hw = conn->hw;
    if (hw->draining || channel_may_go_on(&conn->channel)) {
        return true;
    }
    conn_set_state(conn, CONN_YIELDED);
    return false;
}

/* Not before: a timer that is started by a timer would run in the same turn. */
void http_end_turn(struct http_worker *hw)
{
    bool has_yielded = http_first_in(hw, CONN_YIELDED) || websocket_has_yielded(hw->websockets);
    if (has_yielded && !loop_timer_is_running(hw->next_turn)) {
        loop_timer_start(hw->next_turn, 0, 0);
    }
    deadlines_end_turn(&hw->deadlines);
}

/* Another turn: those that had used theirs up go on where they were. */
void http_on_next_turn(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct http_worker *hw = user;
    struct http_conn *conn;
    size_t count = 0; /* who yields meanwhile is behind these; who is ended leaves them */
    list_each (it, next, &hw->lists[CONN_YIELDED].all) {
        count++;
    }
    for (; count > 0 && (conn = http_first_in(hw, CONN_YIELDED)) != NULL; count--) {
        conn_set_state(conn, CONN_HEAD);
        conn_go_on(conn);
        conn_want(conn);
    }
    websocket_resume(hw->websockets);
}
