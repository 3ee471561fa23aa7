/* SPDX-License-Identifier: MIT
 *
 * Messages of WebSockets: frames in, frames out, and the channel and the sink through which answers
 * and notifications come.
 *
 * A reader of frames is borrowed from the worker while bytes are read, and kept only by a
 * connection that is in the middle of a message.
 */
#include <string.h>

#include "access/failures.h"
#include "base/clock.h"
#include "protocol/inbound.h"
#include "transport/input_budget.h"
#include "transport/message_conn.h"
#include "transport/output_budget.h"
#include "transport/peer_identity.h"
#include "transport/websocket_private.h"
#include "json/write.h"

/* An envelope around a message, for clients that use one (profile lumenize). */
#define ENVELOPE "{\"type\":\"mcp\",\"payload\":"
#define ENVELOPE_BEGIN (sizeof(ENVELOPE) - 1)
#define ENVELOPE_END 1u

/* ---- frames out ------------------------------------------------------------------------------ */

/* Room for the beginning of a message of `len` bytes of which the first `here` follow it. */
static char *websocket_begin_message(struct websocket *ws, size_t len, size_t here,
                                     bool is_enveloped)
{
    size_t payload = len + (is_enveloped ? ENVELOPE_BEGIN + ENVELOPE_END : 0);
    size_t head = ws_header_len(payload) + (is_enveloped ? ENVELOPE_BEGIN : 0);
    char *at = websocket_is_open(ws) ? sendq_room(&ws->out, head + here) : NULL;
    if (!at) {
        return NULL;
    }
    at = ws_write_header(at, WS_OP_TEXT, payload);
    if (is_enveloped) {
        memcpy(at, ENVELOPE, ENVELOPE_BEGIN);
        at += ENVELOPE_BEGIN;
    }
    return at;
}

void websocket_put_control(struct websocket *ws, enum ws_opcode opcode, struct tidings_str payload)
{
    char *at = sendq_room(&ws->out, ws_header_len(payload.len) + payload.len);
    if (at) {
        at = ws_write_header(at, opcode, payload.len);
        memcpy(at, payload.ptr, payload.len);
    }
}

static enum failure_cause websocket_cause(unsigned code)
{
    switch (code) {
    case 1002:
    case 1003:
    case 1007:
        return FAILURE_MALFORMED;
    case 1008:
        return FAILURE_AUTHENTICATION;
    case 1009:
    case 1013:
        return FAILURE_LIMIT;
    default:
        return FAILURE_ORDINARY;
    }
}

void websocket_say_close(struct websocket *ws, unsigned code, struct tidings_str reason,
                         enum websocket_state next)
{
    char frame[2 + WS_MAX_CONTROL];
    size_t len = ws_write_close(frame, code, reason);
    const struct failure failure = {
        .kind = FAILURE_CLOSE,
        .cause = websocket_cause(code),
        .method = "websocket",
        .code = (int)code,
        .reason = reason,
        .principal = ws->channel.principal,
    };
    if (next == WEBSOCKET_REFUSED) {
        channel_failed(&ws->channel, &failure);
    }
    sink_closed(&ws->sink);
    channel_deinit(&ws->channel);
    sendq_put(&ws->out, frame, len);
    ws->has_rest = ws->has_rest && next == WEBSOCKET_LEAVING; /* its close may be among it */
    websocket_set_state(ws, next);
}

/* ---- the channel and the sink ---------------------------------------------------------------- */

static struct websocket *websocket_of_channel(const struct channel *channel)
{
    return list_entry((struct channel *)(uintptr_t)channel, struct websocket, channel);
}

static struct websocket *websocket_of_sink(const struct sink *sink)
{
    return list_entry((struct sink *)(uintptr_t)sink, struct websocket, sink);
}

static void websocket_answer(struct channel *channel, int status,
                             const struct response_headers *headers, struct buf *text)
{
    (void)status;
    (void)headers;
    struct websocket *ws = websocket_of_channel(channel);
    bool is_enveloped = ws->was_enveloped;
    if (text->len == 0 || !websocket_begin_message(ws, text->len, 0, is_enveloped)) {
        return; /* out of memory even for an error; or broken, which its flush will find */
    }
    message_conn_put(&ws->out, text);
    if (is_enveloped) {
        sendq_put(&ws->out, "}", ENVELOPE_END);
    }
    output_book_answer(channel, &ws->sink, &ws->out);
}

static void websocket_answer_long(struct channel *channel, int status,
                                  const struct response_headers *headers,
                                  struct sendq_source *source)
{
    (void)status;
    (void)headers;
    struct websocket *ws = websocket_of_channel(channel);
    bool is_enveloped = ws->was_enveloped;
    if (!websocket_begin_message(ws, source->left, 0, is_enveloped)) {
        source->destroy(source); /* the flush will find that it is broken */
        return;
    }
    if (sendq_put_source(&ws->out, source) == 0 && is_enveloped) {
        sendq_put(&ws->out, "}", ENVELOPE_END);
    }
}

static void websocket_unbook(struct channel *channel)
{
    output_unbook_queue(channel, &websocket_of_channel(channel)->sink);
}

