/* SPDX-License-Identifier: MIT
 *
 * Streamable HTTP: every message is a separate POST, an *exchange*, and its response is one JSON
 * message or a stream of events. In the legacy era there is a session, and a GET stream for
 * messages outside of requests, which is reopened with its last event id when it ends cleanly.
 *
 * Servers of 2024-11-05 know only the GET stream: its first event gives the address for POSTs, and
 * all answers come on it (HTTP+SSE). The client tries this if an address answers nothing else.
 */
#include "client/transport_http.h"

#include <stdio.h>

#include "base/error.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/net/fetch.h"
#include "base/time.h"
#include "client/client.h"
#include "client/client_internal.h"
#include "client/events.h"
#include "client/tools.h"
#include "client/transport.h"
#include "formats/sse.h"

/* -------------------------------------------------------------------------------------------------
 * MCP over HTTP: one request of the client is an exchange, and its response is one JSON message or
 * a stream of events.
 *
 * An exchange may be ended while one of its messages is handled: it is then only marked, and freed
 * when no callback is on the stack.
 */

struct http_transport {
    struct transport base;
    char *url, *unix_path;
    struct fetch *fetch;
    struct list exchanges;
    struct exchange *stream; /* legacy: messages outside of requests */
    struct loop_timer reopen;
    int64_t retry_ms; /* delay that the server asked for; negative: none */
    char session[512];
    unsigned sessions; /* how many there were before */
    struct buf last_event_id;
    struct exchange *leaving;
    bool has_left;
    bool is_sse;    /* HTTP+SSE */
    char *endpoint; /* … the address for POSTs; NULL: unknown */
};

struct exchange {
    struct list link;
    struct http_transport *http;
    struct fetch_transfer *transfer;
    int64_t id;      /* of the request; 0: none */
    struct buf body; /* an answer in JSON */
    struct sse_parser sse;
    struct loop_timer linger; /* its end, or its next part */
    struct credentials_lines shown;
    const char *method;       /* of HTTP */
    struct buf last_event_id; /* of a request's stream: where it resumes */
    int64_t retry_ms;
    bool has_head, is_sse;
    bool is_standalone;
    bool is_tracked;
    bool is_reply; /* or a notification: a message without an answer */
    bool had_session;
    unsigned session;             /* … the number of its session */
    unsigned refusals;            /* another token was shown, since one was refused */
    bool is_waiting;              /* … for the program's credentials */
    bool is_unsent;               /* … before it goes out for the first time */
    struct tidings_error refusal; /* why there are no better ones; code 0: no reason */
    bool is_busy;                 /* one of its functions is running */
    bool is_over;                 /* … and is the last one */
};

/* -------------------------------------------------------------------------------------------------
 * Writing the header fields of a message.
 */

#define MAX_LINE 16384u

static struct buf *http_headers_next_line(struct header_lines *h)
{
    struct buf *b = &h->lines[h->count++];
    buf_init(b, MAX_LINE);
    return b;
}

/* Lines that are made already. */
static void http_headers_put_fields(struct header_lines *h, struct tidings_str fields)
{
    struct tidings_str rest = fields;
    while (rest.len > 0 && h->count < HEADER_LINES) {
        buf_puts(http_headers_next_line(h), str_cut(rest, '\n', &rest, NULL));
    }
}

static void put_modern(struct header_lines *h, const struct transport_message *m)
{
    buf_puts(http_headers_next_line(h), STR("MCP-Protocol-Version: " CLIENT_MODERN));
    if (m && m->method) {
        buf_putf(http_headers_next_line(h), "Mcp-Method: %s", m->method);
        http_headers_put_fields(h, m->fields);
    }
    if (m && m->name.len > 0) {
        struct buf *line = http_headers_next_line(h);
        buf_puts(line, STR("Mcp-Name: "));
        tool_headers_put_value(line, m->name);
    }
}

static void put_legacy(struct header_lines *h, const struct tidings_client *c,
                       const struct header_state *state)
{
    if (c->has_info) {
        buf_putf(http_headers_next_line(h), "MCP-Protocol-Version: %s", c->info.version);
    }
    if (state->session[0]) {
        buf_putf(http_headers_next_line(h), "Mcp-Session-Id: %s", state->session);
    }
    if (state->last_event_id && state->last_event_id[0]) {
        buf_putf(http_headers_next_line(h), "Last-Event-ID: %s", state->last_event_id);
    }
}

int header_lines_init(struct header_lines *h, const struct tidings_client *c,
                      const struct transport_message *m, const struct header_state *state)
{
    int rc = 0;
    h->count = 0;
    buf_puts(http_headers_next_line(h), m ? STR("Accept: application/json, text/event-stream")
                                          : STR("Accept: text/event-stream"));
    buf_puts(http_headers_next_line(h), STR("Expect:")); /* the library's own is not wanted */
    if (m) {
        buf_puts(http_headers_next_line(h), STR("Content-Type: application/json"));
    }
    if (c->era == TIDINGS_ERA_LEGACY) {
        put_legacy(h, c, state);
    } else {
        put_modern(h, m);
    }
    for (size_t i = 0; i < h->count && rc == 0; i++) {
        rc = h->lines[i].failed;
    }
    return rc;
}

