/* SPDX-License-Identifier: MIT
 *
 * Ordered lists of deadlines, and the one timer that runs until the nearest of them.
 *
 * The timer is set at the end of a turn, when all moves of the turn are known. A deadline that
 * comes before the one it is set to sets it at once, so that none is missed whatever happens
 * afterwards.
 */
#include "transport/connection.h"

#include "base/time.h"
#include "engine/protocol/request.h"
#include "transport/http_internal.h"

/* -------------------------------------------------------------------------------------------------
 * Counts the unhandled input of HTTP connections against --max-input, and cuts the slowest of them
 * and of the WebSockets when it is used up (transport/connection.h).
 */

void conn_book_input(struct http_conn *conn)
{
    size_t held = conn->state != CONN_GONE && conn->r ? conn->r->in.cap : 0;
    if (held < conn->input_counted) {
        worker_trim_later(conn->hw->worker, conn->input_counted - held);
    }
    input_count_held(conn->hw->worker->limit_counters, conn->channel.origin, &conn->input_counted,
                     held);
}

/* The first in that state that may be cut. */
static struct http_conn *conn_find_first(const struct http_worker *hw, enum conn_state state)
{
    list_each (it, next, &hw->lists[state].all) {
        struct http_conn *conn = list_entry(it, struct http_conn, deadline.link);
        if (!input_may_stay(hw->worker->limit_counters, conn->channel.origin)) {
            return conn;
        }
    }
    return NULL;
}

/* Of those in the middle of a request: which has had no progress for longest? */
static struct http_conn *conn_find_slowest(struct http_worker *hw)
{
    struct http_conn *head = conn_find_first(hw, CONN_HEAD), *body = conn_find_first(hw, CONN_BODY);
    bool is_head =
        head && (!body || (int32_t)(head->deadline.listed_ms - body->deadline.listed_ms) < 0);
    return is_head ? head : body;
}

void conn_cut_input(struct http_conn *conn)
{
    conn_refuse_over(conn, LIMIT_INPUT, 503,
                     "the server holds too much unfinished input; send it again later, and faster "
                     "(--max-input)");
    buf_deinit(&conn->r->in);
    conn_book_input(conn);
    conn_want(conn);
}

static void conn_cut_unfair(struct http_conn *conn)
{
    conn_refuse_over(conn, LIMIT_INPUT, 429,
                     "this client holds too much unfinished input on its connections; send it "
                     "again later (--max-input, --fair-share)");
    buf_deinit(&conn->r->in);
    conn_book_input(conn);
    conn_want(conn);
}

void conn_make_room(struct http_conn *conn)
{
    bool is_partial = conn->state == CONN_HEAD || conn->state == CONN_BODY;
    if (is_partial && input_is_unfair(conn->hw->worker->limit_counters, conn->channel.origin,
                                      conn->input_counted)) {
        conn_cut_unfair(conn);
    }
    http_make_room(conn->hw);
}

void http_make_room(struct http_worker *hw)
{
    while (input_is_over(hw->worker->limit_counters)) {
        struct http_conn *conn = conn_find_slowest(hw);
        uint32_t since_ms = 0;
        bool has_websocket = websocket_find_slowest(hw->websockets, &since_ms);
        if (has_websocket && (!conn || (int32_t)(since_ms - conn->deadline.listed_ms) < 0)) {
            websocket_cut_slowest(hw->websockets);
        } else if (conn) {
            conn_cut_input(conn);
        } else {
            return;
        }
    }
}

/* -------------------------------------------------------------------------------------------------
 * How much may be under way on a message connection, and the operations of its channel and sink
 * that have nothing to do there.
 */

bool message_conn_has_room(const struct channel *channel, const struct sendq *out)
{
    if (out->pending >= MESSAGE_CONN_HIGH_WATER || output_must_wait(channel, out)) {
        return false;
    }
    if (list_empty(&channel->requests)) {
        return true;
    }
    unsigned calls = 0;
    list_each (it, next, &channel->requests) {
        if (++calls >= MESSAGE_CONN_MAX_CALLS) {
            return false;
        }
    }
    uint64_t most = channel->worker->limit_counters->values[LIMIT_CONNECTION_OUTPUT];
    size_t by_sources = 0;
    (void)sendq_held(out, &by_sources);
    return most == 0 || request_output_of(channel) + by_sources < most;
}

