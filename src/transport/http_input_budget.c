/* SPDX-License-Identifier: MIT
 *
 * Counts the unhandled input of HTTP connections against --max-input, and cuts the slowest of them
 * and of the WebSockets when it is used up (transport/input_budget.h).
 */
#include "transport/http_private.h"
#include "transport/input_budget.h"

void conn_book_input(struct http_conn *conn)
{
    size_t held = conn->state != CONN_GONE && conn->r ? conn->r->in.cap : 0;
    if (held < conn->input_counted) {
        worker_trim_later(conn->hw->worker, conn->input_counted - held);
    }
    input_count_held(conn->hw->worker->limit_counters, &conn->input_counted, held);
}

/* Of those in the middle of a request: which has had no progress for longest? */
static struct http_conn *conn_find_slowest(struct http_worker *hw)
{
    static const enum conn_state partial[] = {CONN_HEAD, CONN_BODY};
    struct http_conn *slowest = NULL;
    for (size_t i = 0; i < sizeof(partial) / sizeof(partial[0]); i++) {
        struct http_conn *first = http_first_in(hw, partial[i]);
        if (first &&
            (!slowest || (int32_t)(first->deadline.listed_ms - slowest->deadline.listed_ms) < 0)) {
            slowest = first;
        }
    }
    return slowest;
}

void conn_cut_input(struct http_conn *conn)
{
    conn_refuse_over(conn, LIMIT_INPUT, 503,
                     "the server holds too much unfinished input; send it again later, and faster "
                     "(--max-input)");
    buf_deinit(&conn->r->in);
    conn_book_input(conn);
    conn_want(conn);
}

void http_make_room(struct http_worker *hw)
{
    while (input_is_over(hw->worker->limit_counters)) {
        struct http_conn *conn = conn_find_slowest(hw);
        uint32_t since_ms = 0;
        bool has_websocket = websocket_find_slowest(hw->websockets, &since_ms);
        if (has_websocket && (!conn || (int32_t)(since_ms - conn->deadline.listed_ms) < 0)) {
            websocket_cut_slowest(hw->websockets);
        } else if (conn) {
            conn_cut_input(conn);
        } else {
            return;
        }
    }
}
