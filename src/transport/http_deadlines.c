/* SPDX-License-Identifier: MIT
 *
 * Deadlines of HTTP connections: how long each may stay in its state, and what becomes of it then.
 * Also what is looked at on the same timer: tokens that expire or are taken back, unfinished input
 * while there is too much of it, and streams that end with the server. WebSockets have their own
 * (transport/websocket_deadlines.c), on the timer of this worker.
 */
#include "base/clock.h"
#include "delivery/delivery_log.h"
#include "protocol/session_moving.h"
#include "transport/http_private.h"
#include "transport/input_budget.h"

/* How long a refused client may go on sending before the connection is reset. */
#define LINGER_MS 1000u
#define REVIEW_MS 1000u /* tokens that were loaded anew are looked at */
#define DRAIN_MS 250u   /* while the server ends: who is done? */

/* ---- what becomes of a connection ------------------------------------------------------------ */

static void http_close_idle(struct deadline *deadline)
{
    conn_close(conn_of_deadline(deadline), "idle");
}

static void http_close_unready(struct deadline *deadline)
{
    struct http_conn *conn = conn_of_deadline(deadline);
    limit_hit(conn->hw->worker->limit_counters, LIMIT_HEAD_TIME);
    conn_close(conn, "the handshake was not done in time");
}

static void http_refuse_slow(struct deadline *deadline)
{
    conn_refuse_over(conn_of_deadline(deadline), LIMIT_HEAD_TIME, 408,
                     "the request did not arrive in time");
}

static void refuse_slow_body(struct deadline *deadline)
{
    conn_refuse_over(conn_of_deadline(deadline), LIMIT_BODY_TIME, 408,
                     "the body did not arrive in time");
}

static void give_up_token(struct deadline *deadline)
{
    conn_give_up_pending_token(conn_of_deadline(deadline));
}

static void give_up_session(struct deadline *deadline)
{
    conn_give_up_session(conn_of_deadline(deadline));
}

/* One that was written to is put off without being moved for each message: it is looked at every
 * eighth of the time from then on, and acted on after six to eight eighths of silence. */
static void stream_keep_alive(struct deadline *deadline)
{
    struct http_conn *conn = conn_of_deadline(deadline);
    struct deadline_list *put_off = &conn->hw->lists[CONN_PUT_OFF];
    uint64_t time = conn->hw->config->keepalive_ms;
    if (deadline_age_ms(put_off, deadline->noted) < time - time / 4) {
        deadline_enter(put_off, deadline);
        return;
    }
    conn_set_state(conn, CONN_STREAM);
    if (conn->out.pending == 0) {
        sendq_put(&conn->out, ":\n\n", 3);
    }
}

static void end_poll(struct deadline *deadline)
{
    poll_finish(conn_of_deadline(deadline));
}

static void close_late(struct deadline *deadline)
{
    conn_close(conn_of_deadline(deadline), "the client does not read");
}

static void http_cut_stalled(struct deadline *stall)
{
    struct http_conn *conn = list_entry(stall, struct http_conn, stall);
    conn->hw->worker->stats.cut++;
    limit_hit(conn->hw->worker->limit_counters, LIMIT_STALL);
    delivery_log_cut(&conn->channel, conn->out.pending, 0, "it takes nothing (--stall-timeout)");
    conn_close(conn, "stalled: the client does not read");
}

/* ---- what is looked at besides --------------------------------------------------------------- */

static void http_cut_tight(struct http_worker *hw)
{
    list_each (it, next, &hw->lists[CONN_BODY].all) {
        struct http_conn *conn = list_entry(it, struct http_conn, deadline.link);
        if (deadline_age_ms(&hw->lists[CONN_BODY], conn->deadline.listed_ms) < INPUT_TIGHT_MS) {
            return;
        }
        conn_cut_input(conn);
    }
}

/* Streams of HTTP+SSE whose token or certificate is over; listens and streams of sessions are the
 * affair of src/delivery. */
static void http_expire_principals(struct http_worker *hw)
{
    int64_t now = hw->next_expiry_ms > 0 ? clock_wall_ms() : 0;
    if (hw->next_expiry_ms > 0 && now >= hw->next_expiry_ms) {
        hw->next_expiry_ms = legacy_sse_expire(hw, now);
    }
}

static void http_check_due(void *user)
{
    struct http_worker *hw = user;
    if (input_is_tight(hw->worker->limit_counters)) {
        http_cut_tight(hw);
    }
    http_expire_principals(hw);
    http_review_tokens(hw);
    websocket_check_due(hw->websockets);
    if (hw->draining) {
        legacy_sse_drain(hw);
    }
}

static uint64_t http_next_check(void *user)
{
    struct http_worker *hw = user;
    uint64_t now = loop_now_ms(hw->worker->loop), next = websocket_next_check(hw->websockets);
    if (worker_inbox_count(&hw->inbox) == 0) {
        return UINT64_MAX;
    }
    if (hw->draining && now + DRAIN_MS < next) {
        next = now + DRAIN_MS;
    }
    if (hw->token_cache && now + REVIEW_MS < next) {
        next = now + REVIEW_MS;
    }
    uint64_t tight = input_next_check(hw->worker->limit_counters, &hw->lists[CONN_BODY]);
    uint64_t expiry = deadlines_at_wall(&hw->deadlines, hw->next_expiry_ms);
    next = tight < next ? tight : next;
    return expiry < next ? expiry : next;
}

int http_deadlines_init(struct http_worker *hw)
{
    const struct http_config *config = hw->config;
    const struct {
        uint64_t after_ms;
        deadline_fn due;
    } times[CONN_LISTS] = {
        [CONN_HANDSHAKE] = {config->header_timeout_ms, http_close_unready},
        [CONN_IDLE] = {config->idle_timeout_ms, http_close_idle},
        [CONN_HEAD] = {config->header_timeout_ms, http_refuse_slow},
        [CONN_AUTHENTICATING] = {config->header_timeout_ms, give_up_token},
        [CONN_ADOPTING] = {SESSION_AWAIT_MS, give_up_session},
        [CONN_BODY] = {config->body_timeout_ms, refuse_slow_body},
        [CONN_STREAM] = {config->keepalive_ms - config->keepalive_ms / 8, stream_keep_alive},
        [CONN_PUT_OFF] = {config->keepalive_ms / 8, stream_keep_alive},
        [CONN_POLL] = {config->keepalive_ms, end_poll},
        [CONN_CLOSING] = {config->stall_timeout_ms, close_late},
        [CONN_REFUSED] = {config->stall_timeout_ms, close_late},
        [CONN_LINGER] = {LINGER_MS, close_late},
    };
    const struct deadlines_also also = {http_next_check, http_check_due, hw};
    int rc = deadlines_init(&hw->deadlines, hw->worker->loop, &also);
    for (size_t i = 0; i < CONN_LISTS; i++) {
        deadline_list_init(&hw->lists[i], &hw->deadlines, times[i].after_ms, times[i].due);
    }
    deadline_list_init(&hw->stalled, &hw->deadlines, config->stall_timeout_ms, http_cut_stalled);
    return rc;
}