bool message_conn_is_sending(const struct sendq *out, size_t *ret_held)
{
    (void)sendq_held(out, ret_held);
    return out->pending > 0;
}

void message_conn_put(struct sendq *out, struct buf *text)
{
    if (text->len > SENDQ_LARGE) {
        size_t len = 0;
        char *memory = buf_detach(text, &len);
        sendq_take(out, memory, len);
    } else {
        sendq_puts(out, buf_str(text));
    }
}

void message_conn_accepted(struct channel *channel)
{
    (void)channel;
}

void message_conn_sink_prime(struct sink *sink, struct tidings_str event_id, int64_t retry_ms)
{
    (void)sink;
    (void)event_id;
    (void)retry_ms;
}

void message_conn_sink_end(struct sink *sink)
{
    (void)sink; /* the connection goes on; only what was said on it ends */
}

/* ---------------------------------------------------------------------------------------------- */

#define NEVER UINT64_MAX
#define GRAIN_MAX_MS 1024u
#define WALL_MS 60000

/* The largest power of two that is at most an eighth of the time: those of longer times are
 * multiples of those of shorter ones. */
static uint32_t grain_of(uint64_t after_ms)
{
    uint32_t grain = 1;
    while (grain < GRAIN_MAX_MS && grain * 2 <= after_ms / 8) {
        grain *= 2;
    }
    return grain;
}

static uint64_t round_up(uint64_t ms, uint32_t grain)
{
    return (ms + grain - 1) / grain * grain;
}

static void deadlines_arm(struct deadlines *d, uint64_t at_ms)
{
    uint64_t now = loop_now_ms(d->loop);
    if (at_ms == d->armed_ms) {
        return;
    }
    d->armed_ms = at_ms;
    if (at_ms == NEVER) {
        loop_timer_stop(d->timer);
    } else {
        loop_timer_start(d->timer, at_ms > now ? at_ms - now : 0, 0);
    }
}

uint32_t deadline_age_ms(const struct deadline_list *list, uint32_t since_ms)
{
    return (uint32_t)loop_now_ms(list->deadlines->loop) - since_ms;
}

struct deadline *deadline_list_first(const struct deadline_list *list)
{
    return list_empty(&list->all) ? NULL : list_entry(list->all.next, struct deadline, link);
}

/* When the timer should run for this list; NEVER: nobody is in it. */
static uint64_t next_of(const struct deadline_list *list, uint64_t now)
{
    const struct deadline *first = deadline_list_first(list);
    if (!first) {
        return NEVER;
    }
    return round_up(now - deadline_age_ms(list, first->listed_ms) + list->after_ms, list->grain_ms);
}

void deadlines_end_turn(struct deadlines *d)
{
    if (!d->has_changed) {
        return;
    }
    d->has_changed = false;
    uint64_t check = d->also.next ? d->also.next(d->also.user) : NEVER;
    if (check == NEVER || check < d->check_ms) {
        d->check_ms = check; /* not later than it was: turns do not put it off */
    }
    uint64_t now = loop_now_ms(d->loop), next = d->check_ms;
    list_each (it, following, &d->lists) {
        uint64_t at = next_of(list_entry(it, struct deadline_list, link), now);
        next = at < next ? at : next;
    }
    deadlines_arm(d, next);
}

void deadlines_changed(struct deadlines *d)
{
    d->has_changed = true;
}

uint64_t deadlines_at_wall(const struct deadlines *d, int64_t wall_ms)
{
    if (wall_ms == 0) {
        return NEVER;
    }
    int64_t left = wall_ms - clock_wall_ms();
    return loop_now_ms(d->loop) + (left < 0 ? 0 : left < WALL_MS ? (uint64_t)left : WALL_MS);
}

/* ---- when it is time ------------------------------------------------------------------------- */

static void run_list(struct deadline_list *list)
{
    struct deadline *first;
    while ((first = deadline_list_first(list)) != NULL &&
           deadline_age_ms(list, first->listed_ms) >= list->after_ms) {
        deadline_enter(list, first);
        list->due(first);
    }
}

