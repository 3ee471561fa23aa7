/* SPDX-License-Identifier: MIT
 *
 * What ends WebSockets besides their clients: deadlines, too much input, principals that expire or
 * are taken back, and the end of the server. Deadlines hang on lists that are ordered because every
 * member of a list has the same allowance.
 */
#include "base/clock.h"
#include "protocol/drain.h"
#include "transport/input_budget.h"
#include "transport/websocket_private.h"

/* How long a refused client may go on sending before the connection is reset. */
#define LINGER_MS 1000u

/* Those on which messages may come and go. */
static const enum websocket_state open_states[] = {WEBSOCKET_OPEN, WEBSOCKET_PINGED,
                                                   WEBSOCKET_MIDWAY, WEBSOCKET_YIELDED};
#define OPEN_STATES (sizeof(open_states) / sizeof(open_states[0]))

static void websocket_expire(struct websocket_worker *ww, enum websocket_state state,
                             uint64_t allowance, void (*act)(struct websocket *ws))
{
    uint32_t now = (uint32_t)loop_now_ms(ww->worker->loop);
    list_each (it, next, &ww->by_state[state]) {
        struct websocket *ws = list_entry(it, struct websocket, link);
        /* One that was heard of is put off without being moved for each message: it is looked at
         * every eighth of the allowance, and acted on after seven to eight eighths of silence. */
        bool is_put_off = state == WEBSOCKET_OPEN;
        uint64_t eighth = is_put_off ? allowance / 8 : 0;
        if ((uint32_t)(now - ws->listed_ms) < (is_put_off ? eighth : allowance)) {
            return;
        }
        if ((uint32_t)(now - ws->since_ms) < allowance - eighth) {
            list_remove(&ws->link);
            list_append(&ww->by_state[state], &ws->link);
            ws->listed_ms = now;
            continue;
        }
        act(ws);
    }
}

/* ---- silence --------------------------------------------------------------------------------- */

/* Whether it reads is watched already; whether it writes cannot be seen while nobody reads. */
static bool may_be_silent(const struct websocket *ws)
{
    return ws->out.pending > 0 || (ws->poll.wanted & LOOP_READ) == 0;
}

/* Nothing was heard from it: ask whether it is there. */
static void websocket_ping(struct websocket *ws)
{
    if (may_be_silent(ws)) {
        websocket_set_state(ws, WEBSOCKET_OPEN);
        return;
    }
    websocket_put_control(ws, WS_OP_PING, STR_EMPTY);
    websocket_set_state(ws, WEBSOCKET_PINGED);
}

/* It did not say so. */
static void websocket_give_up(struct websocket *ws)
{
    if (may_be_silent(ws)) {
        websocket_set_state(ws, WEBSOCKET_PINGED);
        return;
    }
    ws->ww->worker->stats.cut++;
    limit_hit(ws->ww->worker->limit_counters, LIMIT_STALL);
    websocket_close(ws, "stalled: nothing comes, not even an answer to a ping");
}

static void close_unread(struct websocket *ws)
{
    websocket_close(ws, "the client does not read");
}

static void websocket_cut_stalled(struct websocket_worker *ww)
{
    uint32_t now = (uint32_t)loop_now_ms(ww->worker->loop);
    list_each (it, next, &ww->waiting) {
        struct websocket *ws = list_entry(it, struct websocket, wait_link);
        if ((uint32_t)ws->out.written != ws->wait_written) {
            ws->wait_written = (uint32_t)ws->out.written;
            ws->wait_since_ms = now > 0 ? now : 1;
        } else if ((uint32_t)(now - ws->wait_since_ms) >= ww->config.stall_timeout_ms) {
            ww->worker->stats.cut++;
            limit_hit(ww->worker->limit_counters, LIMIT_STALL);
            websocket_close(ws, "stalled: the client does not read");
        }
    }
}

/* ---- half a message -------------------------------------------------------------------------- */

