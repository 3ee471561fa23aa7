/* SPDX-License-Identifier: MIT
 *
 * Life of WebSockets: from the upgrade to the close, what their socket says and takes, and the one
 * function that moves their state.
 */
#include "transport/websocket.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "engine/delivery/delivery.h"
#include "engine/protocol/enforce.h"
#include "engine/protocol/inbound.h"
#include "formats/json_write.h"
#include "security/failures.h"
#include "transport/connection.h"
#include "transport/peer_identity.h"

/* -------------------------------------------------------------------------------------------------
 * Messages of WebSockets: frames in, frames out, and the channel and the sink through which answers
 * and notifications come.
 *
 * A reader of frames is borrowed from the worker while bytes are read, and kept only by a
 * connection that is in the middle of a message.
 */

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

static void websocket_put_control(struct websocket *ws, enum ws_opcode opcode,
                                  struct tidings_str payload)
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

static void websocket_set_state(struct websocket *ws, enum websocket_state state);

/* Say a last word, after which nothing is said and nothing under way matters. `next`: CLOSING,
 * LEAVING or REFUSED. */
static void websocket_say_close(struct websocket *ws, unsigned code, struct tidings_str reason,
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

static void websocket_close(struct websocket *ws, const char *reason);

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

static bool websocket_end_if_expired(struct websocket *ws, int64_t now_ms)
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

/* It keeps the token or certificate it began with; when that is over, so is it. */
static void websocket_free_reader(struct websocket *ws)
{
    ws_reader_destroy(ws->reader);
    ws->reader = NULL;
}

static bool may_take_more(const struct websocket *ws)
{
    return websocket_is_open(ws) && message_conn_has_room(&ws->channel, &ws->out);
}

static bool websocket_has_room(const struct websocket *ws)
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

static void websocket_book_input(struct websocket *ws);

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

/* Bytes were read. */
static void websocket_receive(struct websocket *ws, const char *bytes, size_t len)
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

/* Is there room for what it may send? When there is again, go on with what waits. */
static void websocket_go_on(struct websocket *ws)
{
    if (ws->has_rest) {
        websocket_handle_frames(ws);
    }
}

/* ---------------------------------------------------------------------------------------------- */

/* Bytes read per connection and turn, so that one talker does not starve the rest. */
#define READ_QUANTUM (4u * 65536u)

/* ---- state ----------------------------------------------------------------------------------- */

#define TO(state) (1u << WEBSOCKET_##state)
#define TO_OPEN (TO(OPEN) | TO(MIDWAY) | TO(YIELDED))
#define TO_END (TO(CLOSING) | TO(LEAVING) | TO(REFUSED) | TO(GONE))

/* The drawing in websocket.h. To itself: its time begins anew. */
static const uint16_t moves[WEBSOCKET_STATES] = {
    [WEBSOCKET_OPEN] = TO_OPEN | TO(PINGED) | TO_END,
    [WEBSOCKET_PINGED] = TO_OPEN | TO(PINGED) | TO_END,
    [WEBSOCKET_MIDWAY] = TO_OPEN | TO_END,
    [WEBSOCKET_YIELDED] = TO(OPEN) | TO(YIELDED) | TO_END,
    [WEBSOCKET_CLOSING] = TO(GONE),
    [WEBSOCKET_LEAVING] = TO(AWAITING_CLOSE) | TO(GONE),
    [WEBSOCKET_REFUSED] = TO(LINGER) | TO(GONE),
    [WEBSOCKET_AWAITING_CLOSE] = TO(REFUSED) | TO(GONE),
    [WEBSOCKET_LINGER] = TO(REFUSED) | TO(GONE),
    [WEBSOCKET_GONE] = 0,
};

bool websocket_may_move(enum websocket_state from, enum websocket_state to)
{
    return (moves[from] >> to & 1u) != 0;
}

static void websocket_enter(struct websocket *ws, enum websocket_state state)
{
    deadline_enter(&ws->ww->lists[state], &ws->deadline);
    ws->deadline.noted = ws->deadline.listed_ms;
    ws->state = state;
}

static void websocket_set_state(struct websocket *ws, enum websocket_state state)
{
    if (!websocket_may_move(ws->state, state)) {
        assert(!"a transition that the table of states does not have");
        log_warn(LOG_TRANSPORT, "WebSocket closed", KV("reason", "internal: impossible state"),
                 KV("from", (int)ws->state), KV("to", (int)state));
        websocket_close(ws, "internal: impossible state");
        return;
    }
    websocket_enter(ws, state);
    if (ws->input_counted > 0) { /* what is handled within a turn is never counted */
        websocket_book_input(ws);
    }
}

/* Ask the loop for what it waits for now. */
static void websocket_want(struct websocket *ws)
{
    if (ws->state == WEBSOCKET_GONE) {
        return;
    }
    bool is_ending = ws->state == WEBSOCKET_CLOSING || ws->state == WEBSOCKET_LEAVING ||
                     ws->state == WEBSOCKET_REFUSED;
    bool reads = ws->state == WEBSOCKET_AWAITING_CLOSE || ws->state == WEBSOCKET_LINGER ||
                 websocket_has_room(ws);
    int events = sendq_awaits_room(&ws->out) ? LOOP_WRITE : 0;
    if (!ws->eof && !is_ending && ws->state != WEBSOCKET_YIELDED) {
        events |= LOOP_HANGUP;
    }
    if (reads && !ws->eof) {
        events |= LOOP_READ;
    }
    loop_poll_want(&ws->poll, events);
}

/* Count the input it holds. */
static void websocket_book_input(struct websocket *ws)
{
    struct worker *worker = ws->ww->worker;
    size_t held = ws->state != WEBSOCKET_GONE && ws->reader ? ws_reader_size(ws->reader) : 0;
    if (held < ws->input_counted) {
        worker_trim_later(worker, ws->input_counted - held);
    }
    input_count_held(worker->limit_counters, ws->channel.origin, &ws->input_counted, held);
}

static void websocket_free(void *thing)
{
    struct websocket *ws = thing;
    websocket_free_reader(ws);
    mem_free(ws);
}

static void websocket_close(struct websocket *ws, const char *reason)
{
    struct websocket_worker *ww = ws->ww;
    if (ws->state == WEBSOCKET_GONE) {
        return;
    }
    log_debug(LOG_TRANSPORT, "connection closed", KV("reason", reason),
              KV("worker", ww->worker->index));
    struct channel_facts facts;
    channel_ending(&ws->channel, reason, &facts);
    int fd = ws->out.fd;
    deadline_leave(&ww->lists[ws->state], &ws->deadline);
    deadline_leave(&ww->stalled, &ws->stall);
    ws->state = WEBSOCKET_GONE; /* from everywhere; in no list */
    loop_poll_deinit(&ws->poll);
    sendq_deinit(&ws->out);
    output_book_queue(&ws->channel, &ws->sink, &ws->out);
    websocket_book_input(ws);
    close(fd);
    worker_inbox_left(ww->owner.inbox);
    worker_inbox_give_back(ww->owner.inbox, ws->channel.quota, ws->channel.origin);
    sink_closed(&ws->sink);
    channel_deinit(&ws->channel);
    channel_ended(&ws->channel);
    loop_discard(ww->worker->loop, &ws->discard, websocket_free, ws);
    ww->owner.left(ww->owner.user);
}

/* ---- the socket ------------------------------------------------------------------------------ */

/* There may be an alert for it, which is read only when we do not close in its face. */
static void refuse_tls(struct websocket *ws)
{
    log_debug(LOG_TRANSPORT, "TLS failed", KV("reason", tls_session_reason(sendq_tls(&ws->out))),
              KV("worker", ws->ww->worker->index));
    if (ws->out.pending == 0) {
        websocket_close(ws, "TLS failed");
    } else {
        websocket_set_state(ws, WEBSOCKET_REFUSED);
    }
}

/* What the client sent, into the scratch buffer. Returns the bytes; 0: none at the moment, or none
 * ever when `eof` is set, which may come with the last ones; -1: it was closed, or will be. */
static ssize_t websocket_read_socket(struct websocket *ws)
{
    const struct websocket_owner *owner = &ws->ww->owner;
    struct tls_session *tls = sendq_tls(&ws->out);
    if (tls && tls_session_reason(tls)[0] != '\0') {
        tls = NULL; /* it failed: what still comes is of no interest */
    }
    bool ended = false;
    ssize_t n = tls_recv(tls, ws->out.fd, owner->scratch, owner->scratch_size, &ended);
    ws->eof = ws->eof || ended;
    if (n < 0 && tls && tls_session_reason(tls)[0] != '\0') {
        refuse_tls(ws);
    } else if (n < 0) {
        websocket_close(ws, "reset");
    }
    owner->worker->stats.bytes_in += n > 0 ? (size_t)n : 0;
    return n < 0 ? -1 : n;
}

static void discard_input(struct websocket *ws)
{
    if (websocket_read_socket(ws) >= 0 && ws->eof) {
        websocket_close(ws, "refused");
    }
}

static void websocket_note_received(struct websocket *ws)
{
    if (ws->state == WEBSOCKET_PINGED) {
        websocket_set_state(ws, WEBSOCKET_OPEN);
    }
    if (ws->state != WEBSOCKET_MIDWAY) { /* which is not put off by what drips in */
        ws->deadline.noted = (uint32_t)loop_now_ms(ws->ww->worker->loop);
    }
}

/* Read what has come, as far as there is room for it. */
static void websocket_read(struct websocket *ws)
{
    const struct websocket_owner *owner = &ws->ww->owner;
    bool is_over = ws->state == WEBSOCKET_AWAITING_CLOSE;
    for (size_t total = 0; total < READ_QUANTUM && (is_over || !ws->has_rest);) {
        ssize_t n = websocket_read_socket(ws);
        if (n > 0 && !is_over) {
            websocket_note_received(ws);
        }
        if (n > 0) {
            websocket_receive(ws, owner->scratch, (size_t)n);
            total += (size_t)n;
        }
        if (!websocket_is_open(ws) && ws->state != WEBSOCKET_AWAITING_CLOSE) {
            return;
        }
        if (ws->eof) {
            websocket_close(ws, "closed by the client without a close frame");
            return;
        }
        if (n < (ssize_t)owner->scratch_size) {
            return; /* most likely all there is; level-triggered anyway */
        }
    }
}

static void websocket_on_flushed(struct sendq *q, enum sendq_state state);

static void websocket_cut_unfair(struct websocket *ws);

static void websocket_on_event(struct loop_poll *poll, int events, void *user)
{
    (void)poll;
    struct websocket *ws = user;
    struct websocket_worker *ww = ws->ww;
    if (events & LOOP_ERROR) {
        websocket_close(ws, peer_identity_failure(&ws->channel, &ws->out, "socket error"));
        return;
    }
    if (events & LOOP_WRITE) {
        websocket_on_flushed(&ws->out, sendq_flush(&ws->out));
        if (ws->state == WEBSOCKET_GONE) {
            return;
        }
    }
    bool is_read = websocket_is_open(ws) || ws->state == WEBSOCKET_AWAITING_CLOSE;
    if ((events & LOOP_READ) && is_read) {
        websocket_read(ws);
    } else if ((events & LOOP_READ) && ws->state == WEBSOCKET_LINGER) {
        discard_input(ws);
    } else if (events & LOOP_HANGUP) {
        websocket_close(ws, "closed by the client"); /* cancels what was under way */
        return;
    }
    websocket_want(ws);
    websocket_book_input(ws);
    if (ws->input_counted > 0) {
        websocket_cut_unfair(ws);
        ww->owner.make_room(ww->owner.user);
    }
}

/* The last word was written. */
static void on_last_written(struct websocket *ws)
{
    if (ws->state == WEBSOCKET_CLOSING || ws->eof) {
        websocket_close(ws, "done");
    } else if (ws->state == WEBSOCKET_LEAVING) {
        websocket_set_state(ws, WEBSOCKET_AWAITING_CLOSE);
        websocket_go_on(ws);
        websocket_want(ws);
    } else {
        sendq_end(&ws->out);
        websocket_set_state(ws, WEBSOCKET_LINGER);
        websocket_want(ws);
    }
}

static void begin_waiting(struct websocket *ws)
{
    output_book_queue(&ws->channel, &ws->sink, &ws->out);
    deadline_await(&ws->ww->stalled, &ws->stall, &ws->out);
    websocket_want(ws);
}

static void websocket_on_flushed(struct sendq *q, enum sendq_state state)
{
    struct websocket *ws = list_entry(q, struct websocket, out);
    bool is_open = websocket_is_open(ws);
    if (state == SENDQ_EMPTY && is_open && (ws->poll.wanted & LOOP_READ) != 0 &&
        !deadline_is_listed(&ws->stall) && !ws->sink.blocked && !ws->has_long &&
        ws->sink.booked == 0) {
        return; /* the ordinary case: nothing waited */
    }
    if (state == SENDQ_BROKEN) {
        websocket_close(ws, peer_identity_failure(&ws->channel, &ws->out, sendq_reason(q)));
        return;
    }
    if (state == SENDQ_WAITING) {
        begin_waiting(ws);
        return;
    }
    deadline_leave(&ws->ww->stalled, &ws->stall);
    output_book_queue(&ws->channel, &ws->sink, &ws->out);
    if (ws->state == WEBSOCKET_CLOSING || ws->state == WEBSOCKET_LEAVING ||
        ws->state == WEBSOCKET_REFUSED) {
        on_last_written(ws);
        return;
    }
    sink_drained(&ws->sink);
    if (ws->has_long) {
        ws->has_long = delivery_drained(&ws->channel);
    }
    websocket_go_on(ws);
    websocket_want(ws);
}

/* ---- the beginning --------------------------------------------------------------------------- */

struct websocket *websocket_create(struct websocket_worker *ww)
{
    struct websocket *ws = mem_zalloc(sizeof(*ws));
    if (ws) {
        ws->ww = ww;
    }
    return ws;
}

void websocket_open(struct websocket *ws, const struct websocket_start *start)
{
    struct websocket_worker *ww = ws->ww;
    deadline_init(&ws->deadline);
    deadline_init(&ws->stall);
    channel_init(&ws->channel, &websocket_channel_ops, ww->worker);
    channel_set_principal(&ws->channel, start->principal);
    ws->channel.quota = start->quota;
    ws->channel.origin = start->origin;
    ws->sink.ops = &websocket_sink_ops;
    ws->eof = start->eof;
    sendq_move(&ws->out, start->out, websocket_on_flushed);
    websocket_enter(ws, WEBSOCKET_OPEN);
    if (loop_poll_init(&ws->poll, ww->worker->loop, ws->out.fd, websocket_on_event, ws, NULL) < 0) {
        websocket_close(ws, "out of memory");
        return;
    }
    int64_t end = start->principal ? start->principal->expires_ms : 0;
    if (end > 0 && (ww->next_expiry_ms == 0 || end < ww->next_expiry_ms)) {
        ww->next_expiry_ms = end;
    }
    if (start->input.len > 0) {
        websocket_receive(ws, start->input.ptr, start->input.len);
    }
    if (ws->eof && websocket_is_open(ws)) {
        websocket_close(ws, "closed by the client without a close frame");
    }
    if (ws->out.is_waiting && ws->state != WEBSOCKET_GONE) {
        begin_waiting(ws); /* for answers before it that were not written yet */
    }
    websocket_want(ws);
}

static void websocket_deadlines_init(struct websocket_worker *ww);

/* ---- workers --------------------------------------------------------------------------------- */

struct websocket_worker *websocket_worker_create(const struct websocket_config *config,
                                                 const struct websocket_owner *owner)
{
    struct websocket_worker *ww = mem_zalloc(sizeof(*ww));
    if (!ww) {
        return NULL;
    }
    ww->config = *config;
    ww->owner = *owner;
    ww->worker = owner->worker;
    websocket_deadlines_init(ww);
    return ww;
}

void websocket_worker_destroy(struct websocket_worker *ww)
{
    if (!ww) {
        return;
    }
    for (size_t i = 0; i < WEBSOCKET_LISTS; i++) {
        struct deadline *first;
        while ((first = deadline_list_first(&ww->lists[i])) != NULL) {
            websocket_close(websocket_of_deadline(first), "shutdown");
        }
    }
    ws_reader_destroy(ww->spare_reader);
    mem_free(ww);
}

/* -------------------------------------------------------------------------------------------------
 * Ends WebSockets for other reasons than that their clients close them: deadlines, too much input,
 * principals that expire or are taken back, and the end of the server.
 */

/* How long a refused client may go on sending before the connection is reset. */
#define LINGER_MS 1000u

/* The lists of those on which messages may come and go. */
static const int open_lists[] = {WEBSOCKET_OPEN, WEBSOCKET_PUT_OFF, WEBSOCKET_PINGED,
                                 WEBSOCKET_MIDWAY, WEBSOCKET_YIELDED};
#define OPEN_LISTS (sizeof(open_lists) / sizeof(open_lists[0]))

/* ---- silence --------------------------------------------------------------------------------- */

/* Whether it reads is watched already; whether it writes cannot be seen while nobody reads. */
static bool may_be_silent(const struct websocket *ws)
{
    return ws->out.pending > 0 || (ws->poll.wanted & LOOP_READ) == 0;
}

/* Nothing was heard from it: ask whether it is there. One that was heard of is put off without
 * being moved for each message: it is looked at every eighth of the time from then on, and asked
 * after six to eight eighths of silence. */
static void websocket_ping(struct deadline *deadline)
{
    struct websocket *ws = websocket_of_deadline(deadline);
    struct deadline_list *put_off = &ws->ww->lists[WEBSOCKET_PUT_OFF];
    uint64_t time = ws->ww->config.keepalive_ms;
    if (deadline_age_ms(put_off, deadline->noted) < time - time / 4) {
        deadline_enter(put_off, deadline);
        return;
    }
    if (may_be_silent(ws)) {
        websocket_set_state(ws, WEBSOCKET_OPEN);
        return;
    }
    websocket_put_control(ws, WS_OP_PING, STR_EMPTY);
    websocket_set_state(ws, WEBSOCKET_PINGED);
}

/* It did not say so. */
static void websocket_give_up(struct deadline *deadline)
{
    struct websocket *ws = websocket_of_deadline(deadline);
    if (may_be_silent(ws)) {
        websocket_set_state(ws, WEBSOCKET_PINGED);
        return;
    }
    ws->ww->worker->stats.cut++;
    limit_hit(ws->ww->worker->limit_counters, LIMIT_STALL);
    delivery_log_cut(&ws->channel, ws->out.pending, 0, "it answers no ping (--stall-timeout)");
    websocket_close(ws, "stalled: nothing comes, not even an answer to a ping");
}

static void close_unread(struct deadline *deadline)
{
    websocket_close(websocket_of_deadline(deadline), "the client does not read");
}

static void websocket_cut_stalled(struct deadline *stall)
{
    struct websocket *ws = list_entry(stall, struct websocket, stall);
    ws->ww->worker->stats.cut++;
    limit_hit(ws->ww->worker->limit_counters, LIMIT_STALL);
    delivery_log_cut(&ws->channel, ws->out.pending, 0, "it takes nothing (--stall-timeout)");
    websocket_close(ws, "stalled: the client does not read");
}

/* ---- half a message -------------------------------------------------------------------------- */

/* Say why and close; whatever else it sends is thrown away for a while. */
static void refuse_input(struct websocket *ws, unsigned code, struct tidings_str reason)
{
    websocket_say_close(ws, code, reason, WEBSOCKET_REFUSED);
    websocket_free_reader(ws);
    websocket_book_input(ws);
}

static void refuse_late(struct deadline *deadline)
{
    struct websocket *ws = websocket_of_deadline(deadline);
    if (!websocket_has_room(ws)) {
        websocket_set_state(ws, WEBSOCKET_MIDWAY); /* it waits for us, not we for it */
        return;
    }
    limit_hit(ws->ww->worker->limit_counters, LIMIT_BODY_TIME);
    refuse_input(ws, WS_POLICY, STR("the rest of the message did not arrive in time"));
}

static void cut_input(struct websocket *ws)
{
    limit_hit(ws->ww->worker->limit_counters, LIMIT_INPUT);
    refuse_input(ws, WS_TRY_AGAIN, STR("too much unfinished input; see --max-input"));
    websocket_want(ws);
}

static struct websocket *find_slowest(const struct websocket_worker *ww)
{
    list_each (it, next, &ww->lists[WEBSOCKET_MIDWAY].all) {
        struct websocket *ws = list_entry(it, struct websocket, deadline.link);
        if (!input_may_stay(ww->worker->limit_counters, ws->channel.origin)) {
            return ws;
        }
    }
    return NULL;
}

/* Cut it if its client holds more input than its share. */
static void websocket_cut_unfair(struct websocket *ws)
{
    if (ws->state == WEBSOCKET_MIDWAY &&
        input_is_unfair(ws->ww->worker->limit_counters, ws->channel.origin, ws->input_counted)) {
        cut_input(ws);
    }
}

bool websocket_find_slowest(const struct websocket_worker *ww, uint32_t *since_ms)
{
    const struct websocket *ws = find_slowest(ww);
    *since_ms = ws ? ws->deadline.listed_ms : 0;
    return ws != NULL;
}

void websocket_cut_slowest(struct websocket_worker *ww)
{
    struct websocket *ws = find_slowest(ww);
    if (ws) {
        cut_input(ws);
    }
}

static void websocket_cut_tight(struct websocket_worker *ww)
{
    const struct deadline_list *midway = &ww->lists[WEBSOCKET_MIDWAY];
    list_each (it, next, &midway->all) {
        struct websocket *ws = list_entry(it, struct websocket, deadline.link);
        if (deadline_age_ms(midway, ws->deadline.listed_ms) < INPUT_TIGHT_MS) {
            return;
        }
        cut_input(ws);
    }
}

/* ---- who they are ---------------------------------------------------------------------------- */

void websocket_dismiss(struct websocket_worker *ww, principal_test_fn is_gone, void *user)
{
    for (size_t i = 0; i < OPEN_LISTS; i++) {
        list_each (it, next, &ww->lists[open_lists[i]].all) {
            struct websocket *ws = list_entry(it, struct websocket, deadline.link);
            if (ws->channel.principal && is_gone(user, ws->channel.principal)) {
                websocket_say_close(ws, WS_POLICY, STR("the token was revoked"), WEBSOCKET_LEAVING);
                websocket_want(ws);
            }
        }
    }
}

static void websocket_expire_principals(struct websocket_worker *ww)
{
    int64_t now = ww->next_expiry_ms > 0 ? clock_wall_ms() : 0;
    if (ww->next_expiry_ms == 0 || now < ww->next_expiry_ms) {
        return;
    }
    ww->next_expiry_ms = 0;
    for (size_t i = 0; i < OPEN_LISTS; i++) {
        list_each (it, next, &ww->lists[open_lists[i]].all) {
            struct websocket *ws = list_entry(it, struct websocket, deadline.link);
            int64_t end = ws->channel.principal ? ws->channel.principal->expires_ms : 0;
            if (end == 0) {
                continue;
            }
            if (websocket_end_if_expired(ws, now)) {
                websocket_want(ws);
            } else if (ww->next_expiry_ms == 0 || end < ww->next_expiry_ms) {
                ww->next_expiry_ms = end;
            }
        }
    }
}

/* ---- the end of the server ------------------------------------------------------------------- */

static bool is_done_with(const struct websocket *ws)
{
    return websocket_is_open(ws) && !ws->has_rest &&
           drain_is_done_with(ws->ww->worker, &ws->channel);
}

void websocket_drain(struct websocket_worker *ww)
{
    ww->draining = true;
    for (size_t i = 0; i < OPEN_LISTS; i++) {
        list_each (it, next, &ww->lists[open_lists[i]].all) {
            struct websocket *ws = list_entry(it, struct websocket, deadline.link);
            if (is_done_with(ws)) {
                websocket_read(ws); /* whatever has come is still answered */
            }
            if (is_done_with(ws)) {
                websocket_say_close(ws, WS_GOING_AWAY, STR("the server is going away"),
                                    WEBSOCKET_LEAVING);
            }
            websocket_want(ws);
        }
    }
}

/* ---- turns ----------------------------------------------------------------------------------- */

bool websocket_has_yielded(const struct websocket_worker *ww)
{
    return deadline_list_first(&ww->lists[WEBSOCKET_YIELDED]) != NULL;
}

void websocket_resume(struct websocket_worker *ww)
{
    const struct deadline_list *yielded = &ww->lists[WEBSOCKET_YIELDED];
    struct deadline *first;
    size_t count = 0; /* who yields meanwhile is behind these; who is ended leaves them */
    list_each (it, next, &yielded->all) {
        count++;
    }
    for (; count > 0 && (first = deadline_list_first(yielded)) != NULL; count--) {
        struct websocket *ws = websocket_of_deadline(first);
        websocket_set_state(ws, WEBSOCKET_OPEN);
        websocket_go_on(ws);
        websocket_want(ws);
    }
}

/* ---- the timer ------------------------------------------------------------------------------- */

void websocket_check_due(struct websocket_worker *ww)
{
    if (input_is_tight(ww->worker->limit_counters)) {
        websocket_cut_tight(ww);
    }
    websocket_expire_principals(ww);
    if (ww->draining) {
        websocket_drain(ww);
    }
}

uint64_t websocket_next_check(const struct websocket_worker *ww)
{
    uint64_t tight = input_next_check(ww->worker->limit_counters, &ww->lists[WEBSOCKET_MIDWAY]);
    uint64_t expiry = deadlines_at_wall(ww->owner.deadlines, ww->next_expiry_ms);
    return tight < expiry ? tight : expiry;
}

static void websocket_deadlines_init(struct websocket_worker *ww)
{
    const struct websocket_config *config = &ww->config;
    const struct {
        uint64_t after_ms;
        deadline_fn due;
    } times[WEBSOCKET_LISTS] = {
        [WEBSOCKET_MIDWAY] = {config->message_timeout_ms, refuse_late},
        [WEBSOCKET_OPEN] = {config->keepalive_ms - config->keepalive_ms / 8, websocket_ping},
        [WEBSOCKET_PUT_OFF] = {config->keepalive_ms / 8, websocket_ping},
        [WEBSOCKET_PINGED] = {config->stall_timeout_ms, websocket_give_up},
        [WEBSOCKET_CLOSING] = {config->stall_timeout_ms, close_unread},
        [WEBSOCKET_LEAVING] = {config->stall_timeout_ms, close_unread},
        [WEBSOCKET_REFUSED] = {config->stall_timeout_ms, close_unread},
        [WEBSOCKET_AWAITING_CLOSE] = {LINGER_MS, close_unread},
        [WEBSOCKET_LINGER] = {LINGER_MS, close_unread},
    };
    struct deadlines *deadlines = ww->owner.deadlines;
    for (size_t i = 0; i < WEBSOCKET_LISTS; i++) {
        deadline_list_init(&ww->lists[i], deadlines, times[i].after_ms, times[i].due);
    }
    deadline_list_init(&ww->stalled, deadlines, config->stall_timeout_ms, websocket_cut_stalled);
}