void deadlines_run(struct deadlines *d)
{
    list_each (it, next, &d->lists) {
        run_list(list_entry(it, struct deadline_list, link));
    }
    d->check_ms = NEVER;
    if (d->also.check) {
        d->also.check(d->also.user);
    }
    d->has_changed = true;
}

static void deadlines_on_timer(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct deadlines *d = user;
    d->armed_ms = NEVER;
    deadlines_run(d);
}

/* ---- lists ----------------------------------------------------------------------------------- */

int deadlines_init(struct deadlines *d, struct loop *loop, const struct deadlines_also *also)
{
    *d = (struct deadlines){.loop = loop, .also = *also, .check_ms = NEVER, .armed_ms = NEVER};
    list_init(&d->lists);
    d->timer = loop_timer_open(loop, deadlines_on_timer, d);
    return d->timer ? 0 : -1;
}

void deadlines_deinit(struct deadlines *d)
{
    loop_timer_close(d->timer);
    d->timer = NULL;
}

void deadline_list_init(struct deadline_list *list, struct deadlines *d, uint64_t after_ms,
                        deadline_fn due)
{
    list_init(&list->all);
    list_init(&list->link);
    list->deadlines = d;
    list->after_ms = after_ms < INT32_MAX ? (uint32_t)after_ms : INT32_MAX;
    list->grain_ms = grain_of(after_ms);
    list->due = due;
    if (after_ms > 0) {
        list_append(&d->lists, &list->link);
    }
}

void deadline_init(struct deadline *deadline)
{
    list_init(&deadline->link);
}

void deadline_enter(struct deadline_list *list, struct deadline *deadline)
{
    struct deadlines *d = list->deadlines;
    uint64_t now = loop_now_ms(d->loop);
    list_remove(&deadline->link);
    list_append(&list->all, &deadline->link);
    deadline->listed_ms = (uint32_t)now;
    d->has_changed = true;
    uint64_t at = round_up(now + list->after_ms, list->grain_ms);
    if (list->after_ms > 0 && at < d->armed_ms) {
        deadlines_arm(d, at);
    }
}

void deadline_leave(struct deadline_list *list, struct deadline *deadline)
{
    list_remove(&deadline->link);
    list->deadlines->has_changed = true;
}

void deadline_stall(struct deadline_list *list, struct deadline *deadline, uint64_t written)
{
    if (!deadline_is_listed(deadline) || deadline->noted != (uint32_t)written) {
        deadline->noted = (uint32_t)written;
        deadline_enter(list, deadline);
    }
}

void deadline_await(struct deadline_list *list, struct deadline *deadline, const struct sendq *q)
{
    if (q->awaits_source) {
        deadline_leave(list, deadline);
    } else {
        deadline_stall(list, deadline, q->written);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Fairness among the HTTP connections and WebSockets of a worker: each handles so many messages in
 * one turn of the loop (CHANNEL_QUANTUM), and goes on in the next with what is left.
 */

bool conn_may_go_on(struct http_conn *conn)
{
    struct http_worker *hw = conn->hw;
    if (hw->draining || channel_may_go_on(&conn->channel)) {
        return true;
    }
    conn_set_state(conn, CONN_YIELDED);
    return false;
}

/* Not before: a timer that is started by a timer would run in the same turn. */
void http_end_turn(struct http_worker *hw)
{
    bool has_yielded = http_first_in(hw, CONN_YIELDED) || websocket_has_yielded(hw->websockets);
    if (has_yielded && !loop_timer_is_running(hw->next_turn)) {
        loop_timer_start(hw->next_turn, 0, 0);
    }
    deadlines_end_turn(&hw->deadlines);
}

/* Another turn: those that had used theirs up go on where they were. */
void http_on_next_turn(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct http_worker *hw = user;
    struct http_conn *conn;
    size_t count = 0; /* who yields meanwhile is behind these; who is ended leaves them */
    list_each (it, next, &hw->lists[CONN_YIELDED].all) {
        count++;
    }
    for (; count > 0 && (conn = http_first_in(hw, CONN_YIELDED)) != NULL; count--) {
        conn_set_state(conn, CONN_HEAD);
        conn_go_on(conn);
        conn_want(conn);
    }
    websocket_resume(hw->websockets);
}
