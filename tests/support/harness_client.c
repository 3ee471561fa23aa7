/* SPDX-License-Identifier: MIT
 *
 * Connections that only record. This file keeps a transport's promises to the worker (an exchange
 * is answered once, a vanished connection calls `closed` once and then the channel is gone) and
 * asserts the worker's promises to the transport.
 */
#include "support/harness_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* cmocka puts its own in front of these when UNIT_TESTING is set; here libc's are meant. */
#undef malloc
#undef calloc
#undef realloc
#undef free
#include <stdlib.h>

#include "base/str.h"
#include "support/parse_json.h"

#define META                                                                                       \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                       \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"

/* ---- the record ------------------------------------------------------------------------------ */

static struct utterance *record(struct client *c, enum said kind)
{
    assert_false(c->is_gone);
    if (c->count == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 16;
        c->said = realloc(c->said, c->cap * sizeof(c->said[0]));
        assert_non_null(c->said);
    }
    struct utterance *u = &c->said[c->count++];
    memset(u, 0, sizeof(*u));
    u->kind = kind;
    u->seq = c->channel.worker->last_seq;
    return u;
}

static void keep(char *out, size_t size, struct tidings_str s)
{
    assert_true(s.len < size);
    snprintf(out, size, "%.*s", STR_ARG(s));
}

static void end_exchange(struct client *c)
{
    if (c->channel.ops->is_http) {
        assert_true(c->is_waiting);
        assert_false(c->is_streaming);
        c->is_waiting = false;
    }
}

static void drop_input(struct client *c)
{
    free(c->input);
    c->input = NULL;
}

static void answer(struct channel *channel, int status, const struct response_headers *headers,
                   struct buf *text)
{
    struct client *c = list_entry(channel, struct client, channel);
    struct utterance *u = record(c, SAID_ANSWER);
    end_exchange(c);
    u->status = status;
    keep(u->session, sizeof(u->session), headers->session_id);
    keep(u->allow, sizeof(u->allow), headers->allow);
    u->len = text->len;
    u->text = malloc(text->len + 1);
    assert_non_null(u->text);
    memcpy(u->text, text->len ? text->ptr : "", text->len);
    u->text[text->len] = '\0';
    buf_deinit(text);
}

/* All that a source produces. */
static void produce(struct sendq_source *source, struct buf *out)
{
    buf_init(out, source->left + 1);
    assert_int_equal(buf_reserve(out, source->left), 0);
    while (source->left > 0) {
        ssize_t n = source->make(source, out->ptr + out->len, source->left);
        assert_true(n > 0); /* a bench fetches nothing */
        out->len += (size_t)n;
        source->left -= (size_t)n;
    }
    source->destroy(source);
}

static void answer_long(struct channel *channel, int status, const struct response_headers *headers,
                        struct sendq_source *source)
{
    struct buf text;
    produce(source, &text);
    answer(channel, status, headers, &text);
}

static void accepted(struct channel *channel)
{
    struct client *c = list_entry(channel, struct client, channel);
    (void)record(c, SAID_ACCEPTED);
    end_exchange(c);
}

static struct sink *stream(struct channel *channel, const struct response_headers *headers)
{
    struct client *c = list_entry(channel, struct client, channel);
    end_exchange(c);
    c->is_streaming = true;
    (void)headers;
    if (c->channel.ops->is_http) {
        drop_input(c); /* like a connection that may forget it now */
    }
    return &c->sink;
}

static bool takes_stream(struct channel *channel)
{
    return !list_entry(channel, struct client, channel)->takes_no_stream;
}

static void client_address(const struct channel *channel, char out[PRINCIPAL_MAX])
{
    const struct client *c =
        list_entry((struct channel *)(uintptr_t)channel, struct client, channel);
    if (c->address) {
        keep(out, PRINCIPAL_MAX, tidings_str(c->address));
    }
}

static const struct channel_ops http_ops = {
    .name = "record-http",
    .is_http = true,
    .answer = answer,
    .answer_long = answer_long,
    .accepted = accepted,
    .takes_stream = takes_stream,
    .stream = stream,
    .address = client_address,
};

static const struct channel_ops pipe_ops = {
    .name = "record-pipe",
    .is_http = false,
    .answer = answer,
    .answer_long = answer_long,
    .accepted = accepted,
    .stream = stream,
    .address = client_address,
};

