/* SPDX-License-Identifier: MIT
 *
 * The pages of an HTTP server, in one table: the endpoint, further pages, and the pages of the
 * program (tidings_server_add_route), with the same checks and limits.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "engine/delivery/notify.h"
#include "engine/protocol/inbound.h"
#include "formats/websocket.h"
#include "security/client_account.h"
#include "transport/http_internal.h"
#include "transport/peer_identity.h"

/* -------------------------------------------------------------------------------------------------
 * GET /console: the page of the console, identical for all clients. It needs no token, because
 * browsers send none when they open a page, and the page contains no data of the server. Requests
 * of the page are checked like all others.
 */

static bool console_is_on(const struct http_config *config)
{
    return config->console_page.len > 0;
}

static void console_run(struct http_conn *conn, const struct http_request *req)
{
    (void)req;
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
 * /livez and /readyz, for load balancers and supervisors, so they need no token. The reason for not
 * being ready is a keyword, and a full message for clients on this machine.
 */

#define LIVE_PATH "/livez"
#define READY_PATH "/readyz"
#define HEALTH_MAX 512u

static bool health_is_at(const struct http_conn *conn, struct tidings_str path)
{
    return http_worker_of(conn)->config->health &&
           (str_eq(path, STR(LIVE_PATH)) || str_eq(path, STR(READY_PATH)));
}

static void health_run(struct http_conn *conn, const struct http_request *req)
{
    const struct http_config *config = http_worker_of(conn)->config;
    const struct response_headers headers = {.extra = STR("Cache-Control: no-store\r\n")};
    struct channel_facts facts;
    char said[HEALTH_MAX];
    struct buf text;
    channel_get_facts(&conn->base.channel, &facts);
    int status = config->health(config->health_user, str_eq(req->path, STR(LIVE_PATH)),
                                facts.is_local || conn_is_monitoring(conn), said, sizeof(said));
    buf_init(&text, sizeof(said));
    buf_puts(&text, tidings_str(said));
    conn_answer(conn, status, &headers, STR("text/plain; charset=utf-8"), &text);
    buf_deinit(&text);
}

/* -------------------------------------------------------------------------------------------------
 * /metrics on the listener of --metrics. Other threads collect the text and send it back in a
 * message; the connection can end before that.
 */

struct http_scrape {
    struct thread_message message;
    struct mailbox *reply_to; /* a reference */
    struct http_conn *conn;   /* NULL after its end */
    struct buf text;          /* empty: out of memory */
    bool is_openmetrics;
};

static void http_scrape_free(struct http_scrape *x)
{
    mailbox_unref(x->reply_to);
    buf_deinit(&x->text);
    mem_free(x);
}

static void http_scrape_abandon(struct http_conn *conn)
{
    struct http_scrape *x = conn->r->work;
    x->conn = NULL;
    conn_set_work(conn, NULL, NULL);
}

static void http_scrape_deliver(struct thread_message *message, void *owner)
{
    (void)owner;
    struct http_scrape *x = list_entry(message, struct http_scrape, message);
    struct http_conn *conn = x->conn;
    const struct response_headers headers = {
        .extra = STR("Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n")};
    if (conn) {
        const char *type = http_worker_of(conn)->config->scrape_types[x->is_openmetrics];
        conn_set_work(conn, NULL, NULL);
        if (x->text.len > 0) {
            conn_answer(conn, 200, &headers, tidings_str(type), &x->text);
        } else {
            conn_refuse(conn, 503, "out of memory");
        }
        conn_set_events(conn);
    }
    http_scrape_free(x);
}

static void http_scrape_drop(struct thread_message *message)
{
    struct http_scrape *x = list_entry(message, struct http_scrape, message);
    if (x->conn) {
        http_scrape_abandon(x->conn);
    }
    http_scrape_free(x);
}

/* Any thread. */
static void http_scrape_done(void *user, struct buf *text)
{
    struct http_scrape *x = user;
    if (text) {
        x->text = *text;
        buf_init(text, 0);
    }
    x->message = (struct thread_message){.deliver = http_scrape_deliver, .drop = http_scrape_drop};
    mailbox_send(x->reply_to, &x->message);
}

static bool metrics_are_on(const struct http_config *config)
{
    return config->scrape != NULL;
}

static void metrics_run(struct http_conn *conn, const struct http_request *req)
{
    const struct http_worker *hw = http_worker_of(conn);
    struct http_scrape *x = mem_zalloc(sizeof(*x));
    struct tidings_str accept = http_header(req, "accept", NULL);
    if (!x) {
        conn_refuse(conn, 503, "out of memory");
        return;
    }
    x->conn = conn;
    x->reply_to = mailbox_ref(hw->base.inbox.mailbox);
    x->is_openmetrics = accept.ptr && http_list_has(accept, "application/openmetrics-text");
    conn_set_work(conn, x, http_scrape_abandon);
    hw->config->scrape(hw->config->scrape_user, x->is_openmetrics, http_scrape_done, x);
}

/* -------------------------------------------------------------------------------------------------
 * POST /notify: clients report changes (engine/delivery/notify.h), if they may write there. The
 * status is 200 if all of them were announced, 207 if some were, otherwise that of the first
 * failure. The connection may end before the answer; the changes are announced anyway.
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
    if (outcome->notified == 0) {
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
    struct http_conn *conn; /* NULL after its end */
    struct json *said;
};

