/* SPDX-License-Identifier: MIT
 *
 * Streamable HTTP: every message goes out as a POST of its own, an *exchange*, and what comes back
 * on it is one JSON message or a stream of events. In the legacy era there is a session, and a GET
 * stream for what the server says by itself, which is opened again by its last event id when it
 * ends in order.
 *
 * Servers of 2024-11-05 know only the GET stream: its first event says where to POST, and all
 * answers come on it (HTTP+SSE). They are tried when an address answers nothing else.
 *
 * An exchange may be forgotten while a message of its own is handled: it is then only marked, and
 * goes when the stack is back here.
 */
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "client/fetch.h"
#include "client/http_headers.h"
#include "client/private.h"
#include "wire/sse.h"

#define LINGER_MS 1000 /* for a stream that has brought its answer to end by itself */
#define LEAVE_MS 1000

struct http_link {
    struct link base;
    char *url, *unix_path;
    struct fetch *fetch;
    struct pump_fd fd;
    struct list exchanges;
    struct exchange *stream; /* legacy: what the server says by itself */
    struct pump_timer reopen;
    int64_t retry_ms; /* what the server asked for; negative: nothing */
    char session[512];
    struct buf last_event_id;
    struct exchange *leaving;
    bool has_left;
    char *endpoint; /* HTTP+SSE: where to POST; NULL: not said yet */
};

struct exchange {
    struct list link;
    struct http_link *http;
    struct fetch_call *call;
    int64_t id;      /* of the request; 0: none */
    struct buf body; /* an answer in JSON */
    struct sse_parser sse;
    struct pump_timer linger;
    bool has_head, is_sse;
    bool is_standalone;
    bool is_tracked;
    bool had_session;
    bool is_busy; /* one of its functions is running */
    bool is_over; /* … and is the last one */
};

static const struct link_ops http_ops, sse_ops;

static bool is_sse_link(const struct http_link *h)
{
    return h->base.ops == &sse_ops;
}

static struct http_link *http_of(struct link *l)
{
    return (struct http_link *)(void *)l;
}

static struct tidings_client *client_of(const struct exchange *x)
{
    return x->http->base.client;
}

static void end(struct exchange *x)
{
    struct http_link *h = x->http;
    if (x->is_busy) {
        x->is_over = true;
        return;
    }
    h->stream = h->stream == x ? NULL : h->stream;
    if (h->leaving == x) {
        h->leaving = NULL;
        h->has_left = true;
    }
    pump_unset(&x->linger);
    list_remove(&x->link);
    fetch_close(x->call);
    buf_deinit(&x->body);
    sse_parser_deinit(&x->sse);
    mem_free(x);
}

static void on_linger(void *user)
{
    end(user);
}

/* ---- in -------------------------------------------------------------------------------------- */

/* The first event of HTTP+SSE. */
static void on_endpoint(struct exchange *x, struct tidings_str where)
{
    struct tidings_error why;
    if (x->http->endpoint) {
        return; /* said before */
    }
    x->http->endpoint = endpoint_resolve(x->http->url, where);
    if (x->http->endpoint) {
        link_opened(client_of(x));
        return;
    }
    tidings_fail(&why, TIDINGS_E_PARSE, "the server sends its messages to another place");
    x->is_over = true;
    link_lost(client_of(x), &why);
}

static void on_event(const struct sse_event *event, void *user)
{
    struct exchange *x = user;
    struct http_link *h = x->http;
    if (x->is_over) {
        return;
    }
    if (x->is_standalone && is_sse_link(h)) {
        if (str_eq(event->event, STR("endpoint"))) {
            on_endpoint(x, event->data);
            return;
        }
    } else if (x->is_standalone && event->id.len > 0 && event->id.len < 4096) {
        buf_clear(&h->last_event_id);
        buf_puts(&h->last_event_id, event->id);
    }
    if (x->is_standalone && event->retry_ms >= 0) {
        h->retry_ms = event->retry_ms;
    }
    if (event->data.len > 0 && str_eq(event->event, STR("message"))) {
        link_message(client_of(x), event->data, x->id, fetch_status(x->call)->status);
    }
}

