/* SPDX-License-Identifier: MIT
 *
 * Life of HTTP connections: adopt one, read from and write to its socket, hand it on, close it.
 * Also their requests, deadlines and states.
 */
#include "transport/http.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "engine/delivery/delivery.h"
#include "engine/protocol/inbound.h"
#include "engine/protocol/session.h"
#include "engine/protocol/session_move.h"
#include "formats/websocket.h"
#include "security/auth.h"
#include "transport/connection.h"
#include "transport/http_internal.h"
#include "transport/peer_identity.h"

/* -------------------------------------------------------------------------------------------------
 * The paths that HTTP requests may name, each only where the configuration has it, and what is at
 * each of them.
 */

#define ENDPOINT "/mcp"
#define SESSION_KEY "sessionId"

enum http_path path_find(const struct http_conn *conn, struct tidings_str path,
                         const struct http_route **route)
{
    const struct http_config *config = conn->hw->config;
    *route = route_find(config, path);
    if (*route) {
        return PATH_ROUTE;
    }
    if (resource_is_at(conn, path)) {
        return PATH_RESOURCE;
    }
    if (config->allow_write && str_eq(path, STR(NOTIFY_PATH))) {
        return PATH_NOTIFY;
    }
    if (config->legacy_sse && str_eq(path, STR("/sse"))) {
        return PATH_SSE;
    }
    if (config->legacy_sse && str_eq(path, STR("/messages"))) {
        return PATH_MESSAGES;
    }
    if (config->events && str_eq(path, STR("/events"))) {
        return PATH_EVENTS;
    }
    if (config->console_page.len > 0 && str_eq(path, STR(CONSOLE_PATH))) {
        return PATH_CONSOLE;
    }
    if (metadata_is_at(config->auth, path)) {
        return PATH_METADATA;
    }
    if (health_is_at(config, path)) {
        return PATH_HEALTH;
    }
    return str_eq(path, STR(ENDPOINT)) ? PATH_ENDPOINT : PATH_NOWHERE;
}

const char *path_name(enum http_path path)
{
    static const char *const names[] = {
        [PATH_ENDPOINT] = ENDPOINT,
        [PATH_ROUTE] = "page",
        [PATH_RESOURCE] = RESOURCE_PATH,
        [PATH_NOTIFY] = NOTIFY_PATH,
        [PATH_SSE] = "/sse",
        [PATH_MESSAGES] = "/messages",
        [PATH_EVENTS] = "/events",
        [PATH_METADATA] = "/.well-known",
        [PATH_CONSOLE] = CONSOLE_PATH,
        [PATH_HEALTH] = "health",
    };
    return names[path];
}

struct tidings_str path_allows(enum http_path path)
{
    switch (path) {
    case PATH_MESSAGES:
    case PATH_NOTIFY:
        return STR("POST, OPTIONS");
    case PATH_SSE:
    case PATH_EVENTS:
    case PATH_METADATA:
        return STR("GET, OPTIONS");
    case PATH_HEALTH:
    case PATH_CONSOLE:
        return STR("GET, HEAD, OPTIONS");
    case PATH_NOWHERE:
    case PATH_ENDPOINT:
    case PATH_ROUTE:
    case PATH_RESOURCE:
        break;
    }
    return STR("GET, POST, DELETE, OPTIONS");
}

bool path_takes(enum http_path path, const struct http_request *req)
{
    return path == PATH_ENDPOINT || req->method == HTTP_OPTIONS ||
           ((path == PATH_CONSOLE || path == PATH_HEALTH) && req->method == HTTP_HEAD) ||
           req->method == (path == PATH_MESSAGES || path == PATH_NOTIFY ? HTTP_POST : HTTP_GET);
}

struct tidings_str path_session(enum http_path path, const struct http_request *req)
{
    struct tidings_str query = req->query;
    while (query.len > 0 && (path == PATH_MESSAGES || path == PATH_EVENTS)) {
        struct tidings_str value;
        struct tidings_str pair = str_cut(query, '&', &query, NULL);
        if (str_eq(str_cut(pair, '=', &value, NULL), STR(SESSION_KEY))) {
            return value;
        }
    }
    return tidings_strn(NULL, 0);
}

/* -------------------------------------------------------------------------------------------------
 * The states of an HTTP connection: which may follow which, and the one function that moves it.
 */

#define TO(state) (1u << CONN_##state)
#define TO_END (TO(CLOSING) | TO(REFUSED) | TO(GONE))
/* What an answer leads to. */
#define TO_ANSWERED (TO(IDLE) | TO(HEAD) | TO(STREAM) | TO(POLL) | TO(CLOSING) | TO(GONE))

/* The drawing in http_internal.h. To itself: its time begins anew. */
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

/* HANDSHAKE or IDLE */
static void conn_start_state(struct http_conn *conn, enum conn_state first)
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

/* -------------------------------------------------------------------------------------------------
 * An HTTP request, in the order in which it happens: its head is parsed; the connection moves when
 * the session it names lives on another worker; the head is checked (http_check.c); its body is
 * read; it is handed to whoever handles it; and once it was answered the next one follows.
 * conn_go_on, at the end, is where it begins.
 */

/* ---- the head -------------------------------------------------------------------------------- */

