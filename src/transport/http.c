/* SPDX-License-Identifier: MIT
 *
 * Life of HTTP connections: adopt, read, time out, move, close. All deadlines hang on one timer and
 * on lists that are ordered because every member of a list has the same allowance.
 */
#include "transport/http.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "auth/auth.h"
#include "base/log.h"
#include "base/mem.h"
#include "protocol/session.h"
#include "transport/http_private.h"
#include "transport/input_budget.h"
#include "transport/peer_identity.h"

/* Answers pile up only so far before pipelined requests have to wait. */
#define PIPELINE_HIGH_WATER (256u * 1024u)

/* ---- state ----------------------------------------------------------------------------------- */

void conn_set_state(struct http_conn *conn, enum conn_state state)
{
    list_remove(&conn->link);
    list_append(&conn->hw->by_state[state], &conn->link);
    conn->state = state;
    conn->since_ms = conn->listed_ms = (uint32_t)loop_now_ms(conn->hw->worker->loop);
    if (conn->booked > 0) { /* what is handled within a turn is never booked */
        conn_book_input(conn);
    }
}

void conn_want(struct http_conn *conn)
{
    if (conn->gone) {
        return;
    }
    int events = conn->out.pending > 0 && conn->out.is_waiting ? LOOP_WRITE : 0;
    bool reads = conn->state == CONN_SHAKING || conn->state == CONN_IDLE ||
                 conn->state == CONN_READING || conn->state == CONN_BODY ||
                 conn->state == CONN_LINGER || websocket_reads(conn);
    bool is_full = !conn->is_websocket && conn->out.pending >= PIPELINE_HIGH_WATER;
    if (!conn->eof && conn->state != CONN_CLOSING && conn->state != CONN_REST) {
        events |= LOOP_HANGUP;
    }
    if (reads && !conn->eof && !is_full) {
        events |= LOOP_READ;
    } else if (conn->state == CONN_BUSY) {
        /* Most clients wait for their answer: asking the kernel twice per request can be spared.
         * Who sends more meanwhile ends it (on_event). */
        events |= conn->poll.wanted & LOOP_READ;
    }
    loop_poll_want(&conn->poll, events);
}