static bool websocket_is_sending(const struct channel *channel, size_t *ret_held)
{
    struct websocket *ws = websocket_of_channel(channel);
    ws->has_long = true;
    return message_conn_is_sending(&ws->out, ret_held);
}

/* It will be told of changes from now on. */
static struct sink *websocket_stream(struct channel *channel,
                                     const struct response_headers *headers)
{
    (void)headers;
    struct websocket *ws = websocket_of_channel(channel);
    sendq_limit_kernel(&ws->out);
    peer_identity_remember(&ws->channel, ws->out.fd);
    return &ws->sink;
}

static void websocket_address(const struct channel *channel, char out[PRINCIPAL_MAX])
{
    const struct websocket *ws = websocket_of_channel(channel);
    peer_identity_name(ws->out.fd, sendq_tls(&ws->out), out);
}

static void websocket_facts(const struct channel *channel, struct channel_facts *ret)
{
    const struct websocket *ws = websocket_of_channel(channel);
    peer_identity_facts(channel, &ws->out, true, ret);
    ret->fd = ws->out.fd;
    if (ws->state != WEBSOCKET_GONE && deadline_is_listed(&ws->stall)) {
        ret->stalled_ms = deadline_age_ms(&ws->ww->stalled, ws->stall.listed_ms);
    }
}

const struct channel_ops websocket_channel_ops = {
    .name = "websocket",
    .is_http = false,
    .answer = websocket_answer,
    .answer_long = websocket_answer_long,
    .unbook = websocket_unbook,
    .is_sending = websocket_is_sending,
    .accepted = message_conn_accepted,
    .stream = websocket_stream,
    .address = websocket_address,
    .facts = websocket_facts,
};

static char *websocket_sink_room(struct sink *sink, struct tidings_str event_id, size_t len)
{
    (void)event_id;
    struct websocket *ws = websocket_of_sink(sink);
    bool is_enveloped = ws->uses_envelopes;
    char *at =
        websocket_begin_message(ws, len, len + (is_enveloped ? ENVELOPE_END : 0), is_enveloped);
    if (at && is_enveloped) {
        at[len] = '}';
    }
    return at;
}

static size_t websocket_sink_pending(const struct sink *sink)
{
    return websocket_of_sink(sink)->out.pending;
}

static void websocket_sink_cut(struct sink *sink, const char *reason)
{
    websocket_close(websocket_of_sink(sink), reason);
}

static struct channel *websocket_sink_channel(const struct sink *sink)
{
    return &websocket_of_sink(sink)->channel;
}

const struct sink_ops websocket_sink_ops = {
    .name = "websocket",
    .room = websocket_sink_room,
    .prime = message_conn_sink_prime,
    .pending = websocket_sink_pending,
    .end = message_conn_sink_end,
    .cut = websocket_sink_cut,
    .channel = websocket_sink_channel,
};

/* ---- messages in ----------------------------------------------------------------------------- */

/* What is in the envelope, if `text` is one, into `out`. */
static bool websocket_unwrap(struct websocket *ws, struct tidings_str text, struct buf *out)
{
    struct json *root = NULL;
    struct tidings_error err;
    if (jv_parse(text, ws->ww->worker->limits->max_depth + 1, &root, &err) < 0) {
        return false; /* whoever handles it says what is wrong */
    }
    struct json *payload = jv_get(root, "payload");
    if (payload && str_eq(jv_str(jv_get(root, "type")), STR("mcp"))) {
        struct jw w;
        jw_init(&w, out);
        jw_value(&w, payload);
    }
    jv_unref(root);
    return out->len > 0 && !out->failed;
}

static void websocket_on_text(struct websocket *ws, struct tidings_str text)
{
    struct buf inner;
    buf_init(&inner, 2 * text.len + 64);
    ws->was_enveloped =
        dialect_rules(ws->ww->worker->self)->has_envelopes && websocket_unwrap(ws, text, &inner);
    ws->uses_envelopes = ws->uses_envelopes || ws->was_enveloped;
    inbound_text(&ws->channel, ws->was_enveloped ? buf_str(&inner) : text, NULL);
    buf_deinit(&inner);
}

bool websocket_end_if_expired(struct websocket *ws, int64_t now_ms)
{
    const struct principal *principal = ws->channel.principal;
    if (!principal_is_expired(principal, now_ms)) {
        return false;
    }
    websocket_say_close(ws, WS_POLICY,
                        principal->kind == PRINCIPAL_CERTIFICATE
                            ? STR("the certificate has expired")
                            : STR("the token has expired"),
                        WEBSOCKET_LEAVING);
    return true;
}

/* … or taken back, a moment ago perhaps. */
static bool is_somebody(struct websocket *ws)
{
    const struct websocket_owner *owner = &ws->ww->owner;
    owner->review(owner->user);
    return websocket_is_open(ws) && !websocket_end_if_expired(ws, clock_wall_ms());
}

