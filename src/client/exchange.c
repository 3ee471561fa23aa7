/* SPDX-License-Identifier: MIT
 *
 * One HTTP request of the client and the messages that come back, be it as one JSON object or as a
 * stream of events. Messages that are not well-formed are passed over: a stream is worth more than
 * one bad message on it.
 */
#include <inttypes.h>

#include "base/error.h"
#include "client/private.h"
#include "wire/rpc.h"
#include "json/write.h"

/* ---- out ------------------------------------------------------------------------------------- */

static void put_client(struct jw *w, const struct tidings_client *c)
{
    jw_put_string(w, STR("io.modelcontextprotocol/protocolVersion"), STR(CLIENT_MODERN));
    jw_put_raw(w, STR("io.modelcontextprotocol/clientCapabilities"), STR("{}"));
    jw_key(w, STR("io.modelcontextprotocol/clientInfo"));
    jw_begin_object(w);
    jw_put_string(w, STR("name"), tidings_str(c->name));
    jw_put_string(w, STR("version"), tidings_str(tidings_version()));
    jw_end_object(w);
}

static void put_meta(struct jw *w, const struct tidings_client *c, struct tidings_str more)
{
    bool is_modern = c->era != CLIENT_ERA_LEGACY;
    jw_key(w, STR("_meta"));
    jw_begin_object(w);
    if (is_modern) {
        put_client(w, c);
    }
    buf_puts(w->out, is_modern && more.len > 0 ? STR(",") : STR(""));
    buf_puts(w->out, more);
    jw_end_object(w);
}

static int put_message(struct buf *out, const struct exchange *x, const struct exchange_request *r)
{
    const struct tidings_client *c = x->client;
    struct jw w;
    if (r->raw.len > 0) {
        return buf_puts(out, r->raw);
    }
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("jsonrpc"), STR("2.0"));
    if (!r->is_notification) {
        jw_put_integer(&w, STR("id"), x->id);
    }
    jw_put_string(&w, STR("method"), tidings_str(r->method));
    jw_key(&w, STR("params"));
    jw_begin_object(&w);
    bool has_meta = c->era != CLIENT_ERA_LEGACY || r->meta.len > 0;
    if (has_meta) {
        put_meta(&w, c, r->meta);
    }
    if (r->members.len > 0) {
        buf_puts(out, has_meta ? STR(",") : STR(""));
        buf_puts(out, r->members);
    }
    jw_end_object(&w);
    jw_end_object(&w);
    return out->failed;
}

/* Mcp-Name travels as it is when a header can carry it, else in base64 between markers. */
static int put_name(struct buf *out, struct tidings_str name)
{
    bool is_plain = !str_starts(name, STR("=?base64?"));
    for (size_t i = 0; i < name.len; i++) {
        is_plain = is_plain && name.ptr[i] > ' ' && name.ptr[i] <= '~';
    }
    buf_puts(out, STR("Mcp-Name: "));
    if (is_plain) {
        return buf_puts(out, name);
    }
    buf_puts(out, STR("=?base64?"));
    base64_put(out, name);
    return buf_puts(out, STR("?="));
}

#define HEADER_LINES 5u
struct header_lines {
    struct buf lines[HEADER_LINES];
    size_t count;
};

static struct buf *next_line(struct header_lines *h)
{
    struct buf *b = &h->lines[h->count++];
    buf_init(b, 16384);
    return b;
}

static void put_era_headers(struct header_lines *h, const struct tidings_client *c,
                            const struct exchange_request *r, bool is_standalone)
{
    if (c->era != CLIENT_ERA_LEGACY) {
        buf_puts(next_line(h), STR("MCP-Protocol-Version: " CLIENT_MODERN));
        buf_putf(next_line(h), "Mcp-Method: %s", r->method);
        if (r->name.len > 0) {
            put_name(next_line(h), r->name);
        }
        return;
    }
    if (c->version[0]) {
        buf_putf(next_line(h), "MCP-Protocol-Version: %s", c->version);
    }
    if (c->session[0]) {
        buf_putf(next_line(h), "Mcp-Session-Id: %s", c->session);
    }
    if (is_standalone && c->last_event_id.len > 0) {
        buf_putf(next_line(h), "Last-Event-ID: %s", c->last_event_id.ptr);
    }
}

/* ---- in -------------------------------------------------------------------------------------- */

