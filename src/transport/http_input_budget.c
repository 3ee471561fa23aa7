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
    input_count_held(conn->hw->worker->limit_counters, conn->channel.origin, &conn->input_counted,
                     held);
}

/* The first in that state that may be cut. */
static struct http_conn *conn_find_first(const struct http_worker *hw, enum conn_state state)
{
    list_each (it, next, &hw->lists[state].all) {
        struct http_conn *conn = list_entry(it, struct http_conn, deadline.link);
        if (!input_may_stay(hw->worker->limit_counters, conn->channel.origin)) {
            return conn;
        }
    }
    return NULL;
}

/* Of those in the middle of a request: which has had no progress for longest? */
static struct http_conn *conn_find_slowest(struct http_worker *hw)
{
    struct http_conn *head = conn_find_first(hw, CONN_HEAD), *body = conn_find_first(hw, CONN_BODY);
    bool is_head =
        head && (!body || (int32_t)(head->deadline.listed_ms - body->deadline.listed_ms) < 0);
    return is_head ? head : body;
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

static void conn_cut_unfair(struct http_conn *conn)
{
    conn_refuse_over(conn, LIMIT_INPUT, 429,
                     "this client holds too much unfinished input on its connections; send it "
                     "again later (--max-input, --fair-share)");
    buf_deinit(&conn->r->in);
    conn_book_input(conn);
    conn_want(conn);
}

void conn_make_room(struct http_conn *conn)
{
    bool is_partial = conn->state == CONN_HEAD || conn->state == CONN_BODY;
    if (is_partial && input_is_unfair(conn->hw->worker->limit_counters, conn->channel.origin,
                                      conn->input_counted)) {
        conn_cut_unfair(conn);
    }
    http_make_room(conn->hw);
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
