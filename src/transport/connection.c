/* SPDX-License-Identifier: MIT
 *
 * Connections: deadlines, states, budgets and the end. See connection.h.
 *
 * The timer is set at the end of a turn, when all state changes of the turn are known. A deadline
 * earlier than the timer sets it immediately, so that no deadline is missed whatever happens
 * afterwards.
 */
#include "transport/connection.h"

#include <assert.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "engine/delivery/delivery.h"
#include "engine/protocol/request.h"
#include "security/client_account.h"
#include "security/limits.h"
#include "transport/peer_identity.h"

/* -------------------------------------------------------------------------------------------------
 * Ordered lists of deadlines, and the one timer that runs until the nearest of them.
 */

#define NEVER UINT64_MAX
#define GRAIN_MAX_MS 1024u
#define WALL_MS 60000

/* Returns the largest power of two that is at most an eighth of the time: the grains of longer
 * times are multiples of those of shorter ones. */
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
    if (at_ms == d->started_ms) {
        return;
    }
    d->started_ms = at_ms;
    if (at_ms == NEVER) {
        loop_timer_stop(d->timer);
    } else {
        loop_timer_start(d->timer, at_ms > now ? at_ms - now : 0, 0);
    }
}

static uint32_t deadline_age_ms(const struct deadline_list *list, uint32_t since_ms)
{
    return (uint32_t)loop_now_ms(list->deadlines->loop) - since_ms;
}

struct deadline *deadline_list_first(const struct deadline_list *list)
{
    return list_empty(&list->all) ? NULL : list_entry(list->all.next, struct deadline, link);
}

/* Returns when the timer should run for this list; NEVER: the list is empty. */
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
        d->check_ms = check; /* not later than before: turns do not delay it */
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
    d->started_ms = NEVER;
    deadlines_run(d);
}

/* ---- lists ----------------------------------------------------------------------------------- */

