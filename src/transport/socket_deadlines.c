/* SPDX-License-Identifier: MIT
 *
 * Deadlines of line-framed connections: all hang on one timer and on lists that are ordered because
 * every member of a list has the same allowance.
 */
#include "base/clock.h"
#include "delivery/subscriber.h"
#include "transport/input_budget.h"
#include "transport/socket_private.h"

/* How long a client may go on sending after its last answer before the connection is reset. */
#define LINGER_MS 1000u
#define TICK_MS 250u

static bool line_conn_is_used(const struct line_conn *conn)
{
    const struct channel *channel = &conn->line.channel;
    const struct subscriber *peer = channel->subscriber;
    return !list_empty(&channel->requests) ||
           (peer && (peer->subscription_count > 0 || peer->listen_count > 0));
}

static void socket_expire(struct socket_worker *sw, enum line_state state, uint64_t allowance)
{
    uint32_t now = (uint32_t)loop_now_ms(sw->worker->loop);
    list_each (it, next, &sw->by_state[state]) {
        struct line_conn *conn = list_entry(it, struct line_conn, link);
        if ((uint32_t)(now - conn->since_ms) < allowance) {
            return;
        }
        if (state == LINE_LINGER) {
            line_conn_close(conn, "done");
        } else if (!line_reads(&conn->line) || (state == LINE_OPEN && line_conn_is_used(conn))) {
            line_conn_set_state(conn, state); /* it waits for us, not we for it */
        } else if (state == LINE_MIDLINE) {
            limit_hit(sw->worker->limit_counters, LIMIT_BODY_TIME);
            line_conn_refuse(conn, 408, "the rest of the message did not arrive in time");
        } else {
            if (state == LINE_SHAKING) {
                limit_hit(sw->worker->limit_counters, LIMIT_HEAD_TIME);
            }
            line_conn_close(conn, "idle");
        }
    }
}

static void socket_cut_stalled(struct socket_worker *sw)
{
    uint32_t now = (uint32_t)loop_now_ms(sw->worker->loop);
    list_each (it, next, &sw->waiting) {
        struct line_conn *conn = list_entry(it, struct line_conn, wait_link);
        if ((uint32_t)conn->line.out.written != conn->wait_written) {
            conn->wait_written = (uint32_t)conn->line.out.written;
            conn->wait_since_ms = now;
        } else if ((uint32_t)(now - conn->wait_since_ms) >= sw->config->stall_timeout_ms) {
            sw->worker->stats.cut++;
            limit_hit(sw->worker->limit_counters, LIMIT_STALL);
            line_conn_close(conn, "stalled: the client does not read");
        }
    }
}

static void stir_all(struct socket_worker *sw, enum line_state state)
{
    list_each (it, next, &sw->by_state[state]) {
        line_conn_stir(&list_entry(it, struct line_conn, link)->line);
    }
}

void socket_stir_open(struct socket_worker *sw)
{
    stir_all(sw, LINE_SHAKING);
    stir_all(sw, LINE_FRESH);
    stir_all(sw, LINE_MIDLINE);
    stir_all(sw, LINE_OPEN);
}

/* Of those in the middle of a message, the one without progress for longest, if for so long: say
 * why, forget what came, and end it. */
static bool cut_first(struct socket_worker *sw, uint32_t least_ms)
{
    struct list *partial = &sw->by_state[LINE_MIDLINE];
    struct line_conn *conn =
        list_empty(partial) ? NULL : list_entry(partial->next, struct line_conn, link);
    if (!conn || (uint32_t)loop_now_ms(sw->worker->loop) - conn->since_ms < least_ms) {
        return false;
    }
    limit_hit(sw->worker->limit_counters, LIMIT_INPUT);
    line_conn_refuse(conn, 503,
                     "the server holds too much unfinished input; send it again later, and faster "
                     "(--max-input)");
    line_drop_input(&conn->line);
    input_book(sw->worker->limit_counters, &conn->booked, 0);
    return true;
}

void line_conn_note_expiry(struct line_conn *conn)
{
    int64_t end = conn->line.channel.principal ? conn->line.channel.principal->expires_ms : 0;
    int64_t *next = &conn->sw->next_expiry_ms;
    if (end > 0 && (*next == 0 || end < *next)) {
        *next = end;
    }
}

/* Those whose certificate is over end, after what is under way. */
static void socket_expire_principals(struct socket_worker *sw)
{
    static const enum line_state open_states[] = {LINE_FRESH, LINE_MIDLINE, LINE_OPEN};
    int64_t now = sw->next_expiry_ms > 0 ? clock_wall_ms() : 0;
    if (sw->next_expiry_ms == 0 || now < sw->next_expiry_ms) {
        return;
    }
    sw->next_expiry_ms = 0;
    for (size_t i = 0; i < sizeof(open_states) / sizeof(open_states[0]); i++) {
        list_each (it, next, &sw->by_state[open_states[i]]) {
            struct line_conn *conn = list_entry(it, struct line_conn, link);
            if (principal_is_expired(conn->line.channel.principal, now)) {
                line_conn_refuse(conn, 401,
                                 "the certificate this connection began with has expired; connect "
                                 "again");
            } else {
                line_conn_note_expiry(conn);
            }
        }
    }
}

static bool socket_has_any(const struct socket_worker *sw)
{
    for (size_t i = 0; i < LINE_STATES; i++) {
        if (!list_empty(&sw->by_state[i])) {
            return true;
        }
    }
    return false;
}

void socket_start_tick(struct socket_worker *sw)
{
    if (!loop_timer_is_running(sw->tick)) {
        loop_timer_start(sw->tick, TICK_MS, TICK_MS);
    }
}

void socket_on_tick(struct loop_timer *timer, void *user)
{
    struct socket_worker *sw = user;
    const struct socket_config *config = sw->config;
    socket_expire(sw, LINE_SHAKING, config->header_timeout_ms);
    socket_expire(sw, LINE_FRESH, config->idle_timeout_ms);
    socket_expire(sw, LINE_MIDLINE, config->body_timeout_ms);
    if (input_is_tight(sw->worker->limit_counters)) {
        while (cut_first(sw, INPUT_TIGHT_MS)) {
        }
    }
    socket_expire(sw, LINE_OPEN, config->session_timeout_ms);
    socket_expire(sw, LINE_LINGER, LINGER_MS);
    socket_cut_stalled(sw);
    socket_expire_principals(sw);
    stir_all(sw, LINE_ENDING);
    if (sw->draining) {
        socket_stir_open(sw);
    }
    if (!socket_has_any(sw)) {
        loop_timer_stop(timer); /* until somebody comes */
    }
}

void socket_make_room(struct socket_worker *sw)
{
    while (input_is_over(sw->worker->limit_counters) && cut_first(sw, 0)) {
    }
}
