/* SPDX-License-Identifier: MIT
 *
 * Responses over HTTP: whole answers, rejections, and event streams, which end with the connection
 * (not chunked); the channel and the sink for answers and notifications.
 */
#include <stdio.h>
#include <time.h>

#include "base/mem.h"
#include "base/time.h"
#include "engine/delivery/subscriber.h"
#include "engine/protocol/enforce.h"
#include "engine/protocol/inbound.h"
#include "engine/protocol/request.h"
#include "engine/protocol/session.h"
#include "formats/http.h"
#include "formats/sse.h"
#include "security/failures.h"
#include "transport/connection.h"
#include "transport/http_internal.h"
#include "transport/peer_identity.h"

/* -------------------------------------------------------------------------------------------------
 * Long polls of /events (profile erlmcp), for clients that do not accept a stream of their session:
 * one answer with all pending messages, when there is at least one. It is an array that begins with
 * the first message and ends with the turn.
 */

static char *poll_reserve(struct sink *sink, struct tidings_str event_id, size_t len)
{
    (void)event_id;
    struct http_conn *conn = conn_of_sink(sink);
    bool is_first = conn->base.state == CONN_POLL;
    char *at = is_first || conn->base.state == CONN_POLLED ? sendq_reserve(&conn->base.out, 1 + len)
                                                           : NULL;
    if (!at) {
        return NULL;
    }
    *at = is_first ? '[' : ',';
    if (is_first) { /* one of the polls that end with this turn */
        connection_set_state(&conn->base, CONN_POLLED);
    }
    return at + 1;
}

static void poll_end(struct sink *sink)
{
    poll_finish(conn_of_sink(sink));
}

static const struct sink_ops poll_sink_ops = {
    .name = "poll",
    .room = poll_reserve,
    .prime = message_conn_sink_prime,
    .pending = connection_sink_pending,
    .end = poll_end,
    .cut = connection_sink_cut,
    .channel = connection_sink_channel,
};

static struct sink *poll_begin(struct http_conn *conn)
{
    conn_free_reading(conn);
    conn->base.sink.ops = &poll_sink_ops;
    connection_set_state(&conn->base, CONN_POLL);
    return &conn->base.sink;
}

void poll_finish(struct http_conn *conn)
{
    bool is_empty = conn->base.state == CONN_POLL;
    if (!is_empty && conn->base.state != CONN_POLLED) {
        return;
    }
    connection_set_state(&conn->base, CONN_CLOSING);
    sink_closed(&conn->base.sink); /* from now on messages wait for the next poll */
    sendq_puts(&conn->base.out, is_empty ? STR("[]\n") : STR("]\n"));
}

void poll_flush(struct http_worker *hw)
{
    struct connection *c;
    while ((c = connections_first(&hw->conns, CONN_POLLED)) != NULL) {
        poll_finish(http_conn_of(c));
    }
}

/* ---------------------------------------------------------------------------------------------- */

#define BODY_MAX 4096u /* of a rejection */
#define SSE_HEAD "event: message\n"

/* ---- heads ----------------------------------------------------------------------------------- */

