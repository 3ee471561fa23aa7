/* SPDX-License-Identifier: MIT
 *
 * Deadlines of line-framed connections: how long each may stay in its state, and what becomes of it
 * then. Also what is looked at on the same timer: certificates that expire, unfinished input while
 * there is too much of it, and who may go when the server ends.
 */
#include "base/clock.h"
#include "delivery/delivery_log.h"
#include "delivery/subscriber.h"
#include "transport/input_budget.h"
#include "transport/socket_private.h"

/* How long a client may go on sending after its last answer before the connection is reset. */
#define LINGER_MS 1000u
#define ENDING_MS 250u /* a request that ends without an answer does not say so */
#define DRAIN_MS 250u  /* while the server ends: who is done? */

static bool line_conn_is_used(const struct line_conn *conn)
{
    const struct channel *channel = &conn->line.channel;
    const struct subscriber *subscriber = channel->subscriber;
    return !list_empty(&channel->requests) ||
           (subscriber && (subscriber->subscription_count > 0 || subscriber->listen_count > 0));
}

/* Nothing else is done for it: it waits for us, not we for it. */
static bool waits_for_us(const struct line_conn *conn)
{
    return !line_reads(&conn->line) || (conn->state == LINE_OPEN && line_conn_is_used(conn));
}

static void socket_close_unready(struct deadline *deadline)
{
    struct line_conn *conn = line_conn_of_deadline(deadline);
    limit_hit(conn->sw->worker->limit_counters, LIMIT_HEAD_TIME);
    line_conn_close(conn, "the handshake was not done in time");
}

static void socket_close_idle(struct deadline *deadline)
{
    struct line_conn *conn = line_conn_of_deadline(deadline);
    if (!waits_for_us(conn)) {
        line_conn_close(conn, "idle");
    }
}

static void socket_refuse_slow(struct deadline *deadline)
{
    struct line_conn *conn = line_conn_of_deadline(deadline);
    if (!waits_for_us(conn)) {
        limit_hit(conn->sw->worker->limit_counters, LIMIT_BODY_TIME);
        line_conn_refuse(conn, 408, "the rest of the message did not arrive in time");
    }
}

static void socket_check_ending(struct deadline *deadline)
{
    line_conn_schedule_review(&line_conn_of_deadline(deadline)->line);
}

static void close_lingering(struct deadline *deadline)
{
    line_conn_close(line_conn_of_deadline(deadline), "done");
}

static void socket_cut_stalled(struct deadline *stall)
{
    struct line_conn *conn = list_entry(stall, struct line_conn, stall);
    conn->sw->worker->stats.cut++;
    limit_hit(conn->sw->worker->limit_counters, LIMIT_STALL);
    delivery_log_cut(&conn->line.channel, conn->line.out.pending, 0,
                     "it takes nothing (--stall-timeout)");
    line_conn_close(conn, "stalled: the client does not read");
}

static void schedule_reviews_of(struct socket_worker *sw, enum line_state state)
{
    list_each (it, next, &sw->lists[state].all) {
        line_conn_schedule_review(&list_entry(it, struct line_conn, deadline.link)->line);
    }
}

void socket_schedule_reviews(struct socket_worker *sw)
{
    schedule_reviews_of(sw, LINE_HANDSHAKE);
    schedule_reviews_of(sw, LINE_FRESH);
    schedule_reviews_of(sw, LINE_MIDLINE);
    schedule_reviews_of(sw, LINE_OPEN);
}

static void line_conn_cut_input(struct line_conn *conn)
{
    struct limit_counters *counters = conn->sw->worker->limit_counters;
    limit_hit(counters, LIMIT_INPUT);
    line_conn_refuse(conn, 503,
                     "the server holds too much unfinished input; send it again later, and faster "
                     "(--max-input)");
    line_drop_input(&conn->line);
    input_count_held(counters, conn->line.channel.origin, &conn->input_counted, 0);
}