static void websocket_on_message(struct websocket *ws, enum ws_event event,
                                 const struct ws_message *m)
{
    bool is_over = ws->state == WEBSOCKET_AWAITING_CLOSE; /* we have said our close */
    switch (event) {
    case WS_TEXT:
        if (!is_over && is_somebody(ws)) {
            websocket_on_text(ws, m->payload);
        }
        break;
    case WS_PING:
        if (!is_over) {
            websocket_put_control(ws, WS_OP_PONG, m->payload);
        }
        break;
    case WS_CLOSE:
        if (is_over) {
            websocket_close(ws, "closed by both sides");
        } else {
            websocket_say_close(ws, m->code, STR_EMPTY, WEBSOCKET_CLOSING);
        }
        break;
    case WS_FAILED:
        if (is_over) {
            websocket_close(ws, "malformed frame");
        } else {
            if (m->code == WS_TOO_BIG) {
                limit_hit(ws->ww->worker->limit_counters, LIMIT_BODY);
            }
            websocket_say_close(ws, m->code, m->payload, WEBSOCKET_REFUSED);
        }
        break;
    case WS_PONG:
    case WS_MORE:
        break;
    }
}

static struct ws_reader *take_reader(struct websocket_worker *ww, struct tidings_error *err)
{
    struct ws_reader *r = ww->spare_reader;
    ww->spare_reader = NULL;
    return r ? r : ws_reader_create(ww->config.max_message, err);
}

static void give_back_reader(struct websocket_worker *ww, struct ws_reader *r)
{
    if (ww->spare_reader) {
        ws_reader_destroy(r);
    } else {
        ww->spare_reader = r;
    }
}

int websocket_check_reader(struct websocket_worker *ww, struct tidings_error *err)
{
    struct tidings_error why = {0};
    struct ws_reader *r = take_reader(ww, &why);
    if (!r) {
        *err = why;
        return why.code < 0 ? why.code : TIDINGS_E_NOMEM;
    }
    give_back_reader(ww, r); /* for the first message */
    return 0;
}

void websocket_free_reader(struct websocket *ws)
{
    ws_reader_destroy(ws->reader);
    ws->reader = NULL;
}

static bool may_take_more(const struct websocket *ws)
{
    return websocket_is_open(ws) && message_conn_has_room(&ws->channel, &ws->out);
}

bool websocket_has_room(const struct websocket *ws)
{
    return !ws->has_rest && may_take_more(ws);
}

/* May it handle another message in this turn? If not, it goes on in the next. */
static bool may_go_on(struct websocket *ws)
{
    if (ws->ww->draining || channel_may_go_on(&ws->channel)) {
        return true;
    }
    websocket_set_state(ws, WEBSOCKET_YIELDED);
    return false;
}

/* The time for a message begins with its first byte, and anew with every INPUT_STEP bytes of it;
 * pings and empty fragments are no part of it. While we do not read it is not the client's time. */
static void websocket_time_message(struct websocket *ws, bool was_heard)
{
    bool is_midway = ws->reader && !ws->has_rest;
    if (ws->state == WEBSOCKET_YIELDED) {
        return;
    }
    if (is_midway) {
        bool has_grown = ws_reader_has_grown(ws->reader, INPUT_STEP);
        if (ws->state != WEBSOCKET_MIDWAY || was_heard || has_grown) {
            websocket_set_state(ws, WEBSOCKET_MIDWAY);
        }
    } else if (ws->state == WEBSOCKET_MIDWAY) {
        websocket_set_state(ws, WEBSOCKET_OPEN);
    }
}

/* Handle what was read, as far as there is room for it. */
static void websocket_handle_frames(struct websocket *ws)
{
    struct ws_message m;
    enum ws_event event = WS_PONG;
    bool was_heard = false; /* a whole message */
    while (event != WS_MORE &&
           ((may_take_more(ws) && may_go_on(ws)) || ws->state == WEBSOCKET_AWAITING_CLOSE)) {
        event = ws_reader_next(ws->reader, &m);
        was_heard = was_heard || event == WS_TEXT;
        websocket_on_message(ws, event, &m);
    }
    if (!websocket_is_open(ws) && ws->state != WEBSOCKET_AWAITING_CLOSE) {
        return;
    }
    ws->has_rest = event != WS_MORE && !ws_reader_is_idle(ws->reader);
    if (ws_reader_is_idle(ws->reader)) {
        give_back_reader(ws->ww, ws->reader);
        ws->reader = NULL;
    } else if (ws_reader_keep(ws->reader) < 0) {
        websocket_close(ws, "out of memory");
        return;
    }
    if (websocket_is_open(ws)) {
        websocket_time_message(ws, was_heard);
    }
    websocket_book_input(ws);
}

void websocket_receive(struct websocket *ws, const char *bytes, size_t len)
{
    if (!ws->reader) {
        ws->reader = take_reader(ws->ww, NULL);
    }
    if (!ws->reader) {
        websocket_close(ws, "out of memory");
        return;
    }
    ws_reader_feed(ws->reader, bytes, len);
    websocket_handle_frames(ws);
}

void websocket_go_on(struct websocket *ws)
{
    if (ws->has_rest) {
        websocket_handle_frames(ws);
    }
}