static struct client *of_sink(const struct sink *sink)
{
    return list_entry((struct sink *)(uintptr_t)sink, struct client, sink);
}

static char *room(struct sink *sink, struct tidings_str event_id, size_t len)
{
    struct client *c = of_sink(sink);
    if (c->has_no_room) {
        return NULL;
    }
    struct utterance *u = record(c, SAID_EVENT);
    keep(u->id, sizeof(u->id), event_id);
    u->len = len;
    u->text = calloc(1, len + 1);
    assert_non_null(u->text);
    return u->text;
}

static void prime(struct sink *sink, struct tidings_str event_id, int64_t retry_ms)
{
    struct utterance *u = record(of_sink(sink), SAID_PRIME);
    keep(u->id, sizeof(u->id), event_id);
    u->retry_ms = retry_ms;
}

static size_t pending(const struct sink *sink)
{
    return of_sink(sink)->pending;
}

static void end(struct sink *sink)
{
    (void)record(of_sink(sink), SAID_END);
}

static void end_long(struct sink *sink, struct sendq_source *source)
{
    struct buf text;
    produce(source, &text);
    memcpy(room(sink, STR_EMPTY, text.len), text.ptr, text.len);
    buf_deinit(&text);
    end(sink);
}

static void cut(struct sink *sink, const char *reason)
{
    (void)reason;
    struct client *c = of_sink(sink);
    (void)record(c, SAID_CUT);
    client_vanish(c);
}

static const struct sink_ops sink_ops = {
    .name = "record",
    .room = room,
    .prime = prime,
    .pending = pending,
    .end = end,
    .end_long = end_long,
    .cut = cut,
};

/* ---- life ------------------------------------------------------------------------------------ */

void client_is(struct client *c, enum principal_kind kind, const char *name, const char *scopes,
               int64_t expires_ms)
{
    struct tidings_str given[PRINCIPAL_MAX_SCOPES + 1], rest = tidings_str(scopes);
    struct principal_spec spec = {
        .kind = kind, .name = tidings_str(name), .scopes = given, .expires_ms = expires_ms};
    while (rest.len > 0) {
        given[spec.scope_count++] = str_cut(rest, ' ', &rest, NULL);
    }
    const struct principal *principal = NULL;
    assert_int_equal(principal_intern(c->channel.worker->principals, &spec, &principal, NULL), 0);
    channel_set_principal(&c->channel, principal);
    principal_unref(principal);
}

static struct client *client_open(struct harness *b, size_t worker, const struct channel_ops *ops)
{
    struct client *c = calloc(1, sizeof(*c));
    assert_non_null(c);
    c->harness = b;
    c->sink.ops = &sink_ops;
    channel_init(&c->channel, ops, b->worker[worker]);
    if (b->principal.name) {
        client_is(c, b->principal.kind, b->principal.name,
                  b->principal.scopes ? b->principal.scopes : "", b->principal.expires_ms);
    }
    return c;
}

struct client *client_http(struct harness *b)
{
    return client_open(b, 0, &http_ops);
}

struct client *client_http_at(struct harness *b, size_t worker)
{
    return client_open(b, worker, &http_ops);
}

struct client *client_pipe(struct harness *b)
{
    return client_open(b, 0, &pipe_ops);
}

void client_vanish(struct client *c)
{
    if (c->is_gone) {
        return;
    }
    c->is_gone = true;
    if (c->channel.ops->is_http) {
        sink_closed(&c->sink);
    }
    channel_deinit(&c->channel);
}

void client_free(struct client *c)
{
    client_vanish(c);
    for (size_t i = 0; i < c->count; i++) {
        struct utterance *u = &c->said[i];
        bool is_empty_body = u->kind == SAID_ANSWER && u->len == 0;
        if (u->text && !is_empty_body) {
            struct json *root = NULL;
            struct tidings_error err = {0};
            if (parse_json(tidings_strn(u->text, u->len), &root, &err) < 0) {
                fail_msg("not JSON: %s: %.200s", err.text, u->text);
            }
            jv_unref(root);
        }
        free(u->text);
    }
    free(c->said);
    free(c->input);
    free(c);
}

void client_drain(struct client *c)
{
    c->pending = 0;
    sink_drained(&c->sink);
}

/* ---- saying ---------------------------------------------------------------------------------- */