void header_lines_deinit(struct header_lines *h)
{
    for (size_t i = 0; i < h->count; i++) {
        buf_deinit(&h->lines[i]);
    }
    h->count = 0;
}

char *endpoint_resolve(const char *url, struct tidings_str where)
{
    struct tidings_str base = tidings_str(url);
    const char *scheme_end = strstr(url, "://");
    if (!scheme_end || where.len == 0 || str_starts(where, STR("//"))) {
        return NULL;
    }
    for (size_t i = 0; i < where.len; i++) {
        if (where.ptr[i] <= ' ' || where.ptr[i] > '~') {
            return NULL;
        }
    }
    size_t origin = (size_t)(scheme_end + 3 - url) + strcspn(scheme_end + 3, "/?#");
    size_t folder = origin;
    for (size_t i = origin; i < base.len && base.ptr[i] != '?' && base.ptr[i] != '#'; i++) {
        folder = base.ptr[i] == '/' ? i : folder;
    }
    bool is_whole = where.len > origin && memcmp(where.ptr, url, origin) == 0 &&
                    (where.ptr[origin] == '/' || where.ptr[origin] == '?');
    bool is_rooted = where.ptr[0] == '/';
    if (!is_whole && !is_rooted && str_find(where, ':') >= 0) {
        return NULL; /* an address, but not of that server */
    }
    struct buf out;
    buf_init(&out, 8192);
    if (!is_whole) {
        buf_put(&out, url, is_rooted ? origin : folder);
        buf_puts(&out, is_rooted ? STR("") : STR("/"));
    }
    buf_puts(&out, where);
    if (out.failed) {
        buf_deinit(&out);
    }
    return buf_detach(&out, NULL);
}

/* -------------------------------------------------------------------------------------------------
 * One HTTP request in the program's own words, on a separate connection, synchronous
 * (tidings_client_http).
 */

#define TICK_MS 100
#define MAX_GIVEN 8u

struct raw {
    struct tidings_client *client;
    const struct tidings_client_http *request;
    const struct fetch_transfer *transfer;
    bool had_head, had_bytes, is_enough;
};

static void http_raw_report(struct raw *r, struct tidings_str bytes)
{
    const struct tidings_client_http *q = r->request;
    if (q->on_bytes && !r->is_enough && !client_is_stopping(r->client)) {
        r->is_enough = q->on_bytes(q->user, fetch_status(r->transfer)->status, bytes) != 0;
    }
}

static void report_head(struct raw *r)
{
    if (!r->had_head && fetch_status(r->transfer)->status > 0) {
        r->had_head = true;
        http_raw_report(r, STR_EMPTY);
    }
}

static int http_raw_on_bytes(void *user, struct tidings_str bytes)
{
    struct raw *r = user;
    report_head(r);
    r->had_bytes = true;
    http_raw_report(r, bytes);
    return 0;
}

static int http_raw_step(struct raw *r, uint64_t due, struct tidings_error *err)
{
    uint64_t now = clock_monotonic_ms();
    if (now >= due) {
        return tidings_fail(err, TIDINGS_E_TIMEOUT, "no end of the answer in time");
    }
    uint64_t until = now + TICK_MS < due ? now + TICK_MS : due;
    r->had_bytes = false;
    do {
        client_turn(r->client, (int)(until - now));
        report_head(r);
        if (client_is_stopping(r->client)) {
            return tidings_fail(err, TIDINGS_E_CANCELLED, "stopped");
        }
        now = clock_monotonic_ms();
    } while (now < until && !r->had_bytes && !r->is_enough && !fetch_status(r->transfer)->finished);
    if (!r->had_bytes && r->had_head && !fetch_status(r->transfer)->finished) {
        http_raw_report(r, STR_EMPTY);
    }
    return 0;
}

static void http_raw_report_wire(const struct tidings_client *c,
                                 const struct tidings_client_wire *w)
{
    if (c->settings.on_wire) {
        c->settings.on_wire(c->settings.wire_user, w);
    }
}

static int http_raw_finish(const struct raw *r, int rc, struct tidings_client_http_answer *ret,
                           struct tidings_error *err)
{
    const struct fetch_status *s = fetch_status(r->transfer);
    ret->status = s->status;
    snprintf(ret->content_type, sizeof(ret->content_type), "%s", s->content_type);
    snprintf(ret->session, sizeof(ret->session), "%s", s->session);
    ret->is_complete = s->finished && s->error.code == 0;
    struct tidings_client_wire wire = {.reason = s->error.code ? tidings_str(s->error.text)
                                                               : STR("the HTTP request ended"),
                                       .status = s->status};
    http_raw_report_wire(r->client, &wire);
    if (rc == 0 && !r->is_enough && s->error.code < 0) {
        return tidings_fail(err, s->error.code, "%s", s->error.text);
    }
    return rc;
}