void conn_free_reading(struct http_conn *conn)
{
    if (conn->is_websocket) {
        ws_reader_destroy(conn->frames);
        conn->frames = NULL;
    } else if (conn->r) {
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

static void check_drained(struct http_worker *hw)
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
    conn->gone = true;
    list_remove(&conn->link);
    list_remove(&conn->wait_link);
    loop_poll_deinit(&conn->poll);
    sendq_deinit(&conn->out);
    conn_book_input(conn);
    worker_inbox_left(&conn->hw->inbox);
}

void conn_close(struct http_conn *conn, const char *reason)
{
    if (conn->gone) {
        return;
    }
    struct http_worker *hw = conn->hw;
    log_debug("connection closed", "reason=\"%s\" worker=%u", reason, hw->worker->index);
    conn_detach(conn);
    close(conn->out.fd);
    quota_leave(conn->channel.quota);
    sink_closed(&conn->sink);
    channel_deinit(&conn->channel);
    if (!conn->is_websocket && conn->r && conn->r->exchange) {
        resource_abandon(conn);
    }
    if (!conn->is_websocket && conn->r && conn->r->pending_token) {
        conn_forget_pending_token(conn);
    }
    loop_discard(hw->worker->loop, &conn->discard, conn_free, conn);
    check_drained(hw);
}

/* ---- moving ---------------------------------------------------------------------------------- */

/* At a request boundary: head parsed, nothing of it handled. true: it moved, or it will when the
 * answers before it are written. */
static bool move_if_elsewhere(struct http_conn *conn, const struct http_request *req)
{
    int index = conn_belongs_to(conn, req);
    struct http_worker *hw = conn->hw;
    struct http_worker *other = NULL;
    if (index >= 0 && (unsigned)index != hw->worker->index) {
        other = hw->find(hw->find_user, (unsigned)index);
    }
    if (other && conn->out.pending > 0) {
        conn->r->head_len = conn->r->scanned = 0; /* look at it again then */
        return true;
    }
    if (!other) {
        return false;
    }
    struct tls_session *tls = sendq_detach_tls(&conn->out);
    conn_detach(conn);
    channel_deinit(&conn->channel);
    struct handover *h = handover_create(conn->out.fd, tls);
    if (!h) { /* it is closed */
        quota_leave(conn->channel.quota);
    } else {
        h->quota = conn->channel.quota;
        h->in = conn->r->in;
        buf_init(&conn->r->in, 0);
        worker_inbox_send(&other->inbox, h);
    }
    loop_discard(hw->worker->loop, &conn->discard, conn_free, conn);
    check_drained(hw);
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* How many bytes of the request are still missing; -1 on a bad body. */
static int read_some_body(struct http_conn *conn)
{
    if (!conn->r->is_chunked) {
        size_t have = conn->r->in.len - conn->r->head_len;
        conn->r->body_len = have < conn->r->body_need ? have : conn->r->body_need;
        conn->r->body_done = have >= conn->r->body_need;
        return 0;
    }
    size_t start = conn->r->head_len + conn->r->body_len;
    size_t raw = conn->r->in.len - start, decoded = 0, used = 0;
    if (raw == 0) {
        return 0;
    }
    enum http_chunked_result r =
        http_chunked_decode(&conn->r->chunked, conn->r->in.ptr + start, raw, &decoded, &used);
    if (r == HTTP_CHUNKED_BAD) {
        conn_refuse(conn, 400, "the chunked body is malformed");
        return -1;
    }
    size_t rest = raw - used;
    memmove(conn->r->in.ptr + start + decoded, conn->r->in.ptr + start + used, rest);
    conn->r->in.len = start + decoded + rest;
    conn->r->body_len += decoded;
    conn->r->body_done = r == HTTP_CHUNKED_DONE;
    if (conn->r->body_len > conn->hw->config->max_body) {
        conn_refuse_over(conn, LIMIT_BODY, 413, "the body is larger than this server accepts");
        return -1;
    }
    return 0;
}

/* The same, and for as long as it takes the body has a time of its own, which is counted anew with
 * every INPUT_STEP bytes: who sends a byte now and then does not stay. */
static int read_body(struct http_conn *conn)
{
    int rc = read_some_body(conn);
    if (rc == 0 && !conn->r->body_done &&
        (conn->state != CONN_BODY || conn->r->body_len - conn->r->body_mark >= INPUT_STEP)) {
        conn->r->body_mark = conn->r->body_len;
        conn_set_state(conn, CONN_BODY);
    }
    return rc;
}

/* The head at the start of the input. 1: complete, 0: more is needed, -1: refused. */
static int parse_head(struct http_conn *conn, struct http_request *req)
{
    struct http_fault fault;
    size_t again = 0;
    size_t *scanned = conn->r->head_len ? &again : &conn->r->scanned;
    ptrdiff_t n = http_parse_head(conn->r->in.ptr, conn->r->in.len, scanned, req, &fault);
    if (n < 0) {
        if (fault.status == 431 || fault.status == 414) {
            limit_hit(conn->hw->worker->book, fault.status == 431 ? LIMIT_HEAD : LIMIT_TARGET);
        }
        conn_refuse(conn, fault.status, fault.text);
        return -1;
    }
    if (n > 0) {
        conn->r->head_len = (size_t)n;
    }
    return n > 0;
}

/* Close once what is pending has been written. */
static void end_connection(struct http_conn *conn)
{
    if (conn->out.pending == 0) {
        conn_close(conn, "closed by the client");
    } else {
        conn_set_state(conn, CONN_CLOSING);
    }
}

void conn_finish_request(struct http_conn *conn)
{
    size_t used = conn->r->head_len + conn->r->body_len;
    if (used >= conn->r->in.len) {
        buf_deinit(&conn->r->in); /* an idle connection holds no buffer */
    } else {
        buf_consume(&conn->r->in, used);
    }
    conn->r->scanned = conn->r->head_len = conn->r->body_len = conn->r->body_need = 0;
    conn->r->body_mark = 0;
    conn->r->is_accepted = conn->r->is_chunked = conn->r->body_done = false;
    mem_free(conn->r->origin);
    conn->r->origin = NULL;
    if (!conn->keep_alive || conn->hw->draining || (conn->eof && conn->r->in.len == 0)) {
        conn_set_state(conn, CONN_CLOSING);
    } else {
        conn_set_state(conn, conn->r->in.len > 0 ? CONN_READING : CONN_IDLE);
        if (!conn->answering) {
            conn_go_on(conn);
        }
    }
}

static bool is_reading(const struct http_conn *conn)
{
    return !conn->gone &&
           (conn->state == CONN_IDLE || conn->state == CONN_READING || conn->state == CONN_BODY);
}

/* A head from somebody known: is the whole request here already? */
static bool accept_request(struct http_conn *conn, struct http_request *req)
{
    if (!conn_accept_request(conn, req) || read_body(conn) < 0) {
        return false;
    }
    conn->r->is_accepted = true;
    if (!conn->r->body_done && req->expect_continue && req->minor > 0) {
        sendq_puts(&conn->out, STR("HTTP/1.1 100 Continue\r\n\r\n"));
    }
    return conn->r->body_done;
}

/* Handle every complete request in the input, as far as this turn goes. */
static void process_input(struct http_conn *conn)
{
    while (is_reading(conn) && conn->r->in.len > 0 && conn->out.pending < PIPELINE_HIGH_WATER) {
        struct http_request req;
        bool is_new = conn->r->head_len == 0, is_accepted = conn->r->is_accepted;
        if (conn->state == CONN_IDLE) {
            conn_set_state(conn, CONN_READING);
        }
        if (is_accepted && !conn->r->body_done && read_body(conn) < 0) {
            return;
        }
        if (is_accepted && !conn->r->body_done) {
            return; /* more is needed; the head was looked at already */
        }
        if (parse_head(conn, &req) <= 0) {
            return;
        }
        if (is_new && (move_if_elsewhere(conn, &req) || !conn_begin_request(conn, &req))) {
            return;
        }
        if (!is_accepted && !accept_request(conn, &req)) {
            return;
        }
        if (!conn_may_go_on(conn)) {
            return;
        }
        conn->answering = true;
        conn_set_state(conn, CONN_BUSY);
        conn_run_request(conn, &req);
        conn->answering = false;
    }
}

void conn_go_on(struct http_conn *conn)
{
    process_input(conn);
    /* What is complete may still wait for the answers before it; the rest for what will not come.
     */
    if (is_reading(conn) && conn->eof && (conn->r->in.len == 0 || conn->out.pending == 0)) {
        end_connection(conn);
    }
}

static void read_input(struct http_conn *conn)
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

static void discard_input(struct http_conn *conn)
{
    if (conn_receive(conn) >= 0 && conn->eof) {
        conn_close(conn, "refused");
    }
}

static void on_event(struct loop_poll *poll, int events, void *user)
{
    struct http_conn *conn = user;
    if (events & LOOP_ERROR) {
        conn->hw->worker->stats.cut += peer_identity_timed_out(conn->out.fd);
        conn_close(conn, "socket error");
        return;
    }
    if (events & LOOP_WRITE) {
        enum sendq_state state = sendq_flush(&conn->out);
        conn->out.flushed(&conn->out, state, conn);
        if (conn->gone) {
            return;
        }
    }
    if ((events & LOOP_READ) && (is_reading(conn) || conn->state == CONN_SHAKING)) {
        read_input(conn);
        conn_go_on(conn);
    } else if ((events & LOOP_READ) &&
               (conn_is_socket(conn) || (conn->state == CONN_LINGER && conn->awaits_close))) {
        websocket_read(conn);
    } else if ((events & LOOP_READ) && conn->state == CONN_LINGER) {
        discard_input(conn);
    } else if (events & LOOP_HANGUP) {
        conn_close(conn, "closed by the client"); /* cancels what was under way */
        return;
    } else if ((events & LOOP_READ) && conn->state == CONN_BUSY) {
        loop_poll_want(poll, conn->poll.wanted & ~LOOP_READ); /* its turn comes */
    }
    conn_want(conn);
    conn_book_input(conn);
    if (conn->booked > 0) {
        http_make_room(conn->hw);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static void on_flushed(struct sendq *q, enum sendq_state state, void *user)
{
    (void)q;
    struct http_conn *conn = user;
    bool is_stream = conn->state == CONN_STREAM ||
                     (conn_is_socket(conn) && (conn->poll.wanted & LOOP_READ) != 0);
    if (state == SENDQ_EMPTY && is_stream && !conn->waits && !conn->sink.blocked) {
        return; /* the ordinary case of a stream: nothing waited */
    }
    if (state == SENDQ_BROKEN) {
        conn_close(conn, "write failed");
        return;
    }
    if (state == SENDQ_WAITING) {
        if (!conn->waits) {
            conn->waits = true;
            conn->wait_since_ms = (uint32_t)loop_now_ms(conn->hw->worker->loop);
            conn->wait_written = (uint32_t)conn->out.written;
            list_append(&conn->hw->waiting, &conn->wait_link);
        }
        conn_want(conn);
        return;
    }
    list_remove(&conn->wait_link);
    conn->waits = false;
    if (conn->state == CONN_CLOSING) {
        if ((conn->refused || conn->awaits_close) && !conn->eof) {
            if (!conn->awaits_close) {
                sendq_end(&conn->out);
            }
            conn_set_state(conn, CONN_LINGER);
            websocket_go_on(conn);
            conn_want(conn);
        } else {
            conn_close(conn, "done");
        }
        return;
    }
    sink_drained(&conn->sink);
    if (conn->is_websocket) {
        websocket_go_on(conn);
    } else if (conn->r && conn->r->in.len > 0) {
        conn_go_on(conn);
    }
    conn_want(conn);
}

static void flush_batch(void *user)
{
    struct http_worker *hw = user;
    poll_flush(hw);
    sendq_batch_flush(&hw->worker->batch);
    http_end_turn(hw);
}

/* Is there no whole request? */
static bool is_quiet(const struct http_conn *conn)
{
    return is_reading(conn) || (!conn->gone && conn->state == CONN_SHAKING);
}

/* While draining: a connection goes that has nothing to ask. A request half read is as good as
 * none. */
static void end_if_quiet(struct http_conn *conn)
{
    if (is_quiet(conn)) {
        read_input(conn);
    }
    if (is_quiet(conn)) {
        conn_go_on(conn);
    }
    if (is_quiet(conn)) {
        end_connection(conn);
    }
    conn_want(conn);
}

/* ---- workers --------------------------------------------------------------------------------- */

static void set_socket_options(const struct http_config *config, int fd)
{
    int one = 1;
    unsigned timeout = (unsigned)config->stall_timeout_ms;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

static void adopt(struct letter *letter, void *owner)
{
    struct http_worker *hw = owner;
    struct handover *h = list_entry(letter, struct handover, letter);
    struct http_conn *conn = mem_zalloc(sizeof(*conn));
    struct http_reading *r = conn ? mem_zalloc(sizeof(*r)) : NULL;
    if (!r || loop_poll_init(&conn->poll, hw->worker->loop, h->fd, on_event, conn, NULL) < 0) {
        mem_free(conn);
        mem_free(r);
        handover_destroy(h);
        worker_inbox_left(&hw->inbox);
        check_drained(hw);
        return;
    }
    http_start_tick(hw);
    channel_init(&conn->channel, &http_channel_ops, hw->worker);
    conn->channel.quota = h->quota;
    conn->sink.ops = &http_sink_ops;
    conn->hw = hw;
    conn->r = r;
    conn->r->in = h->in;
    conn->r->in.max = HTTP_MAX_HEAD + hw->config->max_body + sizeof(hw->scratch);
    conn->r->in.is_secret = hw->config->auth != NULL; /* there are tokens in it */
    list_init(&conn->link);
    list_init(&conn->wait_link);
    set_socket_options(hw->config, h->fd);
    sendq_init(&conn->out, &hw->worker->batch, h->fd, on_flushed, conn);
    conn_set_state(conn, h->tls && !tls_session_is_ready(h->tls) ? CONN_SHAKING : CONN_IDLE);
    int rc = h->tls ? sendq_use_tls(&conn->out, h->tls) : 0;
    mem_free(h);
    if (rc < 0) {
        conn_close(conn, "out of memory");
        return;
    }
    conn_go_on(conn);
    if (hw->draining) {
        end_if_quiet(conn);
    }
    conn_want(conn);
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
    for (size_t i = 0; i < CONN_STATES; i++) {
        list_init(&hw->by_state[i]);
    }
    list_init(&hw->waiting);
    map_init(&hw->side_streams);
    buf_init(&hw->head, 2 * HTTP_MAX_HEAD); /* an echoed Origin is the longest thing in it */
    loop_hook_add(worker->loop, &hw->flush_hook, flush_batch, hw);
    hw->tick = loop_timer_open(worker->loop, http_on_tick, hw);
    hw->rested = loop_timer_open(worker->loop, http_on_rested, hw);
    hw->inbox.book = worker->book;
    hw->inbox.adopt = adopt;
    hw->inbox.mailbox = mailbox_create(worker->loop, hw, err);
    if (!hw->inbox.mailbox || !hw->tick || !hw->rested) {
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
    for (size_t i = 0; i < CONN_STATES; i++) {
        while (!list_empty(&hw->by_state[i])) {
            conn_close(list_entry(hw->by_state[i].next, struct http_conn, link), "shutdown");
        }
    }
    token_cache_destroy(hw->token_cache);
    if (hw->inbox.mailbox) {
        mailbox_close(hw->inbox.mailbox);
        mailbox_unref(hw->inbox.mailbox);
    }
    ws_reader_destroy(hw->spare_reader);
    loop_timer_close(hw->tick);
    loop_timer_close(hw->rested);
    loop_hook_remove(&hw->flush_hook);
    map_deinit(&hw->side_streams);
    buf_deinit(&hw->head);
    mem_free_secret(hw, sizeof(*hw)); /* what was read last: perhaps a token */
}

struct worker_inbox *http_worker_inbox(struct http_worker *hw)
{
    return &hw->inbox;
}

void http_worker_drain(struct http_worker *hw, void (*drained)(void *user), void *user)
{
    hw->draining = true;
    hw->drained = drained;
    hw->drained_user = user;
    static const enum conn_state quiet[] = {CONN_SHAKING, CONN_IDLE, CONN_READING, CONN_BODY};
    for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++) {
        list_each (it, next, &hw->by_state[quiet[i]]) {
            end_if_quiet(list_entry(it, struct http_conn, link));
        }
    }
    websocket_drain(hw);
    side_drain(hw);
    check_drained(hw);
}