static void http_notify_free(struct http_notifying *x)
{
    if (x) {
        jv_unref(x->said);
        mem_free(x);
    }
}

static void http_notify_abandon(struct http_conn *conn)
{
    struct http_notifying *x = conn->r->work;
    x->conn = NULL;
    conn_set_work(conn, NULL, NULL);
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
    conn_set_work(conn, NULL, NULL);
    buf_putc(answer, '\n');
    if (buf_check(answer, NOTIFY_ANSWER, "send fewer changes at a time", &err) == 0) {
        http_notify_answer(conn, &n, outcome, answer);
    } else {
        resource_refuse(conn, 500, err.text);
    }
    http_notify_free(x);
    conn_set_events(conn);
}

static bool notify_is_on(const struct http_config *config)
{
    return config->allow_write;
}

static void notify_run(struct http_conn *conn, const struct http_request *req)
{
    (void)req;
    struct worker *worker = conn->base.channel.worker;
    struct tidings_str body = conn_body(conn);
    const struct notify n = {
        .worker = worker,
        .principal = conn->base.channel.principal,
        .account = channel_account(&conn->base.channel),
        .quota = channel_quota(&conn->base.channel),
        .traceparent = tidings_str(conn->r->traceparent),
    };
    struct tidings_error err = {0, ""};
    struct http_notifying *x = mem_zalloc(sizeof(*x));
    int rc = x ? jv_parse(body, worker->limits->max_depth, &x->said, &err)
               : tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    if (rc == 0) {
        x->conn = conn;
        conn_set_work(conn, x, http_notify_abandon);
        rc = notify_begin(&n, x->said, http_notify_done, x, &err);
    }
    client_account_release(n.account); /* announcements hold their own reference */
    if (rc < 0) {
        conn_set_work(conn, NULL, NULL);
        http_notify_free(x);
        resource_refuse(conn, error_http_status(rc), err.text);
    }
}

/* -------------------------------------------------------------------------------------------------
 * The upgrade of an HTTP connection to a WebSocket: the handshake, and the handover of the
 * connection's state (transport/websocket.h). The HTTP connection ends then.
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

static bool upgrade_check(struct http_conn *conn, const struct http_request *req)
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

static void upgrade_run(struct http_conn *conn, const struct http_request *req)
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

/* -------------------------------------------------------------------------------------------------
 * The endpoint, and /events and /messages, which are other paths to the same messages, streams and
 * ends of sessions.
 */

/* Absent headers have ptr NULL; present and empty ones do not. */
static void endpoint_collect_headers(const struct http_conn *conn, const struct http_request *req,
                                     struct dialect_headers *h)
{
    h->all = req;
    h->protocol_version = http_header(req, "mcp-protocol-version", NULL);
    h->method = http_header(req, "mcp-method", NULL);
    h->name = http_header(req, "mcp-name", NULL);
    h->session_id = http_header(req, "mcp-session-id", NULL);
    h->last_event_id = http_header(req, "last-event-id", NULL);
    if (!h->session_id.ptr) {
        h->session_id = conn_session_named(conn->r->page, req);
    }
}

static bool endpoint_check_body(struct http_conn *conn, const struct http_request *req)
{
    return ws_is_upgrade(req) ? upgrade_check(conn, req) : conn_check_types(conn, req);
}

static void endpoint_run(struct http_conn *conn, const struct http_request *req)
{
    struct dialect_headers headers;
    endpoint_collect_headers(conn, req, &headers);
    if (conn->r->page->upgrades && ws_is_upgrade(req)) {
        upgrade_run(conn, req);
    } else if (req->method == HTTP_POST) {
        inbound_text(&conn->base.channel, conn_body(conn), &headers);
    } else if (req->method == HTTP_GET) {
        inbound_get(&conn->base.channel, &headers);
    } else {
        inbound_delete(&conn->base.channel, &headers);
    }
}

static bool events_are_on(const struct http_config *config)
{
    return config->events;
}

static bool sse_is_on(const struct http_config *config)
{
    return config->legacy_sse;
}

static void sse_run(struct http_conn *conn, const struct http_request *req)
{
    (void)req;
    legacy_sse_open(conn);
}

static void messages_run(struct http_conn *conn, const struct http_request *req)
{
    legacy_sse_post(conn, conn_session_named(conn->r->page, req), conn_body(conn));
}

/* -------------------------------------------------------------------------------------------------
 * Pages of the program.
 */

struct tidings_http_response {
    struct http_conn *conn;
    bool replied;
};

static const struct http_route *route_find(const struct http_conn *conn, struct tidings_str path)
{
    const struct http_config *config = http_worker_of(conn)->config;
    for (size_t i = 0; i < config->route_count; i++) {
        if (str_eq(tidings_str(config->routes[i].path), path)) {
            return &config->routes[i];
        }
    }
    return NULL;
}

