/* SPDX-License-Identifier: MIT
 *
 * The states of an HTTP connection: which may follow which, and the one function that moves it.
 */
#include <assert.h>

#include "base/log.h"
#include "transport/http_private.h"

#define TO(state) (1u << CONN_##state)
#define TO_END (TO(CLOSING) | TO(REFUSED) | TO(GONE))
/* What an answer leads to. */
#define TO_ANSWERED (TO(IDLE) | TO(HEAD) | TO(STREAM) | TO(POLL) | TO(CLOSING) | TO(GONE))

/* The drawing in http_private.h. To itself: its time begins anew. */
static const uint16_t moves[CONN_STATES] = {
    [CONN_HANDSHAKE] = TO(IDLE) | TO_END,
    [CONN_IDLE] = TO(HEAD) | TO_END,
    [CONN_HEAD] = TO(BODY) | TO(AUTHENTICATING) | TO(YIELDED) | TO(RUNNING) | TO_END,
    [CONN_BODY] = TO(BODY) | TO(YIELDED) | TO(RUNNING) | TO_END,
    [CONN_AUTHENTICATING] = TO(HEAD) | TO(REFUSED) | TO(GONE),
    [CONN_YIELDED] = TO(HEAD) | TO(GONE),
    [CONN_RUNNING] = TO(AWAITING) | TO(ADOPTING) | TO(REFUSED) | TO_ANSWERED,
    [CONN_AWAITING] = TO_ANSWERED,
    [CONN_ADOPTING] = TO(HEAD) | TO(GONE),
    [CONN_STREAM] = TO(STREAM) | TO(CLOSING) | TO(GONE),
    [CONN_POLL] = TO(POLLED) | TO(CLOSING) | TO(GONE),
    [CONN_POLLED] = TO(CLOSING) | TO(GONE),
    [CONN_CLOSING] = TO(GONE),
    [CONN_REFUSED] = TO(LINGER) | TO(GONE),
    [CONN_LINGER] = TO(REFUSED) | TO(GONE),
    [CONN_GONE] = 0,
};

bool conn_may_move(enum conn_state from, enum conn_state to)
{
    return (moves[from] >> to & 1u) != 0;
}

static bool conn_is_stream(enum conn_state state)
{
    return state == CONN_STREAM || state == CONN_POLL || state == CONN_POLLED;
}

static void conn_enter(struct http_conn *conn, enum conn_state state)
{
    struct deadline_list *list = &conn->hw->lists[state];
    bool was_stream = conn_is_stream(conn->state);
    size_t *streams = &conn->hw->worker->stats.streams;
    *streams = *streams + conn_is_stream(state) - was_stream;
    conn->state = state;
    if (state == CONN_GONE) {
        deadline_leave(list, &conn->deadline); /* in no list */
        return;
    }
    deadline_enter(list, &conn->deadline);
    conn->deadline.noted = conn->deadline.listed_ms;
}

void conn_start_state(struct http_conn *conn, enum conn_state first)
{
    assert(first == CONN_HANDSHAKE || first == CONN_IDLE);
    conn_enter(conn, first);
}

void conn_set_state(struct http_conn *conn, enum conn_state state)
{
    if (!conn_may_move(conn->state, state)) {
        assert(!"a transition that the table of states does not have");
        log_warn(LOG_TRANSPORT, "connection closed", KV("reason", "internal: impossible state"),
                 KV("from", (int)conn->state), KV("to", (int)state));
        conn_close(conn, "internal: impossible state");
        return;
    }
    conn_enter(conn, state);
    if (conn->input_counted > 0) { /* what is handled within a turn is never counted */
        conn_book_input(conn);
    }
}