/* The head at the start of the input. 1: complete, 0: more is needed, -1: refused. */
static int request_parse_head(struct http_conn *conn, struct http_request *req)
{
    struct http_fault fault;
    size_t again = 0;
    size_t *scanned = conn->r->head_len ? &again : &conn->r->scanned;
    req->path = tidings_str("");
    ptrdiff_t n = http_parse_head(conn->r->in.ptr, conn->r->in.len, scanned, req, &fault);
    if (n < 0) {
        if (fault.status == 431 || fault.status == 414) {
            limit_hit(conn->hw->worker->limit_counters,
                      fault.status == 431 ? LIMIT_HEAD : LIMIT_TARGET);
        }
        const struct http_route *route;
        conn->r->path =
            path_find(conn, req->path, &route); /* which says what an error looks like */
        conn->r->context = (struct log_context){.request_id = ""}; /* not that of the one before */
        conn->r->method = NULL;
        conn->r->begun_ns = 0;
        conn_refuse(conn, fault.status, fault.text);
        return -1;
    }
    if (n > 0) {
        conn->r->head_len = (size_t)n;
    }
    return n > 0;
}

/* ---- which worker ---------------------------------------------------------------------------- */

/* Which worker should have this connection; -1: any. */
static int request_worker_of(struct http_conn *conn, const struct http_request *req)
{
    const struct http_route *route = NULL;
    enum http_path path = req->query.len > 0 ? path_find(conn, req->path, &route) : PATH_NOWHERE;
    struct tidings_str id = http_session_id(path, req);
    return id.ptr ? session_worker(id, conn->hw->worker->count) : -1;
}

static void conn_move_to(struct http_conn *conn, struct http_worker *other);

/* At a request boundary: head parsed, nothing of it handled. true: it moved, or it will when the
 * answers before it are written. */
static bool request_move_if_elsewhere(struct http_conn *conn, const struct http_request *req)
{
    int index = request_worker_of(conn, req);
    struct http_worker *hw = conn->hw;
    struct http_worker *other = NULL;
    if (index >= 0 && (unsigned)index != hw->worker->index) {
        other = hw->find(hw->find_user, (unsigned)index);
    }
    if (!other) {
        return false;
    }
    if (conn->out.pending > 0) {
        conn->r->head_len = conn->r->scanned = 0; /* look at it again then */
    } else {
        conn_move_to(conn, other);
    }
    return true;
}

/* ---- the body -------------------------------------------------------------------------------- */

static void request_begin_body(struct http_reading *r, const struct http_request *req)
{
    r->body_need = (size_t)req->content_length;
    r->is_chunked = req->chunked;
    if (r->is_chunked) {
        http_chunked_init(&r->chunked);
    }
}

/* Decode what has come of it; -1: it is bad, and was refused. */
static int request_decode_body(struct http_conn *conn)
{
    if (!conn->r->is_chunked) {
        size_t have = conn->r->in.len - conn->r->head_len;
        conn->r->body_len = have < conn->r->body_need ? have : conn->r->body_need;
        conn->r->body_done = have >= conn->r->body_need;
        return 0;
    }
    size_t start = conn->r->head_len + conn->r->body_len;
    size_t raw = conn->r->in.len - start, decoded = 0, used = 0;
    if (raw == 0) {
        return 0;
    }
    enum http_chunked_result r =
        http_chunked_decode(&conn->r->chunked, conn->r->in.ptr + start, raw, &decoded, &used);
    if (r == HTTP_CHUNKED_BAD) {
        conn_refuse(conn, 400, "the chunked body is malformed");
        return -1;
    }
    size_t rest = raw - used;
    memmove(conn->r->in.ptr + start + decoded, conn->r->in.ptr + start + used, rest);
    conn->r->in.len = start + decoded + rest;
    conn->r->body_len += decoded;
    conn->r->body_done = r == HTTP_CHUNKED_DONE;
    if (conn->r->body_len > conn->hw->config->max_body) {
        conn_refuse_over(conn, LIMIT_BODY, 413, "the body is larger than this server accepts");
        return -1;
    }
    return 0;
}

/* The same, and for as long as it takes the body has a time of its own, which is counted anew with
 * every INPUT_STEP bytes: who sends a byte now and then does not stay. */