static int on_bytes(void *user, struct tidings_str bytes)
{
    struct exchange *x = user;
    x->is_busy = true;
    int rc = x->is_sse ? sse_parser_feed(&x->sse, bytes.ptr, bytes.len, on_event, x)
                       : buf_puts(&x->body, bytes);
    x->is_busy = false;
    if (x->is_over) {
        end(x);
        return 0;
    }
    return rc;
}

/* A status that only makes sense when the session is unknown: 404, and the 400 of servers that find
 * nothing to hold the id against, without naming our request. */
static bool is_session_lost(const struct exchange *x, long status)
{
    struct json *root = NULL;
    if (!x->had_session || (status != 404 && status != 400)) {
        return false;
    }
    if (status == 404 || x->is_standalone || jv_parse(buf_str(&x->body), 64, &root, NULL) < 0) {
        return true;
    }
    bool names_it = jv_is(jv_get(root, "id"), JV_INT);
    jv_unref(root);
    return !names_it;
}

/* Why there is no answer. */
static void explain(const struct fetch_status *s, struct tidings_error *why)
{
    if (s->error.code != 0) {
        *why = s->error;
    } else if (s->status == 200 || s->status == 202) {
        tidings_fail(why, TIDINGS_E_CLOSED, "the connection ended without an answer");
    } else {
        error_from_status(s->status, why);
    }
}

/* A stream that ended in order is only the server's way of saving connections. */
static bool reopen_later(struct http_link *h, const struct fetch_status *s)
{
    if (s->status != 200 || s->error.code != 0 || h->last_event_id.len == 0) {
        return false;
    }
    const struct client_settings *o = &h->base.client->settings;
    bool is_told = h->retry_ms >= 0 && h->retry_ms < o->retry_max_ms;
    pump_set(&h->base.client->pump, &h->reopen, is_told ? (uint64_t)h->retry_ms : o->retry_min_ms);
    return true;
}

static void stream_ended(struct exchange *x, const struct fetch_status *s)
{
    struct http_link *h = x->http;
    struct tidings_error why = {0};
    h->stream = NULL;
    if (is_sse_link(h)) {
        if (!h->endpoint) {
            h->base.ops = &http_ops; /* it was worth trying */
        }
        if (s->status == 200 && s->error.code == 0) {
            tidings_fail(&why, h->endpoint ? TIDINGS_E_CLOSED : TIDINGS_E_PARSE,
                         h->endpoint ? "the server ended the stream"
                                     : "the answer is not one of an MCP server (HTTP 200)");
        } else {
            explain(s, &why);
        }
        link_lost(client_of(x), &why);
        return;
    }
    if (is_session_lost(x, s->status)) {
        link_session_lost(client_of(x), 0);
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
        explain(s, &why);
    }
    link_lost(client_of(x), &why);
}

static void finished(struct exchange *x, const struct fetch_status *s)
{
    struct tidings_client *c = client_of(x);
    struct tidings_error why = {0};
    if (x->is_standalone) {
        stream_ended(x, s);
        return;
    }
    if (x->id > 0 && is_session_lost(x, s->status)) {
        link_session_lost(c, x->id);
        return;
    }
    if (!x->is_sse && x->body.len > 0) {
        link_message(c, buf_str(&x->body), x->id, s->status);
    }
    if (x->is_over) {
        return;
    }
    if (x->is_tracked) {
        link_delivered(c, &s->error);
    } else if (x->id > 0 && (!is_sse_link(x->http) || s->error.code < 0 || s->status >= 300)) {
        explain(s, &why);
        link_unanswered(c, x->id, s->status, &why);
    }
}

static void on_change(void *user)
{
    struct exchange *x = user;
    const struct fetch_status *s = fetch_status(x->call);
    struct http_link *h = x->http;
    x->is_busy = true;
    if (!x->has_head && s->status > 0) {
        x->has_head = true;
        x->is_sse = s->status == 200 && strcmp(s->content_type, "text/event-stream") == 0;
        if (s->session[0] && client_of(x)->stage == STAGE_ASKING &&
            client_of(x)->era == TIDINGS_ERA_LEGACY) {
            memcpy(h->session, s->session, sizeof(h->session));
        }
        if (x->is_standalone && x->is_sse && !is_sse_link(h)) {
            link_streaming(client_of(x), h->last_event_id.len > 0);
        }
    }
    if (s->finished && !x->is_over) {
        finished(x, s);
        x->is_over = true;
    }
    x->is_busy = false;
    if (x->is_over) {
        end(x);
    }
}