static struct tidings_str date_now(struct http_worker *hw)
{
    time_t now = (time_t)(clock_wall_ms() / 1000);
    if (now != hw->date_second) {
        struct tm tm;
        gmtime_r(&now, &tm);
        strftime(hw->date, sizeof(hw->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
        hw->date_second = now;
    }
    return tidings_str(hw->date);
}

static void put_common(struct http_conn *conn, struct buf *head, int status,
                       const struct response_headers *headers)
{
    http_put_status(head, status);
    http_put_header(head, "Date", date_now(http_worker_of(conn)));
    /* No page of another site may embed it, whatever its type; pages with CORS are not affected. */
    buf_puts(head, STR("Cross-Origin-Resource-Policy: same-origin\r\n"));
    if (headers->session_id.len > 0) {
        http_put_header(head, "Mcp-Session-Id", headers->session_id);
    }
    if (headers->allow.len > 0) {
        http_put_header(head, "Allow", headers->allow);
    }
    if (headers->scope.len > 0) {
        conn_put_insufficient(conn, head, headers->scope);
    }
    buf_puts(head, headers->extra);
    if (conn->r->origin) {
        http_put_header(head, "Access-Control-Allow-Origin", tidings_str(conn->r->origin));
        http_put_header(
            head, "Access-Control-Expose-Headers",
            conn->r->page && conn->r->page->is_resource
                ? STR("ETag, Content-Range, Last-Modified, WWW-Authenticate, DPoP-Nonce")
                : STR("Mcp-Session-Id, WWW-Authenticate, DPoP-Nonce"));
        http_put_header(head, "Vary", STR("Origin"));
    }
}

static void put_connection(struct http_conn *conn, struct buf *head)
{
    if (conn->r->after != AFTER_KEEP || http_worker_of(conn)->base.draining) {
        conn->r->after = conn->r->after == AFTER_KEEP ? AFTER_CLOSE : conn->r->after;
        http_put_header(head, "Connection", STR("close"));
    } else if (conn->r->is_http10) {
        http_put_header(head, "Connection", STR("keep-alive"));
    }
}

static void put_answer_head(struct http_conn *conn, int status,
                            const struct response_headers *headers, struct tidings_str type,
                            size_t len)
{
    struct buf *head = &http_worker_of(conn)->head;
    buf_clear(head);
    put_common(conn, head, status, headers);
    if (len > 0 || status == 200) {
        http_put_header(head, "Content-Type", type);
    }
    if (status != 204 && status != 304) {
        buf_puts(head, STR("Content-Length: "));
        buf_putu(head, len);
        buf_puts(head, STR("\r\n"));
    }
    put_connection(conn, head);
    buf_puts(head, STR("\r\n"));
    sendq_puts(&conn->base.out, buf_str(head));
}

static void put_answer(struct http_conn *conn, int status, const struct response_headers *headers,
                       struct tidings_str type, struct buf *text)
{
    put_answer_head(conn, status, headers, type, text->len);
    if (conn->r->is_head) {
        buf_clear(text);
    }
    worker_trim_later(conn->base.channel.worker, text->len);
    connection_put(&conn->base, text);
    connection_book_answer(&conn->base);
    conn_finish_request(conn);
}

/* Takes the source. */
static void put_long_answer(struct http_conn *conn, int status,
                            const struct response_headers *headers, struct tidings_str type,
                            struct sendq_source *source)
{
    put_answer_head(conn, status, headers, type, source->left);
    if (conn->r->is_head) {
        source->destroy(source);
    } else {
        sendq_put_source(&conn->base.out, source);
    }
    conn_finish_request(conn);
}

/* Returns the cause of a rejection with this status, if no other is known. */
static enum failure_cause cause_of_status(int status)
{
    switch (status) {
    case 401:
        return FAILURE_AUTHENTICATION;
    case 403:
        return FAILURE_ACCESS;
    case 408:
    case 413:
    case 429:
    case 431:
        return FAILURE_LIMIT;
    case 400:
    case 411:
    case 414:
    case 501:
    case 505:
        return FAILURE_MALFORMED;
    default:
        return FAILURE_ORDINARY;
    }
}

/* Returns the principal of the request, if it is known: not that of an earlier request on the
 * connection.
 */
static const struct principal *conn_asker(const struct http_conn *conn, enum failure_cause cause)
{
    static const struct principal nobody = {.kind = PRINCIPAL_ANONYMOUS, .name = {"", 0}};
    bool is_known = cause != FAILURE_AUTHENTICATION && cause != FAILURE_HOST &&
                    cause != FAILURE_ORIGIN && conn->r->is_accepted;
    return is_known && conn->base.channel.principal ? conn->base.channel.principal : &nobody;
}

/* Logs the answer. */
static void conn_note_answer(struct http_conn *conn, int status,
                             const struct response_headers *headers, size_t len)
{
    if (conn_is_monitoring(conn)) {
        return; /* a scrape is not a request of a client */
    }
    enum failure_cause cause =
        headers->cause != FAILURE_ORDINARY ? headers->cause : cause_of_status(status);
    const struct principal *asker = conn_asker(conn, cause);
    const char *place = conn->r->page ? conn->r->page->path.ptr : NULL;
    const struct failure failure = {
        .kind = FAILURE_HTTP,
        .cause = cause,
        .method = place,
        .code = status,
        .is_ours = status >= 500 && status != 503,
        .reason = headers->reason,
        .path = headers->path,
        .uri = headers->uri,
        .principal = asker,
    };
    const struct access_log_line line = {
        .method = conn->r->method,
        .path = headers->path.len > 0 ? headers->path
                : place               ? tidings_str(place)
                                      : tidings_strn(NULL, 0),
        .uri = headers->uri.len > 0 ? headers->uri : tidings_strn(NULL, 0),
        .status = status,
        .reason = headers->reason,
        .principal = asker,
        .begun_ns = conn->r->begun_ns,
        .bytes_in = conn->r->body_len,
        .bytes_out = len,
    };
    const struct log_context *before = log_enter(&conn->r->context);
    if (status >= 400) {
        channel_failed(&conn->base.channel, &failure);
    }
    access_log_other(&conn->base.channel, &line);
    (void)log_enter(before);
}

void conn_answer(struct http_conn *conn, int status, const struct response_headers *headers,
                 struct tidings_str type, struct buf *text)
{
    conn_note_answer(conn, status, headers, text->len);
    put_answer(conn, status, headers, type, text);
}

void conn_answer_long(struct http_conn *conn, int status, const struct response_headers *headers,
                      struct tidings_str type, struct sendq_source *source)
{
    conn_note_answer(conn, status, headers, source->left);
    put_long_answer(conn, status, headers, type, source);
}

void conn_refuse(struct http_conn *conn, int status, const char *text)
{
    const struct response_headers headers = {.reason = tidings_str(text)};
    conn_refuse_with(conn, status, &headers);
}

void conn_refuse_for(struct http_conn *conn, enum failure_cause cause, int status, const char *text)
{
    const struct response_headers headers = {.reason = tidings_str(text), .cause = cause};
    conn_refuse_with(conn, status, &headers);
}

void conn_refuse_with(struct http_conn *conn, int status, const struct response_headers *headers)
{
    const char *text = headers->reason.ptr;
    struct buf body;
    buf_init(&body, BODY_MAX);
    /* The server's messages need no escapes. */
    bool as_json = conn->r->page && conn->r->page->is_resource;
    buf_putf(&body, as_json ? "{\"error\":\"%s\"}\n" : "%s\n", text);
    conn->r->after = AFTER_REFUSE;
    conn_answer(conn, status, headers,
                as_json ? STR("application/json") : STR("text/plain; charset=utf-8"), &body);
    buf_deinit(&body);
}

void conn_refuse_over(struct http_conn *conn, enum limit limit, int status, const char *text)
{
    limit_hit(conn->base.channel.worker->limit_counters, limit);
    conn_refuse_for(conn, FAILURE_LIMIT, status, text);
}

/* The headers that a page may send. Tools define Mcp-Param-*, so the requested ones are allowed. */
static void put_allowed_headers(struct http_conn *conn, const struct http_request *req,
                                struct buf *head)
{
    if (conn->r->page->is_resource) {
        http_put_header(
            head, "Access-Control-Allow-Headers",
            STR("Authorization, DPoP, Content-Type, Accept, Range, If-Match, If-None-Match, "
                "If-Range, Tidings-Metadata"));
        return;
    }
    struct buf allowed;
    buf_init(&allowed, HTTP_MAX_HEAD);
    buf_puts(&allowed, STR("Authorization, DPoP, Content-Type, Accept, MCP-Protocol-Version, "
                           "Mcp-Method, Mcp-Name, Mcp-Session-Id, Last-Event-ID"));
    struct tidings_str asked = http_header(req, "access-control-request-headers", NULL);
    while (asked.len > 0) {
        static const struct tidings_str prefix = {"mcp-param-", 10};
        struct tidings_str name = str_trim(str_cut(asked, ',', &asked, NULL), " \t");
        if (name.len > prefix.len && str_eq_nocase(tidings_strn(name.ptr, prefix.len), prefix) &&
            http_all_are(name, HTTP_IS_TOKEN)) {
            buf_puts(&allowed, STR(", "));
            buf_puts(&allowed, name);
        }
    }
    http_put_header(head, "Access-Control-Allow-Headers", buf_str(&allowed));
    buf_deinit(&allowed);
}

void conn_answer_preflight(struct http_conn *conn, const struct http_request *req)
{
    struct buf *head = &http_worker_of(conn)->head;
    buf_clear(head);
    const struct response_headers allow = {.allow = page_allows(conn, page_methods(conn))};
    put_common(conn, head, 204, &allow);
    if (conn->r->origin) {
        http_put_header(head, "Access-Control-Allow-Methods", allow.allow);
        put_allowed_headers(conn, req, head);
        http_put_header(head, "Access-Control-Max-Age", STR("600"));
    }
    put_connection(conn, head);
    buf_puts(head, STR("\r\n"));
    sendq_puts(&conn->base.out, buf_str(head));
    conn_finish_request(conn);
}

/* ---- the channel ----------------------------------------------------------------------------- */

static void http_channel_answer(struct channel *channel, int status,
                                const struct response_headers *headers, struct buf *text)
{
    status = headers->scope.len > 0 ? 403 : status;
    put_answer(conn_of_channel(channel), status, headers, STR("application/json"), text);
    conn_set_events(conn_of_channel(channel));
}

static void http_channel_answer_long(struct channel *channel, int status,
                                     const struct response_headers *headers,
                                     struct sendq_source *source)
{
    status = headers->scope.len > 0 ? 403 : status;
    put_long_answer(conn_of_channel(channel), status, headers, STR("application/json"), source);
    conn_set_events(conn_of_channel(channel));
}

static void http_channel_accepted(struct channel *channel)
{
    static const struct response_headers none;
    struct buf nothing;
    buf_init(&nothing, 0);
    http_channel_answer(channel, 202, &none, &nothing);
}

static bool http_channel_takes_stream(struct channel *channel)
{
    return conn_of_channel(channel)->r->takes_events;
}

static struct sink *http_channel_stream(struct channel *channel,
                                        const struct response_headers *headers)
{
    struct http_conn *conn = conn_of_channel(channel);
    struct buf *head = &http_worker_of(conn)->head;
    buf_clear(head);
    put_common(conn, head, 200, headers);
    if (conn->r->polls) {
        buf_puts(head, STR("Content-Type: application/json\r\n"
                           "Cache-Control: no-store\r\n"
                           "Connection: close\r\n\r\n"));
        sendq_puts(&conn->base.out, buf_str(head));
        return poll_begin(conn);
    }
    buf_puts(head, STR("Content-Type: text/event-stream\r\n"
                       "Cache-Control: no-cache\r\n"
                       "X-Accel-Buffering: no\r\n"
                       "Connection: close\r\n"
                       "\r\n:\n\n"));
    sendq_puts(&conn->base.out, buf_str(head));
    sendq_limit_kernel(&conn->base.out);
    peer_identity_remember(&conn->base.channel, conn->base.out.fd);
    conn_free_reading(conn);
    connection_set_state(&conn->base, CONN_STREAM);
    return &conn->base.sink;
}

const struct channel_ops http_channel_ops = {
    .name = "http",
    .is_http = true,
    .answer = http_channel_answer,
    .answer_long = http_channel_answer_long,
    .unbook = connection_unbook,
    .accepted = http_channel_accepted,
    .takes_stream = http_channel_takes_stream,
    .stream = http_channel_stream,
    .address = connection_address,
    .facts = connection_facts,
};

/* ---- streams --------------------------------------------------------------------------------- */

static char *http_stream_reserve(struct sink *sink, struct tidings_str event_id, size_t len)
{
    struct http_conn *conn = conn_of_sink(sink);
    size_t head = sizeof(SSE_HEAD) - 1, id = event_id.len ? event_id.len + 5 : 0;
    char *at = conn->base.state == CONN_GONE
                   ? NULL
                   : sendq_reserve(&conn->base.out, head + id + 6 + len + 2);
    if (!at) {
        return NULL;
    }
    if (id > 0) {
        memcpy(at, "id: ", 4);
        memcpy(at + 4, event_id.ptr, event_id.len);
        at[id - 1] = '\n';
        at += id;
    }
    memcpy(at, SSE_HEAD, head);
    at += head;
    memcpy(at, "data: ", 6);
    memcpy(at + 6 + len, "\n\n", 2);
    connection_put_off(&conn->base);
    return at + 6;
}

static void http_stream_prime(struct sink *sink, struct tidings_str event_id, int64_t retry_ms)
{
    struct http_conn *conn = conn_of_sink(sink);
    struct buf event;
    buf_init(&event, BODY_MAX);
    sse_put_priming(&event, event_id, retry_ms);
    sendq_puts(&conn->base.out, buf_str(&event));
    buf_deinit(&event);
}

/* The flush of the turn sends the last bytes and then closes. */
static void http_stream_end(struct sink *sink)
{
    struct http_conn *conn = conn_of_sink(sink);
    if (conn->base.state == CONN_GONE || conn->base.state == CONN_CLOSING) {
        return;
    }
    connection_set_state(&conn->base, CONN_CLOSING);
    sendq_put(&conn->base.out, ":\n\n", 3); /* so that the flush has output */
}

static void http_stream_end_long(struct sink *sink, struct sendq_source *source)
{
    struct http_conn *conn = conn_of_sink(sink);
    if (conn->base.state == CONN_GONE) {
        source->destroy(source);
        return;
    }
    sendq_puts(&conn->base.out, STR(SSE_HEAD "data: "));
    if (sendq_put_source(&conn->base.out, source) == 0) {
        sendq_puts(&conn->base.out, STR("\n\n"));
    }
    http_stream_end(sink);
}

const struct sink_ops http_sink_ops = {
    .name = "sse",
    .room = http_stream_reserve,
    .prime = http_stream_prime,
    .pending = connection_sink_pending,
    .end = http_stream_end,
    .end_long = http_stream_end_long,
    .cut = connection_sink_cut,
    .channel = connection_sink_channel,
};

/* -------------------------------------------------------------------------------------------------
 * /sse and /messages (--legacy-sse): the HTTP+SSE transport of MCP 2024-11-05. A GET of /sse
 * becomes a stream. Its first event names the path, /messages?sessionId=…, to which messages are
 * POSTed. Each POST is answered by 202, and its results follow on the stream. So the stream is a
 * message connection (transport/connection.h) whose input comes from elsewhere, and everything ends
 * with it.
 */

/* An open stream, by its id. */
struct sse_stream {
    struct http_conn *conn;
    char id[SESSION_ID_LEN + 1];
    struct session_place place; /* that its client requested for it */
};

static void legacy_sse_answer(struct channel *channel, int status,
                              const struct response_headers *headers, struct buf *text)
{
    (void)status;
    (void)headers;
    struct http_conn *conn = conn_of_channel(channel);
    if (text->len > 0) { /* otherwise there was no memory even for an error */
        sendq_puts(&conn->base.out, STR("event: message\ndata: "));
        connection_put(&conn->base, text);
        sendq_puts(&conn->base.out, STR("\n\n"));
        connection_book_answer(&conn->base);
    }
}

static void legacy_sse_answer_long(struct channel *channel, int status,
                                   const struct response_headers *headers,
                                   struct sendq_source *source)
{
    (void)status;
    (void)headers;
    struct http_conn *conn = conn_of_channel(channel);
    sendq_puts(&conn->base.out, STR("event: message\ndata: "));
    if (sendq_put_source(&conn->base.out, source) == 0) {
        sendq_puts(&conn->base.out, STR("\n\n"));
    }
}

/* The first call turns the exchange into the stream. */
static struct sink *legacy_sse_stream(struct channel *channel,
                                      const struct response_headers *headers)
{
    struct http_conn *conn = conn_of_channel(channel);
    return conn->r ? http_channel_ops.stream(channel, headers) : &conn->base.sink;
}

static const struct channel_ops legacy_sse_channel_ops = {
    .name = "sse",
    .is_http = false,
    .answer = legacy_sse_answer,
    .answer_long = legacy_sse_answer_long,
    .unbook = connection_unbook,
    .is_sending = connection_is_sending,
    .accepted = message_conn_accepted,
    .stream = legacy_sse_stream,
    .address = connection_address,
    .facts = connection_facts,
};

/* Events as on any stream, with the life of a message connection. */
static const struct sink_ops legacy_sse_sink_ops = {
    .name = "legacy sse",
    .room = http_stream_reserve,
    .prime = message_conn_sink_prime,
    .pending = connection_sink_pending,
    .end = message_conn_sink_end,
    .cut = connection_sink_cut,
    .channel = connection_sink_channel,
};

static void legacy_sse_forget(struct subscriber *subscriber)
{
    struct sse_stream *s = subscriber->owner;
    struct http_worker *hw = http_worker_of(s->conn);
    map_remove(&hw->sse_streams, tidings_strn(s->id, SESSION_ID_LEN));
    hw->base.worker->stats.sessions--;
    session_left(hw->base.worker, &s->place);
    mem_free(s);
}

static const struct subscriber_ops legacy_sse_subscriber_ops = {.on_destroy = legacy_sse_forget};

static struct sse_stream *legacy_sse_create(struct http_conn *conn)
{
    struct worker *worker = conn->base.channel.worker;
    struct sse_stream *s = mem_zalloc(sizeof(*s));
    if (!s) {
        return NULL;
    }
    s->conn = conn;
    if (session_make_id(worker, s->id) < 0 ||
        map_put(&http_worker_of(conn)->sse_streams, tidings_strn(s->id, SESSION_ID_LEN), s, NULL) <
            0) {
        mem_free(s);
        return NULL;
    }
    return s;
}

void legacy_sse_open(struct http_conn *conn)
{
    struct worker *worker = conn->base.channel.worker;
    if (http_worker_of(conn)->base.draining || worker->stopping) {
        conn_refuse(conn, 503, "the server is stopping");
        return;
    }
    struct session_place place;
    struct refusal why;
    if (!session_enter(&conn->base.channel, &place, &why)) {
        inbound_refuse_limit(&conn->base.channel, &why, NULL);
        return;
    }
    struct sse_stream *s = legacy_sse_create(conn);
    conn->base.channel.ops = &legacy_sse_channel_ops;
    struct subscriber *subscriber = s ? subscriber_of_channel(&conn->base.channel) : NULL;
    if (!subscriber) {
        if (s) {
            map_remove(&http_worker_of(conn)->sse_streams, tidings_strn(s->id, SESSION_ID_LEN));
            mem_free(s);
        }
        session_left(worker, &place);
        conn->base.channel.ops = &http_channel_ops;
        conn_refuse(conn, 503, "out of memory");
        return;
    }
    s->place = place;
    worker->stats.sessions++;
    subscriber->ops = &legacy_sse_subscriber_ops;
    subscriber->owner = s;
    conn->base.sink.ops = &legacy_sse_sink_ops;
    connection_note_expiry(&conn->base);
    sendq_puts(&conn->base.out, STR("event: endpoint\ndata: "
                                    "/messages?sessionId="));
    sendq_put(&conn->base.out, s->id, SESSION_ID_LEN);
    sendq_puts(&conn->base.out, STR("\n\n"));
    conn_set_events(conn);
}

void legacy_sse_post(struct http_conn *conn, struct tidings_str id, struct tidings_str text)
{
    struct sse_stream *s = id.ptr ? map_find(&http_worker_of(conn)->sse_streams, id) : NULL;
    if (!s || !principal_is_same(s->conn->base.channel.principal, conn->base.channel.principal)) {
        inbound_refuse(&conn->base.channel, 404, RPC_SESSION,
                       "session not found or ended; GET /sse opens one");
    } else if (!message_conn_has_space(&s->conn->base)) {
        limit_hit(conn->base.channel.worker->limit_counters, LIMIT_CONNECTION_REQUESTS);
        inbound_refuse(&conn->base.channel, 503, RPC_INTERNAL,
                       "too much waits to be answered or read on this session's stream");
    } else {
        inbound_text(&s->conn->base.channel, text, NULL);
        http_channel_ops.accepted(&conn->base.channel);
    }
}

void legacy_sse_drain(struct http_worker *hw)
{
    size_t pos = 0;
    struct sse_stream *s;
    while ((s = map_next(&hw->sse_streams, &pos)) != NULL) {
        if (drain_is_done_with(hw->base.worker, &s->conn->base.channel)) {
            http_sink_ops.end(&s->conn->base.sink);
        }
    }
}

bool legacy_sse_has_credentials(const struct connection *c)
{
    return c->channel.ops == &legacy_sse_channel_ops;
}

void legacy_sse_end_credentials(struct connection *c, bool is_revoked)
{
    (void)is_revoked;
    http_sink_ops.end(&c->sink);
}
