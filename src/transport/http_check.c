/* SPDX-License-Identifier: MIT
 *
 * May this HTTP request be made? The checks that need only its head, in the order of the
 * specification: path and method, Host and Origin, token, size and type.
 */
#include "access/quota.h"
#include "base/clock.h"
#include "base/mem.h"
#include "protocol/inbound.h"
#include "request/access_log.h"
#include "transport/http_private.h"
#include "transport/peer_identity.h"
#include "wire/ws.h"

/* ---- path and method ------------------------------------------------------------------------- */

static void refuse_method(struct http_conn *conn, struct tidings_str allowed, const char *text)
{
    const struct response_headers allow = {.allow = allowed, .reason = tidings_str(text)};
    struct buf body;
    buf_init(&body, 4096);
    buf_putf(&body, "%s\n", text);
    conn->r->after = AFTER_CLOSE;
    conn_answer(conn, 405, &allow, STR("text/plain; charset=utf-8"), &body);
    buf_deinit(&body);
}

/* Where it leads; false after having refused. */
static bool check_path(struct http_conn *conn, const struct http_request *req)
{
    struct http_reading *r = conn->r;
    r->path = path_find(conn, req->path, &r->route);
    r->polls = false;
    if (r->path == PATH_NOWHERE && str_eq(req->target, STR("*"))) {
        r->path = PATH_ENDPOINT;
    }
    if (r->path == PATH_NOWHERE) {
        const struct response_headers headers = {
            .reason = STR("nothing is here; the endpoint is /mcp, resources are at " RESOURCE_PATH
                          "?uri="),
            .path = req->path};
        conn_refuse_with(conn, 404, &headers);
        return false;
    }
    return true;
}

/* Is the method one for that place? */
static bool check_method(struct http_conn *conn, const struct http_request *req)
{
    enum http_path path = conn->r->path;
    if (path == PATH_ROUTE || path == PATH_RESOURCE ||
        (path == PATH_ENDPOINT && ws_is_upgrade(req))) {
        return true; /* whoever is there says which; a WebSocket is asked for by another way */
    }
    if ((req->method == HTTP_HEAD && path != PATH_CONSOLE && path != PATH_HEALTH) ||
        req->method == HTTP_PUT || req->method == HTTP_PATCH || req->method == HTTP_OTHER) {
        refuse_method(conn, path_allows(PATH_ENDPOINT),
                      "use POST (messages), GET (stream of a session) or DELETE (its end)");
        return false;
    }
    if (!path_takes(path, req)) {
        refuse_method(conn, path_allows(path), "this path takes another method");
        return false;
    }
    return true;
}

/* ---- Host and Origin ------------------------------------------------------------------------- */

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
    conn_refuse_for(
        conn, FAILURE_ORIGIN, 403,
        "pages of other sites cannot embed or link to what is here (Sec-Fetch-Site); a page "
        "named by --allow-origin can fetch it with CORS");
    return false;
}

static bool check_guard(struct http_conn *conn, const struct http_request *req)
{
    const struct origin_check *allowed = &conn->hw->config->origin_check;
    unsigned count = 0;
    struct tidings_str origin = http_header(req, "origin", &count);
    bool is_known = origin_check_knows_host(allowed, req->host);
    if (is_known && count == 0) {
        return check_site(conn, req); /* most requests: nothing else need be asked */
    }
    struct arrival at;
    origin_check_arrival(conn->out.fd, &at);
    if (!is_known && !origin_check_own_host(&at, sendq_tls(&conn->out), req->host)) {
        conn_refuse_for(
            conn, FAILURE_HOST, 403,
            "this Host is not served here: it is neither the address that was reached nor "
            "a name in the certificate; see --allow-host");
        return false;
    }
    if (count == 0) {
        return check_site(conn, req);
    }
    bool is_own = conn->hw->config->console_page.len > 0 &&
                  origin_check_is_own(origin, req->host, sendq_tls(&conn->out) != NULL);
    if (count > 1 || (!is_own && !origin_check_allows(allowed, &at, origin))) {
        conn_refuse_for(conn, FAILURE_ORIGIN, 403,
                        "this Origin is not allowed; see --allow-origin");
        return false;
    }
    mem_free(conn->r->origin);
    conn->r->origin = str_dup(origin);
    return true;
}

/* ---- whose it is ----------------------------------------------------------------------------- */

