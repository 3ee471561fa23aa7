/* SPDX-License-Identifier: MIT
 *
 * Reads messages from lines, writes answers and notifications as lines.
 */
#include "transport/lines.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/subscriber.h"
#include "engine/protocol/enforce.h"
#include "engine/protocol/inbound.h"
#include "security/limits.h"
#include "transport/connection.h"
#include "transport/peer_identity.h"

/* ---------------------------------------------------------------------------------------------- */

static struct line *line_of(const struct channel *channel)
{
    return list_entry((struct channel *)(uintptr_t)channel, struct line, base.channel);
}

static struct line *of_sink(const struct sink *sink)
{
    return list_entry((struct sink *)(uintptr_t)sink, struct line, base.sink);
}

static void schedule_review(struct line *line)
{
    if (line->schedule_review) {
        line->schedule_review(line);
    }
}

static void break_off(struct line *line, const char *reason)
{
    if (!line->broken) {
        line->broken = true;
        line->reason = reason;
        schedule_review(line);
    }
}

/* ---- output ---------------------------------------------------------------------------------- */

static void line_answer(struct channel *channel, int status, const struct response_headers *headers,
                        struct buf *text)
{
    (void)status;
    (void)headers;
    struct line *line = line_of(channel);
    schedule_review(line);
    if (text->len == 0) {
        return; /* out of memory even for an error */
    }
    buf_putc(text, '\n');
    if (text->failed) {
        break_off(line, "out of memory"); /* a message without its end would corrupt the rest */
        return;
    }
    connection_put(&line->base, text);
    connection_book_answer(&line->base);
}

static void line_answer_long(struct channel *channel, int status,
                             const struct response_headers *headers, struct sendq_source *source)
{
    (void)status;
    (void)headers;
    struct line *line = line_of(channel);
    schedule_review(line);
    if (sendq_put_source(&line->base.out, source) == 0) {
        sendq_put(&line->base.out, "\n", 1);
    }
}

static void line_accepted(struct channel *channel)
{
    schedule_review(line_of(channel));
}

static struct sink *line_stream(struct channel *channel, const struct response_headers *headers)
{
    (void)headers;
    return &line_of(channel)->base.sink;
}

static char *sink_reserve(struct sink *sink, struct tidings_str event_id, size_t len)
{
    (void)event_id;
    char *at = sendq_reserve(&of_sink(sink)->base.out, len + 1);
    if (at) {
        at[len] = '\n';
    }
    return at;
}

static void sink_cut(struct sink *sink, const char *reason)
{
    break_off(of_sink(sink), reason);
}

static const struct sink_ops line_sink_ops = {
    .name = "line",
    .room = sink_reserve,
    .prime = message_conn_sink_prime,
    .pending = connection_sink_pending,
    .end = message_conn_sink_end,
    .cut = sink_cut,
    .channel = connection_sink_channel,
};

static void line_pump(struct line *line);

/* Handles the result of a flush. */
static void line_flushed(struct line *line, enum sendq_state state)
{
    connection_book_output(&line->base);
    if (state == SENDQ_BROKEN) {
        break_off(line, sendq_reason(&line->base.out));
    } else if (state == SENDQ_EMPTY) {
        sink_drained(&line->base.sink);
        delivery_drained(&line->base.channel);
        line_pump(line);
        if (line->finished) {
            schedule_review(line); /* possibly the last one */
        }
    }
}

/* ---- input ----------------------------------------------------------------------------------- */

static bool line_has_space(const struct line *line)
{
    return !line->broken && !line->is_throttled && message_conn_has_space(&line->base);
}

static void line_handle(struct line *line, enum line_result result, struct tidings_str text)
{
    if (result == LINE_TOO_LONG) {
        limit_hit(line->base.channel.worker->limit_counters, LIMIT_LINE);
        inbound_refuse(&line->base.channel, 413, RPC_INVALID_REQUEST,
                       "a message may be at most %u bytes long", line->max_line);
    } else {
        inbound_text(&line->base.channel, text, NULL);
    }
}

