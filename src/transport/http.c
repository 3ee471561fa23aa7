/* SPDX-License-Identifier: MIT
 *
 * Life of HTTP connections: adopt, read from and write to the socket, hand over, close. Also their
 * requests, deadlines and states.
 */
#include "transport/http.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "engine/delivery/delivery.h"
#include "engine/protocol/inbound.h"
#include "engine/protocol/session.h"
#include "engine/protocol/session_migration.h"
#include "formats/websocket.h"
#include "security/auth.h"
#include "transport/connection.h"
#include "transport/http_internal.h"
#include "transport/peer_identity.h"

/* -------------------------------------------------------------------------------------------------
 * An HTTP request, in order: its head is parsed; the connection moves if its session lives on
 * another worker; the head is checked (http_check.c); its body is read; the handler runs; and after
 * the answer the next request follows. conn_go_on, at the end, starts it.
 */

/* ---- the head -------------------------------------------------------------------------------- */

/* Parses the head at the start of the input. 1: complete, 0: more is needed, -1: rejected. */
static int request_parse_head(struct http_conn *conn, struct http_request *req)
{
    struct http_fault fault;
    size_t again = 0;
    size_t *scanned = conn->r->head_len ? &again : &conn->r->scanned;
    req->path = tidings_str("");
    ptrdiff_t n = http_parse_head(conn->r->in.ptr, conn->r->in.len, scanned, req, &fault);
    if (n < 0) {
        if (fault.status == 431 || fault.status == 414) {
            limit_hit(conn->base.channel.worker->limit_counters,
                      fault.status == 431 ? LIMIT_HEAD : LIMIT_TARGET);
        }
        conn->r->page = page_find(conn, req->path); /* which defines the form of errors */
        conn->r->context = (struct log_context){.request_id = ""}; /* not the previous one's */
        conn->r->method = NULL;
        conn->r->begun_ns = 0;
        conn_refuse(conn, fault.status, fault.text);
        return -1;
    }
    if (n > 0) {
        conn->r->head_len = (size_t)n;
    }
    return n > 0;
}

/* ---- which worker ---------------------------------------------------------------------------- */

/* Returns the worker that should have this connection; -1: any. */
static int request_worker_of(struct http_conn *conn, const struct http_request *req)
{
    const struct http_page *page = req->query.len > 0 ? page_find(conn, req->path) : NULL;
    struct tidings_str id = conn_session_id(page, req);
    return id.ptr ? session_worker(id, conn->base.channel.worker->count) : -1;
}

static void conn_move_to(struct http_conn *conn, struct http_worker *other);

/* At a request boundary: the head is parsed, and the handling has not begun. Returns true if the
 * connection moved, or will move when earlier answers are written. */
static bool request_move_if_elsewhere(struct http_conn *conn, const struct http_request *req)
{
    int index = request_worker_of(conn, req);
    struct http_worker *hw = http_worker_of(conn);
    struct http_worker *other = NULL;
    if (index >= 0 && (unsigned)index != hw->base.worker->index && hw->find) {
        other = hw->find(hw->find_user, (unsigned)index);
    }
    if (!other) {
        return false;
    }
    if (conn->base.out.pending > 0) {
        conn->r->head_len = conn->r->scanned = 0; /* parse it again then */
    } else {
        conn_move_to(conn, other);
    }
    return true;
}

/* ---- the body -------------------------------------------------------------------------------- */

static void request_begin_body(struct http_reading *r, const struct http_request *req)
{
    r->body_need = (size_t)req->content_length;
    r->is_chunked = req->chunked;
    if (r->is_chunked) {
        http_chunked_init(&r->chunked);
    }
}

/* Decodes the received part; -1: it is invalid, and was rejected. */
static int request_decode_body(struct http_conn *conn)
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
    if (conn->r->body_len > http_worker_of(conn)->config->max_body) {
        conn_refuse_over(conn, LIMIT_BODY, 413, "the body is larger than this server accepts");
        return -1;
    }
    return 0;
}

/* The same. Each INPUT_STEP bytes of the body have a deadline, so a client that sends single bytes
 * is cut. */
