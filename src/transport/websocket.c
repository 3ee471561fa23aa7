/* SPDX-License-Identifier: MIT
 *
 * Life of WebSockets: from the upgrade to the close, what their socket says and takes, and the one
 * function that moves their state.
 */
#include "transport/websocket.h"

#include <assert.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "transport/input_budget.h"
#include "transport/output_budget.h"
#include "transport/peer_identity.h"
#include "transport/websocket_private.h"

/* Bytes read per connection and turn, so that one talker does not starve the rest. */
#define READ_QUANTUM (4u * 65536u)

/* ---- state ----------------------------------------------------------------------------------- */

#define TO(state) (1u << WEBSOCKET_##state)
#define TO_OPEN (TO(OPEN) | TO(MIDWAY) | TO(YIELDED))
#define TO_END (TO(CLOSING) | TO(LEAVING) | TO(REFUSED) | TO(GONE))

/* The drawing in websocket_private.h. To itself: its time begins anew. */
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

void websocket_set_state(struct websocket *ws, enum websocket_state state)
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

void websocket_want(struct websocket *ws)
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

void websocket_book_input(struct websocket *ws)
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

void websocket_close(struct websocket *ws, const char *reason)
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

void websocket_read(struct websocket *ws)
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
