/* SPDX-License-Identifier: MIT
 *
 * Life of WebSockets: from the upgrade to the close, input and output of their sockets, and the one
 * function that changes their state.
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

static struct websocket *websocket_of(struct connection *c)
{
    return (struct websocket *)(void *)c;
}

static struct websocket_worker *websocket_worker_of(const struct websocket *ws)
{
    return list_entry(ws->base.all, struct websocket_worker, conns);
}

/* Returns true if messages can be received and sent. */
static bool websocket_is_open(const struct websocket *ws)
{
    return ws->base.state <= WEBSOCKET_THROTTLED;
}

/* The envelope of a message, for clients that use it (profile lumenize). */
#define ENVELOPE "{\"type\":\"mcp\",\"payload\":"
#define ENVELOPE_BEGIN (sizeof(ENVELOPE) - 1)
#define ENVELOPE_END 1u

/* ---- frames out ------------------------------------------------------------------------------ */

/* Reserves space for the beginning of a message of `len` bytes of which the first `here` follow
 * it. */
static char *websocket_begin_message(struct websocket *ws, size_t len, size_t here,
                                     bool is_enveloped)
{
    size_t payload = len + (is_enveloped ? ENVELOPE_BEGIN + ENVELOPE_END : 0);
    size_t head = ws_header_len(payload) + (is_enveloped ? ENVELOPE_BEGIN : 0);
    char *at = websocket_is_open(ws) ? sendq_reserve(&ws->base.out, head + here) : NULL;
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
    char *at = sendq_reserve(&ws->base.out, ws_header_len(payload.len) + payload.len);
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

/* Sends a close frame; nothing is sent after it, and requests under way are void. `next`: CLOSING,
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
        .principal = ws->base.channel.principal,
    };
    if (next == WEBSOCKET_REFUSED) {
        channel_failed(&ws->base.channel, &failure);
    }
    sink_closed(&ws->base.sink);
    channel_deinit(&ws->base.channel);
    sendq_put(&ws->base.out, frame, len);
    ws->base.has_rest =
        ws->base.has_rest && next == WEBSOCKET_LEAVING; /* it may contain the client's close */
    connection_set_state(&ws->base, next);
}

/* ---- the channel and the sink ---------------------------------------------------------------- */

static struct websocket *websocket_of_channel(const struct channel *channel)
{
    return list_entry((struct channel *)(uintptr_t)channel, struct websocket, base.channel);
}

static struct websocket *websocket_of_sink(const struct sink *sink)
{
    return list_entry((struct sink *)(uintptr_t)sink, struct websocket, base.sink);
}

static void websocket_answer(struct channel *channel, int status,
                             const struct response_headers *headers, struct buf *text)
{
    (void)status;
    (void)headers;
    struct websocket *ws = websocket_of_channel(channel);
    bool is_enveloped = ws->base.was_enveloped;
    if (text->len == 0 || !websocket_begin_message(ws, text->len, 0, is_enveloped)) {
        return; /* out of memory even for an error; or broken, which its flush will find */
    }
    connection_put(&ws->base, text);
    if (is_enveloped) {
        sendq_put(&ws->base.out, "}", ENVELOPE_END);
    }
    connection_book_answer(&ws->base);
}

static void websocket_answer_long(struct channel *channel, int status,
                                  const struct response_headers *headers,
                                  struct sendq_source *source)
{
    (void)status;
    (void)headers;
    struct websocket *ws = websocket_of_channel(channel);
    bool is_enveloped = ws->base.was_enveloped;
    if (!websocket_begin_message(ws, source->left, 0, is_enveloped)) {
        source->destroy(source); /* the flush will find that it is broken */
        return;
    }
    if (sendq_put_source(&ws->base.out, source) == 0 && is_enveloped) {
        sendq_put(&ws->base.out, "}", ENVELOPE_END);
    }
}

/* It receives notifications from now on. */
static struct sink *websocket_stream(struct channel *channel,
                                     const struct response_headers *headers)
{
    (void)headers;
    struct websocket *ws = websocket_of_channel(channel);
    sendq_limit_kernel(&ws->base.out);
    peer_identity_remember(&ws->base.channel, ws->base.out.fd);
    return &ws->base.sink;
}