static int request_read_body(struct http_conn *conn)
{
    int rc = request_decode_body(conn);
    if (rc == 0 && !conn->r->body_done &&
        (conn->base.state != CONN_BODY || conn->r->body_len - conn->r->body_mark >= INPUT_STEP)) {
        conn->r->body_mark = conn->r->body_len;
        connection_set_state(&conn->base, CONN_BODY);
    }
    return rc;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Reads the request at the start of the input. Returns true if it is complete and permitted; `req`
 * is its head. Returns false if more is needed, or it was rejected, has moved or waits. */
static bool request_read(struct http_conn *conn, struct http_request *req)
{
    struct http_reading *r = conn->r;
    bool is_new = r->head_len == 0;
    if (conn->base.state == CONN_IDLE) {
        connection_set_state(&conn->base, CONN_HEAD);
    }
    if (r->is_accepted && !r->body_done && (request_read_body(conn) < 0 || !r->body_done)) {
        return false; /* more is needed; the head was already checked */
    }
    if (request_parse_head(conn, req) <= 0) {
        return false;
    }
    if (is_new && (request_move_if_elsewhere(conn, req) || !conn_check_head(conn, req))) {
        return false;
    }
    if (r->is_accepted) {
        return true;
    }
    if (!conn_check_body(conn, req)) {
        return false;
    }
    request_begin_body(r, req);
    if (request_read_body(conn) < 0) {
        return false;
    }
    r->is_accepted = true;
    if (!r->body_done && req->expect_continue && req->minor > 0) {
        sendq_puts(&conn->base.out, STR("HTTP/1.1 100 Continue\r\n\r\n"));
    }
    return r->body_done;
}

/* ---- who handles it -------------------------------------------------------------------------- */

static void request_run(struct http_conn *conn, const struct http_request *req)
{
    const struct http_page *page = conn->r->page;
    /* Messages are counted one by one when they are read; a preflight is not counted. */
    bool is_counted =
        req->method != HTTP_OPTIONS && !(page->has_messages && req->method == HTTP_POST);
    if (is_counted && conn->r->session == HTTP_SESSION_UNASKED && !conn_check_rate(conn)) {
        return;
    }
    if (conn_awaits_session(conn, req)) {
        return;
    }
    if (req->method == HTTP_OPTIONS) {
        conn_answer_preflight(conn, req);
    } else {
        page->run(conn, req);
    }
}

/* ---- one after the other --------------------------------------------------------------------- */

/* The answer is in the send queue: drops the request, and decides what happens to the
 * connection. */
void conn_finish_request(struct http_conn *conn)
{
    struct http_reading *r = conn->r;
    bool is_running = conn->base.state == CONN_RUNNING; /* then conn_go_on is on the stack */
    size_t used = r->head_len + r->body_len;
    if (used >= r->in.len) {
        buf_deinit(&r->in); /* an idle connection holds no buffer */
    } else {
        buf_consume(&r->in, used);
    }
    r->page = NULL;
    r->scanned = r->head_len = r->body_len = r->body_need = r->body_mark = 0;
    r->is_accepted = r->is_chunked = r->body_done = r->is_head = false;
    r->session = HTTP_SESSION_UNASKED;
    r->doubts_session = false;
    mem_free(r->origin);
    r->origin = NULL;
    if (r->after == AFTER_REFUSE) {
        connection_set_state(&conn->base, CONN_REFUSED);
    } else if (r->after == AFTER_CLOSE || http_worker_of(conn)->base.draining ||
               (conn->base.eof && r->in.len == 0)) {
        connection_set_state(&conn->base, CONN_CLOSING);
    } else {
        connection_set_state(&conn->base, r->in.len > 0 ? CONN_HEAD : CONN_IDLE);
        if (!is_running) {
            conn_go_on(conn);
        }
    }
}

/* Returns true if it reads a request, or waits for one. */
static bool conn_is_reading(const struct http_conn *conn)
{
    return conn->base.state == CONN_IDLE || conn->base.state == CONN_HEAD ||
           conn->base.state == CONN_BODY;
}

static void conn_end(struct http_conn *conn);

static bool conn_is_full(const struct http_conn *conn);

void conn_go_on(struct http_conn *conn)
{
    struct http_request req;
    while (conn_is_reading(conn) && conn->r->in.len > 0 && !conn_is_full(conn)) {
        if (!request_read(conn, &req) || !connection_may_go_on(&conn->base)) {
            break;
        }
        connection_set_state(&conn->base, CONN_RUNNING);
        request_run(conn, &req);
        if (conn->base.state == CONN_RUNNING) {
            connection_set_state(&conn->base, CONN_AWAITING);
        }
    }
    /* Complete requests may still wait for earlier answers; incomplete ones never become
     * complete.
     */
    if (conn_is_reading(conn) && conn->base.eof &&
        (conn->r->in.len == 0 || conn->base.out.pending == 0)) {
        conn_end(conn);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Receives the bytes of an HTTP connection, and rejects clients whose handshake or session fails.
 */

/* A client that speaks HTTP would not understand an alert. Others may get one, which they can read
 * only if the connection is not reset. */
static void http_on_tls_failed(struct connection *c, ssize_t why)
{
    struct http_conn *conn = http_conn_of(c);
    if (why == -EPROTOTYPE) {
        tls_session_destroy(sendq_detach_tls(&c->out));
        conn_refuse(conn, 400, "this port speaks TLS; use https://");
    } else if (c->out.pending == 0) {
        connection_close(c, "TLS failed");
    } else {
        connection_set_state(c, CONN_REFUSED);
    }
}

/* Like connection_receive. */
static ssize_t conn_receive(struct http_conn *conn)
{
    ssize_t n = connection_receive(&conn->base);
    if (n >= 0 && conn->base.state == CONN_HANDSHAKE) {
        if (tls_session_is_ready(sendq_tls(&conn->base.out))) {
            connection_set_state(&conn->base, CONN_IDLE); /* all bytes may have arrived at once */
        } else if (conn->base.eof) {
            connection_close(&conn->base, "closed by the client");
            return -1;
        }
    }
    return n;
}

/* ---------------------------------------------------------------------------------------------- */

/* Bytes read per connection and turn, so that one client does not starve the rest.
 * channel_may_go_on counts the messages among them that are handled. */
#define READ_QUANTUM (4u * 65536u)

static bool conn_is_full(const struct http_conn *conn)
{
    return conn->base.out.pending >= PIPELINE_HIGH_WATER || connection_must_wait(&conn->base);
}

void conn_set_events(struct http_conn *conn)
{
    if (conn->base.state == CONN_GONE) {
        return;
    }
    int events = sendq_awaits_space(&conn->base.out) ? LOOP_WRITE : 0;
    bool reads = conn_is_reading(conn) || conn->base.state == CONN_HANDSHAKE ||
                 conn->base.state == CONN_LINGER;
    bool is_full = conn_is_full(conn);
    bool is_ending = conn->base.state == CONN_CLOSING || conn->base.state == CONN_REFUSED;
    if (!conn->base.eof && !is_ending && conn->base.state != CONN_THROTTLED) {
        events |= LOOP_HANGUP;
    }
    if (reads && !conn->base.eof && !is_full) {
        events |= LOOP_READ;
    } else if (conn->base.state == CONN_RUNNING || conn->base.state == CONN_AWAITING) {
        /* Most clients wait for their answer, which saves two system calls per request. Input
         * during that ends it (conn_on_event). */
        events |= conn->base.poll.wanted & LOOP_READ;
    }
    loop_poll_set_events(&conn->base.poll, events);
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

static void http_conn_free(void *connection)
{
    struct http_conn *conn = connection;
    conn_free_reading(conn);
    mem_free(conn);
}

static void http_on_closed(struct connection *c)
{
    struct http_conn *conn = http_conn_of(c);
    struct http_reading *r = conn->r;
    if (r) {
        deadline_leave(&http_worker_of(conn)->whole, &r->whole);
    }
    if (r && r->abandon) {
        r->abandon(conn);
    }
}

/* The client has ended its input, or the server stops: closes after pending output was written. */
static void conn_end(struct http_conn *conn)
{
    if (conn->base.out.pending == 0) {
        connection_close(&conn->base, "closed by the client");
    } else {
        connection_set_state(&conn->base, CONN_CLOSING);
    }
}

/* ---- handing it on --------------------------------------------------------------------------- */

static void conn_move_to(struct http_conn *conn, struct http_worker *other)
{
    struct http_worker *hw = http_worker_of(conn);
    struct tls_session *tls = sendq_detach_tls(&conn->base.out);
    connection_detach(&conn->base);
    channel_deinit(&conn->base.channel);
    struct handover *h = handover_create(conn->base.out.fd, tls);
    if (!h) { /* it is closed */
        worker_inbox_give_back(&hw->base.inbox, conn->base.channel.quota,
                               conn->base.channel.origin);
    } else {
        h->quota = conn->base.channel.quota;
        h->origin = conn->base.channel.origin;
        h->in = conn->r->in;
        buf_init(&conn->r->in, 0);
        worker_inbox_send(&other->base.inbox, h);
    }
    loop_discard(hw->base.worker->loop, &conn->base.discard, http_conn_free, conn);
    connection_worker_left(&hw->base);
}

/* It stays one connection of the worker, and of its client. */
void conn_become_websocket(struct http_conn *conn, struct websocket *ws)
{
    struct http_reading *r = conn->r;
    struct sendq out;
    sendq_move(&out, &conn->base.out, NULL);
    connection_detach(&conn->base);
    const struct websocket_start start = {
        .out = &out,
        .principal = conn->base.channel.principal,
        .quota = conn->base.channel.quota,
        .origin = conn->base.channel.origin,
        .input = tidings_strn(r->in.ptr + r->head_len, r->in.len - r->head_len),
        .eof = conn->base.eof,
    };
    websocket_open(ws, &start);
    sendq_deinit(&out);
    channel_deinit(&conn->base.channel);
    loop_discard(conn->base.channel.worker->loop, &conn->base.discard, http_conn_free, conn);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void conn_read_input(struct http_conn *conn)
{
    struct http_worker *hw = http_worker_of(conn);
    for (size_t total = 0; total < READ_QUANTUM && !conn->base.eof;) {
        ssize_t n = conn_receive(conn);
        if (n <= 0) {
            return;
        }
        if (buf_put(&conn->r->in, hw->base.scratch, (size_t)n) < 0) {
            conn_refuse_over(conn, LIMIT_BODY, 413,
                             "the request is larger than this server accepts");
            return;
        }
        total += (size_t)n;
        if ((size_t)n < sizeof(hw->base.scratch)) {
            return; /* probably everything; level-triggered anyway */
        }
    }
}

static void conn_discard_input(struct http_conn *conn)
{
    if (conn_receive(conn) >= 0 && conn->base.eof) {
        connection_close(&conn->base, "refused");
    }
}

static void conn_on_flushed(struct sendq *q, enum sendq_state state);

static void conn_on_event(struct loop_poll *poll, int events, void *user)
{
    struct http_conn *conn = http_conn_of(user);
    if (events & LOOP_ERROR) {
        connection_fail(&conn->base, "socket error");
        return;
    }
    if (events & LOOP_WRITE) {
        conn_on_flushed(&conn->base.out, sendq_flush(&conn->base.out));
        if (conn->base.state == CONN_GONE) {
            return;
        }
    }
    if ((events & LOOP_READ) && (conn_is_reading(conn) || conn->base.state == CONN_HANDSHAKE)) {
        conn_read_input(conn);
        conn_go_on(conn);
    } else if ((events & LOOP_READ) && conn->base.state == CONN_LINGER) {
        conn_discard_input(conn);
    } else if (events & LOOP_HANGUP) {
        connection_close(&conn->base, "closed by the client"); /* cancels pending work */
        return;
    } else if ((events & LOOP_READ) && conn->base.state == CONN_AWAITING) {
        loop_poll_set_events(poll, conn->base.poll.wanted & ~LOOP_READ); /* it waits for its turn */
    }
    conn_set_events(conn);
    connection_make_room(&conn->base);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void conn_on_flushed(struct sendq *q, enum sendq_state state)
{
    struct http_conn *conn = list_entry(q, struct http_conn, base.out);
    if (state == SENDQ_EMPTY && conn->base.state == CONN_STREAM &&
        !deadline_is_listed(&conn->base.stall) && !conn->base.sink.blocked &&
        !conn->base.has_long) {
        return; /* the normal case of a stream: the queue was empty */
    }
    if (state == SENDQ_BROKEN) {
        connection_fail(&conn->base, sendq_reason(q));
        return;
    }
    connection_note_flush(&conn->base, state);
    if (state == SENDQ_WAITING) {
        conn_set_events(conn);
        return;
    }
    if (conn->base.state == CONN_CLOSING || (conn->base.state == CONN_REFUSED && conn->base.eof)) {
        connection_close(&conn->base, "done");
        return;
    }
    if (conn->base.state == CONN_REFUSED) {
        sendq_end(&conn->base.out);
        connection_set_state(&conn->base, CONN_LINGER);
        conn_set_events(conn);
        return;
    }
    sink_drained(&conn->base.sink);
    if (conn->base.has_long) {
        conn->base.has_long = delivery_drained(&conn->base.channel);
    }
    if (conn->r && conn->r->in.len > 0) {
        conn_go_on(conn);
    }
    conn_set_events(conn);
}

static void http_end_turn(void *user)
{
    struct http_worker *hw = user;
    poll_flush(hw);
    sendq_batch_flush(&hw->base.worker->batch);
    connection_worker_end_turn(&hw->base, false);
}

/* ---- the end of the server ------------------------------------------------------------------- */

/* Returns true if there is no complete request. */
static bool conn_is_quiet(const struct http_conn *conn)
{
    return conn_is_reading(conn) || conn->base.state == CONN_HANDSHAKE;
}

/* While draining: closes a connection without a request. A partial request does not count. */
static void conn_end_if_quiet(struct connection *c, void *user)
{
    (void)user;
    struct http_conn *conn = http_conn_of(c);
    if (conn_is_quiet(conn)) {
        conn_read_input(conn);
    }
    if (conn_is_quiet(conn)) {
        conn_go_on(conn);
    }
    if (conn_is_quiet(conn)) {
        conn_end(conn);
    }
    conn_set_events(conn);
}

void http_worker_drain(struct http_worker *hw, void (*drained)(void *user), void *user)
{
    connection_worker_drain(&hw->base, drained, user);
    connections_each(&hw->conns,
                     1u << CONN_HANDSHAKE | 1u << CONN_IDLE | 1u << CONN_HEAD | 1u << CONN_BODY,
                     conn_end_if_quiet, NULL);
    websocket_drain(hw->websockets);
    legacy_sse_drain(hw);
}

/* ---- workers --------------------------------------------------------------------------------- */

static void http_set_options(const struct http_config *config, int fd)
{
    int one = 1;
    unsigned timeout = (unsigned)config->stall_timeout_ms;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

static void http_adopt(struct thread_message *message, void *owner)
{
    struct http_worker *hw = owner;
    struct handover *h = list_entry(message, struct handover, message);
    struct http_conn *conn = mem_zalloc(sizeof(*conn));
    struct http_reading *r = conn ? mem_zalloc(sizeof(*r)) : NULL;
    if (!r) {
        mem_free(conn);
        handover_destroy(h);
        connection_worker_left(&hw->base);
        return;
    }
    http_review_tokens(hw); /* tokens that were revoked while there were no connections */
    conn->r = r;
    r->conn = conn;
    deadline_init(&r->whole);
    r->in = h->in;
    buf_init(&h->in, 0);
    r->in.max = hw->config->max_request > 0
                    ? hw->config->max_request
                    : HTTP_MAX_HEAD + hw->config->max_body + sizeof(hw->base.scratch);
    r->in.is_secret = hw->config->auth != NULL; /* it contains tokens */
    http_set_options(hw->config, h->fd);
    bool is_new = h->tls && !tls_session_is_ready(h->tls);
    if (connection_adopt(&conn->base, &hw->conns, h, is_new ? CONN_HANDSHAKE : CONN_IDLE) < 0) {
        return;
    }
    if (hw->config->scrape) {
        deadline_enter(&hw->whole, &r->whole);
    }
    conn_go_on(conn);
    if (hw->base.draining) {
        conn_end_if_quiet(&conn->base, NULL);
    }
    conn_set_events(conn);
}

static void http_conns_init(struct http_worker *hw);

static void http_check(struct connection_worker *cw);

static void http_review(struct connection_worker *cw)
{
    http_review_tokens(http_worker_of_base(cw));
}

struct http_worker *http_worker_create(struct worker *worker, const struct http_config *config,
                                       http_find_worker_fn find, void *user,
                                       struct tidings_error *err)
{
    static const struct connection_worker_ops ops = {
        .adopt = http_adopt,
        .end_turn = http_end_turn,
        .check = http_check,
        .review = http_review,
    };
    struct http_worker *hw = mem_zalloc(sizeof(*hw));
    if (!hw) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    hw->config = config;
    hw->find = find;
    hw->find_user = user;
    map_init(&hw->sse_streams);
    buf_init(&hw->head, 2 * HTTP_MAX_HEAD); /* an echoed Origin is its longest part */
    int rc = connection_worker_init(&hw->base, &ops, worker, err);
    http_conns_init(hw);
    const struct websocket_config websockets = {
        .max_message = config->max_body,
        .keepalive_ms = config->keepalive_ms,
        .message_timeout_ms = config->body_timeout_ms,
        .stall_timeout_ms = config->stall_timeout_ms,
    };
    hw->websockets = websocket_worker_create(&hw->base, &websockets);
    if (rc < 0 || !hw->websockets) {
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
    connection_worker_deinit(&hw->base);
    websocket_worker_destroy(hw->websockets);
    token_cache_destroy(hw->token_cache);
    map_deinit(&hw->sse_streams);
    buf_deinit(&hw->head);
    mem_free_secret(hw, sizeof(*hw)); /* the last input, possibly a token */
}

struct worker_inbox *http_worker_inbox(struct http_worker *hw)
{
    return &hw->base.inbox;
}

/* -------------------------------------------------------------------------------------------------
 * The states of an HTTP connection: their successors, their durations, and the actions at their
 * ends.
 */

/* How long a rejected client may continue to send before the connection is reset. */
#define LINGER_MS 1000u

static void http_close_unready(struct connection *c)
{
    limit_hit(c->channel.worker->limit_counters, LIMIT_HEAD_TIME);
    connection_close(c, "the handshake was not done in time");
}

static void http_close_idle(struct connection *c)
{
    if (c->out.pending == 0) { /* otherwise the stall timeout applies to the reader of an answer */
        connection_close(c, "idle");
    }
}

static void http_refuse_slow(struct connection *c)
{
    conn_refuse_over(http_conn_of(c), LIMIT_HEAD_TIME, 408, "the request did not arrive in time");
}

static void http_refuse_slow_body(struct connection *c)
{
    conn_refuse_over(http_conn_of(c), LIMIT_BODY_TIME, 408, "the body did not arrive in time");
}

static void http_keep_alive(struct connection *c)
{
    connection_set_state(c, CONN_STREAM);
    if (c->out.pending == 0) {
        sendq_put(&c->out, ":\n\n", 3);
    }
}

static void http_end_poll(struct connection *c)
{
    poll_finish(http_conn_of(c));
}

static void http_close_late(struct connection *c)
{
    connection_close(c, "the client does not read");
}

static void http_resume(struct connection *c)
{
    connection_set_state(c, CONN_HEAD);
    conn_go_on(http_conn_of(c));
    conn_set_events(http_conn_of(c));
}

#define TO(state) (1u << CONN_##state)
#define TO_END (TO(CLOSING) | TO(REFUSED) | TO(GONE))
/* The possible states after an answer. */
#define TO_ANSWERED (TO(IDLE) | TO(HEAD) | TO(STREAM) | TO(POLL) | TO(CLOSING) | TO(GONE))

/* The diagram in http_internal.h. A transition to the same state restarts its time. */
static const struct connection_state states[CONN_STATES] = {
    [CONN_HANDSHAKE] = {.next = TO(IDLE) | TO_END, .on_due = http_close_unready},
    [CONN_IDLE] = {.next = TO(HEAD) | TO_END, .on_due = http_close_idle},
    [CONN_HEAD] = {TO(BODY) | TO(AUTHENTICATING) | TO(THROTTLED) | TO(RUNNING) | TO_END,
                   http_refuse_slow, .is_partial = true},
    [CONN_BODY] = {TO(BODY) | TO(THROTTLED) | TO(RUNNING) | TO_END, http_refuse_slow_body,
                   .is_partial = true},
    [CONN_AUTHENTICATING] = {.next = TO(HEAD) | TO(REFUSED) | TO(GONE),
                             .on_due = http_give_up_token},
    [CONN_THROTTLED] = {.next = TO(HEAD) | TO(GONE)},
    [CONN_RUNNING] = {.next = TO(AWAITING) | TO(ADOPTING) | TO(REFUSED) | TO_ANSWERED},
    [CONN_AWAITING] = {.next = TO_ANSWERED},
    [CONN_ADOPTING] = {.next = TO(HEAD) | TO(GONE), .on_due = http_give_up_session},
    [CONN_STREAM] = {TO(STREAM) | TO(CLOSING) | TO(GONE), http_keep_alive, .is_open = true,
                     .is_kept_alive = true, .is_stream = true},
    [CONN_POLL] = {TO(POLLED) | TO(CLOSING) | TO(GONE), http_end_poll, .is_stream = true},
    [CONN_POLLED] = {TO(CLOSING) | TO(GONE), .is_stream = true},
    [CONN_CLOSING] = {.next = TO(GONE), .on_due = http_close_late},
    [CONN_REFUSED] = {.next = TO(LINGER) | TO(GONE), .on_due = http_close_late},
    [CONN_LINGER] = {.next = TO(REFUSED) | TO(GONE), .on_due = http_close_late},
    [CONN_GONE] = {0},
};

static size_t http_input_size(const struct connection *c)
{
    const struct http_reading *r = ((const struct http_conn *)c)->r;
    return r ? r->in.cap : 0;
}

static void http_cut_input(struct connection *c, bool is_unfair)
{
    struct http_conn *conn = http_conn_of(c);
    conn_refuse_over(conn, LIMIT_INPUT, is_unfair ? 429 : 503,
                     is_unfair ? "this client holds too much unfinished input on its connections; "
                                 "send it again later (--max-input, --fair-share)"
                               : "the server holds too much unfinished input; send it again later, "
                                 "and faster (--max-input)");
    buf_deinit(&conn->r->in);
    connection_book_input(c);
    conn_set_events(conn);
}

const struct connection_kind http_kind = {
    .states = states,
    .state_count = CONN_STATES,
    .timed_state = CONN_BODY,
    .yielded_state = CONN_THROTTLED,
    .resume = http_resume,
    .is_http = true,
    .channel_ops = &http_channel_ops,
    .sink_ops = &http_sink_ops,
    .on_event = conn_on_event,
    .on_flushed = conn_on_flushed,
    .on_tls_failed = http_on_tls_failed,
    .input_size = http_input_size,
    .cut_input = http_cut_input,
    .end_credentials = legacy_sse_end_credentials,
    .has_credentials = legacy_sse_has_credentials,
    .on_closed = http_on_closed,
    .free = http_conn_free,
};

/* The time of a connection of the listener of --metrics is over. */
static void http_close_whole(struct deadline *deadline)
{
    connection_close(&list_entry(deadline, struct http_reading, whole)->conn->base, "too slow");
}

static void http_conns_init(struct http_worker *hw)
{
    const struct http_config *config = hw->config;
    const uint64_t times[CONN_STATES] = {
        [CONN_HANDSHAKE] = config->header_timeout_ms,
        [CONN_IDLE] = config->idle_timeout_ms,
        [CONN_HEAD] = config->header_timeout_ms,
        [CONN_AUTHENTICATING] = config->header_timeout_ms,
        [CONN_ADOPTING] = SESSION_AWAIT_MS,
        [CONN_BODY] = config->body_timeout_ms,
        [CONN_STREAM] = config->keepalive_ms,
        [CONN_POLL] = config->keepalive_ms,
        [CONN_CLOSING] = config->stall_timeout_ms,
        [CONN_REFUSED] = config->stall_timeout_ms,
        [CONN_LINGER] = LINGER_MS,
    };
    connections_init(&hw->conns, &http_kind, &hw->base, times, config->stall_timeout_ms);
    deadline_list_init(&hw->whole, &hw->base.deadlines, config->whole_timeout_ms, http_close_whole);
}

/* Work besides deadlines: revoked tokens, and streams that end with the server. */
static void http_check(struct connection_worker *cw)
{
    struct http_worker *hw = http_worker_of_base(cw);
    http_review_tokens(hw);
    if (cw->draining) {
        websocket_drain(hw->websockets);
        legacy_sse_drain(hw);
    }
}
