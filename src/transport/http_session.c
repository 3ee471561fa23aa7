/* SPDX-License-Identifier: MIT
 *
 * Brings the session of a request here when it may be at another node (protocol/session_moving.h):
 * the request, and nothing but its connection, waits for it. Where nodes share nothing, nothing
 * waits.
 */
#include "base/mem.h"
#include "protocol/inbound.h"
#include "protocol/session_moving.h"
#include "transport/http_private.h"
#include "wire/ws.h"

struct tidings_str http_session_id(enum http_path path, const struct http_request *req)
{
    static const struct tidings_str none = {NULL, 0};
    struct tidings_str id = http_header(req, "mcp-session-id", NULL);
    if (ws_is_upgrade(req)) {
        return none; /* a WebSocket is no part of a session */
    }
    if (!id.ptr) {
        return req->query.len > 0 ? path_session(path, req) : none;
    }
    struct tidings_str version = http_header(req, "mcp-protocol-version", NULL);
    return version.ptr && dialect_is_modern_version(version) ? none : id;
}

static void conn_go_on_with(struct http_conn *conn, enum http_session session)
{
    conn->r->session = session;
    conn_set_state(conn, CONN_HEAD);
    conn_go_on(conn);
    conn_want(conn);
}

static void conn_on_session(struct session_wait *wait, int code)
{
    struct http_conn *conn = wait->user;
    mem_free(conn->r->awaiting);
    conn->r->awaiting = NULL;
    conn_go_on_with(conn, code == TIDINGS_E_CONFLICT ? HTTP_SESSION_UNASKED
                          : code < 0                 ? HTTP_SESSION_UNKNOWN
                                                     : HTTP_SESSION_READY);
}

void conn_forget_session(struct http_conn *conn)
{
    session_await_cancel(conn->r->awaiting);
    mem_free(conn->r->awaiting);
    conn->r->awaiting = NULL;
}

void conn_give_up_session(struct http_conn *conn)
{
    conn_forget_session(conn);
    conn_go_on_with(conn, HTTP_SESSION_UNKNOWN);
}

static void refuse_unknown_session(struct http_conn *conn)
{
    inbound_refuse_later(&conn->channel,
                         "the store that keeps sessions cannot say now whether this one is at "
                         "another node; try again");
}

/* Asking the store counts as a request by itself. */
static bool ask_for_session(struct http_conn *conn, const struct session_asked *asked)
{
    struct refusal why;
    struct session_wait *wait = mem_zalloc(sizeof(*wait));
    if (!wait) {
        refuse_unknown_session(conn);
        return true;
    }
    wait->done = conn_on_session;
    wait->user = conn;
    switch (session_await(wait, &conn->channel, asked, &why)) {
    case SESSION_AWAITED:
        conn->r->awaiting = wait;
        conn_set_state(conn, CONN_ADOPTING);
        return true;
    case SESSION_REFUSED:
        inbound_refuse_limit(&conn->channel, &why, NULL);
        break;
    case SESSION_BUSY:
        refuse_unknown_session(conn);
        break;
    case SESSION_READY:
        mem_free(wait);
        return false;
    }
    mem_free(wait);
    return true;
}

bool conn_awaits_session(struct http_conn *conn, const struct http_request *req)
{
    enum http_path path = conn->r->path;
    const struct worker *worker = conn->hw->worker;
    if (!worker->sessions->movers || req->method == HTTP_OPTIONS ||
        (path != PATH_ENDPOINT && path != PATH_EVENTS)) {
        return false;
    }
    const struct session_asked asked = {
        .id = http_session_id(path, req),
        .is_stream = req->method == HTTP_GET,
        .last_event_id =
            req->method == HTTP_GET ? http_header(req, "last-event-id", NULL) : STR_EMPTY,
    };
    if (!asked.id.ptr || !session_may_be_elsewhere(worker, &asked)) {
        return false;
    }
    if (conn->r->session == HTTP_SESSION_UNKNOWN) {
        bool is_good =
            session_has_arrived(worker, asked.id) && !session_was_elsewhere(&conn->channel, &asked);
        if (!is_good) {
            refuse_unknown_session(conn);
        }
        return !is_good;
    }
    /* What another request had asked for may be from before this one's client was told more at
     * another node. */
    if (conn->r->session == HTTP_SESSION_READY && !conn->r->doubts_session &&
        (session_was_elsewhere(&conn->channel, &asked) ||
         session_is_behind_client(&conn->channel, &asked))) {
        conn->r->doubts_session = true;
        return ask_for_session(conn, &asked);
    }
    return conn->r->session == HTTP_SESSION_UNASKED && ask_for_session(conn, &asked);
}