static struct tidings_str copy_to(char **at, struct tidings_str s)
{
    struct tidings_str copy = {s.ptr ? *at : NULL, s.len};
    if (s.len > 0) {
        memcpy(*at, s.ptr, s.len);
    }
    *at += s.len;
    return copy;
}

/* The text and the headers where a connection has them: in memory that goes with the request. */
static struct tidings_str keep_input(struct client *c, const char *text, struct dialect_headers *h)
{
    struct tidings_str body = tidings_str(text);
    struct tidings_str *slices[] = {&body,    &h->protocol_version, &h->method,
                                    &h->name, &h->session_id,       &h->last_event_id};
    size_t size = 1;
    for (size_t i = 0; i < sizeof(slices) / sizeof(slices[0]); i++) {
        size += slices[i]->len;
    }
    drop_input(c);
    char *at = c->input = malloc(size);
    assert_non_null(at);
    for (size_t i = 0; i < sizeof(slices) / sizeof(slices[0]); i++) {
        *slices[i] = copy_to(&at, *slices[i]);
    }
    c->is_waiting = c->channel.ops->is_http;
    return body;
}

void client_say(struct client *c, const struct dialect_headers *headers, const char *text)
{
    struct dialect_headers copy = {.session_id = {NULL, 0}};
    if (headers) {
        copy = *headers;
    }
    assert_false(c->is_waiting);
    struct tidings_str body = keep_input(c, text, &copy);
    inbound_text(&c->channel, body, c->channel.ops->is_http ? &copy : NULL);
    drop_input(c);
}

static char *request_text(const char *id, const char *method, const char *params, bool is_modern)
{
    size_t size = strlen(method) + (params ? strlen(params) : 0) + 512 + (id ? strlen(id) : 0);
    char *text = malloc(size);
    assert_non_null(text);
    snprintf(text, size, "{\"jsonrpc\":\"2.0\"%s%s,\"method\":\"%s\",\"params\":{%s%s%s}}",
             id ? ",\"id\":" : "", id ? id : "", method, params ? params : "",
             params && is_modern ? "," : "", is_modern ? META : "");
    return text;
}

void client_modern(struct client *c, const char *id, const char *method, const char *params)
{
    char *text = request_text(id, method, params, true);
    struct dialect_headers headers = {
        .protocol_version = STR("2026-07-28"),
        .method = tidings_str(method),
    };
    struct json *root = NULL;
    assert_int_equal(parse_json(tidings_str(text), &root, NULL), 0);
    struct json *uri = jv_get(jv_get(root, "params"), "uri");
    struct json *name = jv_get(jv_get(root, "params"), "name");
    if (jv_is(uri, JV_STRING) || jv_is(name, JV_STRING)) {
        headers.name = jv_str(jv_is(uri, JV_STRING) ? uri : name);
    }
    client_say(c, c->channel.ops->is_http ? &headers : NULL, text);
    jv_unref(root);
    free(text);
}

const char *client_ask(struct client *c, const char *method, const char *params)
{
    static unsigned number;
    char id[16];
    size_t before = client_count_kind(c, SAID_ANSWER);
    (void)snprintf(id, sizeof(id), "%u", ++number);
    client_modern(c, id, method, params);
    harness_run_until_idle(c->harness);
    return client_nth_kind(c, SAID_ANSWER, before)->text;
}

static void say_legacy(struct client *c, const char *session, const char *text)
{
    struct dialect_headers headers = {0};
    if (session) {
        headers.session_id = tidings_str(session);
    }
    client_say(c, c->channel.ops->is_http ? &headers : NULL, text);
}

void client_legacy(struct client *c, const char *session, const char *id, const char *method,
                   const char *params)
{
    char *text = request_text(id, method, params, false);
    say_legacy(c, session, text);
    free(text);
}

void client_notify(struct client *c, const char *session, const char *method, const char *params)
{
    client_legacy(c, session, NULL, method, params);
}

static const char *initialize_params(const char *revision)
{
    return text_of("\"protocolVersion\":\"%s\",\"capabilities\":{},"
                   "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}",
                   revision);
}

void client_handshake(struct client *pipe, const char *revision)
{
    client_legacy(pipe, NULL, "\"init\"", "initialize", initialize_params(revision));
    client_notify(pipe, NULL, "notifications/initialized", NULL);
}

void client_listen(struct client *c, const char *id, const char *uris)
{
    client_modern(c, id, "subscriptions/listen",
                  text_of("\"notifications\":{\"resourceSubscriptions\":%s}", uris));
}