/* Of those in the middle of a message, the one without progress for longest, if for so long: say
 * why, forget what came, and end it. */
static bool cut_first(struct socket_worker *sw, uint32_t least_ms)
{
    const struct deadline_list *partial = &sw->lists[LINE_MIDLINE];
    list_each (it, next, &partial->all) {
        struct line_conn *conn = list_entry(it, struct line_conn, deadline.link);
        if (deadline_age_ms(partial, conn->deadline.listed_ms) < least_ms) {
            return false;
        }
        if (least_ms > 0 ||
            !input_may_stay(sw->worker->limit_counters, conn->line.channel.origin)) {
            line_conn_cut_input(conn);
            return true;
        }
    }
    return false;
}

void line_conn_note_expiry(struct line_conn *conn)
{
    int64_t end = conn->line.channel.principal ? conn->line.channel.principal->expires_ms : 0;
    int64_t *next = &conn->sw->next_expiry_ms;
    if (end > 0 && (*next == 0 || end < *next)) {
        *next = end;
        deadlines_changed(&conn->sw->deadlines);
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
        list_each (it, next, &sw->lists[open_states[i]].all) {
            struct line_conn *conn = list_entry(it, struct line_conn, deadline.link);
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

void line_conn_make_room(struct line_conn *conn)
{
    if (conn->state == LINE_MIDLINE &&
        input_is_unfair(conn->sw->worker->limit_counters, conn->line.channel.origin,
                        conn->input_counted)) {
        line_conn_cut_input(conn);
    }
    while (input_is_over(conn->sw->worker->limit_counters) && cut_first(conn->sw, 0)) {
    }
}

/* ---- the timer ------------------------------------------------------------------------------- */

static void socket_check_due(void *user)
{
    struct socket_worker *sw = user;
    if (input_is_tight(sw->worker->limit_counters)) {
        while (cut_first(sw, INPUT_TIGHT_MS)) {
        }
    }
    socket_expire_principals(sw);
    if (sw->draining) {
        socket_schedule_reviews(sw);
    }
}

static uint64_t socket_next_check(void *user)
{
    const struct socket_worker *sw = user;
    uint64_t next = input_next_check(sw->worker->limit_counters, &sw->lists[LINE_MIDLINE]);
    if (worker_inbox_count(&sw->inbox) == 0) {
        return UINT64_MAX;
    }
    uint64_t expiry = deadlines_at_wall(&sw->deadlines, sw->next_expiry_ms);
    uint64_t drain = sw->draining ? loop_now_ms(sw->worker->loop) + DRAIN_MS : UINT64_MAX;
    next = expiry < next ? expiry : next;
    return drain < next ? drain : next;
}

int socket_deadlines_init(struct socket_worker *sw)
{
    const struct socket_config *config = sw->config;
    const struct {
        uint64_t after_ms;
        deadline_fn due;
    } times[LINE_STATES] = {
        [LINE_HANDSHAKE] = {config->header_timeout_ms, socket_close_unready},
        [LINE_FRESH] = {config->idle_timeout_ms, socket_close_idle},
        [LINE_MIDLINE] = {config->body_timeout_ms, socket_refuse_slow},
        [LINE_OPEN] = {config->session_timeout_ms, socket_close_idle},
        [LINE_ENDING] = {ENDING_MS, socket_check_ending},
        [LINE_LINGER] = {LINGER_MS, close_lingering},
    };
    const struct deadlines_also also = {socket_next_check, socket_check_due, sw};
    int rc = deadlines_init(&sw->deadlines, sw->worker->loop, &also);
    for (size_t i = 0; i < LINE_STATES; i++) {
        deadline_list_init(&sw->lists[i], &sw->deadlines, times[i].after_ms, times[i].due);
    }
    deadline_list_init(&sw->stalled, &sw->deadlines, config->stall_timeout_ms, socket_cut_stalled);
    return rc;
}