/* The header fields: the client's own, its token, the program's. */
static int http_raw_fill(struct fetch_request *q, const struct tidings_client *c,
                         const struct tidings_client_http *request,
                         const struct credentials_lines *shown, struct tidings_error *err)
{
    size_t n = 0;
    q->headers[n++] = "Expect:"; /* the library's own is not wanted */
    for (size_t i = 0; i < shown->count; i++) {
        q->headers[n++] = shown->lines[i].ptr;
    }
    for (size_t i = 0; c->settings.headers && c->settings.headers[i]; i++) {
        q->headers[n++] = c->settings.headers[i];
    }
    for (size_t i = 0; request->headers && request->headers[i]; i++) {
        if (i == MAX_GIVEN) {
            return tidings_fail(err, TIDINGS_E_LIMIT, "more than %u headers", MAX_GIVEN);
        }
        q->headers[n++] = request->headers[i];
    }
    return 0;
}

static int http_raw_run(struct raw *r, struct fetch *f, const struct fetch_request *q,
                        struct tidings_client_http_answer *ret, struct tidings_error *err)
{
    struct fetch_transfer *transfer = NULL;
    uint32_t ms =
        r->request->timeout_ms > 0 ? r->request->timeout_ms : r->client->settings.timeout_ms;
    uint64_t due = clock_monotonic_ms() + ms;
    struct tidings_client_wire wire = {.is_sent = true,
                                       .text = q->body,
                                       .reason =
                                           q->body.len > 0 ? STR_EMPTY : tidings_str(q->method)};
    http_raw_report_wire(r->client, &wire);
    int rc = fetch_start(f, q, &transfer, err);
    if (rc < 0) {
        return rc;
    }
    r->transfer = transfer;
    client_hold(r->client);
    while (rc == 0 && !r->is_enough && !fetch_status(transfer)->finished) {
        rc = http_raw_step(r, due, err);
    }
    rc = http_raw_finish(r, rc, ret, err);
    fetch_close(transfer);
    client_release(r->client);
    return rc;
}

int tidings_client_http(struct tidings_client *c, const struct tidings_client_http *request,
                        struct tidings_client_http_answer *ret, struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    struct raw r = {.client = c, .request = request};
    memset(ret, 0, sizeof(*ret));
    if (RESERVED_CHECK(request, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (strcmp(c->transport->ops->name, "http") != 0) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "the server is not reached over HTTP");
    }
    const struct http_transport *h = (const struct http_transport *)(const void *)c->transport;
    struct fetch_request q = {.method = request->method,
                              .url = h->url,
                              .unix_path = h->unix_path,
                              .ca_file = c->settings.ca_file,
                              .cert_file = c->settings.cert_file,
                              .key_file = c->settings.key_file,
                              .body = tidings_str(request->body),
                              .on_bytes = http_raw_on_bytes,
                              .user = &r};
    struct fetch *f = NULL;
    struct credentials_lines shown;
    credentials_lines_init(&shown);
    int rc = credentials_lines_fill(&shown, &c->settings, q.method ? q.method : "GET", q.url);
    rc = rc < 0 ? tidings_fail(err, rc, "the token cannot be shown: %s", tidings_code_text(rc))
                : http_raw_fill(&q, c, request, &shown, err);
    if (rc == 0) {
        rc = fetch_create(c->loop, c->settings.max_bytes, &f, err);
    }
    if (rc == 0) {
        rc = http_raw_run(&r, f, &q, ret, err);
    }
    fetch_destroy(f);
    credentials_lines_deinit(&shown);
    events_nudge(c);
    return rc;
}

/* ---------------------------------------------------------------------------------------------- */

#define LINGER_MS 1000 /* for an answered stream to end by itself */
#define LEAVE_MS 1000
#define REPLIES_MAX 256u /* replies and notifications under way; others are not sent */

static const struct transport_ops http_ops, sse_ops;

static struct http_transport *http_of(struct transport *l)
{
    return (struct http_transport *)(void *)l;
}

/* A server that asks without end, and takes no reply, would have a connection for each. */
static bool http_has_space(const struct http_transport *h)
{
    size_t count = 0;
    list_each (it, next, &h->exchanges) {
        count += list_entry(it, struct exchange, link)->is_reply;
    }
    return count < REPLIES_MAX;
}

static struct exchange *exchange_begin(struct http_transport *h, const char *method,
                                       const struct transport_message *m,
                                       struct tidings_error *err);

static int http_send(struct transport *l, const struct transport_message *m,
                     struct tidings_error *err)
{
    struct tidings_error why = {0};
    if (m->id == 0 && !http_has_space(http_of(l))) {
        return tidings_fail(err, TIDINGS_E_BUSY, "the server does not take what it is sent");
    }
    if (!exchange_begin(http_of(l), "POST", m, &why)) {
        return tidings_fail(err, why.code, "%s", why.text);
    }
    return 0;
}

static void exchange_end(struct exchange *x);

static void exchange_linger(struct exchange *x, uint64_t ms);

