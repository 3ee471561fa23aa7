/* SPDX-License-Identifier: MIT
 *
 * An HTTP request, in the order in which it happens: its head is parsed; the connection moves when
 * the session it names lives on another worker; the head is checked (http_check.c); its body is
 * read; it is handed to whoever handles it; and once it was answered the next one follows.
 * conn_go_on, at the end, is where it begins.
 */
#include <string.h>

#include "base/mem.h"
#include "protocol/inbound.h"
#include "protocol/session.h"
#include "transport/http_private.h"
#include "transport/input_budget.h"
#include "wire/ws.h"

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
