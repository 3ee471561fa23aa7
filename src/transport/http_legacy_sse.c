/* SPDX-License-Identifier: MIT
 *
 * Paths beside the endpoint that lead to the same worker, each only where the configuration has it.
 *
 * /sse and /messages (--legacy-sse): the transport of 2024-11-05. A GET of /sse becomes a stream
 * whose first event names the place, /messages?sessionId=…, to which messages are POSTed; each is
 * answered by 202 and, on the stream, by what there is to say. So the stream is a pipe with its
 * input elsewhere, and like a pipe it takes everything with it when it ends.
 *
 * /events (profile erlmcp): the stream of a session, as a GET of the endpoint gives it; or, for
 * whoever does not accept a stream, one answer with the messages there are, as soon as there is one
 * (a long poll). The session may also be named in the query, `sessionId`.
 */
#include "base/mem.h"
#include "delivery/subscriber.h"
#include "protocol/inbound.h"
#include "protocol/session.h"
#include "request/request.h"
#include "transport/http_private.h"
#include "transport/message_conn.h"

#define SSE_PATH "/sse"
#define MESSAGES_PATH "/messages"
#define EVENTS_PATH "/events"
#define SESSION_KEY "sessionId"

enum http_side side_find(const struct http_config *config, struct tidings_str path)
{
    if (config->legacy_sse && str_eq(path, STR(SSE_PATH))) {
        return SIDE_SSE;
    }
    if (config->legacy_sse && str_eq(path, STR(MESSAGES_PATH))) {
        return SIDE_MESSAGES;
    }
    if (config->events && str_eq(path, STR(EVENTS_PATH))) {
        return SIDE_EVENTS;
    }
    return metadata_is_at(config->auth, path) ? SIDE_METADATA : SIDE_NONE;
}

struct tidings_str side_allows(enum http_side side)
{
    return side == SIDE_MESSAGES ? STR("POST, OPTIONS") : STR("GET, OPTIONS");
}

bool side_takes(enum http_side side, const struct http_request *req)
{
    return req->method == HTTP_OPTIONS ||
           req->method == (side == SIDE_MESSAGES ? HTTP_POST : HTTP_GET);
}

struct tidings_str side_session(enum http_side side, const struct http_request *req)
{
    struct tidings_str query = req->query;
    while (query.len > 0 && (side == SIDE_MESSAGES || side == SIDE_EVENTS)) {
        struct tidings_str value;
        struct tidings_str pair = str_cut(query, '&', &query, NULL);
        if (str_eq(str_cut(pair, '=', &value, NULL), STR(SESSION_KEY))) {
            return value;
        }
    }
    return tidings_strn(NULL, 0);
}

static struct http_conn *of_channel(struct channel *channel)
{
    return list_entry(channel, struct http_conn, channel);
}

static struct http_conn *of_sink(const struct sink *sink)
{
    return list_entry((struct sink *)(uintptr_t)sink, struct http_conn, sink);
}

/* ---- HTTP+SSE -------------------------------------------------------------------------------- */

/* An open stream, by its id. */
struct side_stream {
    struct http_conn *conn;
    char id[SESSION_ID_LEN + 1];
    struct quota *quota; /* of its client */
};

static void answer(struct channel *channel, int status, const struct answer_headers *headers,
                   struct buf *text)
{
    (void)status;
    (void)headers;
    struct http_conn *conn = of_channel(channel);
    if (text->len > 0) { /* else there was no memory even for an error */
        sendq_puts(&conn->out, STR("event: message\ndata: "));
        message_conn_put(&conn->out, text);
        sendq_puts(&conn->out, STR("\n\n"));
    }
}

/* The first time the exchange becomes the stream; then it is there. */
static struct sink *stream(struct channel *channel, const struct answer_headers *headers)
{
    struct http_conn *conn = of_channel(channel);
    return conn->r ? http_channel_ops.stream(channel, headers) : &conn->sink;
}

static void principal(const struct channel *channel, char out[PRINCIPAL_MAX])
{
    http_channel_ops.principal(channel, out);
}

static const struct channel_ops side_channel_ops = {
    .name = "sse",
    .is_http = false,
    .answer = answer,
    .accepted = message_conn_accepted,
    .stream = stream,
    .principal = principal,
};

static char *side_room(struct sink *sink, struct tidings_str event_id, size_t len)
{
    return http_sink_ops.room(sink, event_id, len);
}

static size_t side_pending(const struct sink *sink)
{
    return http_sink_ops.pending(sink);
}

static void side_cut(struct sink *sink, const char *reason)
{
    http_sink_ops.cut(sink, reason);
}

/* Events as on any stream, with the life of a pipe. */
static const struct sink_ops side_sink_ops = {
    .name = "sse pipe",
    .room = side_room,
    .prime = message_conn_sink_prime,
    .pending = side_pending,
    .end = message_conn_sink_end,
    .cut = side_cut,
};

static void forget(struct subscriber *peer)
{
    struct side_stream *s = peer->owner;
    struct http_worker *hw = s->conn->hw;
    map_remove(&hw->side_streams, tidings_strn(s->id, SESSION_ID_LEN));
    hw->worker->stats.sessions--;
    session_left(hw->worker, s->quota);
    mem_free(s);
}

static const struct subscriber_ops side_peer_ops = {.destroyed = forget};

static struct side_stream *side_create(struct http_conn *conn)
{
    struct worker *worker = conn->hw->worker;
    struct side_stream *s = mem_zalloc(sizeof(*s));
    if (!s) {
        return NULL;
    }
    s->conn = conn;
    if (session_make_id(worker, s->id) < 0 ||
        map_put(&conn->hw->side_streams, tidings_strn(s->id, SESSION_ID_LEN), s, NULL) < 0) {
        mem_free(s);
        return NULL;
    }
    return s;
}