static const struct channel_ops websocket_channel_ops = {
    .name = "websocket",
    .is_http = false,
    .answer = websocket_answer,
    .answer_long = websocket_answer_long,
    .unbook = connection_unbook,
    .is_sending = connection_is_sending,
    .accepted = message_conn_accepted,
    .stream = websocket_stream,
    .address = connection_address,
    .facts = connection_facts,
};

static char *websocket_sink_reserve(struct sink *sink, struct tidings_str event_id, size_t len)
{
    (void)event_id;
    struct websocket *ws = websocket_of_sink(sink);
    bool is_enveloped = ws->base.uses_envelopes;
    char *at =
        websocket_begin_message(ws, len, len + (is_enveloped ? ENVELOPE_END : 0), is_enveloped);
    if (at && is_enveloped) {
        at[len] = '}';
    }
    return at;
}

static const struct sink_ops websocket_sink_ops = {
    .name = "websocket",
    .room = websocket_sink_reserve,
    .prime = message_conn_sink_prime,
    .pending = connection_sink_pending,
    .end = message_conn_sink_end,
    .cut = connection_sink_cut,
    .channel = connection_sink_channel,
};

/* ---- messages in ----------------------------------------------------------------------------- */

/* Extracts the message from an envelope into `out`, if `text` is one. */
static bool websocket_unwrap(struct websocket *ws, struct tidings_str text, struct buf *out)
{
    struct json *root = NULL;
    struct tidings_error err;
    if (jv_parse(text, ws->base.channel.worker->limits->max_depth + 1, &root, &err) < 0) {
        return false; /* the handler reports the error */
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
    ws->base.was_enveloped = dialect_rules(ws->base.channel.worker->self)->has_envelopes &&
                             websocket_unwrap(ws, text, &inner);
    ws->base.uses_envelopes = ws->base.uses_envelopes || ws->base.was_enveloped;
    inbound_text(&ws->base.channel, ws->base.was_enveloped ? buf_str(&inner) : text, NULL);
    buf_deinit(&inner);
}

static void websocket_set_events(struct websocket *ws);

/* It keeps its first token or certificate, and ends with it. */
static void websocket_end_credentials(struct connection *c, bool is_revoked)
{
    struct websocket *ws = websocket_of(c);
    bool is_certificate = c->channel.principal->kind == PRINCIPAL_CERTIFICATE;
    websocket_say_close(ws, WS_POLICY,
                        is_revoked       ? STR("the token was revoked")
                        : is_certificate ? STR("the certificate has expired")
                                         : STR("the token has expired"),
                        WEBSOCKET_LEAVING);
    websocket_set_events(ws);
}

static bool websocket_end_if_expired(struct websocket *ws, int64_t now_ms)
{
    bool is_expired = principal_is_expired(ws->base.channel.principal, now_ms);
    if (is_expired) {
        websocket_end_credentials(&ws->base, false);
    }
    return is_expired;
}

/* … or revoked, perhaps a moment ago. */
static bool is_somebody(struct websocket *ws)
{
    struct connection_worker *cw = ws->base.all->cw;
    cw->ops->review(cw);
    return websocket_is_open(ws) && !websocket_end_if_expired(ws, clock_wall_ms());
}

static void websocket_on_message(struct websocket *ws, enum ws_event event,
                                 const struct ws_message *m)
{
    bool is_over = ws->base.state == WEBSOCKET_AWAITING_CLOSE; /* the close frame was sent */
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
            connection_close(&ws->base, "closed by both sides");
        } else {
            websocket_say_close(ws, m->code, STR_EMPTY, WEBSOCKET_CLOSING);
        }
        break;
    case WS_FAILED:
        if (is_over) {
            connection_close(&ws->base, "malformed frame");
        } else {
            if (m->code == WS_TOO_BIG) {
                limit_hit(ws->base.channel.worker->limit_counters, LIMIT_BODY);
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

static void websocket_free_reader(struct websocket *ws)
{
    ws_reader_destroy(ws->reader);
    ws->reader = NULL;
}

static bool may_take_more(const struct websocket *ws)
{
    return websocket_is_open(ws) && message_conn_has_space(&ws->base);
}

static bool websocket_has_space(const struct websocket *ws)
{
    return !ws->base.has_rest && may_take_more(ws);
}

/* The time for a message begins with its first byte, and restarts with every INPUT_STEP bytes of
 * it; pings and empty fragments do not count. The time does not run while the server does not
 * read. */
static void websocket_time_message(struct websocket *ws, bool was_heard)
{
    bool is_mid_message = ws->reader && !ws->base.has_rest;
    if (ws->base.state == WEBSOCKET_THROTTLED) {
        return;
    }
    if (is_mid_message) {
        bool has_grown = ws_reader_has_grown(ws->reader, INPUT_STEP);
        if (ws->base.state != WEBSOCKET_PARTIAL || was_heard || has_grown) {
            connection_set_state(&ws->base, WEBSOCKET_PARTIAL);
        }
    } else if (ws->base.state == WEBSOCKET_PARTIAL) {
        connection_set_state(&ws->base, WEBSOCKET_OPEN);
    }
}

/* Handles received frames, as far as there is space. */
static void websocket_handle_frames(struct websocket *ws)
{
    struct ws_message m;
    enum ws_event event = WS_PONG;
    bool was_heard = false; /* a complete message */
    while (event != WS_MORE && ((may_take_more(ws) && connection_may_go_on(&ws->base)) ||
                                ws->base.state == WEBSOCKET_AWAITING_CLOSE)) {
        event = ws_reader_next(ws->reader, &m);
        was_heard = was_heard || event == WS_TEXT;
        websocket_on_message(ws, event, &m);
    }
    if (!websocket_is_open(ws) && ws->base.state != WEBSOCKET_AWAITING_CLOSE) {
        return;
    }
    ws->base.has_rest = event != WS_MORE && !ws_reader_is_idle(ws->reader);
    if (ws_reader_is_idle(ws->reader)) {
        give_back_reader(websocket_worker_of(ws), ws->reader);
        ws->reader = NULL;
    } else if (ws_reader_keep(ws->reader) < 0) {
        connection_close(&ws->base, "out of memory");
        return;
    }
    if (websocket_is_open(ws)) {
        websocket_time_message(ws, was_heard);
    }
    connection_book_input(&ws->base);
}

/* Handles received bytes. */
static void websocket_receive(struct websocket *ws, const char *bytes, size_t len)
{
    if (!ws->reader) {
        ws->reader = take_reader(websocket_worker_of(ws), NULL);
    }
    if (!ws->reader) {
        connection_close(&ws->base, "out of memory");
        return;
    }
    ws_reader_feed(ws->reader, bytes, len);
    websocket_handle_frames(ws);
}

/* Continues with frames that waited, if there is space again. */
static void websocket_go_on(struct websocket *ws)
{
    if (ws->base.has_rest) {
        websocket_handle_frames(ws);
    }
}

/* ---------------------------------------------------------------------------------------------- */

/* Bytes read per connection and turn, so that one client does not starve the rest. */
#define READ_QUANTUM (4u * 65536u)

/* Sets the events that it waits for now. */
static void websocket_set_events(struct websocket *ws)
{
    if (ws->base.state == WEBSOCKET_GONE) {
        return;
    }
    bool is_ending = ws->base.state == WEBSOCKET_CLOSING || ws->base.state == WEBSOCKET_LEAVING ||
                     ws->base.state == WEBSOCKET_REFUSED;
    bool reads = ws->base.state == WEBSOCKET_AWAITING_CLOSE || ws->base.state == WEBSOCKET_LINGER ||
                 websocket_has_space(ws);
    int events = sendq_awaits_space(&ws->base.out) ? LOOP_WRITE : 0;
    if (!ws->base.eof && !is_ending && ws->base.state != WEBSOCKET_THROTTLED) {
        events |= LOOP_HANGUP;
    }
    if (reads && !ws->base.eof) {
        events |= LOOP_READ;
    }
    loop_poll_set_events(&ws->base.poll, events);
}

static void websocket_free(void *thing)
{
    struct websocket *ws = thing;
    websocket_free_reader(ws);
    mem_free(ws);
}

/* ---- the socket ------------------------------------------------------------------------------ */

/* It may get an alert, which it can read only if the connection is not reset. */
static void websocket_on_tls_failed(struct connection *c, ssize_t why)
{
    (void)why;
    if (c->out.pending == 0) {
        connection_close(c, "TLS failed");
    } else {
        connection_set_state(c, WEBSOCKET_REFUSED);
    }
}

static void discard_input(struct websocket *ws)
{
    if (connection_receive(&ws->base) >= 0 && ws->base.eof) {
        connection_close(&ws->base, "refused");
    }
}

static void websocket_note_received(struct websocket *ws)
{
    if (ws->base.state == WEBSOCKET_PINGED) {
        connection_set_state(&ws->base, WEBSOCKET_OPEN);
    }
    if (ws->base.state != WEBSOCKET_PARTIAL) { /* which slow input does not postpone */
        connection_put_off(&ws->base);
    }
}

/* Reads the received bytes, as far as there is space. */
static void websocket_read(struct websocket *ws)
{
    struct connection_worker *cw = ws->base.all->cw;
    bool is_over = ws->base.state == WEBSOCKET_AWAITING_CLOSE;
    for (size_t total = 0; total < READ_QUANTUM && (is_over || !ws->base.has_rest);) {
        ssize_t n = connection_receive(&ws->base);
        if (n > 0 && !is_over) {
            websocket_note_received(ws);
        }
        if (n > 0) {
            websocket_receive(ws, cw->scratch, (size_t)n);
            total += (size_t)n;
        }
        if (!websocket_is_open(ws) && ws->base.state != WEBSOCKET_AWAITING_CLOSE) {
            return;
        }
        if (ws->base.eof) {
            connection_close(&ws->base, "closed by the client without a close frame");
            return;
        }
        if (n < (ssize_t)sizeof(cw->scratch)) {
            return; /* probably everything; level-triggered anyway */
        }
    }
}

static void websocket_on_flushed(struct sendq *q, enum sendq_state state);

static void websocket_on_event(struct loop_poll *poll, int events, void *user)
{
    (void)poll;
    struct websocket *ws = websocket_of(user);
    if (events & LOOP_ERROR) {
        connection_fail(&ws->base, "socket error");
        return;
    }
    if (events & LOOP_WRITE) {
        websocket_on_flushed(&ws->base.out, sendq_flush(&ws->base.out));
        if (ws->base.state == WEBSOCKET_GONE) {
            return;
        }
    }
    bool is_read = websocket_is_open(ws) || ws->base.state == WEBSOCKET_AWAITING_CLOSE;
    if ((events & LOOP_READ) && is_read) {
        websocket_read(ws);
    } else if ((events & LOOP_READ) && ws->base.state == WEBSOCKET_LINGER) {
        discard_input(ws);
    } else if (events & LOOP_HANGUP) {
        connection_close(&ws->base, "closed by the client"); /* cancels all operations under way */
        return;
    }
    websocket_set_events(ws);
    connection_make_room(&ws->base);
}

/* The close frame was written. */
static void on_last_written(struct websocket *ws)
{
    if (ws->base.state == WEBSOCKET_CLOSING || ws->base.eof) {
        connection_close(&ws->base, "done");
    } else if (ws->base.state == WEBSOCKET_LEAVING) {
        connection_set_state(&ws->base, WEBSOCKET_AWAITING_CLOSE);
        websocket_go_on(ws);
        websocket_set_events(ws);
    } else {
        sendq_end(&ws->base.out);
        connection_set_state(&ws->base, WEBSOCKET_LINGER);
        websocket_set_events(ws);
    }
}

static void websocket_on_flushed(struct sendq *q, enum sendq_state state)
{
    struct websocket *ws = list_entry(q, struct websocket, base.out);
    bool is_open = websocket_is_open(ws);
    if (state == SENDQ_EMPTY && is_open && (ws->base.poll.wanted & LOOP_READ) != 0 &&
        !deadline_is_listed(&ws->base.stall) && !ws->base.sink.blocked && !ws->base.has_long &&
        ws->base.sink.booked == 0) {
        return; /* the normal case: the queue was empty */
    }
    if (state == SENDQ_BROKEN) {
        connection_fail(&ws->base, sendq_reason(q));
        return;
    }
    connection_note_flush(&ws->base, state);
    if (state == SENDQ_WAITING) {
        websocket_set_events(ws);
        return;
    }
    if (ws->base.state == WEBSOCKET_CLOSING || ws->base.state == WEBSOCKET_LEAVING ||
        ws->base.state == WEBSOCKET_REFUSED) {
        on_last_written(ws);
        return;
    }
    sink_drained(&ws->base.sink);
    if (ws->base.has_long) {
        ws->base.has_long = delivery_drained(&ws->base.channel);
    }
    websocket_go_on(ws);
    websocket_set_events(ws);
}

/* ---- the beginning --------------------------------------------------------------------------- */

struct websocket *websocket_create(struct websocket_worker *ww)
{
    struct websocket *ws = mem_zalloc(sizeof(*ws));
    if (ws) {
        connection_prepare(&ws->base, &ww->conns);
    }
    return ws;
}

void websocket_open(struct websocket *ws, const struct websocket_start *start)
{
    struct connection *c = &ws->base;
    channel_set_principal(&c->channel, start->principal);
    c->channel.quota = start->quota;
    c->channel.origin = start->origin;
    c->eof = start->eof;
    sendq_move(&c->out, start->out, websocket_on_flushed);
    connection_start(c, WEBSOCKET_OPEN);
    if (loop_poll_init(&c->poll, c->channel.worker->loop, c->out.fd, websocket_on_event, ws, NULL) <
        0) {
        connection_close(c, "out of memory");
        return;
    }
    connection_note_expiry(c);
    if (start->input.len > 0) {
        websocket_receive(ws, start->input.ptr, start->input.len);
    }
    if (ws->base.eof && websocket_is_open(ws)) {
        connection_close(&ws->base, "closed by the client without a close frame");
    }
    if (ws->base.out.is_waiting && ws->base.state != WEBSOCKET_GONE) {
        connection_note_flush(c, SENDQ_WAITING); /* for earlier answers that were not written yet */
    }
    websocket_set_events(ws);
}

/* -------------------------------------------------------------------------------------------------
 * The states of a WebSocket: their successors, their durations, and the actions at their ends. Also
 * their worker, and the end of the server.
 */

/* How long a rejected client may continue to send before the connection is reset. */
#define LINGER_MS 1000u

/* Returns true if silence is normal: the stall deadline covers pending output, and while the server
 * does not read it sees no input. */
static bool may_be_silent(const struct connection *c)
{
    return c->out.pending > 0 || (c->poll.wanted & LOOP_READ) == 0;
}

/* Nothing was received: sends a ping. */
static void websocket_ping(struct connection *c)
{
    if (may_be_silent(c)) {
        connection_set_state(c, WEBSOCKET_OPEN);
        return;
    }
    websocket_put_control(websocket_of(c), WS_OP_PING, STR_EMPTY);
    connection_set_state(c, WEBSOCKET_PINGED);
}

static void websocket_give_up(struct connection *c)
{
    if (may_be_silent(c)) {
        connection_set_state(c, WEBSOCKET_PINGED);
        return;
    }
    connection_cut(c, "it answers no ping (--stall-timeout)",
                   "stalled: nothing comes, not even an answer to a ping");
}

static void websocket_close_unread(struct connection *c)
{
    connection_close(c, "the client does not read");
}

/* Sends the reason and closes; further input is discarded for a while. */
static void refuse_input(struct websocket *ws, unsigned code, struct tidings_str reason)
{
    websocket_say_close(ws, code, reason, WEBSOCKET_REFUSED);
    websocket_free_reader(ws);
    connection_book_input(&ws->base);
}

static void websocket_refuse_late(struct connection *c)
{
    struct websocket *ws = websocket_of(c);
    if (!websocket_has_space(ws)) {
        connection_set_state(c, WEBSOCKET_PARTIAL); /* it waits for the server */
        return;
    }
    limit_hit(c->channel.worker->limit_counters, LIMIT_BODY_TIME);
    refuse_input(ws, WS_POLICY, STR("the rest of the message did not arrive in time"));
}

static void websocket_cut_input(struct connection *c, bool is_unfair)
{
    (void)is_unfair;
    struct websocket *ws = websocket_of(c);
    limit_hit(c->channel.worker->limit_counters, LIMIT_INPUT);
    refuse_input(ws, WS_TRY_AGAIN, STR("too much unfinished input; see --max-input"));
    websocket_set_events(ws);
}

static size_t websocket_input_size(const struct connection *c)
{
    const struct websocket *ws = (const struct websocket *)c;
    return ws->reader ? ws_reader_size(ws->reader) : 0;
}

static void websocket_resume(struct connection *c)
{
    connection_set_state(c, WEBSOCKET_OPEN);
    websocket_go_on(websocket_of(c));
    websocket_set_events(websocket_of(c));
}

#define TO(state) (1u << WEBSOCKET_##state)
#define TO_OPEN (TO(OPEN) | TO(PARTIAL) | TO(THROTTLED))
#define TO_END (TO(CLOSING) | TO(LEAVING) | TO(REFUSED) | TO(GONE))

/* The diagram in websocket.h. A transition to the same state restarts its time. */
static const struct connection_state states[WEBSOCKET_STATES] = {
    [WEBSOCKET_OPEN] = {TO_OPEN | TO(PINGED) | TO_END, websocket_ping, .is_open = true,
                        .is_kept_alive = true},
    [WEBSOCKET_PINGED] = {TO_OPEN | TO(PINGED) | TO_END, websocket_give_up, .is_open = true},
    [WEBSOCKET_PARTIAL] = {TO_OPEN | TO_END, websocket_refuse_late, .is_open = true,
                           .is_partial = true},
    [WEBSOCKET_THROTTLED] = {TO(OPEN) | TO(THROTTLED) | TO_END, .is_open = true},
    [WEBSOCKET_CLOSING] = {.next = TO(GONE), .on_due = websocket_close_unread},
    [WEBSOCKET_LEAVING] = {.next = TO(AWAITING_CLOSE) | TO(GONE), .on_due = websocket_close_unread},
    [WEBSOCKET_REFUSED] = {.next = TO(LINGER) | TO(GONE), .on_due = websocket_close_unread},
    [WEBSOCKET_AWAITING_CLOSE] = {.next = TO(REFUSED) | TO(GONE), .on_due = websocket_close_unread},
    [WEBSOCKET_LINGER] = {.next = TO(REFUSED) | TO(GONE), .on_due = websocket_close_unread},
    [WEBSOCKET_GONE] = {0},
};

const struct connection_kind websocket_kind = {
    .states = states,
    .state_count = WEBSOCKET_STATES,
    .timed_state = WEBSOCKET_PARTIAL,
    .yielded_state = WEBSOCKET_THROTTLED,
    .resume = websocket_resume,
    .is_http = true,
    .channel_ops = &websocket_channel_ops,
    .sink_ops = &websocket_sink_ops,
    .on_event = websocket_on_event,
    .on_flushed = websocket_on_flushed,
    .on_tls_failed = websocket_on_tls_failed,
    .input_size = websocket_input_size,
    .cut_input = websocket_cut_input,
    .end_credentials = websocket_end_credentials,
    .free = websocket_free,
};

struct websocket_worker *websocket_worker_create(struct connection_worker *cw,
                                                 const struct websocket_config *config)
{
    struct websocket_worker *ww = mem_zalloc(sizeof(*ww));
    if (!ww) {
        return NULL;
    }
    ww->config = *config;
    const uint64_t times[WEBSOCKET_STATES] = {
        [WEBSOCKET_PARTIAL] = config->message_timeout_ms,
        [WEBSOCKET_OPEN] = config->keepalive_ms,
        [WEBSOCKET_PINGED] = config->stall_timeout_ms,
        [WEBSOCKET_CLOSING] = config->stall_timeout_ms,
        [WEBSOCKET_LEAVING] = config->stall_timeout_ms,
        [WEBSOCKET_REFUSED] = config->stall_timeout_ms,
        [WEBSOCKET_AWAITING_CLOSE] = LINGER_MS,
        [WEBSOCKET_LINGER] = LINGER_MS,
    };
    connections_init(&ww->conns, &websocket_kind, cw, times, config->stall_timeout_ms);
    return ww;
}

void websocket_worker_destroy(struct websocket_worker *ww)
{
    if (ww) {
        ws_reader_destroy(ww->spare_reader);
        mem_free(ww);
    }
}

/* ---- the end of the server ------------------------------------------------------------------- */

static bool is_done_with(const struct websocket *ws)
{
    return websocket_is_open(ws) && !ws->base.has_rest &&
           drain_is_done_with(ws->base.channel.worker, &ws->base.channel);
}

static void websocket_end_if_done(struct connection *c, void *user)
{
    (void)user;
    struct websocket *ws = websocket_of(c);
    if (is_done_with(ws)) {
        websocket_read(ws); /* received messages are still answered */
    }
    if (is_done_with(ws)) {
        websocket_say_close(ws, WS_GOING_AWAY, STR("the server is going away"), WEBSOCKET_LEAVING);
    }
    websocket_set_events(ws);
}

void websocket_drain(struct websocket_worker *ww)
{
    connections_each(&ww->conns, TO_OPEN | TO(PINGED), websocket_end_if_done, NULL);
}