/* Adds received bytes. Call line_pump afterwards. Breaks the line if memory runs out. */
static void line_feed(struct line *line, const char *bytes, size_t len)
{
    line->received += len;
    if (!line->reader) {
        line->reader = mem_alloc(sizeof(*line->reader));
        if (line->reader) {
            line_reader_init(line->reader, line->max_line);
        }
    }
    if (!line->reader || line_reader_feed(line->reader, bytes, len) < 0) {
        break_off(line, "out of memory");
    }
}

static void line_drop_input(struct line *line)
{
    line_reader_deinit(line->reader);
    mem_free(line->reader);
    line->reader = NULL;
}

/* Gets the next complete message; at the end of input, the rest is one. */
static enum line_result next_message(struct line *line, struct tidings_str *text)
{
    enum line_result result = line->reader ? line_reader_next(line->reader, text) : LINE_MORE;
    if (result == LINE_MORE && line->eof) {
        result = line->reader ? line_reader_finish(line->reader, text) : LINE_MORE;
        line->finished = true;
    } else if (result == LINE_MORE && line->reader && line_reader_is_idle(line->reader)) {
        line_drop_input(line);
    }
    return result;
}

static bool line_is_partial(const struct line *line);

/* Handles the complete messages, within the limits of this turn. */
static void line_pump(struct line *line)
{
    struct tidings_str text;
    enum line_result result = LINE_READY;
    bool was_finished = line->finished;
    while (!line->finished && (line_is_partial(line) || line->eof) && result != LINE_MORE &&
           line_has_space(line)) {
        line->is_throttled = !channel_may_go_on(&line->base.channel);
        if (line->is_throttled) {
            return;
        }
        result = next_message(line, &text);
        if (result == LINE_MORE) {
            line->base.channel.handled--; /* there was none */
        } else {
            line->took = true;
            line_handle(line, result, text);
        }
    }
    if (line->finished && !was_finished) {
        schedule_review(line); /* once: operations under way call this themselves when they end */
    }
}

/* Returns true if there is a partial or a waiting message. */
static bool line_is_partial(const struct line *line)
{
    return line->reader != NULL;
}

/* Returns true if there is space for more input. */
static bool line_reads(const struct line *line)
{
    return !line->eof && line_has_space(line);
}

/* Returns true after the end of input, when all requests are answered and written. */
static bool line_is_done(const struct line *line)
{
    return line->finished && list_empty(&line->base.channel.requests) &&
           line->base.out.pending == 0;
}

/* -------------------------------------------------------------------------------------------------
 * Messages by lines (transport/lines.h) between two descriptors that other processes share.
 */

struct stdio {
    struct line line;
    struct stdio_options options;
    struct loop_poll *poll_in, *poll_out;
    struct loop_timer *pump; /* for the next turn: yielded messages, and input from a file */
    struct loop_hook end_hook;
    bool draining, ended;
    char scratch[65536];
};

static void stdio_facts(const struct channel *channel, struct channel_facts *ret)
{
    ret->listener = "stdio";
    ret->bytes_out = line_of(channel)->base.out.written;
    ret->bytes_in = line_of(channel)->received;
    ret->is_local = true;
}

static const struct channel_ops stdio_channel_ops = {
    .name = "stdio",
    .is_http = false,
    .answer = line_answer,
    .answer_long = line_answer_long,
    .unbook = connection_unbook,
    .is_sending = connection_is_sending,
    .accepted = line_accepted,
    .stream = line_stream,
    .facts = stdio_facts,
};

static void stdio_set_events(struct stdio *s)
{
    bool reads = line_reads(&s->line);
    if (s->poll_in) {
        loop_poll_set_events(s->poll_in, reads ? LOOP_READ : 0);
    } else if (reads) {
        loop_timer_start(s->pump, 0, 0);
    }
    if (s->poll_out) {
        loop_poll_set_events(s->poll_out, sendq_awaits_space(&s->line.base.out) ? LOOP_WRITE : 0);
    }
}

static void stdio_read(struct stdio *s)
{
    if (!line_reads(&s->line)) {
        return;
    }
    ssize_t n = read(s->options.in, s->scratch, sizeof(s->scratch));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
        return;
    }
    if (n > 0) {
        s->line.base.channel.worker->stats.bytes_in += (size_t)n;
        line_feed(&s->line, s->scratch, (size_t)n);
    } else {
        s->line.eof = true;
    }
    line_pump(&s->line);
}

