/* SPDX-License-Identifier: MIT
 *
 * Life of HTTP connections: adopt one, read from and write to its socket, hand it on, close it.
 * What is made of the bytes is in http_request.c, deadlines in http_deadlines.c, states in
 * http_states.c.
 */
#include "transport/http.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "auth/auth.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/http_private.h"
#include "transport/output_budget.h"
#include "transport/peer_identity.h"

/* Bytes read per connection and turn, so that one talker does not starve the rest; the messages
 * among them that are handled are counted by channel_may_go_on. */
#define READ_QUANTUM (4u * 65536u)

bool conn_is_full(const struct http_conn *conn)
{
    return conn->out.pending >= PIPELINE_HIGH_WATER || output_must_wait(&conn->channel, &conn->out);
}

void conn_want(struct http_conn *conn)
{
    if (conn->state == CONN_GONE) {
        return;
    }
    int events = sendq_awaits_room(&conn->out) ? LOOP_WRITE : 0;
    bool reads =
        conn_is_reading(conn) || conn->state == CONN_HANDSHAKE || conn->state == CONN_LINGER;
    bool is_full = conn_is_full(conn);
    bool is_ending = conn->state == CONN_CLOSING || conn->state == CONN_REFUSED;
    if (!conn->eof && !is_ending && conn->state != CONN_YIELDED) {
        events |= LOOP_HANGUP;
    }
    if (reads && !conn->eof && !is_full) {
        events |= LOOP_READ;
    } else if (conn->state == CONN_RUNNING || conn->state == CONN_AWAITING) {
        /* Most clients wait for their answer: asking the kernel twice per request can be spared.
         * Who sends more meanwhile ends it (conn_on_event). */
        events |= conn->poll.wanted & LOOP_READ;
    }
    loop_poll_want(&conn->poll, events);
}

/* ---- the end --------------------------------------------------------------------------------- */

void conn_free_reading(struct http_conn *conn)
{
    if (conn->r) {
        buf_deinit(&conn->r->in);
        mem_free(conn->r->origin);
        mem_free(conn->r);
        conn->r = NULL;
    }
}

static void conn_free(void *thing)
{
    struct http_conn *conn = thing;
    conn_free_reading(conn);
    mem_free(conn);
}

static void http_check_drained(struct http_worker *hw)
{
    if (hw->draining && hw->drained && worker_inbox_count(&hw->inbox) == 0) {
        void (*drained)(void *) = hw->drained;
        hw->drained = NULL;
        drained(hw->drained_user);
    }
}

/* Unhook everything but the descriptor and the input. */
static void conn_detach(struct http_conn *conn)
{
    conn_set_state(conn, CONN_GONE);
    deadline_leave(&conn->hw->stalled, &conn->stall);
    loop_poll_deinit(&conn->poll);
    sendq_deinit(&conn->out);
    output_book_queue(&conn->channel, &conn->sink, &conn->out);
    conn_book_input(conn);
}

void conn_close(struct http_conn *conn, const char *reason)
{
    if (conn->state == CONN_GONE) {
        return;
    }
    struct http_worker *hw = conn->hw;
    log_debug(LOG_TRANSPORT, "connection closed", KV("reason", reason),
              KV("worker", hw->worker->index));
    struct channel_facts facts;
    channel_ending(&conn->channel, reason, &facts);
    conn_detach(conn);
    close(conn->out.fd);
    worker_inbox_left(&hw->inbox);
    worker_inbox_give_back(&hw->inbox, conn->channel.quota, conn->channel.origin);
    sink_closed(&conn->sink);
    channel_deinit(&conn->channel);
    channel_ended(&conn->channel);
    if (conn->r && conn->r->exchange) {
        resource_abandon(conn);
    }
    if (conn->r && conn->r->notifying) {
        http_notify_abandon(conn);
    }
    if (conn->r && conn->r->pending_token) {
        conn_forget_pending_token(conn);
    }
    if (conn->r && conn->r->awaiting) {
        conn_forget_session(conn);
    }
    loop_discard(hw->worker->loop, &conn->discard, conn_free, conn);
    http_check_drained(hw);
}

