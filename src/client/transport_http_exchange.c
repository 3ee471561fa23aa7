/* SPDX-License-Identifier: MIT
 *
 * One HTTP request of the client, from its headers to the end of its answer.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "client/errors.h"
#include "client/http_headers.h"
#include "client/state.h"
#include "client/transport_http.h"

#define MAX_REFUSALS 4u
#define MAX_RETRY_AFTER_S 300u /* a server that wants to be left alone for longer is asked then */

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

void exchange_end(struct exchange *x)
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
    poller_unset(&x->linger);
    list_remove(&x->link);
    fetch_close(x->transfer);
    buf_deinit(&x->body);
    credentials_lines_deinit(&x->shown);
    buf_deinit(&x->last_event_id);
    sse_parser_deinit(&x->sse);
    mem_free(x);
}

static void exchange_on_linger(void *user)
{
    exchange_end(user);
}

void exchange_linger(struct exchange *x, uint64_t ms)
{
    poller_unset(&x->linger);
    poller_timer_init(&x->linger, exchange_on_linger, x);
    poller_set(&x->http->base.client->poller, &x->linger, ms);
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
        return; /* said before */
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

/* A status that only makes sense when the session is unknown: 404, and the 400 of servers that find
 * nothing to hold the id against, without naming our request. */
static bool is_session_lost(const struct exchange *x, long status)
{
    struct json *root = NULL;
    if (!x->had_session || (status != 404 && status != 400)) {
        return false;
    }
    if (status == 404 || x->is_standalone ||
        jv_parse_peer(buf_str(&x->body), &root, NULL, NULL) < 0) {
        return true;
    }
    bool names_it = jv_is(jv_get(root, "id"), JV_INT);
    jv_unref(root);
    return !names_it;
}

/* Why there is no answer. */
/* What the server says of it; of a 401 its challenge says all, and a 404 names any page. */
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

/* Before it is asked again; `told` is what the server wants, negative: nothing. */
static uint64_t pause_of(const struct http_transport *h, int64_t told)
{
    const struct client_settings *o = &h->base.client->settings;
    return told < 0 ? random_upto(o->retry_min_ms)
                    : (uint64_t)(told < o->retry_max_ms ? told : o->retry_max_ms);
}

/* A stream that ended in order is only the server's way of saving connections. */
static bool reopen_later(struct http_transport *h, const struct fetch_status *s)
{
    if (s->status != 200 || s->error.code != 0 || h->last_event_id.len == 0) {
        return false;
    }
    poller_set(&h->base.client->poller, &h->reopen, pause_of(h, h->retry_ms));
    return true;
}

static void on_resume(void *user);

/* The same for the stream of a request (2025-11-25): the answer is fetched when it is there. */
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
    poller_timer_init(&x->linger, on_resume, x);
    poller_set(&client_of(x)->poller, &x->linger, pause_of(x->http, x->retry_ms));
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

/* Once more, with what `shown` says now. */
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

/* The program's credentials may have something better, now or later. */
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

/* What it shall carry may be about to be renewed: then it waits. */
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

/* A token that was refused may have been replaced just now: once more, with the new one. */
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

/* What came before the exchange broke off is an answer if it is complete, and otherwise none: why
 * it broke off says more. */
static bool has_answer(const struct exchange *x, const struct fetch_status *s)
{
    struct json *root = NULL;
    if (x->is_sse || x->body.len == 0 || s->status == 401) {
        return false; /* of a 401 the body is no answer: it was not the request that was judged */
    }
    bool is_whole = s->error.code == 0 || jv_parse_peer(buf_str(&x->body), &root, NULL, NULL) == 0;
    jv_unref(root);
    return is_whole;
}

/* True: it goes on. */
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
    bool is_stream = x->is_standalone || x->id > 0; /* requests have deadlines of their own */
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
    /* Behind a socket file is nobody of that address. */
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

struct exchange *exchange_begin(struct http_transport *h, const char *method,
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
    poller_timer_init(&x->linger, exchange_on_linger, x);
    list_append(&h->exchanges, &x->link);
    if (exchange_start(x, method, m, err) < 0) {
        exchange_end(x);
        return NULL;
    }
    return x;
}

static void on_resume(void *user)
{
    struct exchange *x = user;
    struct tidings_error why = {0};
    if (exchange_start(x, "GET", NULL, &why) < 0) {
        transport_unanswered(&x->http->base, x->id, 0, &why);
        exchange_end(x);
    }
}