static void on_readable(struct loop_poll *poll, int events, void *user)
{
    (void)poll;
    (void)events;
    struct stdio *s = user;
    stdio_read(s);
    stdio_set_events(s);
}

static void on_pump(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct stdio *s = user;
    s->line.is_throttled = false; /* a new turn */
    line_pump(&s->line);
    if (!s->poll_in) { /* otherwise a read might block: the flags of the descriptor are shared */
        stdio_read(s);
    }
    stdio_set_events(s);
}

static void stdio_on_flushed(struct sendq *q, enum sendq_state state)
{
    struct stdio *s = list_entry(q, struct stdio, line.base.out);
    line_flushed(&s->line, state);
    stdio_set_events(s);
}

static void on_writable(struct loop_poll *poll, int events, void *user)
{
    (void)poll;
    (void)events;
    struct stdio *s = user;
    stdio_on_flushed(&s->line.base.out, sendq_flush(&s->line.base.out));
}

/* ---- life ------------------------------------------------------------------------------------ */

/* The end of a turn: writes, and checks whether there is anything left to wait for. */
static void stdio_end_turn(void *user)
{
    struct stdio *s = user;
    sendq_batch_flush(&s->line.base.channel.worker->batch);
    if (s->draining && drain_is_done_with(s->line.base.channel.worker, &s->line.base.channel)) {
        s->line.eof = true;
    }
    line_pump(&s->line);
    sendq_batch_flush(&s->line.base.channel.worker->batch);
    if (s->ended) {
        return;
    }
    if (s->line.broken) {
        log_warn(LOG_TRANSPORT, "stdio cut", KV("reason", s->line.reason));
    }
    if (s->line.broken || line_is_done(&s->line)) {
        s->ended = true;
        s->options.ended(s->options.user);
    }
    stdio_set_events(s);
    if (s->line.is_throttled) {
        loop_timer_start(s->pump, 0, 0); /* to get another turn */
    }
}