void side_open(struct http_conn *conn)
{
    struct worker *worker = conn->hw->worker;
    if (conn->hw->draining || worker->stopping) {
        conn_refuse(conn, 503, "the server is stopping");
        return;
    }
    struct quota *quota = NULL;
    struct refusal why;
    if (!session_enter(&conn->channel, &quota, &why)) {
        inbound_refuse_limit(&conn->channel, &why, NULL);
        return;
    }
    struct side_stream *s = side_create(conn);
    conn->channel.ops = &side_channel_ops;
    struct subscriber *peer = s ? channel_peer(&conn->channel) : NULL;
    if (!peer) {
        if (s) {
            map_remove(&conn->hw->side_streams, tidings_strn(s->id, SESSION_ID_LEN));
            mem_free(s);
        }
        session_left(worker, quota);
        conn->channel.ops = &http_channel_ops;
        conn_refuse(conn, 503, "out of memory");
        return;
    }
    s->quota = quota;
    worker->stats.sessions++;
    peer->ops = &side_peer_ops;
    peer->owner = s;
    conn->sink.ops = &side_sink_ops;
    conn_note_expiry(conn);
    sendq_puts(&conn->out, STR("event: endpoint\ndata: " MESSAGES_PATH "?" SESSION_KEY "="));
    sendq_put(&conn->out, s->id, SESSION_ID_LEN);
    sendq_puts(&conn->out, STR("\n\n"));
    conn_want(conn);
}

void side_post(struct http_conn *conn, struct tidings_str id, struct tidings_str text)
{
    struct side_stream *s = id.ptr ? map_find(&conn->hw->side_streams, id) : NULL;
    if (!s || !principal_is_same(s->conn->channel.who, conn->channel.who)) {
        inbound_refuse(&conn->channel, 404, RPC_SESSION,
                       "session not found or ended; GET " SSE_PATH " opens one");
    } else if (!message_conn_has_room(&s->conn->channel, &s->conn->out)) {
        limit_hit(conn->hw->worker->book, LIMIT_PIPE_CALLS);
        inbound_refuse(&conn->channel, 503, RPC_INTERNAL,
                       "too much waits to be answered or read on this session's stream");
    } else {
        inbound_text(&s->conn->channel, text, NULL);
        http_channel_ops.accepted(&conn->channel);
    }
}

void side_drain(struct http_worker *hw)
{
    size_t pos = 0;
    struct side_stream *s;
    while ((s = map_next(&hw->side_streams, &pos)) != NULL) {
        if (worker_is_done_with(hw->worker, &s->conn->channel)) {
            http_sink_ops.end(&s->conn->sink);
        }
    }
}

int64_t side_expire(struct http_worker *hw, int64_t now_ms)
{
    size_t pos = 0;
    struct side_stream *s;
    int64_t next = 0;
    while ((s = map_next(&hw->side_streams, &pos)) != NULL) {
        const struct principal *who = s->conn->channel.who;
        if (principal_is_expired(who, now_ms)) {
            http_sink_ops.end(&s->conn->sink);
        } else if (who && who->expires_ms > 0 && (next == 0 || who->expires_ms < next)) {
            next = who->expires_ms;
        }
    }
    return next;
}

void side_dismiss(struct http_worker *hw, principal_test_fn is_gone, void *user)
{
    size_t pos = 0;
    struct side_stream *s;
    while ((s = map_next(&hw->side_streams, &pos)) != NULL) {
        if (s->conn->channel.who && is_gone(user, s->conn->channel.who)) {
            http_sink_ops.end(&s->conn->sink);
        }
    }
}

/* ---- long polls ------------------------------------------------------------------------------ */

static char *poll_room(struct sink *sink, struct tidings_str event_id, size_t len)
{
    (void)event_id;
    struct http_conn *conn = of_sink(sink);
    char *at = conn->state == CONN_POLL ? sendq_room(&conn->out, 1 + len) : NULL;
    if (!at) {
        return NULL;
    }
    *at = conn->has_polled ? ',' : '[';
    if (!conn->has_polled) { /* to those that end with this turn */
        conn->has_polled = true;
        list_remove(&conn->link);
        list_prepend(&conn->hw->by_state[CONN_POLL], &conn->link);
    }
    return at + 1;
}

static size_t poll_pending(const struct sink *sink)
{
    return of_sink(sink)->out.pending;
}

static void poll_end(struct sink *sink)
{
    poll_finish(of_sink(sink));
}

static void poll_cut(struct sink *sink, const char *reason)
{
    conn_close(of_sink(sink), reason);
}

static const struct sink_ops poll_sink_ops = {
    .name = "poll",
    .room = poll_room,
    .prime = message_conn_sink_prime,
    .pending = poll_pending,
    .end = poll_end,
    .cut = poll_cut,
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
    if (conn->gone || conn->state != CONN_POLL) {
        return;
    }
    conn_set_state(conn, CONN_CLOSING);
    sink_closed(&conn->sink); /* from now on messages wait for the next poll */
    sendq_puts(&conn->out, conn->has_polled ? STR("]\n") : STR("[]\n"));
}

void poll_flush(struct http_worker *hw)
{
    list_each (it, next, &hw->by_state[CONN_POLL]) {
        struct http_conn *conn = list_entry(it, struct http_conn, link);
        if (!conn->has_polled) {
            return; /* the others stand behind */
        }
        poll_finish(conn);
    }
}
