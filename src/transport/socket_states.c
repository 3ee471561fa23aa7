/* SPDX-License-Identifier: MIT
 *
 * The states of a line-framed connection: which may follow which, and the one function that moves
 * it.
 */
#include <assert.h>

#include "base/log.h"
#include "transport/socket_private.h"

#define TO(state) (1u << LINE_##state)
#define TO_END (TO(ENDING) | TO(LINGER) | TO(GONE))

/* The drawing in socket_private.h. To itself: its time begins anew. */
static const uint16_t moves[LINE_STATES] = {
    [LINE_HANDSHAKE] = TO(FRESH) | TO_END,
    [LINE_FRESH] = TO(MIDLINE) | TO(OPEN) | TO_END,
    [LINE_MIDLINE] = TO(MIDLINE) | TO(OPEN) | TO_END,
    [LINE_OPEN] = TO(MIDLINE) | TO(OPEN) | TO_END,
    [LINE_ENDING] = TO(LINGER) | TO(GONE),
    [LINE_LINGER] = TO(GONE),
    [LINE_GONE] = 0,
};

bool line_conn_may_move(enum line_state from, enum line_state to)
{
    return (moves[from] >> to & 1u) != 0;
}

static void line_conn_enter(struct line_conn *conn, enum line_state state)
{
    struct deadline_list *list = &conn->sw->lists[state];
    conn->state = state;
    if (state == LINE_GONE) {
        deadline_leave(list, &conn->deadline); /* in no list */
    } else {
        deadline_enter(list, &conn->deadline);
    }
}

void line_conn_start_state(struct line_conn *conn, enum line_state first)
{
    assert(first == LINE_HANDSHAKE || first == LINE_FRESH);
    line_conn_enter(conn, first);
}

void line_conn_set_state(struct line_conn *conn, enum line_state state)
{
    if (!line_conn_may_move(conn->state, state)) {
        assert(!"a transition that the table of states does not have");
        log_warn(LOG_TRANSPORT, "connection closed", KV("reason", "internal: impossible state"),
                 KV("from", (int)conn->state), KV("to", (int)state));
        line_conn_close(conn, "internal: impossible state");
        return;
    }
    line_conn_enter(conn, state);
}
