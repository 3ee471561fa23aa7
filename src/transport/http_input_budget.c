/* SPDX-License-Identifier: MIT
 *
 * Counts the unhandled input of HTTP connections and WebSockets against --max-input, and cuts the
 * slowest when it is used up (transport/input_budget.h).
 */
#include "transport/http_private.h"
#include "transport/input_budget.h"

void conn_book_input(struct http_conn *conn)
{
    size_t held = 0;
    if (!conn->gone && conn->is_websocket) {
        held = conn->frames ? ws_reader_size(conn->frames) : 0;
    } else if (!conn->gone && conn->r) {
        held = conn->r->in.cap;
    }
    if (held < conn->booked) {
        worker_trim_later(conn->hw->worker, conn->booked - held);
    }
    input_book(conn->hw->worker->book, &conn->booked, held);
}

/* Of those in the middle of a request or message: which has had no progress for longest? */
static struct http_conn *find_slowest(struct http_worker *hw)
{
    static const enum conn_state partial[] = {CONN_READING, CONN_BODY, CONN_MIDWAY};
    struct http_conn *slowest = NULL;
    for (size_t i = 0; i < sizeof(partial) / sizeof(partial[0]); i++) {
        struct list *all = &hw->by_state[partial[i]];
        struct http_conn *first =
            list_empty(all) ? NULL : list_entry(all->next, struct http_conn, link);
        if (first && (!slowest || (int32_t)(first->since_ms - slowest->since_ms) < 0)) {
            slowest = first;
        }
    }
    return slowest;
}

void conn_cut_input(struct http_conn *conn)
{
    if (conn->is_websocket) {
        limit_hit(conn->hw->worker->book, LIMIT_INPUT);
        websocket_cut(conn, WS_TRY_AGAIN, STR("too much unfinished input; see --max-input"));
    } else {
        conn_refuse_over(conn, LIMIT_INPUT, 503,
                         "the server holds too much unfinished input; send it again later, and "
                         "faster (--max-input)");
        buf_deinit(&conn->r->in);
        conn_book_input(conn);
    }
    conn_want(conn);
}

void http_make_room(struct http_worker *hw)
{
    struct http_conn *conn = NULL;
    while (input_is_over(hw->worker->book) && (conn = find_slowest(hw)) != NULL) {
        conn_cut_input(conn);
    }
}