/* Say why and close; whatever else it sends is thrown away for a while. */
static void refuse_input(struct websocket *ws, unsigned code, struct tidings_str reason)
{
    websocket_say_close(ws, code, reason, WEBSOCKET_REFUSED);
    websocket_free_reader(ws);
    websocket_book_input(ws);
}

static void refuse_late(struct websocket *ws)
{
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
    const struct list *midway = &ww->by_state[WEBSOCKET_MIDWAY];
    return list_empty(midway) ? NULL : list_entry(midway->next, struct websocket, link);
}

bool websocket_find_slowest(const struct websocket_worker *ww, uint32_t *since_ms)
{
    const struct websocket *ws = find_slowest(ww);
    *since_ms = ws ? ws->since_ms : 0;
    return ws != NULL;
}

void websocket_cut_slowest(struct websocket_worker *ww)
{
    struct websocket *ws = find_slowest(ww);
    if (ws) {
        cut_input(ws);
    }
}

/* ---- who they are ---------------------------------------------------------------------------- */

void websocket_dismiss(struct websocket_worker *ww, principal_test_fn is_gone, void *user)
{
    for (size_t i = 0; i < OPEN_STATES; i++) {
        list_each (it, next, &ww->by_state[open_states[i]]) {
            struct websocket *ws = list_entry(it, struct websocket, link);
            if (ws->channel.principal && is_gone(user, ws->channel.principal)) {
                websocket_say_close(ws, WS_POLICY, STR("the token was taken back"),
                                    WEBSOCKET_LEAVING);
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
    for (size_t i = 0; i < OPEN_STATES; i++) {
        list_each (it, next, &ww->by_state[open_states[i]]) {
            struct websocket *ws = list_entry(it, struct websocket, link);
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
    for (size_t i = 0; i < OPEN_STATES; i++) {
        list_each (it, next, &ww->by_state[open_states[i]]) {
            struct websocket *ws = list_entry(it, struct websocket, link);
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
    return !list_empty(&ww->by_state[WEBSOCKET_YIELDED]);
}

void websocket_resume(struct websocket_worker *ww)
{
    struct list *all = &ww->by_state[WEBSOCKET_YIELDED];
    size_t count = 0; /* who yields meanwhile is behind these; who is ended leaves them */
    list_each (it, next, all) {
        count++;
    }
    for (; count > 0 && !list_empty(all); count--) {
        struct websocket *ws = list_entry(all->next, struct websocket, link);
        websocket_set_state(ws, WEBSOCKET_OPEN);
        websocket_go_on(ws);
        websocket_want(ws);
    }
}

void websocket_tick(struct websocket_worker *ww)
{
    const struct websocket_config *config = &ww->config;
    websocket_expire(ww, WEBSOCKET_MIDWAY, config->message_timeout_ms, refuse_late);
    if (input_is_tight(ww->worker->limit_counters)) {
        websocket_expire(ww, WEBSOCKET_MIDWAY, INPUT_TIGHT_MS, cut_input);
    }
    websocket_expire(ww, WEBSOCKET_OPEN, config->keepalive_ms, websocket_ping);
    websocket_expire(ww, WEBSOCKET_PINGED, config->stall_timeout_ms, websocket_give_up);
    websocket_expire(ww, WEBSOCKET_CLOSING, config->stall_timeout_ms, close_unread);
    websocket_expire(ww, WEBSOCKET_LEAVING, config->stall_timeout_ms, close_unread);
    websocket_expire(ww, WEBSOCKET_REFUSED, config->stall_timeout_ms, close_unread);
    websocket_expire(ww, WEBSOCKET_AWAITING_CLOSE, LINGER_MS, close_unread);
    websocket_expire(ww, WEBSOCKET_LINGER, LINGER_MS, close_unread);
    websocket_cut_stalled(ww);
    websocket_expire_principals(ww);
    if (ww->draining) {
        websocket_drain(ww);
    }
}
