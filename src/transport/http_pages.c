/* SPDX-License-Identifier: MIT
 *
 * Pages that the program adds beside the endpoint of its HTTP server (tidings_server_add_route):
 * same checks, same limits, answered at once.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "engine/delivery/notify.h"
#include "formats/websocket.h"
#include "security/cpu_budget.h"
#include "transport/http_internal.h"
#include "transport/peer_identity.h"

/* -------------------------------------------------------------------------------------------------
 * GET /console: the page of the console, the same for everybody. It needs no token, since a browser
 * has none to send when it opens a page and nothing of the server is in it; what the page then asks
 * for is asked like anything else.
 */

void conn_run_console(struct http_conn *conn)
{
    const struct http_config *config = http_worker_of(conn)->config;
    struct buf fields, page;
    buf_init(&fields, 4096);
    buf_init(&page, config->console_page.len + 1);
    http_put_header(&fields, "Content-Security-Policy", config->console_policy);
    buf_puts(&fields, STR("X-Content-Type-Options: nosniff\r\n"
                          "Referrer-Policy: no-referrer\r\n"
                          "Cross-Origin-Opener-Policy: same-origin\r\n"
                          "Cache-Control: no-cache\r\n"));
    buf_puts(&page, config->console_page);
    const struct response_headers headers = {.extra = buf_str(&fields)};
    if (fields.failed || page.failed) {
        conn_refuse(conn, 503, "out of memory");
    } else {
        conn_answer(conn, 200, &headers, STR("text/html; charset=utf-8"), &page);
    }
    buf_deinit(&page);
    buf_deinit(&fields);
}

/* -------------------------------------------------------------------------------------------------
 * /livez and /readyz beside the endpoint: for balancers and supervisors, so nobody is asked for a
 * token. Why it is not ready is said in a word, and in a sentence to those on this machine.
 */

#define LIVE_PATH "/livez"
#define READY_PATH "/readyz"
#define HEALTH_MAX 512u

bool health_is_at(const struct http_config *config, struct tidings_str path)
{
    return config->health && (str_eq(path, STR(LIVE_PATH)) || str_eq(path, STR(READY_PATH)));
}

void conn_run_health(struct http_conn *conn, const struct http_request *req)
{
    const struct http_config *config = http_worker_of(conn)->config;
    const struct response_headers headers = {.extra = STR("Cache-Control: no-store\r\n")};
    struct channel_facts facts;
    char said[HEALTH_MAX];
    struct buf text;
    channel_get_facts(&conn->base.channel, &facts);
    int status = config->health(config->health_user, str_eq(req->path, STR(LIVE_PATH)),
                                facts.is_local, said, sizeof(said));
    buf_init(&text, sizeof(said));
    buf_puts(&text, tidings_str(said));
    conn_answer(conn, status, &headers, STR("text/plain; charset=utf-8"), &text);
    buf_deinit(&text);
}

/* -------------------------------------------------------------------------------------------------
 * POST /notify: clients say what changed (engine/delivery/notify.h), where they may write. The
 * status is 200 when all of it was told, 207 when some was, else that of the first that was not.
 * The connection may go before the answer; what was said is told all the same.
 */

#define FIELDS_MAX 64u
#define SCOPES_MAX 4096u

static void http_notify_answer(struct http_conn *conn, const struct notify *n,
                               const struct notify_outcome *outcome, struct buf *text)
{
    struct response_headers headers = {0};
    struct buf scopes;
    char fields[FIELDS_MAX] = "";
    int status = outcome->refused == 0 ? 200 : 207;
    buf_init(&scopes, SCOPES_MAX);
    if (outcome->told == 0) {
        bool is_limit = outcome->limit.retry_ms > 0;
        status = is_limit ? refusal_status(&outcome->limit) : error_http_status(outcome->err.code);
        if (is_limit) {
            snprintf(fields, sizeof(fields), "Retry-After: %llu\r\n",
                     (unsigned long long)refusal_seconds(&outcome->limit));
        }
        if (outcome->err.code == TIDINGS_E_DENIED) {
            notify_put_missing(n, outcome, &scopes);
        }
    }
    headers.extra = tidings_str(fields);
    headers.reason = tidings_str(outcome->err.text);
    headers.scope = scopes.failed ? STR_EMPTY : buf_str(&scopes);
    conn_answer(conn, status, &headers, STR("application/json"), text);
    buf_deinit(&scopes);
}

struct http_notifying {
    struct http_conn *conn; /* NULL once it is gone */
    struct json *said;
};

static void http_notify_free(struct http_notifying *x)
{
    if (x) {
        jv_unref(x->said);
        mem_free(x);
    }
}

static void http_notify_done(void *user, const struct notify_outcome *outcome, struct buf *answer)
{
    struct http_notifying *x = user;
    struct http_conn *conn = x->conn;
    struct tidings_error err = {0, ""};
    if (!conn) {
        http_notify_free(x);
        return;
    }
    const struct notify n = {.worker = conn->base.channel.worker,
                             .principal = conn->base.channel.principal};
    conn->r->notifying = NULL;
    buf_putc(answer, '\n');
    if (buf_check(answer, NOTIFY_ANSWER, "send fewer changes at a time", &err) == 0) {
        http_notify_answer(conn, &n, outcome, answer);
    } else {
        resource_refuse(conn, 500, err.text);
    }
    http_notify_free(x);
    conn_want(conn);
}