static int request_read_body(struct http_conn *conn)
{
    int rc = request_decode_body(conn);
    if (rc == 0 && !conn->r->body_done &&
        (conn->state != CONN_BODY || conn->r->body_len - conn->r->body_mark >= INPUT_STEP)) {
        conn->r->body_mark = conn->r->body_len;
        conn_set_state(conn, CONN_BODY);
    }
    return rc;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Read the request at the start of the input. true: it is here, it may be asked, and `req` is its
 * head. false: more of it is needed; or it was refused, has moved or waits. */
static bool request_read(struct http_conn *conn, struct http_request *req)
{
    struct http_reading *r = conn->r;
    bool is_new = r->head_len == 0;
    if (conn->state == CONN_IDLE) {
        conn_set_state(conn, CONN_HEAD);
    }
    if (r->is_accepted && !r->body_done && (request_read_body(conn) < 0 || !r->body_done)) {
        return false; /* more is needed; the head was looked at already */
    }
    if (request_parse_head(conn, req) <= 0) {
        return false;
    }
    if (is_new && (request_move_if_elsewhere(conn, req) || !conn_check_head(conn, req))) {
        return false;
    }
    if (r->is_accepted) {
        return true;
    }
    if (!conn_check_body(conn, req)) {
        return false;
    }
    request_begin_body(r, req);
    if (request_read_body(conn) < 0) {
        return false;
    }
    r->is_accepted = true;
    if (!r->body_done && req->expect_continue && req->minor > 0) {
        sendq_puts(&conn->out, STR("HTTP/1.1 100 Continue\r\n\r\n"));
    }
    return r->body_done;
}

/* ---- who handles it -------------------------------------------------------------------------- */

/* Absent headers have ptr NULL; present and empty ones do not. */
static void request_collect_headers(const struct http_request *req, struct dialect_headers *h)
{
    h->all = req;
    h->protocol_version = http_header(req, "mcp-protocol-version", NULL);
    h->method = http_header(req, "mcp-method", NULL);
    h->name = http_header(req, "mcp-name", NULL);
    h->session_id = http_header(req, "mcp-session-id", NULL);
    h->last_event_id = http_header(req, "last-event-id", NULL);
}

/* Messages are counted one by one where they are read; what a browser asks for itself is not. */
static bool request_is_counted(const struct http_conn *conn, const struct http_request *req)
{
    bool has_messages = req->method == HTTP_POST && conn->r->path != PATH_ROUTE &&
                        conn->r->path != PATH_RESOURCE && conn->r->path != PATH_NOTIFY;
    return !has_messages && req->method != HTTP_OPTIONS;
}

static void request_run_get(struct http_conn *conn, const struct http_request *req,
                            const struct dialect_headers *headers)
{
    if (conn->r->path == PATH_METADATA) {
        conn_run_metadata(conn, req);
    } else if (conn->r->path == PATH_CONSOLE) {
        conn_run_console(conn);
    } else if (conn->r->path == PATH_HEALTH) {
        conn_run_health(conn, req);
    } else if (conn->r->path == PATH_SSE) {
        legacy_sse_open(conn);
    } else {
        inbound_get(&conn->channel, headers);
    }
}

/* Messages, and the streams and ends of sessions. */
static void request_run_message(struct http_conn *conn, const struct http_request *req)
{
    struct dialect_headers headers;
    request_collect_headers(req, &headers);
    struct tidings_str body = {conn->r->in.ptr + conn->r->head_len, conn->r->body_len};
    struct tidings_str named = path_session(conn->r->path, req);
    headers.session_id = headers.session_id.ptr ? headers.session_id : named;
    switch (req->method) {
    case HTTP_POST:
        if (conn->r->path == PATH_MESSAGES) {
            legacy_sse_post(conn, named, body);
        } else {
            inbound_text(&conn->channel, body, &headers);
        }
        break;
    case HTTP_HEAD: /* of the console and health; others were refused before the body was read */
    case HTTP_GET:
        request_run_get(conn, req, &headers);
        break;
    case HTTP_DELETE:
        inbound_delete(&conn->channel, &headers);
        break;
    case HTTP_OPTIONS:
        conn_answer_preflight(conn, req);
        break;
    case HTTP_OTHER:
    case HTTP_PUT:
    case HTTP_PATCH:
        break; /* refused before the body was read */
    }
}

static void request_run(struct http_conn *conn, const struct http_request *req)
{
    enum http_path path = conn->r->path;
    if (request_is_counted(conn, req) && conn->r->session == HTTP_SESSION_UNASKED &&
        !conn_check_rate(conn)) {
        return;
    }
    if (conn_awaits_session(conn, req)) {
        return;
    }
    if (path == PATH_ROUTE && req->method != HTTP_OPTIONS) {
        conn_run_route(conn, req);
    } else if (path == PATH_RESOURCE && req->method != HTTP_OPTIONS) {
        conn_run_resource(conn, req);
    } else if (path == PATH_NOTIFY && req->method != HTTP_OPTIONS) {
        conn_run_notify(conn);
    } else if (path == PATH_ENDPOINT && ws_is_upgrade(req)) {
        conn_run_upgrade(conn, req);
    } else {
        request_run_message(conn, req);
    }
}

/* ---- one after the other --------------------------------------------------------------------- */

/* The answer was put into the send queue: the request goes, and what becomes of the connection is
 * decided. */
void conn_finish_request(struct http_conn *conn)
{
    struct http_reading *r = conn->r;
    bool is_running = conn->state == CONN_RUNNING; /* then conn_go_on is on the stack */
    size_t used = r->head_len + r->body_len;
    if (used >= r->in.len) {
        buf_deinit(&r->in); /* an idle connection holds no buffer */
    } else {
        buf_consume(&r->in, used);
    }
    r->path = PATH_NOWHERE;
    r->scanned = r->head_len = r->body_len = r->body_need = r->body_mark = 0;
    r->is_accepted = r->is_chunked = r->body_done = r->is_head = false;
    r->session = HTTP_SESSION_UNASKED;
    r->doubts_session = false;
    mem_free(r->origin);
    r->origin = NULL;
    if (r->after == AFTER_REFUSE) {
        conn_set_state(conn, CONN_REFUSED);
    } else if (r->after == AFTER_CLOSE || conn->hw->draining || (conn->eof && r->in.len == 0)) {
        conn_set_state(conn, CONN_CLOSING);
    } else {
        conn_set_state(conn, r->in.len > 0 ? CONN_HEAD : CONN_IDLE);
        if (!is_running) {
            conn_go_on(conn);
        }
    }
}

static void conn_end(struct http_conn *conn);

static bool conn_is_full(const struct http_conn *conn);

void conn_go_on(struct http_conn *conn)
{
    struct http_request req;
    while (conn_is_reading(conn) && conn->r->in.len > 0 && !conn_is_full(conn)) {
        if (!request_read(conn, &req) || !conn_may_go_on(conn)) {
            break;
        }
        conn_set_state(conn, CONN_RUNNING);
        request_run(conn, &req);
        if (conn->state == CONN_RUNNING) {
            conn_set_state(conn, CONN_AWAITING);
        }
    }
    /* What is complete may still wait for the answers before it; the rest for what will not come.
     */
    if (conn_is_reading(conn) && conn->eof && (conn->r->in.len == 0 || conn->out.pending == 0)) {
        conn_end(conn);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Receives the bytes of an HTTP connection, plain or through TLS, and refuses clients whose
 * handshake or session fails.
 */

/* It speaks HTTP, and would not understand an alert. */
static void conn_refuse_plain(struct http_conn *conn)
{
    tls_session_destroy(sendq_detach_tls(&conn->out));
    conn_refuse(conn, 400, "this port speaks TLS; use https://");
}

/* There may be an alert for it, which is read only when we do not close in its face. */
static void conn_refuse_tls(struct http_conn *conn)
{
    log_debug(LOG_TRANSPORT, "TLS failed", KV("reason", tls_session_reason(sendq_tls(&conn->out))),
              KV("worker", conn->hw->worker->index));
    if (conn->out.pending == 0) {
        conn_close(conn, "TLS failed");
        return;
    }
    conn_set_state(conn, CONN_REFUSED);
}

/* http.c: what the client sent, into hw->scratch. Returns the bytes; 0: none at the moment, or
 * none ever when `eof` is set, which may come with the last ones; -1: the connection was closed, or
 * will be when it has been told why. */
static ssize_t conn_receive(struct http_conn *conn)
{
    struct http_worker *hw = conn->hw;
    struct tls_session *tls = sendq_tls(&conn->out);
    if (tls && tls_session_reason(tls)[0] != '\0') {
        tls = NULL; /* it failed: what still comes is of no interest */
    }
    bool ended = false;
    ssize_t n = tls_recv(tls, conn->out.fd, hw->scratch, sizeof(hw->scratch), &ended);
    conn->eof = conn->eof || ended;
    if (n == -EPROTOTYPE) {
        conn_refuse_plain(conn);
    } else if (n < 0 && tls && tls_session_reason(tls)[0] != '\0') {
        conn_refuse_tls(conn);
    } else if (n < 0) {
        conn_close(conn, "reset");
    } else if (conn->state == CONN_HANDSHAKE && tls_session_is_ready(tls)) {
        conn_set_state(conn, CONN_IDLE); /* all it has to say may have come at once */
    } else if (conn->state == CONN_HANDSHAKE && ended) {
        conn_close(conn, "closed by the client");
        return -1;
    }
    hw->worker->stats.bytes_in += n > 0 ? (size_t)n : 0;
    return n < 0 ? -1 : n;
}

/* ---------------------------------------------------------------------------------------------- */

/* Bytes read per connection and turn, so that one talker does not starve the rest; the messages
 * among them that are handled are counted by channel_may_go_on. */
#define READ_QUANTUM (4u * 65536u)

static bool conn_is_full(const struct http_conn *conn)
{
    return conn->out.pending >= PIPELINE_HIGH_WATER || output_must_wait(&conn->channel, &conn->out);
}

void conn_want(struct http_conn *conn)
{
    if (conn->state == CONN_GONE) {
        return;
    }
    int events = sendq_awaits_room(&conn->out) ? LOOP_WRITE : 0;
    bool reads =
        conn_is_reading(conn) || conn->state == CONN_HANDSHAKE || conn->state == CONN_LINGER;
    bool is_full = conn_is_full(conn);
    bool is_ending = conn->state == CONN_CLOSING || conn->state == CONN_REFUSED;
    if (!conn->eof && !is_ending && conn->state != CONN_YIELDED) {
        events |= LOOP_HANGUP;
    }
    if (reads && !conn->eof && !is_full) {
        events |= LOOP_READ;
    } else if (conn->state == CONN_RUNNING || conn->state == CONN_AWAITING) {
        /* Most clients wait for their answer: asking the kernel twice per request can be spared.
         * Who sends more meanwhile ends it (conn_on_event). */
        events |= conn->poll.wanted & LOOP_READ;
    }
    loop_poll_want(&conn->poll, events);
}

/* ---- the end --------------------------------------------------------------------------------- */

void conn_free_reading(struct http_conn *conn)
{
    if (conn->r) {
        buf_deinit(&conn->r->in);
        mem_free(conn->r->origin);
        mem_free(conn->r);
        conn->r = NULL;
    }
}

static void conn_free(void *thing)
{
    struct http_conn *conn = thing;
    conn_free_reading(conn);
    mem_free(conn);
}

static void http_check_drained(struct http_worker *hw)
{
    if (hw->draining && hw->drained && worker_inbox_count(&hw->inbox) == 0) {
        void (*drained)(void *) = hw->drained;
        hw->drained = NULL;
        drained(hw->drained_user);
    }
}

/* Unhook everything but the descriptor and the input. */
static void conn_detach(struct http_conn *conn)
{
    conn_set_state(conn, CONN_GONE);
    deadline_leave(&conn->hw->stalled, &conn->stall);
    loop_poll_deinit(&conn->poll);
    sendq_deinit(&conn->out);
    output_book_queue(&conn->channel, &conn->sink, &conn->out);
    conn_book_input(conn);
}

void conn_close(struct http_conn *conn, const char *reason)
{
    if (conn->state == CONN_GONE) {
        return;
    }
    struct http_worker *hw = conn->hw;
    log_debug(LOG_TRANSPORT, "connection closed", KV("reason", reason),
              KV("worker", hw->worker->index));
    struct channel_facts facts;
    channel_ending(&conn->channel, reason, &facts);
    conn_detach(conn);
    close(conn->out.fd);
    worker_inbox_left(&hw->inbox);
    worker_inbox_give_back(&hw->inbox, conn->channel.quota, conn->channel.origin);
    sink_closed(&conn->sink);
    channel_deinit(&conn->channel);
    channel_ended(&conn->channel);
    if (conn->r && conn->r->exchange) {
        resource_abandon(conn);
    }
    if (conn->r && conn->r->notifying) {
        http_notify_abandon(conn);
    }
    if (conn->r && conn->r->pending_token) {
        conn_forget_pending_token(conn);
    }
    if (conn->r && conn->r->awaiting) {
        conn_forget_session(conn);
    }
    loop_discard(hw->worker->loop, &conn->discard, conn_free, conn);
    http_check_drained(hw);
}

/* The client has ended its input, or we stop: close once what is pending has been written. */
static void conn_end(struct http_conn *conn)
{
    if (conn->out.pending == 0) {
        conn_close(conn, "closed by the client");
    } else {
        conn_set_state(conn, CONN_CLOSING);
    }
}

/* ---- handing it on --------------------------------------------------------------------------- */

static void conn_move_to(struct http_conn *conn, struct http_worker *other)
{
    struct http_worker *hw = conn->hw;
    struct tls_session *tls = sendq_detach_tls(&conn->out);
    conn_detach(conn);
    worker_inbox_left(&hw->inbox);
    channel_deinit(&conn->channel);
    struct handover *h = handover_create(conn->out.fd, tls);
    if (!h) { /* it is closed */
        worker_inbox_give_back(&hw->inbox, conn->channel.quota, conn->channel.origin);
    } else {
        h->quota = conn->channel.quota;
        h->origin = conn->channel.origin;
        h->in = conn->r->in;
        buf_init(&conn->r->in, 0);
        worker_inbox_send(&other->inbox, h);
    }
    loop_discard(hw->worker->loop, &conn->discard, conn_free, conn);
    http_check_drained(hw);
}

/* It stays one connection of the worker, and of its client. */
void conn_become_websocket(struct http_conn *conn, struct websocket *ws)
{
    struct http_reading *r = conn->r;
    struct sendq out;
    sendq_move(&out, &conn->out, NULL);
    conn_detach(conn);
    const struct websocket_start start = {
        .out = &out,
        .principal = conn->channel.principal,
        .quota = conn->channel.quota,
        .origin = conn->channel.origin,
        .input = tidings_strn(r->in.ptr + r->head_len, r->in.len - r->head_len),
        .eof = conn->eof,
    };
    websocket_open(ws, &start);
    sendq_deinit(&out);
    channel_deinit(&conn->channel);
    loop_discard(conn->hw->worker->loop, &conn->discard, conn_free, conn);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void conn_read_input(struct http_conn *conn)
{
    struct http_worker *hw = conn->hw;
    for (size_t total = 0; total < READ_QUANTUM && !conn->eof;) {
        ssize_t n = conn_receive(conn);
        if (n <= 0) {
            return;
        }
        if (buf_put(&conn->r->in, hw->scratch, (size_t)n) < 0) {
            conn_refuse_over(conn, LIMIT_BODY, 413,
                             "the request is larger than this server accepts");
            return;
        }
        total += (size_t)n;
        if ((size_t)n < sizeof(hw->scratch)) {
            return; /* most likely all there is; level-triggered anyway */
        }
    }
}

static void conn_discard_input(struct http_conn *conn)
{
    if (conn_receive(conn) >= 0 && conn->eof) {
        conn_close(conn, "refused");
    }
}

static void conn_on_flushed(struct sendq *q, enum sendq_state state);

static void conn_on_event(struct loop_poll *poll, int events, void *user)
{
    struct http_conn *conn = user;
    if (events & LOOP_ERROR) {
        conn_close(conn, peer_identity_failure(&conn->channel, &conn->out, "socket error"));
        return;
    }
    if (events & LOOP_WRITE) {
        conn_on_flushed(&conn->out, sendq_flush(&conn->out));
        if (conn->state == CONN_GONE) {
            return;
        }
    }
    if ((events & LOOP_READ) && (conn_is_reading(conn) || conn->state == CONN_HANDSHAKE)) {
        conn_read_input(conn);
        conn_go_on(conn);
    } else if ((events & LOOP_READ) && conn->state == CONN_LINGER) {
        conn_discard_input(conn);
    } else if (events & LOOP_HANGUP) {
        conn_close(conn, "closed by the client"); /* cancels what was under way */
        return;
    } else if ((events & LOOP_READ) && conn->state == CONN_AWAITING) {
        loop_poll_want(poll, conn->poll.wanted & ~LOOP_READ); /* its turn comes */
    }
    conn_want(conn);
    conn_book_input(conn);
    if (conn->input_counted > 0) {
        conn_make_room(conn);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static void conn_begin_waiting(struct http_conn *conn)
{
    output_book_queue(&conn->channel, &conn->sink, &conn->out);
    deadline_await(&conn->hw->stalled, &conn->stall, &conn->out);
    conn_want(conn);
}

static void conn_on_flushed(struct sendq *q, enum sendq_state state)
{
    struct http_conn *conn = list_entry(q, struct http_conn, out);
    if (state == SENDQ_EMPTY && conn->state == CONN_STREAM && !deadline_is_listed(&conn->stall) &&
        !conn->sink.blocked && !conn->has_long) {
        return; /* the ordinary case of a stream: nothing waited */
    }
    if (state == SENDQ_BROKEN) {
        conn_close(conn, peer_identity_failure(&conn->channel, &conn->out, sendq_reason(q)));
        return;
    }
    if (state == SENDQ_WAITING) {
        conn_begin_waiting(conn);
        return;
    }
    deadline_leave(&conn->hw->stalled, &conn->stall);
    output_book_queue(&conn->channel, &conn->sink, &conn->out);
    if (conn->state == CONN_CLOSING || (conn->state == CONN_REFUSED && conn->eof)) {
        conn_close(conn, "done");
        return;
    }
    if (conn->state == CONN_REFUSED) {
        sendq_end(&conn->out);
        conn_set_state(conn, CONN_LINGER);
        conn_want(conn);
        return;
    }
    sink_drained(&conn->sink);
    if (conn->has_long) {
        conn->has_long = delivery_drained(&conn->channel);
    }
    if (conn->r && conn->r->in.len > 0) {
        conn_go_on(conn);
    }
    conn_want(conn);
}

static void http_flush_batch(void *user)
{
    struct http_worker *hw = user;
    poll_flush(hw);
    sendq_batch_flush(&hw->worker->batch);
    http_end_turn(hw);
}

/* ---- the end of the server ------------------------------------------------------------------- */

/* Is there no whole request? */
static bool conn_is_quiet(const struct http_conn *conn)
{
    return conn_is_reading(conn) || conn->state == CONN_HANDSHAKE;
}

/* While draining: a connection goes that has nothing to ask. A request half read is as good as
 * none. */
static void conn_end_if_quiet(struct http_conn *conn)
{
    if (conn_is_quiet(conn)) {
        conn_read_input(conn);
    }
    if (conn_is_quiet(conn)) {
        conn_go_on(conn);
    }
    if (conn_is_quiet(conn)) {
        conn_end(conn);
    }
    conn_want(conn);
}

void http_worker_drain(struct http_worker *hw, void (*drained)(void *user), void *user)
{
    hw->draining = true;
    hw->drained = drained;
    hw->drained_user = user;
    static const enum conn_state quiet[] = {CONN_HANDSHAKE, CONN_IDLE, CONN_HEAD, CONN_BODY};
    for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++) {
        list_each (it, next, &hw->lists[quiet[i]].all) {
            conn_end_if_quiet(list_entry(it, struct http_conn, deadline.link));
        }
    }
    websocket_drain(hw->websockets);
    legacy_sse_drain(hw);
    deadlines_changed(&hw->deadlines);
    http_check_drained(hw);
}

/* ---- workers --------------------------------------------------------------------------------- */

static void http_set_options(const struct http_config *config, int fd)
{
    int one = 1;
    unsigned timeout = (unsigned)config->stall_timeout_ms;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

static void http_adopt(struct letter *letter, void *owner)
{
    struct http_worker *hw = owner;
    struct handover *h = list_entry(letter, struct handover, letter);
    struct http_conn *conn = mem_zalloc(sizeof(*conn));
    struct http_reading *r = conn ? mem_zalloc(sizeof(*r)) : NULL;
    if (!r || loop_poll_init(&conn->poll, hw->worker->loop, h->fd, conn_on_event, conn, NULL) < 0) {
        mem_free(conn);
        mem_free(r);
        handover_destroy(h);
        worker_inbox_left(&hw->inbox);
        http_check_drained(hw);
        return;
    }
    http_review_tokens(hw); /* what was taken back while nobody was here */
    channel_init(&conn->channel, &http_channel_ops, hw->worker);
    conn->channel.quota = h->quota;
    conn->channel.origin = h->origin;
    conn->sink.ops = &http_sink_ops;
    conn->hw = hw;
    conn->r = r;
    conn->r->in = h->in;
    conn->r->in.max = HTTP_MAX_HEAD + hw->config->max_body + sizeof(hw->scratch);
    conn->r->in.is_secret = hw->config->auth != NULL; /* there are tokens in it */
    deadline_init(&conn->deadline);
    deadline_init(&conn->stall);
    http_set_options(hw->config, h->fd);
    sendq_init(&conn->out, &hw->worker->batch, h->fd, conn_on_flushed);
    conn_start_state(conn, h->tls && !tls_session_is_ready(h->tls) ? CONN_HANDSHAKE : CONN_IDLE);
    int rc = h->tls ? sendq_use_tls(&conn->out, h->tls) : 0;
    mem_free(h);
    if (rc < 0) {
        conn_close(conn, "out of memory");
        return;
    }
    conn_go_on(conn);
    if (hw->draining) {
        conn_end_if_quiet(conn);
    }
    conn_want(conn);
}

static void http_on_review(void *user)
{
    http_review_tokens(user);
}

static void http_make_room_for(void *user)
{
    http_make_room(user);
}

static void websocket_left(void *user)
{
    http_check_drained(user);
}

static struct websocket_worker *create_websockets(struct http_worker *hw)
{
    const struct websocket_config config = {
        .max_message = hw->config->max_body,
        .keepalive_ms = hw->config->keepalive_ms,
        .message_timeout_ms = hw->config->body_timeout_ms,
        .stall_timeout_ms = hw->config->stall_timeout_ms,
    };
    const struct websocket_owner owner = {
        .user = hw,
        .worker = hw->worker,
        .inbox = &hw->inbox,
        .deadlines = &hw->deadlines,
        .scratch = hw->scratch,
        .scratch_size = sizeof(hw->scratch),
        .review = http_on_review,
        .make_room = http_make_room_for,
        .left = websocket_left,
    };
    return websocket_worker_create(&config, &owner);
}

static int http_deadlines_init(struct http_worker *hw);

struct http_worker *http_worker_create(struct worker *worker, const struct http_config *config,
                                       http_find_worker_fn find, void *user,
                                       struct tidings_error *err)
{
    struct http_worker *hw = mem_zalloc(sizeof(*hw));
    if (!hw) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    hw->worker = worker;
    hw->config = config;
    hw->find = find;
    hw->find_user = user;
    int timed = http_deadlines_init(hw);
    map_init(&hw->sse_streams);
    buf_init(&hw->head, 2 * HTTP_MAX_HEAD); /* an echoed Origin is the longest thing in it */
    loop_hook_add(worker->loop, &hw->flush_hook, http_flush_batch, hw);
    hw->next_turn = loop_timer_open(worker->loop, http_on_next_turn, hw);
    hw->inbox.limit_counters = worker->limit_counters;
    hw->inbox.adopt = http_adopt;
    hw->inbox.mailbox = mailbox_create(worker->loop, hw, err);
    hw->websockets = create_websockets(hw);
    if (timed < 0 || !hw->inbox.mailbox || !hw->next_turn || !hw->websockets) {
        http_worker_destroy(hw);
        return NULL;
    }
    return hw;
}

void http_worker_destroy(struct http_worker *hw)
{
    if (!hw) {
        return;
    }
    hw->drained = NULL;
    for (size_t i = 0; i < CONN_LISTS; i++) {
        struct deadline *first;
        while ((first = deadline_list_first(&hw->lists[i])) != NULL) {
            conn_close(conn_of_deadline(first), "shutdown");
        }
    }
    websocket_worker_destroy(hw->websockets);
    token_cache_destroy(hw->token_cache);
    if (hw->inbox.mailbox) {
        mailbox_close(hw->inbox.mailbox);
        mailbox_unref(hw->inbox.mailbox);
    }
    deadlines_deinit(&hw->deadlines);
    loop_timer_close(hw->next_turn);
    loop_hook_remove(&hw->flush_hook);
    map_deinit(&hw->sse_streams);
    buf_deinit(&hw->head);
    mem_free_secret(hw, sizeof(*hw)); /* what was read last: perhaps a token */
}

struct worker_inbox *http_worker_inbox(struct http_worker *hw)
{
    return &hw->inbox;
}

/* -------------------------------------------------------------------------------------------------
 * Deadlines of HTTP connections: how long each may stay in its state, and what becomes of it then.
 * Also what is looked at on the same timer: tokens that expire or are taken back, unfinished input
 * while there is too much of it, and streams that end with the server. WebSockets have their own
 * (transport/websocket.c), on the timer of this worker.
 */

/* How long a refused client may go on sending before the connection is reset. */
#define LINGER_MS 1000u
#define REVIEW_MS 1000u /* tokens that were loaded anew are looked at */
#define DRAIN_MS 250u   /* while the server ends: who is done? */

/* ---- what becomes of a connection ------------------------------------------------------------ */

static void http_close_idle(struct deadline *deadline)
{
    struct http_conn *conn = conn_of_deadline(deadline);
    if (conn->out.pending > 0) { /* an answer is on its way: the stall timeout judges its reader */
        deadline_enter(&conn->hw->lists[CONN_IDLE], deadline);
        return;
    }
    conn_close(conn, "idle");
}

static void http_close_unready(struct deadline *deadline)
{
    struct http_conn *conn = conn_of_deadline(deadline);
    limit_hit(conn->hw->worker->limit_counters, LIMIT_HEAD_TIME);
    conn_close(conn, "the handshake was not done in time");
}

static void http_refuse_slow(struct deadline *deadline)
{
    conn_refuse_over(conn_of_deadline(deadline), LIMIT_HEAD_TIME, 408,
                     "the request did not arrive in time");
}

static void refuse_slow_body(struct deadline *deadline)
{
    conn_refuse_over(conn_of_deadline(deadline), LIMIT_BODY_TIME, 408,
                     "the body did not arrive in time");
}

static void give_up_token(struct deadline *deadline)
{
    conn_give_up_pending_token(conn_of_deadline(deadline));
}

static void give_up_session(struct deadline *deadline)
{
    conn_give_up_session(conn_of_deadline(deadline));
}

/* One that was written to is put off without being moved for each message: it is looked at every
 * eighth of the time from then on, and acted on after six to eight eighths of silence. */
static void stream_keep_alive(struct deadline *deadline)
{
    struct http_conn *conn = conn_of_deadline(deadline);
    struct deadline_list *put_off = &conn->hw->lists[CONN_PUT_OFF];
    uint64_t time = conn->hw->config->keepalive_ms;
    if (deadline_age_ms(put_off, deadline->noted) < time - time / 4) {
        deadline_enter(put_off, deadline);
        return;
    }
    conn_set_state(conn, CONN_STREAM);
    if (conn->out.pending == 0) {
        sendq_put(&conn->out, ":\n\n", 3);
    }
}

static void end_poll(struct deadline *deadline)
{
    poll_finish(conn_of_deadline(deadline));
}

static void close_late(struct deadline *deadline)
{
    conn_close(conn_of_deadline(deadline), "the client does not read");
}

static void http_cut_stalled(struct deadline *stall)
{
    struct http_conn *conn = list_entry(stall, struct http_conn, stall);
    conn->hw->worker->stats.cut++;
    limit_hit(conn->hw->worker->limit_counters, LIMIT_STALL);
    delivery_log_cut(&conn->channel, conn->out.pending, 0, "it takes nothing (--stall-timeout)");
    conn_close(conn, "stalled: the client does not read");
}

/* ---- what is looked at besides --------------------------------------------------------------- */

static void http_cut_tight(struct http_worker *hw)
{
    list_each (it, next, &hw->lists[CONN_BODY].all) {
        struct http_conn *conn = list_entry(it, struct http_conn, deadline.link);
        if (deadline_age_ms(&hw->lists[CONN_BODY], conn->deadline.listed_ms) < INPUT_TIGHT_MS) {
            return;
        }
        conn_cut_input(conn);
    }
}

/* Streams of HTTP+SSE whose token or certificate is over; listens and streams of sessions are the
 * affair of src/delivery. */
static void http_expire_principals(struct http_worker *hw)
{
    int64_t now = hw->next_expiry_ms > 0 ? clock_wall_ms() : 0;
    if (hw->next_expiry_ms > 0 && now >= hw->next_expiry_ms) {
        hw->next_expiry_ms = legacy_sse_expire(hw, now);
    }
}

static void http_check_due(void *user)
{
    struct http_worker *hw = user;
    if (input_is_tight(hw->worker->limit_counters)) {
        http_cut_tight(hw);
    }
    http_expire_principals(hw);
    http_review_tokens(hw);
    websocket_check_due(hw->websockets);
    if (hw->draining) {
        legacy_sse_drain(hw);
    }
}

static uint64_t http_next_check(void *user)
{
    struct http_worker *hw = user;
    uint64_t now = loop_now_ms(hw->worker->loop), next = websocket_next_check(hw->websockets);
    if (worker_inbox_count(&hw->inbox) == 0) {
        return UINT64_MAX;
    }
    if (hw->draining && now + DRAIN_MS < next) {
        next = now + DRAIN_MS;
    }
    if (hw->token_cache && now + REVIEW_MS < next) {
        next = now + REVIEW_MS;
    }
    uint64_t tight = input_next_check(hw->worker->limit_counters, &hw->lists[CONN_BODY]);
    uint64_t expiry = deadlines_at_wall(&hw->deadlines, hw->next_expiry_ms);
    next = tight < next ? tight : next;
    return expiry < next ? expiry : next;
}

/* http.c: the lists of connections, and what is due when. -1: out of memory. */
static int http_deadlines_init(struct http_worker *hw)
{
    const struct http_config *config = hw->config;
    const struct {
        uint64_t after_ms;
        deadline_fn due;
    } times[CONN_LISTS] = {
        [CONN_HANDSHAKE] = {config->header_timeout_ms, http_close_unready},
        [CONN_IDLE] = {config->idle_timeout_ms, http_close_idle},
        [CONN_HEAD] = {config->header_timeout_ms, http_refuse_slow},
        [CONN_AUTHENTICATING] = {config->header_timeout_ms, give_up_token},
        [CONN_ADOPTING] = {SESSION_AWAIT_MS, give_up_session},
        [CONN_BODY] = {config->body_timeout_ms, refuse_slow_body},
        [CONN_STREAM] = {config->keepalive_ms - config->keepalive_ms / 8, stream_keep_alive},
        [CONN_PUT_OFF] = {config->keepalive_ms / 8, stream_keep_alive},
        [CONN_POLL] = {config->keepalive_ms, end_poll},
        [CONN_CLOSING] = {config->stall_timeout_ms, close_late},
        [CONN_REFUSED] = {config->stall_timeout_ms, close_late},
        [CONN_LINGER] = {LINGER_MS, close_late},
    };
    const struct deadlines_also also = {http_next_check, http_check_due, hw};
    int rc = deadlines_init(&hw->deadlines, hw->worker->loop, &also);
    for (size_t i = 0; i < CONN_LISTS; i++) {
        deadline_list_init(&hw->lists[i], &hw->deadlines, times[i].after_ms, times[i].due);
    }
    deadline_list_init(&hw->stalled, &hw->deadlines, config->stall_timeout_ms, http_cut_stalled);
    return rc;
}