int deadlines_init(struct deadlines *d, struct loop *loop, const struct deadlines_also *also)
{
    *d = (struct deadlines){.loop = loop, .also = *also, .check_ms = NEVER, .started_ms = NEVER};
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
    if (list->after_ms > 0 && at < d->started_ms) {
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

/* -------------------------------------------------------------------------------------------------
 * The input budget: the memory of each connection, and which connection is cut if all exceed it.
 */

void connection_book_input(struct connection *c)
{
    struct worker *worker = c->channel.worker;
    size_t held = connection_is_gone(c) ? 0 : c->all->kind->input_size(c);
    if (held == c->input_counted) {
        return;
    }
    if (held < c->input_counted) {
        worker_trim_later(worker, c->input_counted - held);
    }
    size_t more = held - c->input_counted; /* modulo 2^64: a smaller value is subtracted */
    __atomic_fetch_add(&worker->limit_counters->in_use[LIMIT_INPUT], more, __ATOMIC_RELAXED);
    if (c->channel.origin) {
        __atomic_fetch_add(client_account_used(c->channel.origin, LIMIT_INPUT), more,
                           __ATOMIC_RELAXED);
    }
    c->input_counted = (uint32_t)held;
}

/* Returns true if the use exceeds the limit without the reserve. */
static bool input_is_over(const struct limit_counters *counters)
{
    uint64_t most = counters->values[LIMIT_INPUT];
    return most > 0 && limit_in_use(counters, LIMIT_INPUT) > most - share_reserve(most);
}

/* Returns true for connections that may use the reserve. */
static bool input_may_stay(const struct connection *c)
{
    const struct limit_counters *counters = c->channel.worker->limit_counters;
    return c->channel.origin && client_account_is_user(c->channel.origin) &&
           limit_in_use(counters, LIMIT_INPUT) <= counters->values[LIMIT_INPUT];
}

/* Returns true if its client exceeds its share, and not only on this connection. Counts it. */
static bool input_is_unfair(const struct connection *c)
{
    struct limit_counters *counters = c->channel.worker->limit_counters;
    struct client_account *origin = c->channel.origin;
    uint64_t most = counters->values[LIMIT_INPUT];
    if (!origin || most == 0 || client_account_is_whole(origin)) {
        return false;
    }
    size_t own = __atomic_load_n(client_account_used(origin, LIMIT_INPUT), __ATOMIC_RELAXED);
    uint64_t reserve = client_account_is_user(origin) ? share_reserve(most) : 0;
    if (own <= share_part(counters, most) + reserve || own == c->input_counted) {
        return false;
    }
    __atomic_fetch_add(&counters->share_hits[LIMIT_INPUT], 1, __ATOMIC_RELAXED);
    return true;
}

/* Returns true if more than half of the budget is in use. */
static bool input_is_tight(const struct limit_counters *counters)
{
    uint64_t most = counters->values[LIMIT_INPUT];
    return most > 0 && limit_in_use(counters, LIMIT_INPUT) > most / 2;
}

static struct connection *connection_of_link(struct list *link)
{
    return list_entry(link, struct connection, deadline.link);
}

/* Returns the connection of this kind that has been without progress for longest, if it may be cut
 * and exceeds `than`. */
static struct connection *connections_slowest(const struct connections *all,
                                              struct connection *than)
{
    for (unsigned i = 0; i < all->kind->state_count; i++) {
        if (!all->kind->states[i].is_partial) {
            continue;
        }
        list_each (it, next, &all->lists[i].all) {
            struct connection *c = connection_of_link(it);
            if (!input_may_stay(c)) {
                bool is_older =
                    !than || (int32_t)(c->deadline.listed_ms - than->deadline.listed_ms) < 0;
                than = is_older ? c : than;
                break;
            }
        }
    }
    return than;
}

void connection_make_room(struct connection *c)
{
    struct connection_worker *cw = c->all->cw;
    connection_book_input(c);
    if (c->input_counted == 0) {
        return;
    }
    if (c->all->kind->states[c->state].is_partial && input_is_unfair(c)) {
        c->all->kind->cut_input(c, true);
    }
    while (input_is_over(cw->worker->limit_counters)) {
        struct connection *slowest = NULL;
        list_each (it, next, &cw->kinds) {
            slowest = connections_slowest(list_entry(it, struct connections, link), slowest);
        }
        if (!slowest) {
            return;
        }
        slowest->all->kind->cut_input(slowest, false);
    }
}

/* If input is tight, cuts connections whose messages take too long for their next step. */
static void connections_cut_tight(struct connections *all)
{
    const struct deadline_list *timed = &all->lists[all->kind->timed_state];
    list_each (it, next, &timed->all) {
        struct connection *c = connection_of_link(it);
        if (deadline_age_ms(timed, c->deadline.listed_ms) < INPUT_TIGHT_MS) {
            return;
        }
        all->kind->cut_input(c, false);
    }
}

/* Returns when to search for those: some worker may exceed half by then. */
static uint64_t connections_next_tight(const struct connections *all)
{
    const struct deadline_list *timed = &all->lists[all->kind->timed_state];
    const struct deadline *first = deadline_list_first(timed);
    if (!first || all->cw->worker->limit_counters->values[LIMIT_INPUT] == 0) {
        return NEVER;
    }
    uint32_t age = deadline_age_ms(timed, first->listed_ms);
    return loop_now_ms(all->cw->worker->loop) +
           (age < INPUT_TIGHT_MS ? INPUT_TIGHT_MS - age : INPUT_TIGHT_MS);
}

/* -------------------------------------------------------------------------------------------------
 * Credentials that expire or are revoked.
 */

void connection_note_expiry(struct connection *c)
{
    int64_t end = c->channel.principal ? c->channel.principal->expires_ms : 0;
    int64_t *next = &c->all->next_expiry_ms;
    if (end > 0 && (*next == 0 || end < *next)) {
        *next = end;
        deadlines_changed(&c->all->cw->deadlines);
    }
}

static uint32_t connections_open_states(const struct connections *all)
{
    uint32_t open = 0;
    for (unsigned i = 0; i < all->kind->state_count; i++) {
        open |= all->kind->states[i].is_open ? 1u << i : 0;
    }
    return open;
}

static bool connection_has_credentials(const struct connection *c)
{
    return c->channel.principal &&
           (!c->all->kind->has_credentials || c->all->kind->has_credentials(c));
}

static void connection_expire(struct connection *c, void *user)
{
    if (!connection_has_credentials(c)) {
        return;
    }
    if (principal_is_expired(c->channel.principal, *(const int64_t *)user)) {
        c->all->kind->end_credentials(c, false);
    } else {
        connection_note_expiry(c);
    }
}

static void connections_expire(struct connections *all)
{
    int64_t now = all->next_expiry_ms > 0 ? clock_wall_ms() : 0;
    if (all->next_expiry_ms > 0 && now >= all->next_expiry_ms) {
        all->next_expiry_ms = 0;
        connections_each(all, connections_open_states(all), connection_expire, &now);
    }
}

struct connection_dismissal {
    principal_test_fn is_gone;
    void *user;
};

static void connection_dismiss(struct connection *c, void *user)
{
    const struct connection_dismissal *d = user;
    if (connection_has_credentials(c) && d->is_gone(d->user, c->channel.principal)) {
        c->all->kind->end_credentials(c, true);
    }
}

void connection_worker_dismiss(struct connection_worker *cw, principal_test_fn is_gone, void *user)
{
    struct connection_dismissal d = {is_gone, user};
    list_each (it, next, &cw->kinds) {
        struct connections *all = list_entry(it, struct connections, link);
        connections_each(all, connections_open_states(all), connection_dismiss, &d);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Output: the queue, its booking, and the operations of channels and sinks that do not differ.
 */

static struct connection *connection_of_channel(const struct channel *channel)
{
    return list_entry((struct channel *)(uintptr_t)channel, struct connection, channel);
}

static struct connection *connection_of_sink(const struct sink *sink)
{
    return list_entry((struct sink *)(uintptr_t)sink, struct connection, sink);
}

void connection_put(struct connection *c, struct buf *text)
{
    if (text->len > SENDQ_LARGE) {
        size_t len = 0;
        char *memory = buf_detach(text, &len);
        sendq_take(&c->out, memory, len);
    } else {
        sendq_puts(&c->out, buf_str(text));
    }
}

/* Returns the borrowed account of its client: the principal's, or the account of its address. */
static struct client_account *output_account(const struct channel *channel)
{
    const struct principal *p = channel->principal;
    return p && p->kind != PRINCIPAL_ANONYMOUS ? p->account : channel->origin;
}

static void connection_count_output(struct connection *c, size_t bytes)
{
    output_count(c->channel.worker->limit_counters, output_account(&c->channel), &c->sink.booked,
                 bytes);
}

void connection_book_output(struct connection *c)
{
    size_t by_sources;
    if (c->out.pending > 0 || c->sink.booked > 0) {
        connection_count_output(c, c->out.pending > 0 ? sendq_held(&c->out, &by_sources) : 0);
    }
}

void connection_book_answer(struct connection *c)
{
    if (c->out.pending > SENDQ_MADE) {
        connection_book_output(c);
    }
}

bool connection_must_wait(const struct connection *c)
{
    struct limit_counters *counters = c->channel.worker->limit_counters;
    if (c->out.pending == 0) {
        return false;
    }
    struct share_taker who = channel_taker(&c->channel);
    bool is_over = share_is_over(counters, LIMIT_OUTPUT, counters->values[LIMIT_OUTPUT], &who);
    client_account_release(who.account);
    return is_over;
}

bool message_conn_has_space(const struct connection *c)
{
    const struct channel *channel = &c->channel;
    if (c->out.pending >= MESSAGE_CONN_HIGH_WATER || connection_must_wait(c)) {
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
    (void)sendq_held(&c->out, &by_sources);
    return most == 0 || request_output_of(channel) + by_sources < most;
}

void connection_unbook(struct channel *channel)
{
    struct connection *c = connection_of_channel(channel);
    if (c->sink.booked > 0) {
        connection_count_output(c, 0);
    }
}

bool connection_is_sending(const struct channel *channel, size_t *ret_held)
{
    struct connection *c = connection_of_channel(channel);
    c->has_long = true;
    (void)sendq_held(&c->out, ret_held);
    return c->out.pending > 0;
}

void connection_address(const struct channel *channel, char out[PRINCIPAL_MAX])
{
    const struct connection *c = connection_of_channel(channel);
    peer_identity_name(c->out.fd, sendq_tls(&c->out), out);
}

void connection_facts(const struct channel *channel, struct channel_facts *ret)
{
    const struct connection *c = connection_of_channel(channel);
    peer_identity_facts(channel, &c->out, c->all->kind->is_http, ret);
    ret->fd = c->out.fd;
    if (!connection_is_gone(c) && deadline_is_listed(&c->stall)) {
        ret->stalled_ms = deadline_age_ms(&c->all->stalled, c->stall.listed_ms);
    }
}

size_t connection_sink_pending(const struct sink *sink)
{
    return connection_of_sink(sink)->out.pending;
}

struct channel *connection_sink_channel(const struct sink *sink)
{
    return &connection_of_sink(sink)->channel;
}

void connection_sink_cut(struct sink *sink, const char *reason)
{
    connection_close(connection_of_sink(sink), reason);
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
    (void)sink; /* the connection stays open; only its stream ends */
}

/* -------------------------------------------------------------------------------------------------
 * States, and what is due in them.
 */

bool connection_may_move(const struct connection_kind *kind, unsigned from, unsigned to)
{
    return (kind->states[from].next >> to & 1u) != 0;
}

static void connection_enter(struct connection *c, unsigned state)
{
    const struct connection_state *states = c->all->kind->states;
    size_t *streams = &c->channel.worker->stats.streams;
    *streams = *streams + states[state].is_stream - states[c->state].is_stream;
    c->state = (unsigned char)state;
    if (connection_is_gone(c)) {
        deadline_leave(&c->all->lists[state], &c->deadline); /* in no list */
        return;
    }
    deadline_enter(&c->all->lists[state], &c->deadline);
    c->deadline.noted = c->deadline.listed_ms;
}

void connection_start(struct connection *c, unsigned state)
{
    assert(c->state == 0 && !deadline_is_listed(&c->deadline));
    connection_enter(c, state);
}

void connection_set_state(struct connection *c, unsigned state)
{
    bool may_move = connection_may_move(c->all->kind, c->state, state);
    assert(may_move);
    if (!may_move) {
        log_warn(LOG_TRANSPORT, "connection closed", KV("reason", "internal: impossible state"),
                 KV("from", c->state), KV("to", state));
        connection_close(c, "internal: impossible state");
        return;
    }
    connection_enter(c, state);
    if (c->input_counted > 0) { /* input that is handled within a turn is never counted */
        connection_book_input(c);
    }
}

bool connection_may_go_on(struct connection *c)
{
    if (c->all->cw->draining || channel_may_go_on(&c->channel)) {
        return true;
    }
    connection_set_state(c, c->all->kind->yielded_state);
    return false;
}

/* A connection with a postponed keep-alive is not moved for each message: it is checked every
 * eighth of the time from then on, and ends after six to eight eighths of silence. */
static void connection_on_due(struct deadline *deadline)
{
    struct connection *c = list_entry(deadline, struct connection, deadline);
    struct connections *all = c->all;
    const struct connection_state *state = &all->kind->states[c->state];
    if (state->is_kept_alive && deadline_age_ms(&all->put_off, deadline->noted) <
                                    all->keepalive_ms - all->keepalive_ms / 4) {
        deadline_enter(&all->put_off, deadline);
        return;
    }
    state->on_due(c);
}

void connection_cut(struct connection *c, const char *what, const char *reason)
{
    struct worker *worker = c->channel.worker;
    worker->stats.cut++;
    limit_hit(worker->limit_counters, LIMIT_STALL);
    delivery_log_cut(&c->channel, c->out.pending, c->all->stalled.after_ms, what);
    connection_close(c, reason);
}

static void connection_on_stall(struct deadline *stall)
{
    connection_cut(list_entry(stall, struct connection, stall),
                   "it takes nothing (--stall-timeout)", "stalled: the client does not read");
}

void connection_note_flush(struct connection *c, enum sendq_state state)
{
    if (state == SENDQ_WAITING && !c->out.awaits_source) {
        deadline_stall(&c->all->stalled, &c->stall, c->out.written);
    } else {
        deadline_leave(&c->all->stalled, &c->stall);
    }
    connection_book_output(c);
}

/* -------------------------------------------------------------------------------------------------
 * From the handover to the end.
 */

void connection_prepare(struct connection *c, struct connections *all)
{
    channel_init(&c->channel, all->kind->channel_ops, all->cw->worker);
    c->all = all;
    c->sink.ops = all->kind->sink_ops;
    deadline_init(&c->deadline);
    deadline_init(&c->stall);
}

int connection_adopt(struct connection *c, struct connections *all, struct handover *h,
                     unsigned first)
{
    struct worker *worker = all->cw->worker;
    connection_prepare(c, all);
    if (loop_poll_init(&c->poll, worker->loop, h->fd, all->kind->on_event, c, NULL) < 0) {
        all->kind->free(c);
        handover_destroy(h);
        connection_worker_left(all->cw);
        return -1;
    }
    c->channel.quota = h->quota;
    c->channel.origin = h->origin;
    sendq_init(&c->out, &worker->batch, h->fd, all->kind->on_flushed);
    connection_start(c, first);
    int rc = h->tls ? sendq_use_tls(&c->out, h->tls) : 0;
    mem_free(h);
    if (rc < 0) {
        connection_close(c, "out of memory");
    }
    return rc < 0 ? -1 : 0;
}

ssize_t connection_receive(struct connection *c)
{
    struct connection_worker *cw = c->all->cw;
    struct tls_session *tls = sendq_tls(&c->out);
    if (tls && tls_session_reason(tls)[0] != '\0') {
        tls = NULL; /* it failed: further input is ignored */
    }
    bool ended = false;
    ssize_t n = tls_recv(tls, c->out.fd, cw->scratch, sizeof(cw->scratch), &ended);
    c->eof = c->eof || ended;
    cw->worker->stats.bytes_in += n > 0 ? (size_t)n : 0;
    if (n < 0 && tls && tls_session_reason(tls)[0] != '\0') {
        log_debug(LOG_TRANSPORT, "TLS failed", KV("reason", tls_session_reason(tls)),
                  KV("worker", cw->worker->index));
        c->all->kind->on_tls_failed(c, n);
    } else if (n < 0) {
        connection_close(c, "reset");
    }
    return n < 0 ? -1 : n;
}

void connection_detach(struct connection *c)
{
    connection_set_state(c, c->all->kind->state_count - 1);
    deadline_leave(&c->all->stalled, &c->stall);
    loop_poll_deinit(&c->poll);
    sendq_deinit(&c->out);
    connection_book_output(c);
}

void connection_close(struct connection *c, const char *reason)
{
    struct connection_worker *cw = c->all->cw;
    if (connection_is_gone(c)) {
        return;
    }
    log_debug(LOG_TRANSPORT, "connection closed", KV("reason", reason),
              KV("worker", cw->worker->index));
    struct channel_facts facts;
    int fd = c->out.fd;
    channel_ending(&c->channel, reason, &facts);
    connection_detach(c);
    close(fd);
    worker_inbox_give_back(&cw->inbox, c->channel.quota, c->channel.origin);
    sink_closed(&c->sink);
    channel_deinit(&c->channel);
    channel_ended(&c->channel);
    if (c->all->kind->on_closed) {
        c->all->kind->on_closed(c);
    }
    loop_discard(cw->worker->loop, &c->discard, c->all->kind->free, c);
    connection_worker_left(cw);
}

void connection_fail(struct connection *c, const char *otherwise)
{
    connection_close(c, peer_identity_failure(&c->channel, &c->out, otherwise));
}

/* -------------------------------------------------------------------------------------------------
 * Kinds and workers.
 */

void connections_init(struct connections *all, const struct connection_kind *kind,
                      struct connection_worker *cw, const uint64_t *times_ms, uint64_t stall_ms)
{
    assert(kind->state_count <= CONNECTION_STATES_MAX);
    all->kind = kind;
    all->cw = cw;
    list_append(&cw->kinds, &all->link);
    for (unsigned i = 0; i < kind->state_count; i++) {
        uint64_t time = kind->states[i].on_due ? times_ms[i] : 0;
        if (kind->states[i].is_kept_alive) {
            all->keepalive_ms = time;
            time -= time / 8;
        }
        deadline_list_init(&all->lists[i], &cw->deadlines, time, connection_on_due);
    }
    deadline_list_init(&all->put_off, &cw->deadlines, all->keepalive_ms / 8, connection_on_due);
    deadline_list_init(&all->stalled, &cw->deadlines, stall_ms, connection_on_stall);
}

struct connection *connections_first(const struct connections *all, unsigned state)
{
    struct deadline *first = deadline_list_first(&all->lists[state]);
    return first ? list_entry(first, struct connection, deadline) : NULL;
}

void connections_each(struct connections *all, uint32_t states,
                      void (*fn)(struct connection *c, void *user), void *user)
{
    for (unsigned i = 0; i < all->kind->state_count; i++) {
        if ((states >> i & 1u) == 0) {
            continue;
        }
        list_each (it, next, &all->lists[i].all) {
            fn(connection_of_link(it), user);
        }
        if (all->kind->states[i].is_kept_alive) {
            list_each (it, next, &all->put_off.all) {
                fn(connection_of_link(it), user);
            }
        }
    }
}

/* In the next turn: connections that had used up their quantum continue. */
static void connections_resume(struct connections *all)
{
    unsigned state = all->kind->yielded_state;
    struct connection *c;
    size_t count = 0; /* connections that yield during this come after these; closed ones leave */
    list_each (it, next, &all->lists[state].all) {
        count++;
    }
    for (; count > 0 && (c = connections_first(all, state)) != NULL; count--) {
        all->kind->resume(c);
    }
}

static void connection_worker_on_turn(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct connection_worker *cw = user;
    list_each (it, next, &cw->kinds) {
        connections_resume(list_entry(it, struct connections, link));
    }
    if (cw->ops->on_turn) {
        cw->ops->on_turn(cw);
    }
}

void connection_worker_end_turn(struct connection_worker *cw, bool is_throttled)
{
    list_each (it, next, &cw->kinds) {
        const struct connections *all = list_entry(it, struct connections, link);
        is_throttled = is_throttled || connections_first(all, all->kind->yielded_state);
    }
    /* Not earlier: a timer that is started by a timer would run in the same turn. */
    if (is_throttled && !loop_timer_is_running(cw->next_turn)) {
        loop_timer_start(cw->next_turn, 0, 0);
    }
    deadlines_end_turn(&cw->deadlines);
}

#define DRAIN_MS 250u /* interval of checks while the server ends */

static void connection_worker_check(void *user)
{
    struct connection_worker *cw = user;
    list_each (it, next, &cw->kinds) {
        struct connections *all = list_entry(it, struct connections, link);
        if (input_is_tight(cw->worker->limit_counters)) {
            connections_cut_tight(all);
        }
        connections_expire(all);
    }
    cw->ops->check(cw);
}

static uint64_t connection_worker_next_check(void *user)
{
    struct connection_worker *cw = user;
    uint64_t now = loop_now_ms(cw->worker->loop), next = NEVER;
    if (worker_inbox_count(&cw->inbox) == 0) {
        return NEVER;
    }
    if (cw->review_ms > 0) {
        next = now + cw->review_ms;
    }
    if (cw->draining && now + DRAIN_MS < next) {
        next = now + DRAIN_MS;
    }
    list_each (it, following, &cw->kinds) {
        const struct connections *all = list_entry(it, struct connections, link);
        uint64_t tight = connections_next_tight(all);
        uint64_t expiry = deadlines_at_wall(&cw->deadlines, all->next_expiry_ms);
        next = tight < next ? tight : next;
        next = expiry < next ? expiry : next;
    }
    return next;
}

int connection_worker_init(struct connection_worker *cw, const struct connection_worker_ops *ops,
                           struct worker *worker, struct tidings_error *err)
{
    const struct deadlines_also also = {connection_worker_next_check, connection_worker_check, cw};
    cw->ops = ops;
    cw->worker = worker;
    list_init(&cw->kinds);
    int timed = deadlines_init(&cw->deadlines, worker->loop, &also);
    loop_hook_add(worker->loop, &cw->end_hook, ops->end_turn, cw);
    cw->next_turn = loop_timer_open(worker->loop, connection_worker_on_turn, cw);
    cw->inbox.limit_counters = worker->limit_counters;
    cw->inbox.adopt = ops->adopt;
    cw->inbox.mailbox = mailbox_create(worker->loop, cw, err);
    if (timed < 0 || !cw->next_turn || !cw->inbox.mailbox) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    return 0;
}

static void connections_shut_down(struct deadline_list *list)
{
    struct deadline *first;
    while ((first = deadline_list_first(list)) != NULL) {
        connection_close(list_entry(first, struct connection, deadline), "shutdown");
    }
}

void connection_worker_deinit(struct connection_worker *cw)
{
    cw->drained = NULL;
    list_each (it, next, &cw->kinds) {
        struct connections *all = list_entry(it, struct connections, link);
        for (unsigned i = 0; i < all->kind->state_count; i++) {
            connections_shut_down(&all->lists[i]);
        }
        connections_shut_down(&all->put_off);
    }
    if (cw->inbox.mailbox) {
        mailbox_close(cw->inbox.mailbox);
        mailbox_unref(cw->inbox.mailbox);
    }
    deadlines_deinit(&cw->deadlines);
    loop_timer_close(cw->next_turn);
    loop_hook_remove(&cw->end_hook);
}

static void connection_worker_check_drained(struct connection_worker *cw)
{
    if (cw->draining && cw->drained && worker_inbox_count(&cw->inbox) == 0) {
        void (*drained)(void *) = cw->drained;
        cw->drained = NULL;
        drained(cw->drained_user);
    }
}

void connection_worker_left(struct connection_worker *cw)
{
    worker_inbox_left(&cw->inbox);
    connection_worker_check_drained(cw);
}

void connection_worker_drain(struct connection_worker *cw, void (*drained)(void *user), void *user)
{
    cw->draining = true;
    cw->drained = drained;
    cw->drained_user = user;
    deadlines_changed(&cw->deadlines);
    connection_worker_check_drained(cw);
}