/* Where tokens are configured nothing else says who it is: a certificate may be a proxy's. */
static bool check_principal(struct http_conn *conn, const struct http_request *req)
{
    if (conn->hw->config->auth) {
        return conn_authenticate(conn, req);
    }
    if (peer_identity_apply(&conn->channel, conn->out.fd, sendq_tls(&conn->out)) < 0) {
        conn_refuse(conn, 503, "out of memory");
        return false;
    }
    if (principal_is_expired(conn->channel.principal, clock_wall_ms())) {
        conn_refuse_for(conn, FAILURE_AUTHENTICATION, 403,
                        "the certificate of this connection has expired");
        return false;
    }
    return true;
}

/* What lines of the log will say of it. */
static void note_request(struct http_conn *conn, const struct http_request *req)
{
    static const char *const names[] = {
        [HTTP_OTHER] = "OTHER",   [HTTP_GET] = "GET",         [HTTP_HEAD] = "HEAD",
        [HTTP_POST] = "POST",     [HTTP_PUT] = "PUT",         [HTTP_PATCH] = "PATCH",
        [HTTP_DELETE] = "DELETE", [HTTP_OPTIONS] = "OPTIONS",
    };
    struct http_reading *r = conn->r;
    unsigned count = 0;
    struct tidings_str parent = http_header(req, "traceparent", &count);
    struct trace trace;
    r->method = names[req->method];
    r->begun_ns = log_wants_access() ? clock_monotonic_ns() : 0;
    r->context = (struct log_context){.request_id = ""};
    r->traceparent[0] = '\0';
    access_log_number(conn->hw->worker, r->context.request_id);
    if (count == 1 && trace_read(parent, STR_EMPTY, &trace)) {
        memcpy(r->traceparent, trace.parent, sizeof(r->traceparent));
        memcpy(r->context.trace_id, trace_id(&trace).ptr, TRACE_ID_LEN);
        memcpy(r->context.span_id, trace_span_id(&trace).ptr, TRACE_SPAN_LEN);
    }
}

bool conn_check_head(struct http_conn *conn, const struct http_request *req)
{
    struct http_reading *r = conn->r;
    note_request(conn, req);
    r->after = req->keep_alive ? AFTER_KEEP : AFTER_CLOSE;
    r->is_http10 = req->minor == 0;
    r->is_head = req->method == HTTP_HEAD;
    return check_path(conn, req) && check_method(conn, req) && check_guard(conn, req) &&
           (r->path != PATH_RESOURCE || resource_check_method(conn, req)) &&
           check_principal(conn, req);
}

/* ---- size and type --------------------------------------------------------------------------- */

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
    if (conn->r->path == PATH_EVENTS && accept.ptr && !http_list_has(accept, "text/event-stream") &&
        http_list_has(accept, "application/json")) {
        conn->r->polls = true;
    } else if (accept.ptr && !http_list_has(accept, "text/event-stream") &&
               !http_list_has(accept, "text/*") && !http_list_has(accept, "*/*")) {
        conn_refuse(conn, 406, "Accept must allow text/event-stream");
        return false;
    }
    return true;
}

bool conn_check_body(struct http_conn *conn, const struct http_request *req)
{
    enum http_path path = conn->r->path;
    if (req->content_length > conn->hw->config->max_body) {
        conn_refuse_over(conn, LIMIT_BODY, 413,
                         "the body is larger than this server accepts; see --max-body");
        return false;
    }
    if (path == PATH_ROUTE || path == PATH_RESOURCE || path == PATH_METADATA ||
        path == PATH_CONSOLE || path == PATH_HEALTH) {
        return true;
    }
    if (path == PATH_ENDPOINT && ws_is_upgrade(req)) {
        return upgrade_check(conn, req);
    }
    if (req->method == HTTP_POST) {
        return check_post(conn, req);
    }
    return req->method != HTTP_GET || check_get(conn, req);
}

/* ---- rate ------------------------------------------------------------------------------------ */

bool conn_check_rate(struct http_conn *conn)
{
    struct refusal why;
    uint64_t now = loop_now_ms(conn->hw->worker->loop);
    if (quota_take_request(channel_quota(&conn->channel), now, &why)) {
        return true;
    }
    inbound_refuse_limit(&conn->channel, &why, NULL);
    return false;
}