void http_notify_abandon(struct http_conn *conn)
{
    conn->r->notifying->conn = NULL;
    conn->r->notifying = NULL;
}

void conn_run_notify(struct http_conn *conn)
{
    struct worker *worker = conn->base.channel.worker;
    struct tidings_str body = {conn->r->in.ptr + conn->r->head_len, conn->r->body_len};
    const struct notify n = {
        .worker = worker,
        .principal = conn->base.channel.principal,
        .account = channel_allowance(&conn->base.channel),
        .quota = channel_quota(&conn->base.channel),
        .traceparent = tidings_str(conn->r->traceparent),
    };
    struct tidings_error err = {0, ""};
    struct http_notifying *x = mem_zalloc(sizeof(*x));
    int rc = x ? jv_parse(body, worker->limits->max_depth, &x->said, &err)
               : tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    if (rc == 0) {
        x->conn = conn;
        conn->r->notifying = x;
        rc = notify_begin(&n, x->said, http_notify_done, x, &err);
    }
    allowance_release(n.account); /* announcements hold it themselves */
    if (rc < 0) {
        conn->r->notifying = NULL;
        http_notify_free(x);
        resource_refuse(conn, error_http_status(rc), err.text);
    }
}

/* -------------------------------------------------------------------------------------------------
 * The upgrade of an HTTP connection to a WebSocket: the handshake, and handing over what the
 * connection had (transport/websocket.h), with which it ends.
 */

#define REFUSAL_MAX 4096u

static void refuse_upgrade(struct http_conn *conn, int status, const char *why)
{
    const struct response_headers headers = {
        .extra = status == 426 ? STR("Connection: Upgrade\r\nUpgrade: websocket\r\n"
                                     "Sec-WebSocket-Version: 13\r\n")
                               : STR_EMPTY,
        .reason = tidings_str(why),
    };
    struct buf text;
    buf_init(&text, REFUSAL_MAX);
    buf_putf(&text, "%s\n", why);
    conn->r->after = AFTER_REFUSE;
    conn_answer(conn, status, &headers, STR("text/plain; charset=utf-8"), &text);
    buf_deinit(&text);
}

bool upgrade_check(struct http_conn *conn, const struct http_request *req)
{
    struct ws_handshake handshake;
    struct tidings_error err = {0};
    const char *why = NULL;
    int status = ws_check_handshake(req, &handshake, &why);
    if (status == 0) {
        int rc = websocket_check_reader(http_worker_of(conn)->websockets, &err);
        status = rc == 0 ? 0 : rc == TIDINGS_E_UNSUPPORTED ? 501 : 503;
        why = err.text;
    }
    if (status != 0) {
        refuse_upgrade(conn, status, why);
    }
    return status == 0;
}

void conn_run_upgrade(struct http_conn *conn, const struct http_request *req)
{
    struct ws_handshake handshake;
    const char *why = NULL;
    int status = ws_check_handshake(req, &handshake, &why);
    struct websocket *ws = status == 0 ? websocket_create(http_worker_of(conn)->websockets) : NULL;
    if (!ws) {
        refuse_upgrade(conn, status != 0 ? status : 503, status != 0 ? why : "out of memory");
        return;
    }
    struct buf *head = &http_worker_of(conn)->head;
    buf_clear(head);
    http_put_status(head, 101);
    buf_puts(head, STR("Upgrade: websocket\r\nConnection: Upgrade\r\n"));
    http_put_header(head, "Sec-WebSocket-Accept", tidings_str(handshake.accept));
    if (handshake.names_protocol) {
        http_put_header(head, "Sec-WebSocket-Protocol", STR(WS_PROTOCOL));
    }
    buf_puts(head, STR("\r\n"));
    sendq_puts(&conn->base.out, buf_str(head));
    conn_become_websocket(conn, ws);
}

/* ---------------------------------------------------------------------------------------------- */

struct tidings_http_response {
    struct http_conn *conn;
    bool replied;
};

const struct http_route *route_find(const struct http_config *config, struct tidings_str path)
{
    for (size_t i = 0; i < config->route_count; i++) {
        if (str_eq(tidings_str(config->routes[i].path), path)) {
            return &config->routes[i];
        }
    }
    return NULL;
}

void tidings_http_reply(struct tidings_http_response *response, int status,
                        const char *content_type, struct tidings_str body)
{
    static const struct response_headers none;
    if (response->replied) {
        return;
    }
    response->replied = true;
    struct buf text;
    buf_init(&text, body.len + 1);
    buf_puts(&text, body);
    conn_answer(response->conn, text.failed ? 500 : status, &none, tidings_str(content_type),
                &text);
    buf_deinit(&text);
}

void conn_run_route(struct http_conn *conn, const struct http_request *req)
{
    struct tidings_http_request request = {
        .method = req->method_name,
        .path = req->path,
        .query = req->query,
        .content_type = http_header(req, "content-type", NULL),
        .body = {conn->r->in.ptr + conn->r->head_len, conn->r->body_len},
        .principal = conn->base.channel.principal ? conn->base.channel.principal->name : STR_EMPTY,
    };
    struct tidings_http_response response = {.conn = conn};
    conn->r->route->fn(conn->r->route->user, &request, &response);
    tidings_http_reply(&response, 204, "text/plain", STR_EMPTY);
}