/* ---- sessions -------------------------------------------------------------------------------- */

void harness_session(struct harness *b, const char *revision, struct harness_session *s)
{
    struct client *c = client_http(b);
    client_legacy(c, NULL, "1", "initialize", initialize_params(revision));
    const struct utterance *u = client_answer(c);
    assert_int_equal(u->status, 200);
    assert_json(u->text, "result|protocolVersion", revision);
    s->harness = b;
    snprintf(s->id, sizeof(s->id), "%s", u->session);
    client_notify(c, s->id, "notifications/initialized", NULL);
    client_free(c);
}

struct client *session_request(struct harness_session *s, const char *id, const char *method,
                               const char *params)
{
    struct client *c = client_http(s->harness);
    client_legacy(c, s->id, id, method, params);
    return c;
}

static void change_subscription(struct harness_session *s, const char *method, const char *uri)
{
    struct client *c = session_request(s, "5", method, text_of("\"uri\":\"%s\"", uri));
    harness_run_until_idle(s->harness);
    const struct utterance *u = client_answer(c);
    assert_empty_result(u->text);
    client_free(c);
}

void session_subscribe(struct harness_session *s, const char *uri)
{
    change_subscription(s, "resources/subscribe", uri);
}

void session_unsubscribe(struct harness_session *s, const char *uri)
{
    change_subscription(s, "resources/unsubscribe", uri);
}

void client_stream(struct client *c, const char *session, const char *last_event_id)
{
    struct dialect_headers headers = {.session_id = tidings_str(session)};
    if (last_event_id) {
        headers.last_event_id = tidings_str(last_event_id);
    }
    (void)keep_input(c, "", &headers);
    inbound_get(&c->channel, &headers);
    drop_input(c);
}

struct client *session_stream(struct harness_session *s, const char *last_event_id)
{
    struct client *c = client_http(s->harness);
    client_stream(c, s->id, last_event_id);
    return c;
}

int session_delete(struct harness_session *s)
{
    struct client *c = client_http(s->harness);
    struct dialect_headers headers = {.session_id = tidings_str(s->id)};
    (void)keep_input(c, "", &headers);
    inbound_delete(&c->channel, &headers);
    drop_input(c);
    int status = client_answer(c)->status;
    client_free(c);
    return status;
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool has_method(const struct utterance *u, const char *method)
{
    if (u->kind != SAID_EVENT) {
        return false;
    }
    const char *m = json_at(u->text, "method");
    return m && strcmp(m, method) == 0;
}

size_t client_count(const struct client *c, const char *method)
{
    size_t n = 0;
    for (size_t i = 0; i < c->count; i++) {
        n += has_method(&c->said[i], method);
    }
    return n;
}

const struct utterance *client_nth_said(const struct client *c, const char *method, size_t n)
{
    for (size_t i = 0; i < c->count; i++) {
        if (has_method(&c->said[i], method) && n-- == 0) {
            return &c->said[i];
        }
    }
    fail_msg("no such %s", method);
    return NULL;
}

const char *client_nth(const struct client *c, const char *method, size_t n)
{
    return client_nth_said(c, method, n)->text;
}

size_t client_count_kind(const struct client *c, enum said kind)
{
    size_t n = 0;
    for (size_t i = 0; i < c->count; i++) {
        n += c->said[i].kind == kind;
    }
    return n;
}

bool client_has_answer(void *client)
{
    return client_count_kind(client, SAID_ANSWER) > 0;
}

const struct utterance *client_nth_kind(const struct client *c, enum said kind, size_t n)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->said[i].kind == kind && n-- == 0) {
            return &c->said[i];
        }
    }
    fail_msg("nothing of kind %d was said", (int)kind);
    return NULL;
}

const struct utterance *client_answer(const struct client *c)
{
    assert_int_equal(client_count_kind(c, SAID_ANSWER), 1);
    return client_nth_kind(c, SAID_ANSWER, 0);
}

bool cursor_covers(const char *text, const char *spelled)
{
    const char *cursor = json_at(text, "params|_meta|dev.tidings/cursor");
    struct log_cursor at = {0};
    assert_true(cursor && cursor_parse(tidings_str(cursor), &at));
    return !cursor_has_gap(&at, cursor_order(tidings_str(spelled)));
}