void conn_end(struct http_conn *conn)
{
    if (conn->out.pending == 0) {
        conn_close(conn, "closed by the client");
    } else {
        conn_set_state(conn, CONN_CLOSING);
    }
}

/* ---- handing it on --------------------------------------------------------------------------- */

void conn_move_to(struct http_conn *conn, struct http_worker *other)
{
    struct http_worker *hw = conn->hw;
    struct tls_session *tls = sendq_detach_tls(&conn->out);
    conn_detach(conn);
    worker_inbox_left(&hw->inbox);
    channel_deinit(&conn->channel);
    struct handover *h = handover_create(conn->out.fd, tls);
    if (!h) { /* it is closed */
        worker_inbox_give_back(&hw->inbox, conn->channel.quota, conn->channel.origin);
    } else {
        h->quota = conn->channel.quota;
        h->origin = conn->channel.origin;
        h->in = conn->r->in;
        buf_init(&conn->r->in, 0);
        worker_inbox_send(&other->inbox, h);
    }
    loop_discard(hw->worker->loop, &conn->discard, conn_free, conn);
    http_check_drained(hw);
}

/* It stays one connection of the worker, and of its client. */
void conn_become_websocket(struct http_conn *conn, struct websocket *ws)
{
    struct http_reading *r = conn->r;
    struct sendq out;
    sendq_move(&out, &conn->out, NULL);
    conn_detach(conn);
    const struct websocket_start start = {
        .out = &out,
        .principal = conn->channel.principal,
        .quota = conn->channel.quota,
        .origin = conn->channel.origin,
        .input = tidings_strn(r->in.ptr + r->head_len, r->in.len - r->head_len),
        .eof = conn->eof,
    };
    websocket_open(ws, &start);
    sendq_deinit(&out);
    channel_deinit(&conn->channel);
    loop_discard(conn->hw->worker->loop, &conn->discard, conn_free, conn);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void conn_read_input(struct http_conn *conn)
{
    struct http_worker *hw = conn->hw;
    for (size_t total = 0; total < READ_QUANTUM && !conn->eof;) {
        ssize_t n = conn_receive(conn);
        if (n <= 0) {
            return;
        }
        if (buf_put(&conn->r->in, hw->scratch, (size_t)n) < 0) {
            conn_refuse_over(conn, LIMIT_BODY, 413,
                             "the request is larger than this server accepts");
            return;
        }
        total += (size_t)n;
        if ((size_t)n < sizeof(hw->scratch)) {
            return; /* most likely all there is; level-triggered anyway */
        }
    }
}

static void conn_discard_input(struct http_conn *conn)
{
    if (conn_receive(conn) >= 0 && conn->eof) {
        conn_close(conn, "refused");
    }
}

static void conn_on_flushed(struct sendq *q, enum sendq_state state);

static void conn_on_event(struct loop_poll *poll, int events, void *user)
{
    struct http_conn *conn = user;
    if (events & LOOP_ERROR) {
        conn_close(conn, peer_identity_failure(&conn->channel, &conn->out, "socket error"));
        return;
    }
    if (events & LOOP_WRITE) {
        conn_on_flushed(&conn->out, sendq_flush(&conn->out));
        if (conn->state == CONN_GONE) {
            return;
        }
    }
    if ((events & LOOP_READ) && (conn_is_reading(conn) || conn->state == CONN_HANDSHAKE)) {
        conn_read_input(conn);
        conn_go_on(conn);
    } else if ((events & LOOP_READ) && conn->state == CONN_LINGER) {
        conn_discard_input(conn);
    } else if (events & LOOP_HANGUP) {
        conn_close(conn, "closed by the client"); /* cancels what was under way */
        return;
    } else if ((events & LOOP_READ) && conn->state == CONN_AWAITING) {
        loop_poll_want(poll, conn->poll.wanted & ~LOOP_READ); /* its turn comes */
    }
    conn_want(conn);
    conn_book_input(conn);
    if (conn->input_counted > 0) {
        conn_make_room(conn);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static void conn_begin_waiting(struct http_conn *conn)
{
    output_book_queue(&conn->channel, &conn->sink, &conn->out);
    deadline_await(&conn->hw->stalled, &conn->stall, &conn->out);
    conn_want(conn);
}

static void conn_on_flushed(struct sendq *q, enum sendq_state state)
{
    struct http_conn *conn = list_entry(q, struct http_conn, out);
    if (state == SENDQ_EMPTY && conn->state == CONN_STREAM && !deadline_is_listed(&conn->stall) &&
        !conn->sink.blocked && !conn->has_long) {
        return; /* the ordinary case of a stream: nothing waited */
    }
    if (state == SENDQ_BROKEN) {
        conn_close(conn, peer_identity_failure(&conn->channel, &conn->out, sendq_reason(q)));
        return;
    }
    if (state == SENDQ_WAITING) {
        conn_begin_waiting(conn);
        return;
    }
    deadline_leave(&conn->hw->stalled, &conn->stall);
    output_book_queue(&conn->channel, &conn->sink, &conn->out);
    if (conn->state == CONN_CLOSING || (conn->state == CONN_REFUSED && conn->eof)) {
        conn_close(conn, "done");
        return;
    }
    if (conn->state == CONN_REFUSED) {
        sendq_end(&conn->out);
        conn_set_state(conn, CONN_LINGER);
        conn_want(conn);
        return;
    }
    sink_drained(&conn->sink);
    if (conn->has_long) {
        conn->has_long = delivery_drained(&conn->channel);
    }
    if (conn->r && conn->r->in.len > 0) {
        conn_go_on(conn);
    }
    conn_want(conn);
}

static void http_flush_batch(void *user)
{
    struct http_worker *hw = user;
    poll_flush(hw);
    sendq_batch_flush(&hw->worker->batch);
    http_end_turn(hw);
}

/* ---- the end of the server ------------------------------------------------------------------- */

/* Is there no whole request? */
static bool conn_is_quiet(const struct http_conn *conn)
{
    return conn_is_reading(conn) || conn->state == CONN_HANDSHAKE;
}

/* While draining: a connection goes that has nothing to ask. A request half read is as good as
 * none. */
static void conn_end_if_quiet(struct http_conn *conn)
{
    if (conn_is_quiet(conn)) {
        conn_read_input(conn);
    }
    if (conn_is_quiet(conn)) {
        conn_go_on(conn);
    }
    if (conn_is_quiet(conn)) {
        conn_end(conn);
    }
    conn_want(conn);
}

void http_worker_drain(struct http_worker *hw, void (*drained)(void *user), void *user)
{
    hw->draining = true;
    hw->drained = drained;
    hw->drained_user = user;
    static const enum conn_state quiet[] = {CONN_HANDSHAKE, CONN_IDLE, CONN_HEAD, CONN_BODY};
    for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++) {
        list_each (it, next, &hw->lists[quiet[i]].all) {
            conn_end_if_quiet(list_entry(it, struct http_conn, deadline.link));
        }
    }
    websocket_drain(hw->websockets);
    legacy_sse_drain(hw);
    deadlines_changed(&hw->deadlines);
    http_check_drained(hw);
}

/* ---- workers --------------------------------------------------------------------------------- */

static void http_set_options(const struct http_config *config, int fd)
{
    int one = 1;
    unsigned timeout = (unsigned)config->stall_timeout_ms;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

static void http_adopt(struct letter *letter, void *owner)
{
    struct http_worker *hw = owner;
    struct handover *h = list_entry(letter, struct handover, letter);
    struct http_conn *conn = mem_zalloc(sizeof(*conn));
    struct http_reading *r = conn ? mem_zalloc(sizeof(*r)) : NULL;
    if (!r || loop_poll_init(&conn->poll, hw->worker->loop, h->fd, conn_on_event, conn, NULL) < 0) {
        mem_free(conn);
        mem_free(r);
        handover_destroy(h);
        worker_inbox_left(&hw->inbox);
        http_check_drained(hw);
        return;
    }
    http_review_tokens(hw); /* what was taken back while nobody was here */
    channel_init(&conn->channel, &http_channel_ops, hw->worker);
    conn->channel.quota = h->quota;
    conn->channel.origin = h->origin;
    conn->sink.ops = &http_sink_ops;
    conn->hw = hw;
    conn->r = r;
    conn->r->in = h->in;
    conn->r->in.max = HTTP_MAX_HEAD + hw->config->max_body + sizeof(hw->scratch);
    conn->r->in.is_secret = hw->config->auth != NULL; /* there are tokens in it */
    deadline_init(&conn->deadline);
    deadline_init(&conn->stall);
    http_set_options(hw->config, h->fd);
    sendq_init(&conn->out, &hw->worker->batch, h->fd, conn_on_flushed);
    conn_start_state(conn, h->tls && !tls_session_is_ready(h->tls) ? CONN_HANDSHAKE : CONN_IDLE);
    int rc = h->tls ? sendq_use_tls(&conn->out, h->tls) : 0;
    mem_free(h);
    if (rc < 0) {
        conn_close(conn, "out of memory");
        return;
    }
    conn_go_on(conn);
    if (hw->draining) {
        conn_end_if_quiet(conn);
    }
    conn_want(conn);
}

static void http_on_review(void *user)
{
    http_review_tokens(user);
}

static void http_make_room_for(void *user)
{
    http_make_room(user);
}

static void websocket_left(void *user)
{
    http_check_drained(user);
}

static struct websocket_worker *create_websockets(struct http_worker *hw)
{
    const struct websocket_config config = {
        .max_message = hw->config->max_body,
        .keepalive_ms = hw->config->keepalive_ms,
        .message_timeout_ms = hw->config->body_timeout_ms,
        .stall_timeout_ms = hw->config->stall_timeout_ms,
    };
    const struct websocket_owner owner = {
        .user = hw,
        .worker = hw->worker,
        .inbox = &hw->inbox,
        .deadlines = &hw->deadlines,
        .scratch = hw->scratch,
        .scratch_size = sizeof(hw->scratch),
        .review = http_on_review,
        .make_room = http_make_room_for,
        .left = websocket_left,
    };
    return websocket_worker_create(&config, &owner);
}

struct http_worker *http_worker_create(struct worker *worker, const struct http_config *config,
                                       http_find_worker_fn find, void *user,
                                       struct tidings_error *err)
{
    struct http_worker *hw = mem_zalloc(sizeof(*hw));
    if (!hw) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    hw->worker = worker;
    hw->config = config;
    hw->find = find;
    hw->find_user = user;
    int timed = http_deadlines_init(hw);
    map_init(&hw->sse_streams);
    buf_init(&hw->head, 2 * HTTP_MAX_HEAD); /* an echoed Origin is the longest thing in it */
    loop_hook_add(worker->loop, &hw->flush_hook, http_flush_batch, hw);
    hw->next_turn = loop_timer_open(worker->loop, http_on_next_turn, hw);
    hw->inbox.limit_counters = worker->limit_counters;
    hw->inbox.adopt = http_adopt;
    hw->inbox.mailbox = mailbox_create(worker->loop, hw, err);
    hw->websockets = create_websockets(hw);
    if (timed < 0 || !hw->inbox.mailbox || !hw->next_turn || !hw->websockets) {
        http_worker_destroy(hw);
        return NULL;
    }
    return hw;
}

void http_worker_destroy(struct http_worker *hw)
{
    if (!hw) {
        return;
    }
    hw->drained = NULL;
    for (size_t i = 0; i < CONN_LISTS; i++) {
        struct deadline *first;
        while ((first = deadline_list_first(&hw->lists[i])) != NULL) {
            conn_close(conn_of_deadline(first), "shutdown");
        }
    }
    websocket_worker_destroy(hw->websockets);
    token_cache_destroy(hw->token_cache);
    if (hw->inbox.mailbox) {
        mailbox_close(hw->inbox.mailbox);
        mailbox_unref(hw->inbox.mailbox);
    }
    deadlines_deinit(&hw->deadlines);
    loop_timer_close(hw->next_turn);
    loop_hook_remove(&hw->flush_hook);
    map_deinit(&hw->sse_streams);
    buf_deinit(&hw->head);
    mem_free_secret(hw, sizeof(*hw)); /* what was read last: perhaps a token */
}

struct worker_inbox *http_worker_inbox(struct http_worker *hw)
{
    return &hw->inbox;
}
