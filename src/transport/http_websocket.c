/* SPDX-License-Identifier: MIT
 *
 * WebSocket at the endpoint: a connection of HTTP that is a pipe from its upgrade on, one message
 * per text message either way. Answers and notifications share it, as on standard input and output;
 * what a client negotiated and subscribed to ends with it. It keeps its place among the connections
 * of its worker, and with it limits, deadlines and the way its bytes go.
 *
 * A reader of frames is borrowed from the worker while bytes are read, and kept only by a
 * connection that is in the middle of a message.
 */
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "protocol/inbound.h"
#include "transport/http_private.h"
#include "transport/input_budget.h"
#include "transport/message_conn.h"
#include "json/write.h"

#define REFUSAL_MAX 4096u
/* An envelope around a message, for clients that use one (profile lumenize). */
#define ENVELOPE "{\"type\":\"mcp\",\"payload\":"
#define ENVELOPE_BEGIN (sizeof(ENVELOPE) - 1)
#define ENVELOPE_END 1u

/* ---- frames out ------------------------------------------------------------------------------ */

/* Room for the beginning of a message of `len` bytes of which the first `here` follow it. */
static char *begin_message(struct http_conn *conn, size_t len, size_t here, bool is_enveloped)
{
    size_t payload = len + (is_enveloped ? ENVELOPE_BEGIN + ENVELOPE_END : 0);
    size_t head = ws_header_len(payload) + (is_enveloped ? ENVELOPE_BEGIN : 0);
    char *at = conn_is_socket(conn) ? sendq_room(&conn->out, head + here) : NULL;
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

static void put_control(struct http_conn *conn, enum ws_opcode opcode, struct tidings_str payload)
{
    char *at = sendq_room(&conn->out, ws_header_len(payload.len) + payload.len);
    if (at) {
        at = ws_write_header(at, opcode, payload.len);
        memcpy(at, payload.ptr, payload.len);
    }
}

/* Say a last word, after which nothing is said and nothing under way matters. `awaits`: the client
 * is to say its own, and the connection ends then. */
static void say_goodbye(struct http_conn *conn, unsigned code, struct tidings_str reason,
                        bool awaits)
{
    char frame[2 + WS_MAX_CONTROL];
    size_t len = ws_write_close(frame, code, reason);
    sink_closed(&conn->sink);
    channel_deinit(&conn->channel);
    sendq_put(&conn->out, frame, len);
    conn->awaits_close = awaits;
    conn->has_rest = conn->has_rest && awaits;
    conn_set_state(conn, CONN_CLOSING);
}

static struct http_conn *of_channel(struct channel *channel)
{
    return list_entry(channel, struct http_conn, channel);
}

static struct http_conn *of_sink(const struct sink *sink)
{
    return list_entry((struct sink *)(uintptr_t)sink, struct http_conn, sink);
}

static void answer(struct channel *channel, int status, const struct answer_headers *headers,
                   struct buf *text)
{
    (void)status;
    (void)headers;
    struct http_conn *conn = of_channel(channel);
    bool is_enveloped = conn->was_enveloped;
    if (text->len == 0 || !begin_message(conn, text->len, 0, is_enveloped)) {
        return; /* out of memory even for an error; or broken, which its flush will find */
    }
    message_conn_put(&conn->out, text);
    if (is_enveloped) {
        sendq_put(&conn->out, "}", ENVELOPE_END);
    }
}

static struct sink *stream(struct channel *channel, const struct answer_headers *headers)
{
    (void)headers;
    struct http_conn *conn = of_channel(channel);
    conn_limit_kernel(conn);
    return &conn->sink;
}

static void principal(const struct channel *channel, char out[PRINCIPAL_MAX])
{
    http_channel_ops.principal(channel, out);
}

static const struct channel_ops websocket_channel_ops = {
    .name = "websocket",
    .is_http = false,
    .answer = answer,
    .accepted = message_conn_accepted,
    .stream = stream,
    .principal = principal,
};

static char *sink_room(struct sink *sink, struct tidings_str event_id, size_t len)
{
    (void)event_id;
    struct http_conn *conn = of_sink(sink);
    bool is_enveloped = conn->uses_envelopes;
    char *at = begin_message(conn, len, len + (is_enveloped ? ENVELOPE_END : 0), is_enveloped);
    if (at && is_enveloped) {
        at[len] = '}';
    }
    return at;
}

static size_t sink_pending(const struct sink *sink)
{
    return of_sink(sink)->out.pending;
}

static void sink_cut(struct sink *sink, const char *reason)
{
    conn_close(of_sink(sink), reason);
}

static const struct sink_ops websocket_sink_ops = {
    .name = "websocket",
    .room = sink_room,
    .prime = message_conn_sink_prime,
    .pending = sink_pending,
    .end = message_conn_sink_end,
    .cut = sink_cut,
};

/* ---- messages in ----------------------------------------------------------------------------- */

/* What is in the envelope, if `text` is one, into `out`. */
static bool unwrap(struct http_conn *conn, struct tidings_str text, struct buf *out)
{
    struct json *root = NULL;
    struct tidings_error err;
    if (jv_parse(text, conn->hw->worker->limits->max_depth + 1, &root, &err) < 0) {
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

static void on_text(struct http_conn *conn, struct tidings_str text)
{
    struct buf inner;
    buf_init(&inner, 2 * text.len + 64);
    conn->was_enveloped =
        dialect_does(conn->hw->worker->self, PROFILE_ENVELOPE) && unwrap(conn, text, &inner);
    conn->uses_envelopes = conn->uses_envelopes || conn->was_enveloped;
    inbound_text(&conn->channel, conn->was_enveloped ? buf_str(&inner) : text, NULL);
    buf_deinit(&inner);
}

/* It keeps the token or certificate it began with; when that is over, so is it. */
static bool end_if_expired(struct http_conn *conn, int64_t now_ms)
{
    const struct principal *who = conn->channel.who;
    if (!principal_is_expired(who, now_ms)) {
        return false;
    }
    say_goodbye(conn, WS_POLICY,
                who->kind == PRINCIPAL_CERTIFICATE ? STR("the certificate has expired")
                                                   : STR("the token has expired"),
                true);
    return true;
}

/* … or taken back, a moment ago perhaps. */
static bool is_somebody(struct http_conn *conn)
{
    http_review_tokens(conn->hw);
    return conn_is_socket(conn) && !end_if_expired(conn, clock_wall_ms());
}

static void on_message(struct http_conn *conn, enum ws_event event, const struct ws_message *m)
{
    bool is_over = conn->state == CONN_LINGER; /* we have said goodbye */
    switch (event) {
    case WS_TEXT:
        if (!is_over && is_somebody(conn)) {
            on_text(conn, m->payload);
        }
        break;
    case WS_PING:
        if (!is_over) {
            put_control(conn, WS_OP_PONG, m->payload);
        }
        break;
    case WS_CLOSE:
        if (is_over) {
            conn_close(conn, "closed by both sides");
        } else {
            say_goodbye(conn, m->code, STR_EMPTY, false);
        }
        break;
    case WS_FAILED:
        if (is_over) {
            conn_close(conn, "malformed frame");
        } else {
            if (m->code == WS_TOO_BIG) {
                limit_hit(conn->hw->worker->book, LIMIT_BODY);
            }
            conn->refused = true; /* whatever else it sends is thrown away for a while */
            say_goodbye(conn, m->code, m->payload, false);
        }
        break;
    case WS_PONG:
    case WS_MORE:
        break;
    }
}

static struct ws_reader *take_reader(struct http_worker *hw, struct tidings_error *err)
{
    struct ws_reader *r = hw->spare_reader;
    hw->spare_reader = NULL;
    return r ? r : ws_reader_create(hw->config->max_body, err);
}

static void give_back_reader(struct http_worker *hw, struct ws_reader *r)
{
    if (hw->spare_reader) {
        ws_reader_destroy(r);
    } else {
        hw->spare_reader = r;
    }
}

static bool has_room(const struct http_conn *conn)
{
    return conn_is_socket(conn) && message_conn_has_room(&conn->channel, &conn->out);
}

/* The time for a message begins with its first byte, and anew with every INPUT_STEP bytes of it;
 * pings and empty fragments are no part of it. While we do not read it is not the client's time. */
static void keep_time(struct http_conn *conn, bool was_heard)
{
    bool is_midway = conn->frames && !conn->has_rest;
    if (conn->state == CONN_REST) {
        return;
    }
    if (is_midway) {
        bool has_grown = ws_reader_has_grown(conn->frames, INPUT_STEP);
        if (conn->state != CONN_MIDWAY || was_heard || has_grown) {
            conn_set_state(conn, CONN_MIDWAY);
        }
    } else if (conn->state == CONN_MIDWAY) {
        conn_set_state(conn, CONN_SOCKET);
    }
}

/* Handle what was read, as far as there is room for it. */
static void pump(struct http_conn *conn)
{
    struct ws_message m;
    enum ws_event event = WS_PONG;
    bool was_heard = false; /* a whole message */
    while (event != WS_MORE && !conn->gone &&
           ((has_room(conn) && conn_may_go_on(conn)) || conn->state == CONN_LINGER)) {
        event = ws_reader_next(conn->frames, &m);
        was_heard = was_heard || event == WS_TEXT;
        on_message(conn, event, &m);
    }
    if (conn->gone || conn->state == CONN_CLOSING) {
        return;
    }
    conn->has_rest = event != WS_MORE && !ws_reader_is_idle(conn->frames);
    if (ws_reader_is_idle(conn->frames)) {
        give_back_reader(conn->hw, conn->frames);
        conn->frames = NULL;
    } else if (ws_reader_keep(conn->frames) < 0) {
        conn_close(conn, "out of memory");
        return;
    }
    if (conn->state != CONN_LINGER) {
        keep_time(conn, was_heard);
    }
    conn_book_input(conn);
}

static void hear(struct http_conn *conn, const char *bytes, size_t len)
{
    if (!conn->frames) {
        conn->frames = take_reader(conn->hw, NULL);
    }
    if (!conn->frames) {
        conn_close(conn, "out of memory");
        return;
    }
    ws_reader_feed(conn->frames, bytes, len);
    pump(conn);
}

void websocket_go_on(struct http_conn *conn)
{
    if (conn->has_rest) {
        pump(conn);
    }
}

bool websocket_reads(const struct http_conn *conn)
{
    return !conn->has_rest && has_room(conn);
}

void websocket_read(struct http_conn *conn)
{
    bool is_over = conn->state == CONN_LINGER;
    for (size_t total = 0; total < READ_QUANTUM && (is_over || !conn->has_rest);) {
        ssize_t n = conn_receive(conn);
        if (n > 0 && !is_over) {
            if (conn->state == CONN_ASKED) {
                conn_set_state(conn, CONN_SOCKET);
            }
            if (conn->state != CONN_MIDWAY) { /* which is not put off by what drips in */
                conn->since_ms = (uint32_t)loop_now_ms(conn->hw->worker->loop);
            }
        }
        if (n > 0) {
            hear(conn, conn->hw->scratch, (size_t)n);
            total += (size_t)n;
        }
        if (conn->gone || conn->state == CONN_CLOSING) {
            return;
        }
        if (conn->eof) {
            conn_close(conn, "closed by the client without a word");
            return;
        }
        if (n < (ssize_t)sizeof(conn->hw->scratch)) {
            return; /* most likely all there is; level-triggered anyway */
        }
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void refuse(struct http_conn *conn, int status, const char *why)
{
    const struct answer_headers headers = {
        .extra = status == 426 ? STR("Connection: Upgrade\r\nUpgrade: websocket\r\n"
                                     "Sec-WebSocket-Version: 13\r\n")
                               : STR_EMPTY,
    };
    struct buf text;
    buf_init(&text, REFUSAL_MAX);
    buf_putf(&text, "%s\n", why);
    conn->keep_alive = false;
    conn->refused = true;
    conn_answer(conn, status, &headers, STR("text/plain; charset=utf-8"), &text);
    buf_deinit(&text);
}

bool websocket_check(struct http_conn *conn, const struct http_request *req)
{
    struct ws_handshake handshake;
    struct tidings_error err = {0};
    const char *why = NULL;
    int status = ws_check_handshake(req, &handshake, &why);
    if (status != 0) {
        refuse(conn, status, why);
        return false;
    }
    /* One for the first message, and the proof that the library is there. */
    struct ws_reader *r = take_reader(conn->hw, &err);
    if (!r) {
        refuse(conn, err.code == TIDINGS_E_UNSUPPORTED ? 501 : 503, err.text);
        return false;
    }
    give_back_reader(conn->hw, r);
    conn->r->is_upgrade = true;
    return true;
}

void websocket_begin(struct http_conn *conn, const struct http_request *req)
{
    struct ws_handshake handshake;
    const char *why = NULL;
    int status = ws_check_handshake(req, &handshake, &why);
    if (status != 0) {
        refuse(conn, status, why);
        return;
    }
    struct buf *head = &conn->hw->head;
    buf_clear(head);
    http_put_status(head, 101);
    buf_puts(head, STR("Upgrade: websocket\r\nConnection: Upgrade\r\n"));
    http_put_header(head, "Sec-WebSocket-Accept", tidings_str(handshake.accept));
    if (handshake.names_protocol) {
        http_put_header(head, "Sec-WebSocket-Protocol", STR(WS_PROTOCOL));
    }
    buf_puts(head, STR("\r\n"));
    sendq_puts(&conn->out, buf_str(head));

    struct buf in = conn->r->in; /* what follows the head is the first of the frames */
    size_t used = conn->r->head_len;
    buf_init(&conn->r->in, 0);
    conn_free_reading(conn);
    conn->channel.ops = &websocket_channel_ops;
    conn->sink.ops = &websocket_sink_ops;
    conn->is_websocket = true;
    conn_set_state(conn, CONN_SOCKET);
    conn_note_expiry(conn);
    if (in.len > used) {
        hear(conn, in.ptr + used, in.len - used);
    }
    buf_deinit(&in);
    if (conn->eof && conn_is_socket(conn)) {
        conn_close(conn, "closed by the client without a word");
    }
}

/* Whether it reads is watched already; whether it writes cannot be seen while nobody reads. */
static bool may_be_silent(const struct http_conn *conn)
{
    return conn->out.pending > 0 || (conn->poll.wanted & LOOP_READ) == 0;
}

void websocket_ask(struct http_conn *conn)
{
    if (may_be_silent(conn)) {
        conn_set_state(conn, CONN_SOCKET);
        return;
    }
    put_control(conn, WS_OP_PING, STR_EMPTY);
    conn_set_state(conn, CONN_ASKED);
}

void websocket_cut(struct http_conn *conn, unsigned code, struct tidings_str reason)
{
    conn->refused = true;
    say_goodbye(conn, code, reason, false);
    ws_reader_destroy(conn->frames);
    conn->frames = NULL;
    conn_book_input(conn);
}

void websocket_late(struct http_conn *conn)
{
    if (!websocket_reads(conn)) {
        conn_set_state(conn, CONN_MIDWAY); /* it waits for us, not we for it */
        return;
    }
    limit_hit(conn->hw->worker->book, LIMIT_BODY_TIME);
    websocket_cut(conn, WS_POLICY, STR("the rest of the message did not arrive in time"));
}

void websocket_miss(struct http_conn *conn)
{
    if (may_be_silent(conn)) {
        conn_set_state(conn, CONN_ASKED);
        return;
    }
    conn->hw->worker->stats.cut++;
    limit_hit(conn->hw->worker->book, LIMIT_STALL);
    conn_close(conn, "stalled: nothing comes, not even an answer to a ping");
}

static bool is_done_with(const struct http_conn *conn)
{
    return conn_is_socket(conn) && !conn->has_rest &&
           worker_is_done_with(conn->hw->worker, &conn->channel);
}

/* Those that are open, and others that rest too. */
static const enum conn_state open_states[] = {CONN_SOCKET, CONN_ASKED, CONN_MIDWAY, CONN_REST};
#define OPEN_STATES (sizeof(open_states) / sizeof(open_states[0]))

void websocket_dismiss(struct http_worker *hw, principal_test_fn is_gone, void *user)
{
    for (size_t i = 0; i < OPEN_STATES; i++) {
        list_each (it, next, &hw->by_state[open_states[i]]) {
            struct http_conn *conn = list_entry(it, struct http_conn, link);
            if (conn_is_socket(conn) && conn->channel.who && is_gone(user, conn->channel.who)) {
                say_goodbye(conn, WS_POLICY, STR("the token was taken back"), true);
                conn_want(conn);
            }
        }
    }
}

int64_t websocket_expire(struct http_worker *hw, int64_t now_ms)
{
    int64_t soonest = 0;
    for (size_t i = 0; i < OPEN_STATES; i++) {
        list_each (it, next, &hw->by_state[open_states[i]]) {
            struct http_conn *conn = list_entry(it, struct http_conn, link);
            int64_t end = conn->channel.who ? conn->channel.who->expires_ms : 0;
            if (!conn_is_socket(conn) || end == 0) {
                continue;
            }
            if (end_if_expired(conn, now_ms)) {
                conn_want(conn);
            } else if (soonest == 0 || end < soonest) {
                soonest = end;
            }
        }
    }
    return soonest;
}

void websocket_drain(struct http_worker *hw)
{
    for (size_t i = 0; i < OPEN_STATES; i++) {
        list_each (it, next, &hw->by_state[open_states[i]]) {
            struct http_conn *conn = list_entry(it, struct http_conn, link);
            if (is_done_with(conn)) {
                websocket_read(conn); /* whatever has come is still answered */
            }
            if (is_done_with(conn)) {
                say_goodbye(conn, WS_GOING_AWAY, STR("the server is going away"), true);
            }
            conn_want(conn);
        }
    }
}
