/* SPDX-License-Identifier: MIT
 *
 * Ends WebSockets for other reasons than that their clients close them: deadlines, too much input,
 * principals that expire or are taken back, and the end of the server.
 */
#include "base/clock.h"
#include "delivery/delivery_log.h"
#include "protocol/drain.h"
#include "transport/input_budget.h"
#include "transport/websocket_private.h"

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

void websocket_cut_unfair(struct websocket *ws)
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

void websocket_deadlines_init(struct websocket_worker *ww)
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
