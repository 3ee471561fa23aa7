/* SPDX-License-Identifier: MIT
 *
 * What is asked: the checks that need only the head, then the road to the worker. The order is the
 * specification's: route and method, Host and Origin, token, size and type, then the body.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "protocol/inbound.h"
#include "protocol/session.h"
#include "transport/http_private.h"
#include "transport/peer_identity.h"

#define ENDPOINT "/mcp"

/* Absent headers have ptr NULL; present and empty ones do not. */
static void collect_headers(const struct http_request *req, struct dialect_headers *h)
{
    h->all = req;
    h->protocol_version = http_header(req, "mcp-protocol-version", NULL);
    h->method = http_header(req, "mcp-method", NULL);
    h->name = http_header(req, "mcp-name", NULL);
    h->session_id = http_header(req, "mcp-session-id", NULL);
    h->last_event_id = http_header(req, "last-event-id", NULL);
}

int conn_belongs_to(struct http_conn *conn, const struct http_request *req)
{
    if (ws_is_upgrade(req)) {
        return -1; /* a WebSocket is no part of a session */
    }
    struct tidings_str id = http_header(req, "mcp-session-id", NULL);
    struct tidings_str named = side_session(side_find(conn->hw->config, req->path), req);
    if (!id.ptr && named.ptr) {
        return session_worker(named);
    }
    struct tidings_str version = http_header(req, "mcp-protocol-version", NULL);
    if (!id.ptr || (version.ptr && dialect_is_modern_version(version))) {
        return -1; /* sessions mean nothing to modern traffic */
    }
    return session_worker(id);
}

static void refuse_method(struct http_conn *conn, struct tidings_str allowed, const char *text)
{
    const struct answer_headers allow = {.allow = allowed};
    struct buf body;
    buf_init(&body, 4096);
    buf_putf(&body, "%s\n", text);
    conn->keep_alive = false;
    conn_answer(conn, 405, &allow, STR("text/plain; charset=utf-8"), &body);
    buf_deinit(&body);
}

/* A browser says from where it asks. Pages of other sites may ask for what they are allowed to
 * read, and say so with an Origin; what they only embed (images, scripts, frames), or lead somebody
 * to, comes without one, and would tell them at least whether it is there. */
static bool check_site(struct http_conn *conn, const struct http_request *req)
{
    unsigned count = 0;
    struct tidings_str site = http_header(req, "sec-fetch-site", &count);
    if (count == 0 ||
        (count == 1 && (str_eq(site, STR("same-origin")) || str_eq(site, STR("none"))))) {
        return true;
    }
    conn_refuse(
        conn, 403,
        "pages of other sites cannot embed or link to what is here (Sec-Fetch-Site); a page "
        "named by --allow-origin can fetch it with CORS");
    return false;
}

static bool check_guard(struct http_conn *conn, const struct http_request *req)
{
    const struct guard *guard = &conn->hw->config->guard;
    unsigned count = 0;
    struct tidings_str origin = http_header(req, "origin", &count);
    bool is_known = guard_host(guard, req->host);
    if (is_known && count == 0) {
        return check_site(conn, req); /* most requests: nothing else need be asked */
    }
    struct arrival at;
    guard_arrival(conn->out.fd, &at);
    if (!is_known && !guard_own_host(&at, sendq_tls(&conn->out), req->host)) {
        conn_refuse(conn, 403,
                    "this Host is not served here: it is neither the address that was reached nor "
                    "a name in the certificate; see --allow-host");
        return false;
    }
    if (count == 0) {
        return check_site(conn, req);
    }
    if (count > 1 || !guard_origin(guard, &at, origin)) {
        conn_refuse(conn, 403, "this Origin is not allowed; see --allow-origin");
        return false;
    }
    mem_free(conn->r->origin);
    conn->r->origin = str_dup(origin);
    return true;
}

static bool check_post(struct http_conn *conn, const struct http_request *req)
{
    struct tidings_str type = http_header(req, "content-type", NULL);
    struct tidings_str media = str_trim(str_cut(type, ';', &type, NULL), " \t");
    if (!str_eq_nocase(media, STR("application/json"))) {
        conn_refuse(conn, 415, "Content-Type must be application/json");
        return false;
    }
    struct tidings_str coding = http_header(req, "content-encoding", NULL);
    if (coding.ptr && !str_eq_nocase(coding, STR("identity"))) {
        conn_refuse(conn, 415, "send the message without Content-Encoding");
        return false;
    }
    struct tidings_str accept = http_header(req, "accept", NULL);
    conn->r->takes_events = !accept.ptr || http_list_has(accept, "text/event-stream") ||
                            http_list_has(accept, "text/*") || http_list_has(accept, "*/*");
    if (!conn->r->takes_events && !http_list_has(accept, "application/json") &&
        !http_list_has(accept, "application/*")) {
        conn_refuse(conn, 406, "Accept must allow application/json and text/event-stream");
        return false;
    }
    return true;
}

static bool check_get(struct http_conn *conn, const struct http_request *req)
{
    struct tidings_str accept = http_header(req, "accept", NULL);
    if (conn->r->side == SIDE_EVENTS && accept.ptr && !http_list_has(accept, "text/event-stream") &&
        http_list_has(accept, "application/json")) {
        conn->r->polls = true;
    } else if (accept.ptr && !http_list_has(accept, "text/event-stream") &&
               !http_list_has(accept, "text/*") && !http_list_has(accept, "*/*")) {
        conn_refuse(conn, 406, "Accept must allow text/event-stream");
        return false;
    }
    return true;
}