/* ---- out ------------------------------------------------------------------------------------- */

/* `m` NULL: GET or DELETE without a message. */
static int start(struct exchange *x, const char *method, const struct link_message *m,
                 struct tidings_error *err)
{
    struct http_link *h = x->http;
    const struct client_settings *o = &client_of(x)->settings;
    struct header_lines lines;
    bool is_stream =
        x->is_standalone || (m && m->id > 0); /* requests have deadlines of their own */
    struct fetch_request r = {
        .method = method,
        .url = m && h->endpoint ? h->endpoint : h->url,
        .unix_path = h->unix_path,
        .ca_file = o->ca_file,
        .cert_file = o->cert_file,
        .key_file = o->key_file,
        .body = m ? m->text : STR_EMPTY,
        .timeout_ms = is_stream ? 0 : o->timeout_ms,
        .on_bytes = on_bytes,
        .on_change = on_change,
        .user = x,
    };
    struct header_state state = {.session = h->session,
                                 .last_event_id = x->is_standalone ? h->last_event_id.ptr : NULL};
    int rc = header_lines_init(&lines, client_of(x), m, &state);
    size_t n = 0;
    while (rc == 0 && n < lines.count) {
        r.headers[n] = lines.lines[n].ptr;
        n++;
    }
    for (size_t i = 0; o->headers && o->headers[i]; i++) {
        r.headers[n++] = o->headers[i];
    }
    rc = rc < 0 ? tidings_fail(err, rc, "a request cannot be written: %s", tidings_code_text(rc))
                : fetch_start(h->fetch, &r, &x->call, err);
    header_lines_deinit(&lines);
    return rc;
}

static struct exchange *exchange(struct http_link *h, const char *method,
                                 const struct link_message *m, struct tidings_error *err)
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
    x->is_standalone = !m && strcmp(method, "GET") == 0;
    x->had_session = h->session[0] != '\0';
    buf_init(&x->body, max);
    sse_parser_init(&x->sse, max);
    pump_timer_init(&x->linger, on_linger, x);
    list_append(&h->exchanges, &x->link);
    if (start(x, method, m, err) < 0) {
        end(x);
        return NULL;
    }
    return x;
}

static int http_send(struct link *l, const struct link_message *m, struct tidings_error *err)
{
    struct tidings_error why = {0};
    if (!exchange(http_of(l), "POST", m, &why)) {
        return tidings_fail(err, why.code, "%s", why.text);
    }
    return 0;
}

static void http_forget(struct link *l, int64_t id, bool is_answered)
{
    struct http_link *h = http_of(l);
    list_each (it, next, &h->exchanges) {
        struct exchange *x = list_entry(it, struct exchange, link);
        if (x->id != id) {
            continue;
        }
        if (is_answered && x->is_sse && !fetch_status(x->call)->finished) {
            x->id = 0; /* its connection can be used again if it ends by itself */
            pump_set(&l->client->pump, &x->linger, LINGER_MS);
        } else {
            end(x);
        }
        return;
    }
}

static int http_stream(struct link *l, struct tidings_error *err)
{
    struct http_link *h = http_of(l);
    struct tidings_error why = {0};
    if (h->stream && h->stream->has_head) {
        link_streaming(l->client, false); /* it was heard all the time */
    }
    if (h->stream || pump_is_set(&h->reopen)) {
        return 0;
    }
    h->stream = exchange(h, "GET", NULL, &why);
    return h->stream ? 0 : tidings_fail(err, why.code, "%s", why.text);
}