struct stdio *stdio_open(struct worker *worker, const struct stdio_options *options,
                         struct tidings_error *err)
{
    struct stdio *s = mem_zalloc(sizeof(*s));
    if (!s) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    s->options = *options;
    channel_init(&s->line.base.channel, &stdio_channel_ops, worker);
    s->line.base.sink.ops = &line_sink_ops;
    s->line.max_line = (uint32_t)options->max_line;
    sendq_init(&s->line.base.out, &worker->batch, options->out, stdio_on_flushed);
    loop_hook_add(worker->loop, &s->end_hook, stdio_end_turn, s);
    s->pump = loop_timer_open(worker->loop, on_pump, s);
    s->poll_in = loop_poll_open_shared(worker->loop, options->in, on_readable, s, NULL);
    s->poll_out = loop_poll_open_shared(worker->loop, options->out, on_writable, s, NULL);
    if (!s->pump) {
        stdio_close(s);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    stdio_set_events(s);
    return s;
}

void stdio_drain(struct stdio *s)
{
    s->draining = true;
}

void stdio_close(struct stdio *s)
{
    if (!s) {
        return;
    }
    channel_deinit(&s->line.base.channel); /* cancels all operations under way */
    sendq_deinit(&s->line.base.out);
    connection_book_output(&s->line.base);
    line_drop_input(&s->line);
    loop_hook_remove(&s->end_hook);
    loop_poll_close(s->poll_in);
    loop_poll_close(s->poll_out);
    loop_timer_close(s->pump);
    mem_free(s);
}

/* -------------------------------------------------------------------------------------------------
 * Life of line-framed connections: adopt, read, close. Nothing is closed while a callback of its
 * messages may be on the stack: a connection with an event is reviewed when the turn ends.
 */

#define PROBES 3

static struct line_conn *of_line(struct line *line)
{
    return list_entry(line, struct line_conn, line);
}

static struct line_conn *line_conn_of(struct connection *c)
{
    return list_entry(c, struct line_conn, line.base);
}

static struct socket_worker *socket_worker_of(const struct line_conn *conn)
{
    return list_entry(conn->line.base.all, struct socket_worker, conns);
}

static void line_conn_schedule_review(struct line *line)
{
    struct line_conn *conn = of_line(line);
    if (conn->line.base.state != LINE_GONE && list_empty(&conn->review_link)) {
        list_append(&socket_worker_of(conn)->to_review, &conn->review_link);
    }
}

static void line_conn_set_events(struct line_conn *conn)
{
    if (conn->line.base.state == LINE_GONE) {
        return;
    }
    connection_book_input(&conn->line.base);
    int events = sendq_awaits_space(&conn->line.base.out) ? LOOP_WRITE : 0;
    if (conn->line.base.state == LINE_LINGER || line_reads(&conn->line)) {
        events |= LOOP_READ;
    }
    loop_poll_set_events(&conn->line.base.poll, events);
    if (conn->line.is_throttled && list_empty(&conn->throttled_link)) {
        list_append(&socket_worker_of(conn)->throttled, &conn->throttled_link);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

/* No more input is read: finishes the received messages. */
static void end_input(struct line_conn *conn)
{
    conn->line.eof = true;
    connection_set_state(&conn->line.base, LINE_ENDING);
    line_conn_schedule_review(&conn->line);
}

static void line_on_closed(struct connection *c)
{
    struct line_conn *conn = line_conn_of(c);
    list_remove(&conn->review_link);
    list_remove(&conn->throttled_link);
    line_drop_input(&conn->line);
}

/* Everything is written. Further input is discarded for a while, so that the client can read the
 * last answer before the reset that unread input would cause. */
static void socket_linger(struct line_conn *conn)
{
    sendq_end(&conn->line.base.out);
    struct channel_facts facts;
    channel_ending(&conn->line.base.channel, "closed by the client", &facts);
    channel_deinit(&conn->line.base.channel); /* its subscriptions end now */
    channel_ended(&conn->line.base.channel);
    connection_set_state(&conn->line.base, LINE_LINGER);
    line_conn_set_events(conn);
}

/* ---- reading and writing --------------------------------------------------------------------- */

static void on_input(struct line_conn *conn, size_t len)
{
    line_feed(&conn->line, conn->line.base.all->cw->scratch, len);
    conn->line.took = false;
    line_pump(&conn->line);
    bool is_mid_message = line_is_partial(&conn->line);
    conn->partial_bytes += (uint32_t)len;
    if (is_mid_message && conn->line.base.state == LINE_MIDLINE && !conn->line.took &&
        conn->partial_bytes < INPUT_STEP) {
        return; /* single bytes are not progress */
    }
    conn->partial_bytes = 0;
    connection_set_state(&conn->line.base, is_mid_message ? LINE_MIDLINE : LINE_OPEN);
}

/* Sends a last message to it. */
static void line_conn_refuse(struct line_conn *conn, int status, const char *text)
{
    inbound_refuse(&conn->line.base.channel, status, RPC_INVALID_REQUEST, "%s", text);
    conn->line.finished = true;
    end_input(conn);
}

/* A client that does not use TLS would not understand an alert. Others may get one, which they can
 * read only if the connection is not reset. */
static void line_on_tls_failed(struct connection *c, ssize_t why)
{
    struct line_conn *conn = line_conn_of(c);
    if (c->state == LINE_LINGER) {
        return; /* all is written; further input is discarded without decryption */
    }
    if (why == -EPROTOTYPE) {
        tls_session_destroy(sendq_detach_tls(&c->out));
        line_conn_refuse(conn, 400, "this port speaks TLS");
    } else if (sendq_flush(&c->out) == SENDQ_EMPTY) {
        socket_linger(conn);
    } else {
        connection_close(c, "TLS failed");
    }
}

static void line_conn_read(struct line_conn *conn)
{
    struct connection *c = &conn->line.base;
    ssize_t n = connection_receive(c);
    if (n < 0) {
        return;
    }
    if (c->state == LINE_LINGER) {
        if (c->eof) {
            connection_close(c, "done");
        }
        return;
    }
    struct tls_session *tls = sendq_tls(&c->out);
    if (c->state == LINE_HANDSHAKE && tls_session_is_ready(tls)) {
        connection_set_state(c, LINE_FRESH);
    }
    if (n > 0 && peer_identity_apply(&c->channel, c->out.fd, tls) < 0) {
        connection_close(c, "out of memory");
        return;
    }
    connection_note_expiry(c);
    if (n > 0) {
        on_input(conn, (size_t)n);
    }
    if (c->eof) {
        end_input(conn);
    }
}

static void line_conn_on_flushed(struct sendq *q, enum sendq_state state)
{
    struct line_conn *conn = list_entry(q, struct line_conn, line.base.out);
    connection_note_flush(&conn->line.base, state);
    line_flushed(&conn->line, state);
    line_conn_set_events(conn);
}

static void line_conn_on_event(struct loop_poll *poll, int events, void *user)
{
    (void)poll;
    struct line_conn *conn = line_conn_of(user);
    if (events & LOOP_ERROR) {
        connection_fail(&conn->line.base, "socket error");
        return;
    }
    if (events & LOOP_WRITE) {
        line_conn_on_flushed(&conn->line.base.out, sendq_flush(&conn->line.base.out));
    }
    if ((events & LOOP_READ) && (conn->line.base.state == LINE_LINGER || line_reads(&conn->line))) {
        line_conn_read(conn);
    }
    line_conn_set_events(conn);
    connection_make_room(&conn->line.base);
}

/* ---- the end of a turn ----------------------------------------------------------------------- */

/* While draining: returns true if all output and answers are written. A partial message does not
 * count. */
static bool line_conn_is_drained(const struct line_conn *conn)
{
    return socket_worker_of(conn)->base.draining && conn->line.base.state < LINE_ENDING &&
           line_reads(&conn->line) &&
           drain_is_done_with(conn->line.base.channel.worker, &conn->line.base.channel);
}

static void line_conn_review(struct line_conn *conn);

/* In the next turn: connections that had used up their quantum continue. */
static void socket_on_turn(struct connection_worker *cw)
{
    struct socket_worker *sw = list_entry(cw, struct socket_worker, base);
    struct list now;
    list_init(&now);
    list_splice(&now, &sw->throttled);
    while (!list_empty(&now)) {
        struct line_conn *conn = list_entry(now.next, struct line_conn, throttled_link);
        list_remove(&conn->throttled_link);
        conn->line.is_throttled = false;
        line_conn_review(conn);
    }
}

static void line_conn_review(struct line_conn *conn)
{
    struct line *line = &conn->line;
    if (conn->line.base.state == LINE_LINGER) {
        return;
    }
    line_pump(line);
    if (line_conn_is_drained(conn)) {
        line_conn_read(conn); /* received messages are still answered */
    }
    if (conn->line.base.state >= LINE_LINGER) {
        return;
    }
    if (line_conn_is_drained(conn)) {
        line->finished = true;
        end_input(conn);
    }
    if (line->broken) {
        const char *reason = line->reason;
        if (line->base.out.error == ETIMEDOUT) {
            reason = peer_identity_failure(&line->base.channel, &line->base.out, reason);
        }
        connection_close(&conn->line.base, reason);
    } else if (line_is_done(line)) {
        socket_linger(conn);
    } else {
        line_conn_set_events(conn);
    }
}

/* The end of a turn: writes, then reviews connections with events, which may write more. */
static void socket_end_turn(void *user)
{
    struct socket_worker *sw = user;
    sendq_batch_flush(&sw->base.worker->batch);
    while (!list_empty(&sw->to_review)) {
        struct list now;
        list_init(&now);
        list_splice(&now, &sw->to_review);
        while (!list_empty(&now)) {
            struct line_conn *conn = list_entry(now.next, struct line_conn, review_link);
            list_remove(&conn->review_link);
            line_conn_review(conn);
        }
        sendq_batch_flush(&sw->base.worker->batch);
    }
    connection_worker_end_turn(&sw->base, !list_empty(&sw->throttled));
}

/* ---- the channel ----------------------------------------------------------------------------- */

/* It receives notifications from now on. */
static struct sink *socket_channel_stream(struct channel *channel,
                                          const struct response_headers *headers)
{
    sendq_limit_kernel(&line_of(channel)->base.out);
    peer_identity_remember(channel, line_of(channel)->base.out.fd);
    return line_stream(channel, headers);
}

static void socket_channel_facts(const struct channel *channel, struct channel_facts *ret)
{
    connection_facts(channel, ret);
    ret->bytes_in = line_of(channel)->received;
}

static const struct channel_ops socket_channel_ops = {
    .name = "socket",
    .is_http = false,
    .answer = line_answer,
    .answer_long = line_answer_long,
    .unbook = connection_unbook,
    .is_sending = connection_is_sending,
    .accepted = line_accepted,
    .stream = socket_channel_stream,
    .address = connection_address,
    .facts = socket_channel_facts,
};

/* ---- workers --------------------------------------------------------------------------------- */

/* These options do not apply to Unix sockets. */
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

static void socket_adopt(struct thread_message *message, void *owner)
{
    struct socket_worker *sw = owner;
    struct handover *h = list_entry(message, struct handover, message);
    struct line_conn *conn = mem_zalloc(sizeof(*conn));
    if (!conn) {
        handover_destroy(h);
        connection_worker_left(&sw->base);
        return;
    }
    list_init(&conn->review_link);
    list_init(&conn->throttled_link);
    conn->line.max_line = (uint32_t)sw->config->max_line;
    conn->line.schedule_review = line_conn_schedule_review;
    socket_set_options(sw->config, h->fd);
    if (connection_adopt(&conn->line.base, &sw->conns, h, h->tls ? LINE_HANDSHAKE : LINE_FRESH) <
        0) {
        return;
    }
    if (sw->base.draining) {
        line_conn_schedule_review(&conn->line);
    }
    line_conn_set_events(conn);
}

static void socket_conns_init(struct socket_worker *sw);

static void socket_check(struct connection_worker *cw);

struct socket_worker *socket_worker_create(struct worker *worker,
                                           const struct socket_config *config,
                                           struct tidings_error *err)
{
    static const struct connection_worker_ops ops = {
        .adopt = socket_adopt,
        .end_turn = socket_end_turn,
        .on_turn = socket_on_turn,
        .check = socket_check,
    };
    struct socket_worker *sw = mem_zalloc(sizeof(*sw));
    if (!sw) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    sw->config = config;
    list_init(&sw->to_review);
    list_init(&sw->throttled);
    int rc = connection_worker_init(&sw->base, &ops, worker, err);
    socket_conns_init(sw);
    if (rc < 0) {
        socket_worker_destroy(sw);
        return NULL;
    }
    return sw;
}

void socket_worker_destroy(struct socket_worker *sw)
{
    if (sw) {
        connection_worker_deinit(&sw->base);
        mem_free(sw);
    }
}

struct worker_inbox *socket_worker_inbox(struct socket_worker *sw)
{
    return &sw->base.inbox;
}

/* -------------------------------------------------------------------------------------------------
 * The states of a line-framed connection: their successors, their durations, and the actions at
 * their ends.
 */

/* How long a client may continue to send after its last answer before the connection is reset. */
#define LINGER_MS 1000u
#define ENDING_MS 250u /* a request can end without an answer or an event */

static bool line_conn_is_used(const struct line_conn *conn)
{
    const struct channel *channel = &conn->line.base.channel;
    const struct subscriber *subscriber = channel->subscriber;
    return !list_empty(&channel->requests) ||
           (subscriber && (subscriber->subscription_count > 0 || subscriber->group_count > 0));
}

/* Returns true if the client waits for the server and not vice versa. */
static bool waits_for_us(const struct line_conn *conn)
{
    return !line_reads(&conn->line) ||
           (conn->line.base.state == LINE_OPEN && line_conn_is_used(conn));
}

static void line_close_unready(struct connection *c)
{
    limit_hit(c->channel.worker->limit_counters, LIMIT_HEAD_TIME);
    connection_close(c, "the handshake was not done in time");
}

static void line_close_idle(struct connection *c)
{
    if (!waits_for_us(line_conn_of(c))) {
        connection_close(c, "idle");
    }
}

static void line_refuse_slow(struct connection *c)
{
    if (!waits_for_us(line_conn_of(c))) {
        limit_hit(c->channel.worker->limit_counters, LIMIT_BODY_TIME);
        line_conn_refuse(line_conn_of(c), 408, "the rest of the message did not arrive in time");
    }
}

static void line_check_ending(struct connection *c)
{
    line_conn_schedule_review(&line_conn_of(c)->line);
}

static void line_close_lingering(struct connection *c)
{
    connection_close(c, "done");
}

#define TO(state) (1u << LINE_##state)
#define TO_END (TO(ENDING) | TO(LINGER) | TO(GONE))

/* The diagram in lines.h. A transition to the same state restarts its time. */
static const struct connection_state states[LINE_STATES] = {
    [LINE_HANDSHAKE] = {.next = TO(FRESH) | TO_END, .on_due = line_close_unready},
    [LINE_FRESH] = {TO(MIDLINE) | TO(OPEN) | TO_END, line_close_idle, .is_open = true},
    [LINE_MIDLINE] = {TO(MIDLINE) | TO(OPEN) | TO_END, line_refuse_slow, .is_open = true,
                      .is_partial = true},
    [LINE_OPEN] = {TO(MIDLINE) | TO(OPEN) | TO_END, line_close_idle, .is_open = true},
    [LINE_ENDING] = {.next = TO(LINGER) | TO(GONE), .on_due = line_check_ending},
    [LINE_LINGER] = {.next = TO(GONE), .on_due = line_close_lingering},
    [LINE_GONE] = {0},
};

static size_t line_input_size(const struct connection *c)
{
    const struct line *line = (const struct line *)c;
    return line->reader ? line->reader->in.cap : 0;
}

static void line_cut_input(struct connection *c, bool is_unfair)
{
    (void)is_unfair;
    struct line_conn *conn = line_conn_of(c);
    limit_hit(c->channel.worker->limit_counters, LIMIT_INPUT);
    line_conn_refuse(conn, 503,
                     "the server holds too much unfinished input; send it again later, and faster "
                     "(--max-input)");
    line_drop_input(&conn->line);
    connection_book_input(c);
}

static void line_end_credentials(struct connection *c, bool is_revoked)
{
    (void)is_revoked; /* certificates expire, and are not revoked */
    line_conn_refuse(line_conn_of(c), 401,
                     "the certificate this connection began with has expired; connect again");
}

const struct connection_kind line_kind = {
    .states = states,
    .state_count = LINE_STATES,
    .timed_state = LINE_MIDLINE,
    .yielded_state = LINE_GONE,
    .channel_ops = &socket_channel_ops,
    .sink_ops = &line_sink_ops,
    .on_event = line_conn_on_event,
    .on_flushed = line_conn_on_flushed,
    .on_tls_failed = line_on_tls_failed,
    .input_size = line_input_size,
    .cut_input = line_cut_input,
    .end_credentials = line_end_credentials,
    .on_closed = line_on_closed,
    .free = mem_free,
};

static void socket_conns_init(struct socket_worker *sw)
{
    const struct socket_config *config = sw->config;
    const uint64_t times[LINE_STATES] = {
        [LINE_HANDSHAKE] = config->header_timeout_ms,
        [LINE_FRESH] = config->idle_timeout_ms,
        [LINE_MIDLINE] = config->body_timeout_ms,
        [LINE_OPEN] = config->session_timeout_ms,
        [LINE_ENDING] = ENDING_MS,
        [LINE_LINGER] = LINGER_MS,
    };
    connections_init(&sw->conns, &line_kind, &sw->base, times, config->stall_timeout_ms);
}

/* ---- the end of the server ------------------------------------------------------------------- */

static void line_review_later(struct connection *c, void *user)
{
    (void)user;
    line_conn_schedule_review(&line_conn_of(c)->line);
}

/* Reviews all open connections when the turn ends. */
static void socket_check(struct connection_worker *cw)
{
    struct socket_worker *sw = list_entry(cw, struct socket_worker, base);
    if (cw->draining) {
        connections_each(&sw->conns, TO(HANDSHAKE) | TO(FRESH) | TO(MIDLINE) | TO(OPEN),
                         line_review_later, NULL);
    }
}

void socket_worker_drain(struct socket_worker *sw, void (*drained)(void *user), void *user)
{
    connection_worker_drain(&sw->base, drained, user);
    socket_check(&sw->base);
}
