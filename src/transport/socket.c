/* SPDX-License-Identifier: MIT
 *
 * Life of line-framed connections: adopt, read, close. Nothing is closed while a callback of its
 * messages may be on the stack: a connection that something happened to is reviewed when the turn
 * ends.
 */
#include "transport/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "delivery/subscriber.h"
#include "protocol/drain.h"
#include "protocol/inbound.h"
#include "transport/input_budget.h"
#include "transport/peer_identity.h"
#include "transport/socket_private.h"

#define PROBES 3

static struct line_conn *of_line(struct line *line)
{
    return list_entry(line, struct line_conn, line);
}

void line_conn_schedule_review(struct line *line)
{
    struct line_conn *conn = of_line(line);
    if (conn->state != LINE_GONE && list_empty(&conn->review_link)) {
        list_append(&conn->sw->to_review, &conn->review_link);
    }
}

static void line_conn_want(struct line_conn *conn)
{
    if (conn->state == LINE_GONE) {
        return;
    }
    input_count_held(conn->sw->worker->limit_counters, conn->line.channel.origin,
                     &conn->input_counted, line_size(&conn->line));
    int events = sendq_awaits_room(&conn->line.out) ? LOOP_WRITE : 0;
    if (conn->state == LINE_LINGER || line_reads(&conn->line)) {
        events |= LOOP_READ;
    }
    loop_poll_want(&conn->poll, events);
    if (conn->line.has_yielded && list_empty(&conn->yield_link)) {
        list_append(&conn->sw->yielded, &conn->yield_link);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Nothing more will be read: finish what has come. */
static void end_input(struct line_conn *conn)
{
    conn->line.eof = true;
    line_conn_set_state(conn, LINE_ENDING);
    line_conn_schedule_review(&conn->line);
}

static void check_drained(struct socket_worker *sw)
{
    if (sw->draining && sw->drained && worker_inbox_count(&sw->inbox) == 0) {
        void (*drained)(void *) = sw->drained;
        sw->drained = NULL;
        drained(sw->drained_user);
    }
}

void line_conn_close(struct line_conn *conn, const char *reason)
{
    struct socket_worker *sw = conn->sw;
    if (conn->state == LINE_GONE) {
        return;
    }
    log_debug(LOG_TRANSPORT, "connection closed", KV("reason", reason),
              KV("worker", sw->worker->index));
    line_conn_set_state(conn, LINE_GONE);
    deadline_leave(&sw->stalled, &conn->stall);
    list_remove(&conn->review_link);
    list_remove(&conn->yield_link);
    loop_poll_deinit(&conn->poll);
    struct channel_facts facts;
    channel_ending(&conn->line.channel, reason, &facts);
    line_deinit(&conn->line);
    quota_leave(conn->line.channel.quota);
    channel_ended(&conn->line.channel);
    worker_trim_later(sw->worker, conn->input_counted);
    input_count_held(sw->worker->limit_counters, conn->line.channel.origin, &conn->input_counted,
                     0);
    close(conn->fd);
    worker_inbox_left(&sw->inbox);
    worker_inbox_give_back(&sw->inbox, conn->line.channel.quota, conn->line.channel.origin);
    loop_discard(sw->worker->loop, &conn->discard, mem_free, conn);
    check_drained(sw);
}

/* Everything is said. What still comes is thrown away for a while, so that the last answer is read
 * before the reset that unread input would cause. */
static void socket_linger(struct line_conn *conn)
{
    sendq_end(&conn->line.out);
    struct channel_facts facts;
    channel_ending(&conn->line.channel, "closed by the client", &facts);
    channel_deinit(&conn->line.channel); /* what it had subscribed goes now */
    channel_ended(&conn->line.channel);
    line_conn_set_state(conn, LINE_LINGER);
    line_conn_want(conn);
}

/* ---- reading and writing --------------------------------------------------------------------- */

static void on_input(struct line_conn *conn, size_t len)
{
    struct socket_worker *sw = conn->sw;
    line_feed(&conn->line, sw->scratch, len);
    conn->line.took = false;
    line_pump(&conn->line);
    bool is_midway = line_is_midway(&conn->line);
    conn->midway += (uint32_t)len;
    if (is_midway && conn->state == LINE_MIDLINE && !conn->line.took && conn->midway < INPUT_STEP) {
        return; /* a byte now and then is no progress */
    }
    conn->midway = 0;
    line_conn_set_state(conn, is_midway ? LINE_MIDLINE : LINE_OPEN);
}

void line_conn_refuse(struct line_conn *conn, int status, const char *text)
{
    inbound_refuse(&conn->line.channel, status, RPC_INVALID_REQUEST, "%s", text);
    conn->line.finished = true;
    end_input(conn);
}

/* It speaks no TLS, and would not understand an alert; or there may be an alert for it, which is
 * read only when we do not close in its face. */
static void on_tls_failed(struct line_conn *conn, ssize_t why)
{
    struct sendq *out = &conn->line.out;
    log_debug(LOG_TRANSPORT, "TLS failed", KV("reason", tls_session_reason(sendq_tls(out))),
              KV("worker", conn->sw->worker->index));
    if (conn->state == LINE_LINGER) {
        return; /* all is said; what still comes is thrown away as it is */
    }
    if (why == -EPROTOTYPE) {
        tls_session_destroy(sendq_detach_tls(out));
        line_conn_refuse(conn, 400, "this port speaks TLS");
    } else if (sendq_flush(out) == SENDQ_EMPTY) {
        socket_linger(conn);
    } else {
        line_conn_close(conn, "TLS failed");
    }
}

static void line_conn_read(struct line_conn *conn)
{
    struct socket_worker *sw = conn->sw;
    struct tls_session *tls = sendq_tls(&conn->line.out);
    if (tls && tls_session_reason(tls)[0] != '\0') {
        tls = NULL; /* it failed: what still comes is of no interest */
    }
    bool ended = false;
    ssize_t n = tls_recv(tls, conn->fd, sw->scratch, sizeof(sw->scratch), &ended);
    if (n < 0 && tls && tls_session_reason(tls)[0] != '\0') {
        on_tls_failed(conn, n);
    } else if (n < 0) {
        line_conn_close(conn, "reset");
    } else if (conn->state == LINE_LINGER) {
        if (ended) {
            line_conn_close(conn, "done");
        }
    } else {
        if (conn->state == LINE_HANDSHAKE && tls_session_is_ready(tls)) {
            line_conn_set_state(conn, LINE_FRESH);
        }
        if (n > 0 && peer_identity_apply(&conn->line.channel, conn->fd, tls) < 0) {
            line_conn_close(conn, "out of memory");
            return;
        }
        line_conn_note_expiry(conn);
        if (n > 0) {
            sw->worker->stats.bytes_in += (size_t)n;
            on_input(conn, (size_t)n);
        }
        if (ended) {
            end_input(conn);
        }
    }
}

static void line_conn_on_flushed(struct sendq *q, enum sendq_state state)
{
    struct line_conn *conn = list_entry(q, struct line_conn, line.out);
    if (state == SENDQ_WAITING) {
        deadline_await(&conn->sw->stalled, &conn->stall, &conn->line.out);
    } else {
        deadline_leave(&conn->sw->stalled, &conn->stall);
    }
    line_flushed(&conn->line, state);
    line_conn_want(conn);
}

static void line_conn_on_event(struct loop_poll *poll, int events, void *user)
{
    (void)poll;
    struct line_conn *conn = user;
    if (events & LOOP_ERROR) {
        line_conn_close(
            conn, peer_identity_failure(&conn->line.channel, &conn->line.out, "socket error"));
        return;
    }
    if (events & LOOP_WRITE) {
        line_conn_on_flushed(&conn->line.out, sendq_flush(&conn->line.out));
    }
    if ((events & LOOP_READ) && (conn->state == LINE_LINGER || line_reads(&conn->line))) {
        line_conn_read(conn);
    }
    line_conn_want(conn);
    if (conn->input_counted > 0) {
        line_conn_make_room(conn);
    }
}

/* ---- the end of a turn ----------------------------------------------------------------------- */

/* While draining: everything is told and answered. Half a message is as good as none. */
static bool line_conn_is_drained(const struct line_conn *conn)
{
    return conn->sw->draining && conn->state < LINE_ENDING && line_reads(&conn->line) &&
           drain_is_done_with(conn->sw->worker, &conn->line.channel);
}

static void line_conn_review(struct line_conn *conn);

/* Another turn: those that had used theirs up go on. */
static void socket_on_next_turn(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct socket_worker *sw = user;
    struct list now;
    list_init(&now);
    list_splice(&now, &sw->yielded);
    while (!list_empty(&now)) {
        struct line_conn *conn = list_entry(now.next, struct line_conn, yield_link);
        list_remove(&conn->yield_link);
        conn->line.has_yielded = false;
        line_conn_review(conn);
    }
}

static void line_conn_review(struct line_conn *conn)
{
    struct line *line = &conn->line;
    if (conn->state == LINE_LINGER) {
        return;
    }
    line_pump(line);
    if (line_conn_is_drained(conn)) {
        line_conn_read(conn); /* whatever has come is still answered */
    }
    if (conn->state >= LINE_LINGER) {
        return;
    }
    if (line_conn_is_drained(conn)) {
        line->finished = true;
        end_input(conn);
    }
    if (line->broken) {
        const char *reason = line->reason;
        if (line->out.error == ETIMEDOUT) {
            reason = peer_identity_failure(&line->channel, &line->out, reason);
        }
        line_conn_close(conn, reason);
    } else if (line_is_done(line)) {
        socket_linger(conn);
    } else {
        line_conn_want(conn);
    }
}

/* The end of a turn: write, then review what something happened to, which may write more. */
static void socket_end_turn(void *user)
{
    struct socket_worker *sw = user;
    sendq_batch_flush(&sw->worker->batch);
    while (!list_empty(&sw->to_review)) {
        struct list now;
        list_init(&now);
        list_splice(&now, &sw->to_review);
        while (!list_empty(&now)) {
            struct line_conn *conn = list_entry(now.next, struct line_conn, review_link);
            list_remove(&conn->review_link);
            line_conn_review(conn);
        }
        sendq_batch_flush(&sw->worker->batch);
    }
    /* Not before: a timer that is started by a timer would run in the same turn. */
    if (!list_empty(&sw->yielded) && !loop_timer_is_running(sw->next_turn)) {
        loop_timer_start(sw->next_turn, 0, 0);
    }
    deadlines_end_turn(&sw->deadlines);
}

/* ---- the channel ----------------------------------------------------------------------------- */

/* It will be told of changes from now on. */
static struct sink *socket_channel_stream(struct channel *channel,
                                          const struct response_headers *headers)
{
    sendq_limit_kernel(&line_of(channel)->out);
    peer_identity_remember(channel, line_of(channel)->out.fd);
    return line_stream(channel, headers);
}

static void socket_channel_address(const struct channel *channel, char out[PRINCIPAL_MAX])
{
    const struct line_conn *conn = of_line(line_of(channel));
    peer_identity_name(conn->fd, sendq_tls(&conn->line.out), out);
}

static void socket_channel_facts(const struct channel *channel, struct channel_facts *ret)
{
    const struct line_conn *conn = of_line(line_of(channel));
    peer_identity_facts(channel, &conn->line.out, false, ret);
    ret->fd = conn->fd;
    ret->bytes_in = conn->line.received;
    if (conn->state != LINE_GONE && deadline_is_listed(&conn->stall)) {
        ret->stalled_ms = deadline_age_ms(&conn->sw->stalled, conn->stall.listed_ms);
    }
}

static const struct channel_ops socket_channel_ops = {
    .name = "socket",
    .is_http = false,
    .answer = line_answer,
    .answer_long = line_answer_long,
    .unbook = line_unbook,
    .is_sending = line_is_sending,
    .accepted = line_accepted,
    .stream = socket_channel_stream,
    .address = socket_channel_address,
    .facts = socket_channel_facts,
};

/* ---- workers --------------------------------------------------------------------------------- */

/* On a Unix socket none of them means anything. */
static void socket_set_options(const struct socket_config *config, int fd)
{
    int one = 1, probes = PROBES;
    int idle = (int)(config->keepalive_ms / 1000), between = idle / PROBES;
    unsigned timeout = (unsigned)config->stall_timeout_ms;
    idle = idle > 0 ? idle : 1;
    between = between > 0 ? between : 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof(between));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

static void socket_adopt(struct letter *letter, void *owner)
{
    struct socket_worker *sw = owner;
    struct handover *h = list_entry(letter, struct handover, letter);
    struct line_conn *conn = mem_zalloc(sizeof(*conn));
    if (!conn ||
        loop_poll_init(&conn->poll, sw->worker->loop, h->fd, line_conn_on_event, conn, NULL) < 0) {
        mem_free(conn);
        handover_destroy(h);
        worker_inbox_left(&sw->inbox);
        check_drained(sw);
        return;
    }
    conn->sw = sw;
    conn->fd = h->fd;
    deadline_init(&conn->deadline);
    deadline_init(&conn->stall);
    list_init(&conn->review_link);
    list_init(&conn->yield_link);
    line_init(&conn->line, &socket_channel_ops, sw->worker, sw->config->max_line);
    conn->line.schedule_review = line_conn_schedule_review;
    conn->line.channel.quota = h->quota;
    conn->line.channel.origin = h->origin;
    sendq_init(&conn->line.out, &sw->worker->batch, conn->fd, line_conn_on_flushed);
    socket_set_options(sw->config, conn->fd);
    line_conn_start_state(conn, h->tls ? LINE_HANDSHAKE : LINE_FRESH);
    int rc = h->tls ? sendq_use_tls(&conn->line.out, h->tls) : 0;
    mem_free(h);
    if (rc < 0) {
        line_conn_close(conn, "out of memory");
    } else if (sw->draining) {
        line_conn_schedule_review(&conn->line);
    }
    line_conn_want(conn);
}

struct socket_worker *socket_worker_create(struct worker *worker,
                                           const struct socket_config *config,
                                           struct tidings_error *err)
{
    struct socket_worker *sw = mem_zalloc(sizeof(*sw));
    if (!sw) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    sw->worker = worker;
    sw->config = config;
    int timed = socket_deadlines_init(sw);
    list_init(&sw->to_review);
    list_init(&sw->yielded);
    loop_hook_add(worker->loop, &sw->end_hook, socket_end_turn, sw);
    sw->next_turn = loop_timer_open(worker->loop, socket_on_next_turn, sw);
    sw->inbox.limit_counters = worker->limit_counters;
    sw->inbox.adopt = socket_adopt;
    sw->inbox.mailbox = mailbox_create(worker->loop, sw, err);
    if (timed < 0 || !sw->inbox.mailbox || !sw->next_turn) {
        socket_worker_destroy(sw);
        return NULL;
    }
    return sw;
}

void socket_worker_destroy(struct socket_worker *sw)
{
    if (!sw) {
        return;
    }
    sw->drained = NULL;
    for (size_t i = 0; i < LINE_STATES; i++) {
        struct deadline *first;
        while ((first = deadline_list_first(&sw->lists[i])) != NULL) {
            line_conn_close(line_conn_of_deadline(first), "shutdown");
        }
    }
    if (sw->inbox.mailbox) {
        mailbox_close(sw->inbox.mailbox);
        mailbox_unref(sw->inbox.mailbox);
    }
    deadlines_deinit(&sw->deadlines);
    loop_timer_close(sw->next_turn);
    loop_hook_remove(&sw->end_hook);
    mem_free(sw);
}

struct worker_inbox *socket_worker_inbox(struct socket_worker *sw)
{
    return &sw->inbox;
}

void socket_worker_drain(struct socket_worker *sw, void (*drained)(void *user), void *user)
{
    sw->draining = true;
    sw->drained = drained;
    sw->drained_user = user;
    socket_schedule_reviews(sw);
    deadlines_changed(&sw->deadlines);
    check_drained(sw);
}