static void take_message(struct exchange *x, struct tidings_str text)
{
    struct json *root = NULL;
    struct rpc_message m;
    if (client_is_stopping(x->client) || jv_parse(text, JSON_MAX_DEPTH, &root, NULL) < 0) {
        return;
    }
    if (rpc_read(root, &m, NULL) < 0) {
        jv_unref(root);
        return;
    }
    if (m.kind == RPC_RESPONSE) {
        /* An error without an id answers the only request there is. */
        bool is_ours = x->id > 0 && (m.id ? jv_is(m.id, JV_INT) && jv_int(m.id) == x->id : true);
        if (is_ours && !x->root) {
            x->root = root;
            return;
        }
    } else if (m.kind == RPC_REQUEST) {
        legacy_reply(x->client, m.method, m.id);
    } else if (str_eq(m.method, STR("notifications/resources/updated")) ||
               str_eq(m.method, STR("resources/updated"))) { /* what some servers call it */
        client_updated(x->client, m.params);
    } else if (str_eq(m.method, STR("notifications/subscriptions/acknowledged"))) {
        modern_acknowledged(x, m.params);
    }
    jv_unref(root);
}

static void on_event(const struct sse_event *event, void *user)
{
    struct exchange *x = user;
    struct tidings_client *c = x->client;
    if (x->is_standalone && event->id.len > 0 && event->id.len < 4096) {
        buf_clear(&c->last_event_id);
        buf_puts(&c->last_event_id, event->id);
    }
    if (x->is_standalone && event->retry_ms >= 0) {
        c->stream_retry_ms = event->retry_ms;
    }
    if (event->data.len > 0 && str_eq(event->event, STR("message"))) {
        take_message(x, event->data);
    }
}

static int on_bytes(void *user, struct tidings_str bytes)
{
    struct exchange *x = user;
    const struct fetch_status *s = fetch_status(x->call);
    if (!x->has_begun) {
        x->has_begun = true;
        x->is_sse = s->status == 200 && strcmp(s->content_type, "text/event-stream") == 0;
    }
    return x->is_sse ? sse_parser_feed(&x->sse, bytes.ptr, bytes.len, on_event, x)
                     : buf_puts(&x->body, bytes);
}

/* ---- an exchange ----------------------------------------------------------------------------- */

int exchange_start(struct exchange *x, struct tidings_client *c, const struct exchange_request *r,
                   struct tidings_error *err)
{
    memset(x, 0, sizeof(*x));
    x->client = c;
    bool has_message = r->method || r->raw.len > 0;
    x->is_standalone = !has_message && r->is_stream;
    x->id = r->method && !r->is_notification ? ++c->next_id : 0;
    buf_init(&x->body, c->max_bytes);
    sse_parser_init(&x->sse, c->max_bytes);
    struct header_lines h = {0};
    struct buf text;
    buf_init(&text, c->max_bytes);
    int rc = has_message ? put_message(&text, x, r) : 0;
    struct fetch_request request = {
        .method = r->http_method ? r->http_method : "POST",
        .url = c->url,
        .ca_file = c->ca_file,
        .cert_file = c->cert_file,
        .key_file = c->key_file,
        .body = buf_str(&text),
        .timeout_ms = r->is_stream ? 0 : c->timeout_ms,
        .on_bytes = on_bytes,
        .user = x,
        .headers = {x->is_standalone ? "Accept: text/event-stream"
                                     : "Accept: application/json, text/event-stream",
                    "Expect:"},
    };
    size_t n = 2;
    if (has_message) {
        request.headers[n++] = "Content-Type: application/json";
    }
    put_era_headers(&h, c, r, x->is_standalone);
    for (size_t i = 0; i < h.count; i++) {
        rc = rc < 0 ? rc : h.lines[i].failed;
        request.headers[n++] = h.lines[i].ptr;
    }
    rc = rc < 0 ? tidings_fail(err, rc, "a request cannot be written: %s", tidings_code_text(rc))
                : fetch_start(c->fetch, &request, &x->call, err);
    for (size_t i = 0; i < h.count; i++) {
        buf_deinit(&h.lines[i]);
    }
    buf_deinit(&text);
    if (rc < 0) {
        exchange_end(x);
    }
    return rc;
}

void exchange_end(struct exchange *x)
{
    fetch_close(x->call);
    x->call = NULL;
    jv_unref(x->root);
    x->root = NULL;
    buf_deinit(&x->body);
    sse_parser_deinit(&x->sse);
}