static bool route_is_at(const struct http_conn *conn, struct tidings_str path)
{
    return route_find(conn, path) != NULL;
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

static void route_run(struct http_conn *conn, const struct http_request *req)
{
    struct tidings_http_request request = {
        .method = req->method_name,
        .path = req->path,
        .query = req->query,
        .content_type = http_header(req, "content-type", NULL),
        .body = conn_body(conn),
        .principal = conn->base.channel.principal ? conn->base.channel.principal->name : STR_EMPTY,
    };
    struct tidings_http_response response = {.conn = conn};
    const struct http_route *route = route_find(conn, req->path);
    route->fn(route->user, &request, &response);
    tidings_http_reply(&response, 204, "text/plain", STR_EMPTY);
}

/* -------------------------------------------------------------------------------------------------
 * The table.
 */

#define M(method) (1u << HTTP_##method)
#define READ (M(GET) | M(HEAD) | M(OPTIONS))

#define AT(text)                                                                                   \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

static const struct http_page pages[] = {
    /* A page of the program has priority over all others. */
    {.path = AT("page"),
     .is_at = route_is_at,
     .methods = HTTP_ENDPOINT_METHODS,
     .takes_all = true,
     .run = route_run},
    {.path = AT(RESOURCE_PATH),
     .is_at = resource_is_at,
     .methods = READ,
     .write_methods = M(PUT) | M(PATCH) | M(DELETE),
     .takes_all = true,
     .is_resource = true,
     .check_head = resource_check_method,
     .run = conn_run_resource},
    {.path = AT("/notify"),
     .is_on = notify_is_on,
     .methods = M(POST) | M(OPTIONS),
     .check_body = conn_check_types,
     .run = notify_run},
    {.path = AT("/sse"),
     .is_on = sse_is_on,
     .methods = M(GET) | M(OPTIONS),
     .check_body = conn_check_types,
     .run = sse_run},
    {.path = AT("/messages"),
     .is_on = sse_is_on,
     .methods = M(POST) | M(OPTIONS),
     .has_messages = true,
     .names_session = true,
     .check_body = conn_check_types,
     .run = messages_run},
    {.path = AT("/events"),
     .is_on = events_are_on,
     .methods = M(GET) | M(OPTIONS),
     .has_sessions = true,
     .names_session = true,
     .polls = true,
     .check_body = conn_check_types,
     .run = endpoint_run},
    {.path = AT("/console"),
     .is_on = console_is_on,
     .methods = READ,
     .is_public = true,
     .run = console_run},
    {.path = AT("/.well-known"),
     .is_at = metadata_is_at,
     .methods = M(GET) | M(OPTIONS),
     .is_public = true,
     .run = conn_run_metadata},
    {.path = AT("/metrics"),
     .is_on = metrics_are_on,
     .methods = READ,
     .is_public = true,
     .is_monitoring = true,
     .run = metrics_run},
    {.path = AT("health"),
     .is_at = health_is_at,
     .methods = READ,
     .is_monitoring = true,
     .is_public = true,
     .run = health_run},
    {.path = AT(ENDPOINT_PATH),
     .methods = HTTP_ENDPOINT_METHODS,
     .upgrades = true,
     .has_messages = true,
     .has_sessions = true,
     .check_body = endpoint_check_body,
     .run = endpoint_run},
};

static bool page_is_at(const struct http_page *page, const struct http_conn *conn,
                       struct tidings_str path)
{
    if (page->is_at) {
        return page->is_at(conn, path);
    }
    return str_eq(path, page->path) && (!page->is_on || page->is_on(http_worker_of(conn)->config));
}

const struct http_page *page_find(const struct http_conn *conn, struct tidings_str path)
{
    bool is_monitoring = conn_is_monitoring(conn);
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        if ((pages[i].is_monitoring || !is_monitoring) && page_is_at(&pages[i], conn, path)) {
            return &pages[i];
        }
    }
    return NULL;
}

unsigned page_methods(const struct http_conn *conn)
{
    const struct http_page *page = conn->r->page;
    if (conn_is_monitoring(conn)) {
        return page->methods & (M(GET) | M(HEAD)); /* no preflight: browsers do not use it */
    }
    return page->methods | (http_worker_of(conn)->config->allow_write ? page->write_methods : 0);
}

struct tidings_str page_allows(struct http_conn *conn, unsigned methods)
{
    static const struct {
        unsigned method;
        const char *name;
    } names[] = {{M(GET), "GET"},        {M(HEAD), "HEAD"},   {M(POST), "POST"},
                 {M(PUT), "PUT"},        {M(PATCH), "PATCH"}, {M(DELETE), "DELETE"},
                 {M(OPTIONS), "OPTIONS"}};
    char *out = http_worker_of(conn)->allowed;
    size_t len = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (methods & names[i].method) {
            len += (size_t)snprintf(out + len, HTTP_ALLOWED_MAX - len, "%s%s", len > 0 ? ", " : "",
                                    names[i].name);
        }
    }
    return tidings_strn(out, len);
}
