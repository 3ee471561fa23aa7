/* SPDX-License-Identifier: MIT
 *
 * Long polls of /events (profile erlmcp): for whoever does not accept a stream of its session, one
 * answer with the messages there are, as soon as there is one. It is an array that is begun with
 * the first message and ended with the turn.
 */
#include "transport/http_private.h"
#include "transport/message_conn.h"

static char *poll_room(struct sink *sink, struct tidings_str event_id, size_t len)
{
    (void)event_id;
    struct http_conn *conn = conn_of_sink(sink);
    bool is_first = conn->state == CONN_POLL;
    char *at = is_first || conn->state == CONN_POLLED ? sendq_room(&conn->out, 1 + len) : NULL;
    if (!at) {
        return NULL;
    }
    *at = is_first ? '[' : ',';
    if (is_first) { /* to those that end with this turn */
        conn_set_state(conn, CONN_POLLED);
    }
    return at + 1;
}

static size_t poll_pending(const struct sink *sink)
{
    return conn_of_sink(sink)->out.pending;
}

static void poll_end(struct sink *sink)
{
    poll_finish(conn_of_sink(sink));
}

static void poll_cut(struct sink *sink, const char *reason)
{
    conn_close(conn_of_sink(sink), reason);
}

static struct channel *poll_channel(const struct sink *sink)
{
    return &conn_of_sink(sink)->channel;
}

static const struct sink_ops poll_sink_ops = {
    .name = "poll",
    .room = poll_room,
    .prime = message_conn_sink_prime,
    .pending = poll_pending,
    .end = poll_end,
    .cut = poll_cut,
    .channel = poll_channel,
};

struct sink *poll_begin(struct http_conn *conn)
{
    conn_free_reading(conn);
    conn->sink.ops = &poll_sink_ops;
    conn_set_state(conn, CONN_POLL);
    return &conn->sink;
}

void poll_finish(struct http_conn *conn)
{
    bool is_empty = conn->state == CONN_POLL;
    if (!is_empty && conn->state != CONN_POLLED) {
        return;
    }
    conn_set_state(conn, CONN_CLOSING);
    sink_closed(&conn->sink); /* from now on messages wait for the next poll */
    sendq_puts(&conn->out, is_empty ? STR("[]\n") : STR("]\n"));
}

void poll_flush(struct http_worker *hw)
{
    struct http_conn *conn;
    while ((conn = http_first_in(hw, CONN_POLLED)) != NULL) {
        poll_finish(conn);
    }
}
