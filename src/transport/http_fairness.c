/* SPDX-License-Identifier: MIT
 *
 * Turns: a connection handles so many messages in one, and goes on in the next with what is left.
 */
#include "transport/http_private.h"

bool conn_may_go_on(struct http_conn *conn)
{
    struct http_worker *hw = conn->hw;
    if (hw->draining || channel_may_go_on(&conn->channel)) {
        return true;
    }
    conn_set_state(conn, CONN_REST);
    return false;
}

/* Not before: a timer that is started by a timer would run in the same turn. */
void http_end_turn(struct http_worker *hw)
{
    if (!list_empty(&hw->by_state[CONN_REST]) && !loop_timer_is_running(hw->rested)) {
        loop_timer_start(hw->rested, 0, 0);
    }
}

/* Another turn: those that had used theirs up go on where they were. */
void http_on_rested(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct http_worker *hw = user;
    struct list *all = &hw->by_state[CONN_REST];
    size_t count = 0; /* who comes to rest meanwhile is behind these; who is ended leaves them */
    list_each (it, next, all) {
        count++;
    }
    for (; count > 0 && !list_empty(all); count--) {
        struct http_conn *conn = list_entry(all->next, struct http_conn, link);
        conn_set_state(conn, conn->is_websocket ? CONN_SOCKET : CONN_READING);
        if (conn->is_websocket) {
            websocket_go_on(conn);
        } else {
            conn_go_on(conn);
        }
        conn_want(conn);
    }
}