bool exchange_is_finished(const struct exchange *x)
{
    return fetch_status(x->call)->finished;
}

long exchange_status(const struct exchange *x)
{
    return fetch_status(x->call)->status;
}

const char *exchange_session(const struct exchange *x)
{
    return fetch_status(x->call)->session;
}

int exchange_step(struct exchange *x, int timeout_ms, struct tidings_error *err)
{
    int rc = fetch_step(x->client->fetch, timeout_ms, err);
    if (rc == 0 && exchange_is_finished(x) && !x->is_sse && x->body.len > 0) {
        take_message(x, buf_str(&x->body));
        buf_clear(&x->body);
    }
    return rc;
}

int exchange_wait(struct exchange *x, struct tidings_error *err)
{
    int rc = 0;
    while (rc == 0 && !x->root && !exchange_is_finished(x) && !client_is_stopping(x->client)) {
        rc = exchange_step(x, -1, err);
    }
    return rc;
}

int64_t exchange_error_code(const struct exchange *x)
{
    return jv_int(jv_get(jv_get(x->root, "error"), "code"));
}

static bool is_busy(long status)
{
    return status == 408 || status == 429 || status >= 500;
}

/* What an HTTP status says when no message does. */
static int status_error(long status, struct tidings_error *err)
{
    if (status == 401 || status == 403) {
        return tidings_fail(err, TIDINGS_E_DENIED, "the server denies access (HTTP %ld)", status);
    }
    if (status == 404) {
        return tidings_fail(err, TIDINGS_E_NOTFOUND,
                            "no MCP endpoint at that address (HTTP 404); tidings serves at /mcp");
    }
    if (is_busy(status)) {
        return tidings_fail(err, TIDINGS_E_BUSY, "the server cannot answer now (HTTP %ld)", status);
    }
    return tidings_fail(err, TIDINGS_E_PARSE, "the answer is not one of an MCP server (HTTP %ld)",
                        status);
}

/* Our own servers, and others that took it up, say in data.reason what the codes of the protocol
 * cannot; 0: nothing of the kind. */
static int reason_code(struct json *error)
{
    static const struct {
        const char *reason;
        int code;
    } known[] = {
        {"deleted", TIDINGS_E_GONE},
        {"not_found", TIDINGS_E_NOTFOUND},
        {"unknownEntity", TIDINGS_E_NOTFOUND},
        {"unknownType", TIDINGS_E_NOTFOUND},
    };
    struct tidings_str reason = jv_str(jv_get(jv_get(error, "data"), "reason"));
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (str_eq(reason, tidings_str(known[i].reason))) {
            return known[i].code;
        }
    }
    return 0;
}

/* The protocol has had more than one code for it, and servers have their own. */
static bool is_missing(int64_t code, struct tidings_str text, long status)
{
    return code == -32002 || (code == -32001 && status == 200) ||
           (code == -32601 && str_eq(text, STR("Resource not found")));
}

int exchange_result(const struct exchange *x, struct json **ret, struct tidings_error *err)
{
    const struct fetch_status *s = fetch_status(x->call);
    struct json *error = jv_get(x->root, "error");
    if (x->root && !error) {
        *ret = jv_get(x->root, "result");
        return 0;
    }
    if (client_is_stopping(x->client)) {
        return tidings_fail(err, TIDINGS_E_CANCELLED, "stopped");
    }
    if (error) {
        int64_t code = jv_int(jv_get(error, "code"));
        struct tidings_str text = jv_str(jv_get(error, "message"));
        int reason = reason_code(error);
        int own = reason < 0                             ? reason
                  : is_busy(s->status)                   ? TIDINGS_E_BUSY
                  : s->status == 401 || s->status == 403 ? TIDINGS_E_DENIED
                  : is_missing(code, text, s->status)    ? TIDINGS_E_NOTFOUND
                  : code == -32601                       ? TIDINGS_E_UNSUPPORTED
                  : code == -32603                       ? TIDINGS_E_BUSY
                                                         : TIDINGS_E_INVALID;
        return tidings_fail(err, own, "%.*s (%" PRId64 ")", STR_ARG(text), code);
    }
    if (s->error.code != 0) {
        if (err) {
            *err = s->error;
        }
        return s->error.code;
    }
    if (s->status == 200) {
        return tidings_fail(err, TIDINGS_E_CLOSED, "the connection ended without an answer");
    }
    return status_error(s->status, err);
}
