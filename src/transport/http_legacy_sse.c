/* SPDX-License-Identifier: MIT
 *
 * /sse and /messages (--legacy-sse): the HTTP+SSE transport of MCP 2024-11-05. A GET of /sse
 * becomes a stream whose first event names the place, /messages?sessionId=…, to which messages are
 * POSTed; each is answered by 202 and, on the stream, by what there is to say. So the stream is a
 * connection of messages (transport/message_conn.h) with its input elsewhere, and takes everything
 * with it when it ends.
 */
#include "base/mem.h"
#include "delivery/subscriber.h"
#include "protocol/drain.h"
#include "protocol/inbound.h"
#include "protocol/session.h"
#include "request/request.h"
#include "transport/http_private.h"
#include "transport/message_conn.h"
#include "transport/output_budget.h"

/* An open stream, by its id. */
struct sse_stream {
    struct http_conn *conn;
    char id[SESSION_ID_LEN + 1];
    struct session_place place; /* that its client has given for it */
};

static void legacy_sse_answer(struct channel *channel, int status,
                              const struct response_headers *headers, struct buf *text)
{
    (void)status;
    (void)headers;
    struct http_conn *conn = conn_of_channel(channel);
    if (text->len > 0) { /* else there was no memory even for an error */
        sendq_puts(&conn->out, STR("event: message\ndata: "));
        message_conn_put(&conn->out, text);
        sendq_puts(&conn->out, STR("\n\n"));
        output_book_answer(channel, &conn->sink, &conn->out);
    }
}

static void legacy_sse_answer_long(struct channel *channel, int status,
                                   const struct response_headers *headers,
                                   struct sendq_source *source)
{
    (void)status;
    (void)headers;
    struct http_conn *conn = conn_of_channel(channel);
    sendq_puts(&conn->out, STR("event: message\ndata: "));
    if (sendq_put_source(&conn->out, source) == 0) {
        sendq_puts(&conn->out, STR("\n\n"));
    }
}

static void legacy_sse_unbook(struct channel *channel)
{
    http_channel_ops.unbook(channel);
}

static bool legacy_sse_is_sending(const struct channel *channel, size_t *ret_held)
{
    struct http_conn *conn = conn_of_channel(channel);
    conn->has_long = true;
    return message_conn_is_sending(&conn->out, ret_held);
}

/* The first time the exchange becomes the stream; then it is there. */
static struct sink *legacy_sse_stream(struct channel *channel,
                                      const struct response_headers *headers)
{
    struct http_conn *conn = conn_of_channel(channel);
    return conn->r ? http_channel_ops.stream(channel, headers) : &conn->sink;
}

static void legacy_sse_address(const struct channel *channel, char out[PRINCIPAL_MAX])
{
    http_channel_ops.address(channel, out);
}

static void legacy_sse_facts(const struct channel *channel, struct channel_facts *ret)
{
    http_channel_ops.facts(channel, ret);
}

static const struct channel_ops legacy_sse_channel_ops = {
    .name = "sse",
    .is_http = false,
    .answer = legacy_sse_answer,
    .answer_long = legacy_sse_answer_long,
    .unbook = legacy_sse_unbook,
    .is_sending = legacy_sse_is_sending,
    .accepted = message_conn_accepted,
    .stream = legacy_sse_stream,
    .address = legacy_sse_address,
    .facts = legacy_sse_facts,
};

static char *legacy_sse_room(struct sink *sink, struct tidings_str event_id, size_t len)
{
    return http_sink_ops.room(sink, event_id, len);
}

static size_t legacy_sse_pending(const struct sink *sink)
{
    return http_sink_ops.pending(sink);
}

static void legacy_sse_cut(struct sink *sink, const char *reason)
{
    http_sink_ops.cut(sink, reason);
}

static struct channel *legacy_sse_channel(const struct sink *sink)
{
    return http_sink_ops.channel(sink);
}

/* Events as on any stream, with the life of a connection of messages. */
static const struct sink_ops legacy_sse_sink_ops = {
    .name = "legacy sse",
    .room = legacy_sse_room,
    .prime = message_conn_sink_prime,
    .pending = legacy_sse_pending,
    .end = message_conn_sink_end,
    .cut = legacy_sse_cut,
    .channel = legacy_sse_channel,
};

static void legacy_sse_forget(struct subscriber *subscriber)
{
    struct sse_stream *s = subscriber->owner;
    struct http_worker *hw = s->conn->hw;
    map_remove(&hw->sse_streams, tidings_strn(s->id, SESSION_ID_LEN));
    hw->worker->stats.sessions--;
    session_left(hw->worker, &s->place);
    mem_free(s);
}

static const struct subscriber_ops legacy_sse_subscriber_ops = {.on_destroy = legacy_sse_forget};

