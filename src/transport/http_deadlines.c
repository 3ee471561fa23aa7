/* SPDX-License-Identifier: MIT
 *
 * Deadlines of HTTP connections: all hang on one timer, four times a second, and on lists that are
 * ordered because every member of a list has the same allowance. WebSockets have their own
 * (transport/websocket_deadlines.c).
 */
#include "base/clock.h"
#include "transport/http_private.h"
#include "transport/input_budget.h"

/* How long a refused client may go on sending before the connection is reset. */
#define LINGER_MS 1000u
#define TICK_MS 250u

static void http_expire(struct http_worker *hw, enum conn_state state, uint64_t allowance,
                        void (*act)(struct http_conn *conn))
{
    uint32_t now = (uint32_t)loop_now_ms(hw->worker->loop);
    list_each (it, next, &hw->by_state[state]) {
        struct http_conn *conn = list_entry(it, struct http_conn, link);
        /* A stream that was written to is put off without being moved for each message: it is
         * looked at every eighth of the allowance, and acted on after seven to eight eighths of
         * silence. */
        bool is_put_off = state == CONN_STREAM;
        uint64_t eighth = is_put_off ? allowance / 8 : 0;
        if ((uint32_t)(now - conn->listed_ms) < (is_put_off ? eighth : allowance)) {
            return;
        }
        if ((uint32_t)(now - conn->since_ms) < allowance - eighth) {
            list_remove(&conn->link);
            list_append(&hw->by_state[state], &conn->link);
            conn->listed_ms = now;
            continue;
        }
        act(conn);
    }
}

static void close_idle(struct http_conn *conn)
{
    conn_close(conn, "idle");
}

static void close_unready(struct http_conn *conn)
{
    limit_hit(conn->hw->worker->limit_counters, LIMIT_HEAD_TIME);
    conn_close(conn, "the handshake was not done in time");
}

static void refuse_slow(struct http_conn *conn)
{
    conn_refuse_over(conn, LIMIT_HEAD_TIME, 408, "the request did not arrive in time");
}

static void refuse_slow_body(struct http_conn *conn)
{
    conn_refuse_over(conn, LIMIT_BODY_TIME, 408, "the body did not arrive in time");
}

static void stream_keep_alive(struct http_conn *conn)
{
    conn_set_state(conn, CONN_STREAM);
    if (conn->out.pending == 0) {
        sendq_put(&conn->out, ":\n\n", 3);
    }
}

static void close_late(struct http_conn *conn)
{
    conn_close(conn, "the client does not read");
}

static void http_cut_stalled(struct http_worker *hw)
{
    uint32_t now = (uint32_t)loop_now_ms(hw->worker->loop);
    list_each (it, next, &hw->waiting) {
        struct http_conn *conn = list_entry(it, struct http_conn, wait_link);
        if ((uint32_t)conn->out.written != conn->wait_written) {
            conn->wait_written = (uint32_t)conn->out.written;
            conn->wait_since_ms = now > 0 ? now : 1;
        } else if ((uint32_t)(now - conn->wait_since_ms) >= hw->config->stall_timeout_ms) {
            hw->worker->stats.cut++;
            limit_hit(hw->worker->limit_counters, LIMIT_STALL);
            conn_close(conn, "stalled: the client does not read");
        }
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

static bool has_connections(const struct http_worker *hw)
{
    for (size_t i = 0; i < CONN_STATES; i++) {
        if (!list_empty(&hw->by_state[i])) {
            return true;
        }
    }
    return !websocket_worker_is_empty(hw->websockets);
}

void http_start_tick(struct http_worker *hw)
{
    if (loop_timer_is_running(hw->tick)) {
        return;
    }
    if (hw->config->auth) {
        http_review_tokens(hw); /* what was taken back while nobody was here */
    }
    loop_timer_start(hw->tick, TICK_MS, TICK_MS);
}

void http_on_tick(struct loop_timer *timer, void *user)
{
    struct http_worker *hw = user;
    const struct http_config *config = hw->config;
    http_expire(hw, CONN_HANDSHAKE, config->header_timeout_ms, close_unready);
    http_expire(hw, CONN_IDLE, config->idle_timeout_ms, close_idle);
    http_expire(hw, CONN_HEAD, config->header_timeout_ms, refuse_slow);
    http_expire(hw, CONN_AUTHENTICATING, config->header_timeout_ms, conn_give_up_pending_token);
    http_expire(hw, CONN_BODY, config->body_timeout_ms, refuse_slow_body);
    if (input_is_tight(hw->worker->limit_counters)) {
        http_expire(hw, CONN_BODY, INPUT_TIGHT_MS, conn_cut_input);
    }
    http_expire(hw, CONN_STREAM, config->keepalive_ms, stream_keep_alive);
    http_expire(hw, CONN_POLL, config->keepalive_ms, poll_finish);
    http_expire(hw, CONN_CLOSING, config->stall_timeout_ms, close_late);
    http_expire(hw, CONN_REFUSED, config->stall_timeout_ms, close_late);
    http_expire(hw, CONN_LINGER, LINGER_MS, close_late);
    http_cut_stalled(hw);
    http_expire_principals(hw);
    http_review_tokens(hw);
    websocket_tick(hw->websockets);
    if (hw->draining) {
        legacy_sse_drain(hw);
    }
    if (!has_connections(hw)) {
        loop_timer_stop(timer); /* until somebody comes */
    }
}