static void on_reopen(void *user)
{
    struct http_link *h = user;
    struct tidings_error why = {0};
    if (http_stream(&h->base, &why) < 0) {
        link_lost(h->base.client, &why);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static int sse_open(struct link *l, struct tidings_error *err)
{
    struct http_link *h = http_of(l);
    struct tidings_error why = {0};
    mem_free(h->endpoint);
    h->endpoint = NULL;
    h->stream = exchange(h, "GET", NULL, &why);
    return h->stream ? 0 : tidings_fail(err, why.code, "%s", why.text);
}

static bool http_fall_back(struct link *l)
{
    l->ops = &sse_ops;
    return true;
}

static int http_open(struct link *l, struct tidings_error *err)
{
    (void)err;
    http_of(l)->has_left = false;
    link_opened(l->client);
    return 0;
}

static const char *http_session(struct link *l)
{
    return http_of(l)->session;
}

static void http_forget_session(struct link *l)
{
    struct http_link *h = http_of(l);
    pump_unset(&h->reopen);
    if (h->stream) {
        end(h->stream);
        h->stream = NULL;
    }
    h->session[0] = '\0';
    h->retry_ms = -1;
    buf_clear(&h->last_event_id);
}

static void http_close(struct link *l)
{
    struct http_link *h = http_of(l);
    http_forget_session(l);
    bool again = true;
    while (again) { /* one that is busy stays */
        again = false;
        list_each (it, next, &h->exchanges) {
            struct exchange *x = list_entry(it, struct exchange, link);
            if (!x->is_over) {
                end(x);
                again = true;
                break;
            }
        }
    }
}

static void on_leave_timeout(void *user)
{
    end(user);
}

static bool http_leave(struct link *l)
{
    struct http_link *h = http_of(l);
    if (!h->session[0] || h->has_left) {
        return true;
    }
    if (!h->leaving) {
        h->leaving = exchange(h, "DELETE", NULL, NULL);
        if (!h->leaving) {
            return true;
        }
        pump_timer_init(&h->leaving->linger, on_leave_timeout, h->leaving);
        pump_set(&l->client->pump, &h->leaving->linger, LEAVE_MS);
    }
    return false;
}

static void http_destroy(struct link *l)
{
    struct http_link *h = http_of(l);
    http_close(l);
    pump_remove(&l->client->pump, &h->fd);
    fetch_destroy(h->fetch);
    buf_deinit(&h->last_event_id);
    mem_free(h->endpoint);
    mem_free(h->url);
    mem_free(h->unix_path);
    mem_free(h);
}

static void on_ready(void *user, uint32_t events)
{
    struct http_link *h = user;
    struct tidings_error why = {0};
    (void)events;
    if (fetch_step(h->fetch, 0, &why) < 0) {
        link_lost(h->base.client, &why);
    }
}

static const struct link_ops http_ops = {
    .transport = "http",
    .has_exchanges = true,
    .open = http_open,
    .send = http_send,
    .forget = http_forget,
    .stream = http_stream,
    .forget_session = http_forget_session,
    .session = http_session,
    .fall_back = http_fall_back,
    .close = http_close,
    .leave = http_leave,
    .destroy = http_destroy,
};

/* Its session is the stream. */
static const struct link_ops sse_ops = {
    .transport = "http+sse",
    .open = sse_open,
    .send = http_send,
    .forget = http_forget,
    .close = http_close,
    .leave = http_leave,
    .destroy = http_destroy,
};

struct link *link_http_create(struct tidings_client *c, const char *url, const char *unix_path,
                              struct tidings_error *err)
{
    struct http_link *h = mem_zalloc(sizeof(*h));
    if (!h) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    h->base = (struct link){.ops = &http_ops, .client = c};
    h->fd = (struct pump_fd){.fd = -1, .fn = on_ready, .user = h};
    h->retry_ms = -1;
    list_init(&h->exchanges);
    buf_init(&h->last_event_id, 4096);
    pump_timer_init(&h->reopen, on_reopen, h);
    h->url = str_dup(tidings_str(url));
    h->unix_path = unix_path ? str_dup(tidings_str(unix_path)) : NULL;
    int rc = !h->url || (unix_path && !h->unix_path)
                 ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory")
                 : fetch_create(-1, c->settings.max_bytes, &h->fetch, err);
    if (rc == 0) {
        rc = pump_add(&c->pump, &h->fd, fetch_fd(h->fetch), EPOLLIN);
    }
    if (rc < 0) {
        http_destroy(&h->base);
        return NULL;
    }
    return &h->base;
}