/* It goes on for longer than an exchange, and ends when its principal does. */
static void note_expiry(struct http_conn *conn)
{
    int64_t end = conn->channel.principal ? conn->channel.principal->expires_ms : 0;
    int64_t *next = &conn->hw->next_expiry_ms;
    if (end > 0 && (*next == 0 || end < *next)) {
        *next = end;
        deadlines_changed(&conn->hw->deadlines);
    }
}

static struct sse_stream *legacy_sse_create(struct http_conn *conn)
{
    struct worker *worker = conn->hw->worker;
    struct sse_stream *s = mem_zalloc(sizeof(*s));
    if (!s) {
        return NULL;
    }
    s->conn = conn;
    if (session_make_id(worker, s->id) < 0 ||
        map_put(&conn->hw->sse_streams, tidings_strn(s->id, SESSION_ID_LEN), s, NULL) < 0) {
        mem_free(s);
        return NULL;
    }
    return s;
}

void legacy_sse_open(struct http_conn *conn)
{
    struct worker *worker = conn->hw->worker;
    if (conn->hw->draining || worker->stopping) {
        conn_refuse(conn, 503, "the server is stopping");
        return;
    }
    struct session_place place;
    struct refusal why;
    if (!session_enter(&conn->channel, &place, &why)) {
        inbound_refuse_limit(&conn->channel, &why, NULL);
        return;
    }
    struct sse_stream *s = legacy_sse_create(conn);
    conn->channel.ops = &legacy_sse_channel_ops;
    struct subscriber *subscriber = s ? subscriber_of_channel(&conn->channel) : NULL;
    if (!subscriber) {
        if (s) {
            map_remove(&conn->hw->sse_streams, tidings_strn(s->id, SESSION_ID_LEN));
            mem_free(s);
        }
        session_left(worker, &place);
        conn->channel.ops = &http_channel_ops;
        conn_refuse(conn, 503, "out of memory");
        return;
    }
    s->place = place;
    worker->stats.sessions++;
    subscriber->ops = &legacy_sse_subscriber_ops;
    subscriber->owner = s;
    conn->sink.ops = &legacy_sse_sink_ops;
    note_expiry(conn);
    sendq_puts(&conn->out, STR("event: endpoint\ndata: "
                               "/messages?sessionId="));
    sendq_put(&conn->out, s->id, SESSION_ID_LEN);
    sendq_puts(&conn->out, STR("\n\n"));
    conn_want(conn);
}

void legacy_sse_post(struct http_conn *conn, struct tidings_str id, struct tidings_str text)
{
    struct sse_stream *s = id.ptr ? map_find(&conn->hw->sse_streams, id) : NULL;
    if (!s || !principal_is_same(s->conn->channel.principal, conn->channel.principal)) {
        inbound_refuse(&conn->channel, 404, RPC_SESSION,
                       "session not found or ended; GET /sse opens one");
    } else if (!message_conn_has_room(&s->conn->channel, &s->conn->out)) {
        limit_hit(conn->hw->worker->limit_counters, LIMIT_CONNECTION_REQUESTS);
        inbound_refuse(&conn->channel, 503, RPC_INTERNAL,
                       "too much waits to be answered or read on this session's stream");
    } else {
        inbound_text(&s->conn->channel, text, NULL);
        http_channel_ops.accepted(&conn->channel);
    }
}

void legacy_sse_drain(struct http_worker *hw)
{
    size_t pos = 0;
    struct sse_stream *s;
    while ((s = map_next(&hw->sse_streams, &pos)) != NULL) {
        if (drain_is_done_with(hw->worker, &s->conn->channel)) {
            http_sink_ops.end(&s->conn->sink);
        }
    }
}

int64_t legacy_sse_expire(struct http_worker *hw, int64_t now_ms)
{
    size_t pos = 0;
    struct sse_stream *s;
    int64_t next = 0;
    while ((s = map_next(&hw->sse_streams, &pos)) != NULL) {
        const struct principal *principal = s->conn->channel.principal;
        if (principal_is_expired(principal, now_ms)) {
            http_sink_ops.end(&s->conn->sink);
        } else if (principal && principal->expires_ms > 0 &&
                   (next == 0 || principal->expires_ms < next)) {
            next = principal->expires_ms;
        }
    }
    return next;
}

void legacy_sse_dismiss(struct http_worker *hw, principal_test_fn is_gone, void *user)
{
    size_t pos = 0;
    struct sse_stream *s;
    while ((s = map_next(&hw->sse_streams, &pos)) != NULL) {
        if (s->conn->channel.principal && is_gone(user, s->conn->channel.principal)) {
            http_sink_ops.end(&s->conn->sink);
        }
    }
}