static void http_forget(struct transport *l, int64_t id, bool is_answered)
{
    struct http_transport *h = http_of(l);
    list_each (it, next, &h->exchanges) {
        struct exchange *x = list_entry(it, struct exchange, link);
        if (x->id != id) {
            continue;
        }
        if (is_answered && x->is_sse && !fetch_status(x->transfer)->finished) {
            x->id = 0; /* its connection can be used again if it ends by itself */
            exchange_linger(x, LINGER_MS);
        } else {
            exchange_end(x);
        }
        return;
    }
}

static int http_stream(struct transport *l, struct tidings_error *err)
{
    struct http_transport *h = http_of(l);
    struct tidings_error why = {0};
    if (h->stream && h->stream->has_head) {
        transport_streaming(l, true); /* it was open all the time */
    }
    if (h->stream || loop_timer_is_running(&h->reopen)) {
        return 0;
    }
    h->stream = exchange_begin(h, "GET", NULL, &why);
    return h->stream ? 0 : tidings_fail(err, why.code, "%s", why.text);
}

static void http_hang_up(struct transport *l)
{
    struct http_transport *h = http_of(l);
    if (h->stream) {
        exchange_end(h->stream);
        h->stream = NULL;
    }
}

static void on_reopen(struct loop_timer *timer, void *user)
{
    struct http_transport *h = user;
    struct tidings_error why = {0};
    (void)timer;
    if (http_stream(&h->base, &why) < 0) {
        transport_lost(&h->base, &why);
    } else {
        h->base.client->info.public.reopened = ++h->base.client->reopened;
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static int sse_open(struct transport *l, struct tidings_error *err)
{
    struct http_transport *h = http_of(l);
    struct tidings_error why = {0};
    mem_free(h->endpoint);
    h->endpoint = NULL;
    h->stream = exchange_begin(h, "GET", NULL, &why);
    return h->stream ? 0 : tidings_fail(err, why.code, "%s", why.text);
}

static void transport_http_use_sse(struct http_transport *h, bool is_sse);

static bool http_fall_back(struct transport *l)
{
    transport_http_use_sse(http_of(l), true);
    return true;
}

static int http_open(struct transport *l, struct tidings_error *err)
{
    (void)err;
    http_of(l)->has_left = false;
    transport_opened(l);
    return 0;
}

static const char *http_session(struct transport *l)
{
    return http_of(l)->session;
}

static void http_forget_session(struct transport *l)
{
    struct http_transport *h = http_of(l);
    loop_timer_stop(&h->reopen);
    http_hang_up(l);
    h->sessions += h->session[0] != '\0';
    h->session[0] = '\0';
    h->retry_ms = -1;
    buf_clear(&h->last_event_id);
}

static void http_close(struct transport *l)
{
    struct http_transport *h = http_of(l);
    http_forget_session(l);
    bool again = true;
    while (again) { /* a busy exchange stays */
        again = false;
        list_each (it, next, &h->exchanges) {
            struct exchange *x = list_entry(it, struct exchange, link);
            if (!x->is_over) {
                exchange_end(x);
                again = true;
                break;
            }
        }
    }
}

static bool http_leave(struct transport *l)
{
    struct http_transport *h = http_of(l);
    if (!h->session[0] || h->has_left) {
        return true;
    }
    if (!h->leaving) {
        h->leaving = exchange_begin(h, "DELETE", NULL, NULL);
        if (!h->leaving) {
            return true;
        }
        exchange_linger(h->leaving, LEAVE_MS);
    }
    return false;
}

static void http_destroy(struct transport *l)
{
    struct http_transport *h = http_of(l);
    http_close(l);
    fetch_destroy(h->fetch);
    buf_deinit(&h->last_event_id);
    mem_free(h->endpoint);
    mem_free(h->url);
    mem_free(h->unix_path);
    mem_free(h);
}

static const struct transport_ops http_ops = {
    .name = "http",
    .has_exchanges = true,
    .open = http_open,
    .send = http_send,
    .forget = http_forget,
    .stream = http_stream,
    .hang_up = http_hang_up,
    .forget_session = http_forget_session,
    .session = http_session,
    .fall_back = http_fall_back,
    .close = http_close,
    .leave = http_leave,
    .destroy = http_destroy,
};

/* Its session is the stream. */
static const struct transport_ops sse_ops = {
    .name = "http+sse",
    .open = sse_open,
    .send = http_send,
    .forget = http_forget,
    .close = http_close,
    .leave = http_leave,
    .destroy = http_destroy,
};

/* HTTP+SSE, or Streamable HTTP. */
static void transport_http_use_sse(struct http_transport *h, bool is_sse)
{
    h->is_sse = is_sse;
    h->base.ops = is_sse ? &sse_ops : &http_ops;
}

struct transport *transport_http_create(struct tidings_client *c, const char *url,
                                        const char *unix_path, struct tidings_error *err)
{
    struct http_transport *h = mem_zalloc(sizeof(*h));
    if (!h) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    h->base = (struct transport){.ops = &http_ops, .client = c};
    h->retry_ms = -1;
    list_init(&h->exchanges);
    buf_init(&h->last_event_id, 4096);
    loop_timer_init(&h->reopen, c->loop, on_reopen, h);
    h->url = str_dup(tidings_str(url));
    h->unix_path = unix_path ? str_dup(tidings_str(unix_path)) : NULL;
    int rc = !h->url || (unix_path && !h->unix_path)
                 ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory")
                 : fetch_create(c->loop, c->settings.max_bytes, &h->fetch, err);
    if (rc < 0) {
        http_destroy(&h->base);
        return NULL;
    }
    return &h->base;
}

/* -------------------------------------------------------------------------------------------------
 * One HTTP request of the client, from its headers to the end of its answer.
 */

#define MAX_REFUSALS 4u
#define MAX_RETRY_AFTER_S 300u /* longer delays are cut to this */

static struct tidings_client *client_of(const struct exchange *x)
{
    return x->http->base.client;
}

static void exchange_release(struct exchange *x)
{
    x->is_waiting = false;
    if (--client_of(x)->held == 0) {
        transport_admitted(&x->http->base);
    }
}

static void exchange_stop_waiting(struct exchange *x)
{
    const struct tidings_credentials *c = client_of(x)->settings.credentials;
    if (x->is_waiting) {
        exchange_release(x);
        if (c->forget) {
            c->forget(c->user, x);
        }
    }
}

/* `m` NULL: GET (the stream) or DELETE, without a message. NULL with an error. */
static void exchange_end(struct exchange *x)
{
    struct http_transport *h = x->http;
    if (x->is_busy) {
        x->is_over = true;
        return;
    }
    h->stream = h->stream == x ? NULL : h->stream;
    if (h->leaving == x) {
        h->leaving = NULL;
        h->has_left = true;
    }
    exchange_stop_waiting(x);
    loop_timer_stop(&x->linger);
    list_remove(&x->link);
    fetch_close(x->transfer);
    buf_deinit(&x->body);
    credentials_lines_deinit(&x->shown);
    buf_deinit(&x->last_event_id);
    sse_parser_deinit(&x->sse);
    mem_free(x);
}

static void exchange_on_linger(struct loop_timer *timer, void *user)
{
    (void)timer;
    exchange_end(user);
}

/* It has this time to end by itself. */
static void exchange_linger(struct exchange *x, uint64_t ms)
{
    loop_timer_stop(&x->linger);
    loop_timer_init(&x->linger, client_of(x)->loop, exchange_on_linger, x);
    loop_timer_start(&x->linger, ms, 0);
}

/* Only what a header can carry. */
static void keep_id(struct buf *at, struct tidings_str id)
{
    bool is_fit = id.len > 0 && id.len < 4096;
    for (size_t i = 0; i < id.len; i++) {
        is_fit = is_fit && (unsigned char)id.ptr[i] >= ' ' && id.ptr[i] != 0x7f;
    }
    if (is_fit) {
        buf_clear(at);
        buf_puts(at, id);
    }
}

/* ---- in -------------------------------------------------------------------------------------- */

/* The first event of HTTP+SSE. */
static void on_endpoint(struct exchange *x, struct tidings_str where)
{
    struct tidings_error why;
    if (x->http->endpoint) {
        return; /* the event was sent before */
    }
    x->http->endpoint = endpoint_resolve(x->http->url, where);
    if (x->http->endpoint) {
        transport_opened(&x->http->base);
        return;
    }
    tidings_fail(&why, TIDINGS_E_PARSE,
                 "the server names another host, or no address, to send messages to");
    x->is_over = true;
    transport_lost(&x->http->base, &why);
}

static void exchange_on_event(const struct sse_event *event, void *user)
{
    struct exchange *x = user;
    struct http_transport *h = x->http;
    if (x->is_over) {
        return;
    }
    if (x->is_standalone && h->is_sse) {
        if (str_eq(event->event, STR("endpoint"))) {
            on_endpoint(x, event->data);
            return;
        }
    } else if (client_of(x)->era == TIDINGS_ERA_LEGACY) {
        keep_id(x->is_standalone ? &h->last_event_id : &x->last_event_id, event->id);
    }
    if (event->retry_ms >= 0) {
        *(x->is_standalone ? &h->retry_ms : &x->retry_ms) = event->retry_ms;
    }
    if (event->data.len > 0 && str_eq(event->event, STR("message"))) {
        transport_received(&x->http->base, event->data, x->id, fetch_status(x->transfer)->status);
    }
}

static int exchange_on_bytes(void *user, struct tidings_str bytes)
{
    struct exchange *x = user;
    x->is_busy = true;
    int rc = x->is_sse ? sse_parser_feed(&x->sse, bytes.ptr, bytes.len, exchange_on_event, x)
                       : buf_puts(&x->body, bytes);
    if (x->is_sse && bytes.len > 0) {
        transport_active(&x->http->base, x->id, bytes.ptr[0] == ':'); /* a comment */
    }
    x->is_busy = false;
    if (x->is_over) {
        exchange_end(x);
        return 0;
    }
    return rc;
}

/* A status that only makes sense when the session is unknown: 404, and the 400 of servers that do
 * not recognize the id, if the body does not name our request. */
static bool is_session_lost(const struct exchange *x, long status)
{
    struct json *root = NULL;
    if (!x->had_session || (status != 404 && status != 400)) {
        return false;
    }
    if (status == 404 || x->is_standalone ||
        json_parse_lenient(buf_str(&x->body), &root, NULL, NULL) < 0) {
        return true;
    }
    bool names_it = jv_is(jv_get(root, "id"), JV_INT);
    jv_unref(root);
    return !names_it;
}

/* Why there is no answer. */
/* Adds the server's message; the challenge of a 401 has all information, and the page of a 404 may
 * be from another server. */
static void exchange_add_body(const struct exchange *x, const struct fetch_status *s,
                              struct tidings_error *why)
{
    if (s->status != 401 && s->status != 404 && !x->is_sse) {
        errors_add_body(buf_str(&x->body), why);
    }
}

static void exchange_explain(const struct exchange *x, const struct fetch_status *s,
                             struct tidings_error *why)
{
    bool is_plain = strncmp(x->http->url, "http://", 7) == 0;
    if (s->error.code != 0) {
        *why = s->error;
    } else if (x->refusal.code != 0) {
        *why = x->refusal;
        exchange_add_body(x, s, why);
    } else if (s->status == 400 && is_plain && errors_want_tls(buf_str(&x->body))) {
        tidings_fail(why, TIDINGS_E_PARSE,
                     "the server speaks TLS there: https:// may be meant (HTTP 400)");
    } else if (s->status == 200 || s->status == 202) {
        tidings_fail(why, TIDINGS_E_CLOSED, "the connection ended without an answer");
    } else {
        errors_from_status(x->http->url, s->status, tidings_str(s->challenge), why);
        exchange_add_body(x, s, why);
    }
}

/* The delay before the next request; `told` is the delay that the server asked for, negative:
 * none. */
static uint64_t pause_of(const struct http_transport *h, int64_t told)
{
    const struct client_settings *o = &h->base.client->settings;
    return told < 0 ? random_upto(o->retry_min_ms)
                    : (uint64_t)(told < o->retry_max_ms ? told : o->retry_max_ms);
}

/* A server may end a stream cleanly to save connections. */
static bool reopen_later(struct http_transport *h, const struct fetch_status *s)
{
    if (s->status != 200 || s->error.code != 0 || h->last_event_id.len == 0) {
        return false;
    }
    loop_timer_start(&h->reopen, pause_of(h, h->retry_ms), 0);
    return true;
}

static void on_resume(struct loop_timer *timer, void *user);

/* The same for the stream of a request (2025-11-25): the answer is fetched when it is ready. */
static bool resume_later(struct exchange *x, const struct fetch_status *s)
{
    if (x->id == 0 || !x->is_sse || s->status != 200 || x->last_event_id.len == 0) {
        return false;
    }
    fetch_close(x->transfer);
    x->transfer = NULL;
    x->has_head = x->is_sse = false;
    sse_parser_deinit(&x->sse);
    sse_parser_init(&x->sse, client_of(x)->settings.max_bytes);
    loop_timer_init(&x->linger, client_of(x)->loop, on_resume, x);
    loop_timer_start(&x->linger, pause_of(x->http, x->retry_ms), 0);
    return true;
}

static void stream_ended(struct exchange *x, const struct fetch_status *s)
{
    struct http_transport *h = x->http;
    struct tidings_error why = {0};
    h->stream = NULL;
    if (h->is_sse) {
        if (!h->endpoint) {
            transport_http_use_sse(h, false); /* it was worth trying */
        }
        if (s->status == 200 && s->error.code == 0) {
            tidings_fail(&why, h->endpoint ? TIDINGS_E_CLOSED : TIDINGS_E_PARSE,
                         h->endpoint ? "the server ended the stream"
                                     : "the answer is not one of an MCP server (HTTP 200)");
        } else {
            exchange_explain(x, s, &why);
        }
        transport_lost(&x->http->base, &why);
        return;
    }
    if (is_session_lost(x, s->status)) {
        transport_session_lost(&x->http->base, 0, true);
        return;
    }
    if (reopen_later(h, s)) {
        return;
    }
    if (s->status == 405) {
        tidings_fail(&why, TIDINGS_E_UNSUPPORTED,
                     "the server has no stream for changes (HTTP 405)");
    } else if (s->status == 200 && s->error.code == 0) {
        tidings_fail(&why, TIDINGS_E_CLOSED, "the server ended the stream");
    } else {
        exchange_explain(x, s, &why);
    }
    transport_lost(&x->http->base, &why);
}

/* ---- refused --------------------------------------------------------------------------------- */

static const char *exchange_url(const struct exchange *x)
{
    const struct http_transport *h = x->http;
    return h->endpoint && strcmp(x->method, "POST") == 0 ? h->endpoint : h->url;
}

/* Repeats the request with the current lines in `shown`. */
static bool exchange_repeat(struct exchange *x)
{
    const char *lines[CREDENTIALS_LINES + 1] = {NULL};
    for (size_t i = 0; i < x->shown.count; i++) {
        lines[i] = x->shown.lines[i].ptr;
    }
    x->refusals += x->is_unsent ? 0 : 1;
    x->is_unsent = x->has_head = false;
    buf_clear(&x->body);
    return fetch_again(x->transfer, lines, &x->refusal) == 0;
}

static bool exchange_show_again(struct exchange *x)
{
    int rc = credentials_lines_fill(&x->shown, &client_of(x)->settings, x->method, exchange_url(x));
    if (rc < 0) {
        tidings_fail(&x->refusal, rc, "the credentials cannot be shown: %s", tidings_code_text(rc));
        return false;
    }
    return exchange_repeat(x);
}

static void exchange_conclude(struct exchange *x);

static void exchange_on_credentials(void *to, const struct tidings_error *why)
{
    struct exchange *x = to;
    exchange_release(x);
    if (why && !x->is_unsent) {
        x->refusal = *why;
    } else if (exchange_show_again(x)) {
        return;
    }
    exchange_conclude(x);
}

/* Asks the program's credentials for better ones, now or later. */
static bool exchange_ask_credentials(struct exchange *x, const struct fetch_status *s)
{
    struct tidings_client *client = client_of(x);
    const struct tidings_credentials *c = client->settings.credentials;
    struct tidings_credentials_refusal refusal = {
        .url = exchange_url(x),
        .status = s->status,
        .challenge = tidings_str(s->challenge),
        .nonce = tidings_str(s->nonce),
        .shown = credentials_lines_authorization(&x->shown),
        .attempt = x->refusals,
        .server = x->shown.server,
    };
    if (!c->refused || x->http->leaving == x || x->refusals >= MAX_REFUSALS) {
        return false;
    }
    int rc = c->refused(c->user, &refusal, exchange_on_credentials, x, &x->refusal);
    if (rc == 0) {
        return exchange_show_again(x);
    }
    x->is_waiting = rc > 0;
    client->held += rc > 0;
    return rc > 0;
}

/* Waits if the credentials are about to be renewed. */
static bool exchange_prepare(struct exchange *x, const char *url)
{
    struct tidings_client *client = client_of(x);
    const struct tidings_credentials *c = client->settings.credentials;
    struct tidings_credentials_request request = {
        .method = x->method, .url = url, .server = x->shown.server};
    bool is_asked = c && c->prepare && !x->http->unix_path && x->http->leaving != x;
    x->is_unsent = is_asked && c->prepare(c->user, &request, exchange_on_credentials, x) > 0;
    x->is_waiting = x->is_unsent;
    client->held += x->is_unsent;
    return x->is_unsent;
}

/* A refused token may have been replaced just now: retries with the new one. */
static bool show_another(struct exchange *x, const struct fetch_status *s)
{
    const struct client_settings *o = &client_of(x)->settings;
    x->refusal = (struct tidings_error){0};
    if (o->credentials && !x->http->unix_path) {
        return (s->status == 401 || s->status == 403) && exchange_ask_credentials(x, s);
    }
    return s->status == 401 && x->refusals == 0 && credentials_lines_renew(&x->shown, o) &&
           exchange_repeat(x);
}

/* If the exchange broke off, a complete body still counts as an answer; otherwise the failure is
 * the better explanation. */
static bool has_answer(const struct exchange *x, const struct fetch_status *s)
{
    struct json *root = NULL;
    if (x->is_sse || x->body.len == 0 || s->status == 401) {
        return false; /* the body of a 401 is not an answer: the server did not process the request
                       */
    }
    bool is_whole =
        s->error.code == 0 || json_parse_lenient(buf_str(&x->body), &root, NULL, NULL) == 0;
    jv_unref(root);
    return is_whole;
}

/* Returns true if the exchange continues. */
static bool finished(struct exchange *x, const struct fetch_status *s)
{
    struct tidings_client *c = client_of(x);
    struct tidings_error why = {0};
    c->is_token_refused = s->status == 401;
    c->challenge = s->challenge;
    if (s->status == 401 || s->status == 403) {
        c->wants_credentials = s->status == 401 || s->challenge[0] != '\0';
    }
    if (s->status == 429 || s->status == 503) {
        c->retry_after_ms =
            1000 * (s->retry_after_s < MAX_RETRY_AFTER_S ? s->retry_after_s : MAX_RETRY_AFTER_S);
    }
    if (x->is_standalone) {
        stream_ended(x, s);
        return false;
    }
    if (x->id > 0 && is_session_lost(x, s->status)) {
        transport_session_lost(&x->http->base, x->id, x->session == x->http->sessions);
        return false;
    }
    if (has_answer(x, s)) {
        transport_received(&x->http->base, buf_str(&x->body), x->id, s->status);
    }
    if (x->is_over || resume_later(x, s)) {
        return !x->is_over;
    }
    if (x->is_tracked) {
        transport_delivered(&x->http->base, &s->error);
    } else if (x->id > 0 && (!x->http->is_sse || s->error.code < 0 || s->status >= 300)) {
        exchange_explain(x, s, &why);
        transport_unanswered(&x->http->base, x->id, s->status, &why);
    }
    return false;
}

static void exchange_conclude(struct exchange *x)
{
    x->is_busy = true;
    if (!x->is_over) {
        x->is_over = !finished(x, fetch_status(x->transfer));
        client_of(x)->challenge = "";
    }
    x->is_busy = false;
    if (x->is_over) {
        exchange_end(x);
    }
}

static void exchange_on_change(void *user)
{
    struct exchange *x = user;
    const struct fetch_status *s = fetch_status(x->transfer);
    struct http_transport *h = x->http;
    x->is_busy = true;
    if (!x->has_head && s->status > 0) {
        x->has_head = true;
        x->is_sse = s->status == 200 && strcmp(s->content_type, "text/event-stream") == 0;
        if (s->session[0] && client_of(x)->stage == STAGE_NEGOTIATING &&
            client_of(x)->era == TIDINGS_ERA_LEGACY) {
            memcpy(h->session, s->session, sizeof(h->session));
        }
        if (x->is_standalone && x->is_sse && !h->is_sse) {
            transport_streaming(&x->http->base, h->last_event_id.len > 0);
        }
    }
    x->is_busy = false;
    if (x->is_over) {
        exchange_end(x);
    } else if (s->finished && !show_another(x, s)) {
        exchange_conclude(x);
    }
}

/* ---- out ------------------------------------------------------------------------------------- */

/* `m` NULL: GET or DELETE without a message. */
static int exchange_start(struct exchange *x, const char *method, const struct transport_message *m,
                          struct tidings_error *err)
{
    struct http_transport *h = x->http;
    const struct client_settings *o = &client_of(x)->settings;
    struct header_lines lines;
    bool is_stream = x->is_standalone || x->id > 0; /* requests have separate deadlines */
    x->method = method;
    struct fetch_request r = {
        .method = method,
        .url = exchange_url(x),
        .unix_path = h->unix_path,
        .ca_file = o->ca_file,
        .cert_file = o->cert_file,
        .key_file = o->key_file,
        .body = m ? m->text : STR_EMPTY,
        .timeout_ms = is_stream ? 0 : o->timeout_ms,
        .on_bytes = exchange_on_bytes,
        .on_change = exchange_on_change,
        .user = x,
    };
    x->refusals = 0;
    struct header_state state = {.session = h->session,
                                 .last_event_id = x->is_standalone ? h->last_event_id.ptr
                                                                   : x->last_event_id.ptr};
    int rc = header_lines_init(&lines, client_of(x), m, &state);
    /* A socket file may belong to another server than the address. */
    r.is_held = rc == 0 && exchange_prepare(x, r.url);
    int shown = r.is_held || (h->unix_path && o->credentials)
                    ? 0
                    : credentials_lines_fill(&x->shown, o, method, r.url);
    rc = rc < 0 ? rc : shown;
    size_t n = 0;
    for (size_t i = 0; rc == 0 && i < x->shown.count; i++) {
        r.headers[n++] = x->shown.lines[i].ptr;
    }
    for (size_t i = 0; rc == 0 && i < lines.count; i++) {
        r.headers[n++] = lines.lines[i].ptr;
    }
    for (size_t i = 0; o->headers && o->headers[i]; i++) {
        r.headers[n++] = o->headers[i];
    }
    rc = rc < 0 ? tidings_fail(err, rc, "a request cannot be written: %s", tidings_code_text(rc))
                : fetch_start(h->fetch, &r, &x->transfer, err);
    header_lines_deinit(&lines);
    return rc;
}

static struct exchange *exchange_begin(struct http_transport *h, const char *method,
                                       const struct transport_message *m, struct tidings_error *err)
{
    struct exchange *x = mem_zalloc(sizeof(*x));
    if (!x) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    size_t max = h->base.client->settings.max_bytes;
    x->http = h;
    x->id = m ? m->id : 0;
    x->is_tracked = m && m->is_tracked;
    x->is_reply = m && m->id == 0;
    x->is_standalone = !m && strcmp(method, "GET") == 0;
    x->had_session = h->session[0] != '\0';
    x->session = h->sessions;
    x->retry_ms = -1;
    buf_init(&x->body, max);
    credentials_lines_init(&x->shown);
    x->shown.server = h->is_sse ? h->url : NULL;
    buf_init(&x->last_event_id, 4096);
    sse_parser_init(&x->sse, max);
    loop_timer_init(&x->linger, client_of(x)->loop, exchange_on_linger, x);
    list_append(&h->exchanges, &x->link);
    if (exchange_start(x, method, m, err) < 0) {
        exchange_end(x);
        return NULL;
    }
    return x;
}

static void on_resume(struct loop_timer *timer, void *user)
{
    struct exchange *x = user;
    struct tidings_error why = {0};
    (void)timer;
    if (exchange_start(x, "GET", NULL, &why) < 0) {
        transport_unanswered(&x->http->base, x->id, 0, &why);
        exchange_end(x);
    }
}