/* Where it leads; false after having refused. */
static bool find_place(struct http_conn *conn, const struct http_request *req)
{
    struct http_reading *r = conn->r;
    r->route = route_find(conn->hw->config, req->path);
    r->is_resource = !r->route && resource_is_at(conn, req->path);
    r->side = r->route || r->is_resource ? SIDE_NONE : side_find(conn->hw->config, req->path);
    r->polls = false;
    if (!r->route && !r->is_resource && !r->side && !str_eq(req->path, STR(ENDPOINT)) &&
        !str_eq(req->target, STR("*"))) {
        conn_refuse(conn, 404,
                    "nothing is here; the endpoint is " ENDPOINT ", resources are at " RESOURCE_PATH
                    "?uri=");
        return false;
    }
    return true;
}

/* Is the method one for that place, and may it be asked from there? */
static bool check_method(struct http_conn *conn, const struct http_request *req)
{
    struct http_reading *r = conn->r;
    if (r->route) {
        return check_guard(conn, req);
    }
    if (r->is_resource) {
        return check_guard(conn, req) && resource_check_method(conn, req);
    }
    if (!r->side && ws_is_upgrade(req)) {
        return check_guard(conn, req);
    }
    if (req->method == HTTP_HEAD || req->method == HTTP_PUT || req->method == HTTP_PATCH ||
        req->method == HTTP_OTHER) {
        refuse_method(conn, STR("GET, POST, DELETE, OPTIONS"),
                      "use POST (messages), GET (stream of a session) or DELETE (its end)");
        return false;
    }
    if (r->side && !side_takes(r->side, req)) {
        refuse_method(conn, side_allows(r->side), "this path takes another method");
        return false;
    }
    return check_guard(conn, req);
}

/* Where tokens are configured nothing else says who it is: a certificate may be a proxy's. */
static bool check_who(struct http_conn *conn, const struct http_request *req)
{
    if (conn->hw->config->auth) {
        return conn_authenticate(conn, req);
    }
    if (peer_identity_apply(&conn->channel, conn->out.fd, sendq_tls(&conn->out)) < 0) {
        conn_refuse(conn, 503, "out of memory");
        return false;
    }
    if (principal_is_expired(conn->channel.who, clock_wall_ms())) {
        conn_refuse(conn, 403, "the certificate of this connection has expired");
        return false;
    }
    return true;
}

bool conn_begin_request(struct http_conn *conn, const struct http_request *req)
{
    conn->keep_alive = req->keep_alive;
    conn->is_http10 = req->minor == 0;
    conn->is_head = req->method == HTTP_HEAD;
    return find_place(conn, req) && check_method(conn, req) && check_who(conn, req);
}

bool conn_accept_request(struct http_conn *conn, const struct http_request *req)
{
    struct http_reading *r = conn->r;
    if (req->content_length > conn->hw->config->max_body) {
        conn_refuse_over(conn, LIMIT_BODY, 413,
                         "the body is larger than this server accepts; see --max-body");
        return false;
    }
    r->body_need = (size_t)req->content_length;
    r->is_chunked = req->chunked;
    if (r->is_chunked) {
        http_chunked_init(&r->chunked);
    }
    if (r->route || r->is_resource || r->side == SIDE_METADATA) {
        return true;
    }
    if (!r->side && ws_is_upgrade(req)) {
        return websocket_check(conn, req);
    }
    if (req->method == HTTP_POST) {
        return check_post(conn, req);
    }
    return req->method != HTTP_GET || check_get(conn, req);
}

/* Messages are counted one by one where they are read; what a browser asks for itself is not. */
static bool is_counted(const struct http_conn *conn, const struct http_request *req)
{
    bool has_messages = req->method == HTTP_POST && !conn->r->route && !conn->r->is_resource;
    return !has_messages && req->method != HTTP_OPTIONS;
}

void conn_run_request(struct http_conn *conn, const struct http_request *req)
{
    if (is_counted(conn, req) && !conn_check_rate(conn)) {
        return;
    }
    if (conn->r->route && req->method != HTTP_OPTIONS) {
        conn_run_route(conn, req);
        return;
    }
    if (conn->r->is_resource && req->method != HTTP_OPTIONS) {
        conn_run_resource(conn, req);
        return;
    }
    if (conn->r->is_upgrade) {
        websocket_begin(conn, req);
        return;
    }
    struct dialect_headers headers;
    collect_headers(req, &headers);
    struct channel *channel = &conn->channel;
    struct tidings_str body = {conn->r->in.ptr + conn->r->head_len, conn->r->body_len};
    struct tidings_str named = side_session(conn->r->side, req);
    headers.session_id = headers.session_id.ptr ? headers.session_id : named;
    switch (req->method) {
    case HTTP_POST:
        if (conn->r->side) {
            side_post(conn, named, body);
        } else {
            inbound_text(channel, body, &headers);
        }
        break;
    case HTTP_GET:
        if (conn->r->side == SIDE_METADATA) {
            conn_run_metadata(conn, req);
        } else if (conn->r->side == SIDE_SSE) {
            side_open(conn);
        } else {
            inbound_get(channel, &headers);
        }
        break;
    case HTTP_DELETE:
        inbound_delete(channel, &headers);
        break;
    case HTTP_OPTIONS:
        conn_answer_preflight(conn, req);
        break;
    case HTTP_OTHER:
    case HTTP_HEAD:
    case HTTP_PUT:
    case HTTP_PATCH:
        break; /* refused before the body was read */
    }
}
