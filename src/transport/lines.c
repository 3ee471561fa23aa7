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

static struct line *of_sink(const struct sink *sink)
{
    return list_entry((struct sink *)(uintptr_t)sink, struct line, sink);
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
    message_conn_put(&line->out, text);
    output_book_answer(channel, &line->sink, &line->out);
}

static void line_answer_long(struct channel *channel, int status,
                             const struct response_headers *headers, struct sendq_source *source)
{
    (void)status;
    (void)headers;
    struct line *line = line_of(channel);
    schedule_review(line);
    if (sendq_put_source(&line->out, source) == 0) {
        sendq_put(&line->out, "\n", 1);
    }
}

static bool line_is_sending(const struct channel *channel, size_t *ret_held)
{
    return message_conn_is_sending(&line_of(channel)->out, ret_held);
}

static void line_unbook(struct channel *channel)
{
    output_unbook_queue(channel, &line_of(channel)->sink);
}

static void line_accepted(struct channel *channel)
{
    schedule_review(line_of(channel));
}

static struct sink *line_stream(struct channel *channel, const struct response_headers *headers)
{
    (void)headers;
    return &line_of(channel)->sink;
}

static char *sink_room(struct sink *sink, struct tidings_str event_id, size_t len)
{
    (void)event_id;
    char *at = sendq_room(&of_sink(sink)->out, len + 1);
    if (at) {
        at[len] = '\n';
    }
    return at;
}

static size_t sink_pending(const struct sink *sink)
{
    return of_sink(sink)->out.pending;
}

static void sink_cut(struct sink *sink, const char *reason)
{
    break_off(of_sink(sink), reason);
}

static struct channel *sink_channel(const struct sink *sink)
{
    return &of_sink(sink)->channel;
}

static const struct sink_ops line_sink_ops = {
    .name = "line",
    .room = sink_room,
    .prime = message_conn_sink_prime,
    .pending = sink_pending,
    .end = message_conn_sink_end,
    .cut = sink_cut,
    .channel = sink_channel,
};

static void line_pump(struct line *line);

/* What the send queue said after a flush. */
static void line_flushed(struct line *line, enum sendq_state state)
{
    output_book_queue(&line->channel, &line->sink, &line->out);
    if (state == SENDQ_BROKEN) {
        break_off(line, sendq_reason(&line->out));
    } else if (state == SENDQ_EMPTY) {
        sink_drained(&line->sink);
        delivery_drained(&line->channel);
        line_pump(line);
        if (line->finished) {
            schedule_review(line); /* that may have been the last of it */
        }
    }
}

/* ---- input ----------------------------------------------------------------------------------- */

static bool line_has_room(const struct line *line)
{
    return !line->broken && !line->has_yielded && message_conn_has_room(&line->channel, &line->out);
}

static void line_handle(struct line *line, enum line_result result, struct tidings_str text)
{
    if (result == LINE_TOO_LONG) {
        limit_hit(line->channel.worker->limit_counters, LIMIT_LINE);
        inbound_refuse(&line->channel, 413, RPC_INVALID_REQUEST,
                       "a message may be at most %u bytes long", line->max_line);
    } else {
        inbound_text(&line->channel, text, NULL);
    }
}

/* Bytes that were read. Call line_pump afterwards. Out of memory breaks it. */
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

/* Bytes that wait to be handled, or are half a message, in memory; forget them. */
static size_t line_size(const struct line *line)
{
    return line->reader ? line->reader->in.cap : 0;
}

static void line_drop_input(struct line *line)
{
    line_reader_deinit(line->reader);
    mem_free(line->reader);
    line->reader = NULL;
}

/* The next message that is complete; at the end of input what is left is one. */
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

static bool line_is_midway(const struct line *line);

/* Handle the complete messages that may be handled now, as far as this turn goes. */
static void line_pump(struct line *line)
{
    struct tidings_str text;
    enum line_result result = LINE_READY;
    bool was_finished = line->finished;
    while (!line->finished && (line_is_midway(line) || line->eof) && result != LINE_MORE &&
           line_has_room(line)) {
        line->has_yielded = !channel_may_go_on(&line->channel);
        if (line->has_yielded) {
            return;
        }
        result = next_message(line, &text);
        if (result == LINE_MORE) {
            line->channel.handled--; /* there was none */
        } else {
            line->took = true;
            line_handle(line, result, text);
        }
    }
    if (line->finished && !was_finished) {
        schedule_review(line); /* once: what is still under way says so itself when it is done */
    }
}

/* Is there the beginning of a message, or one that waits? */
static bool line_is_midway(const struct line *line)
{
    return line->reader != NULL;
}

/* Is there room for more input? */
static bool line_reads(const struct line *line)
{
    return !line->eof && line_has_room(line);
}

/* The end of input, and everything asked is answered and written. */
static bool line_is_done(const struct line *line)
{
    return line->finished && list_empty(&line->channel.requests) && line->out.pending == 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void line_init(struct line *line, const struct channel_ops *ops, struct worker *worker,
                      size_t max_line)
{
    channel_init(&line->channel, ops, worker);
    line->sink.ops = &line_sink_ops;
    line->max_line = (uint32_t)max_line;
}

/* Cancels what is under way and drops everything but the descriptor. */
static void line_deinit(struct line *line)
{
    channel_deinit(&line->channel);
    sendq_deinit(&line->out);
    output_book_queue(&line->channel, &line->sink, &line->out);
    line_drop_input(line);
}

/* -------------------------------------------------------------------------------------------------
 * Messages by lines (transport/lines.h) between two descriptors that other processes share.
 */

struct stdio {
    struct line line;
    struct stdio_options options;
    struct loop_poll *poll_in, *poll_out;
    struct loop_timer *pump; /* another turn: for what has yielded, and input that is a file */
    struct loop_hook end_hook;
    bool draining, ended;
    char scratch[65536];
};

static void stdio_facts(const struct channel *channel, struct channel_facts *ret)
{
    ret->listener = "stdio";
    ret->bytes_out = line_of(channel)->out.written;
    ret->bytes_in = line_of(channel)->received;
    ret->is_local = true;
}

static const struct channel_ops stdio_channel_ops = {
    .name = "stdio",
    .is_http = false,
    .answer = line_answer,
    .answer_long = line_answer_long,
    .unbook = line_unbook,
    .is_sending = line_is_sending,
    .accepted = line_accepted,
    .stream = line_stream,
    .facts = stdio_facts,
};

static void stdio_want(struct stdio *s)
{
    bool reads = line_reads(&s->line);
    if (s->poll_in) {
        loop_poll_want(s->poll_in, reads ? LOOP_READ : 0);
    } else if (reads) {
        loop_timer_start(s->pump, 0, 0);
    }
    if (s->poll_out) {
        loop_poll_want(s->poll_out, sendq_awaits_room(&s->line.out) ? LOOP_WRITE : 0);
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
        s->line.channel.worker->stats.bytes_in += (size_t)n;
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
    stdio_want(s);
}

static void on_pump(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct stdio *s = user;
    s->line.has_yielded = false; /* it is another turn */
    line_pump(&s->line);
    if (!s->poll_in) { /* else reading might wait: the descriptor is not ours to change */
        stdio_read(s);
    }
    stdio_want(s);
}

static void stdio_on_flushed(struct sendq *q, enum sendq_state state)
{
    struct stdio *s = list_entry(q, struct stdio, line.out);
    line_flushed(&s->line, state);
    stdio_want(s);
}

static void on_writable(struct loop_poll *poll, int events, void *user)
{
    (void)poll;
    (void)events;
    struct stdio *s = user;
    stdio_on_flushed(&s->line.out, sendq_flush(&s->line.out));
}

/* ---- life ------------------------------------------------------------------------------------ */

/* The end of a turn: write; is there anything left to wait for? */
static void stdio_end_turn(void *user)
{
    struct stdio *s = user;
    sendq_batch_flush(&s->line.channel.worker->batch);
    if (s->draining && drain_is_done_with(s->line.channel.worker, &s->line.channel)) {
        s->line.eof = true;
    }
    line_pump(&s->line);
    sendq_batch_flush(&s->line.channel.worker->batch);
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
    stdio_want(s);
    if (s->line.has_yielded) {
        loop_timer_start(s->pump, 0, 0); /* so that there is another turn */
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
    line_init(&s->line, &stdio_channel_ops, worker, options->max_line);
    sendq_init(&s->line.out, &worker->batch, options->out, stdio_on_flushed);
    loop_hook_add(worker->loop, &s->end_hook, stdio_end_turn, s);
    s->pump = loop_timer_open(worker->loop, on_pump, s);
    s->poll_in = loop_poll_open_shared(worker->loop, options->in, on_readable, s, NULL);
    s->poll_out = loop_poll_open_shared(worker->loop, options->out, on_writable, s, NULL);
    if (!s->pump) {
        stdio_close(s);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    stdio_want(s);
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
    line_deinit(&s->line);
    loop_hook_remove(&s->end_hook);
    loop_poll_close(s->poll_in);
    loop_poll_close(s->poll_out);
    loop_timer_close(s->pump);
    mem_free(s);
}

/* -------------------------------------------------------------------------------------------------
 * Deadlines of line-framed connections: how long each may stay in its state, and what becomes of it
 * then. Also what is looked at on the same timer: certificates that expire, unfinished input while
 * there is too much of it, and who may go when the server ends.
 */

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

static void line_conn_close(struct line_conn *conn, const char *reason);

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

static void line_conn_refuse(struct line_conn *conn, int status, const char *text);

static void socket_refuse_slow(struct deadline *deadline)
{
    struct line_conn *conn = line_conn_of_deadline(deadline);
    if (!waits_for_us(conn)) {
        limit_hit(conn->sw->worker->limit_counters, LIMIT_BODY_TIME);
        line_conn_refuse(conn, 408, "the rest of the message did not arrive in time");
    }
}

static void line_conn_schedule_review(struct line *line);

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

static void socket_schedule_reviews(struct socket_worker *sw)
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

/* It ends when its principal does. */
static void line_conn_note_expiry(struct line_conn *conn)
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

/* The lists of connections, and what is due when (-1: out of memory); all that
 * are open are looked at when the turn ends; on this worker, make room when all connections hold
 * too much input (transport/connection.h). */
static void line_conn_make_room(struct line_conn *conn)
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

static int socket_deadlines_init(struct socket_worker *sw)
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

/* -------------------------------------------------------------------------------------------------
 * Life of line-framed connections: adopt, read, close. Nothing is closed while a callback of its
 * messages may be on the stack: a connection that something happened to is reviewed when the turn
 * ends.
 */

#define PROBES 3

static struct line_conn *of_line(struct line *line)
{
    return list_entry(line, struct line_conn, line);
}

static void line_conn_schedule_review(struct line *line)
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

static void line_conn_set_state(struct line_conn *conn, enum line_state state);

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

/* Something may have ended, or may go on: it is looked at when the turn ends. */
static void line_conn_close(struct line_conn *conn, const char *reason)
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

/* What is said to it is its last. */
static void line_conn_refuse(struct line_conn *conn, int status, const char *text)
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

static void line_conn_start_state(struct line_conn *conn, enum line_state first);

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

/* -------------------------------------------------------------------------------------------------
 * The states of a line-framed connection: which may follow which, and the one function that moves
 * it.
 */

#define TO(state) (1u << LINE_##state)
#define TO_END (TO(ENDING) | TO(LINGER) | TO(GONE))

/* The drawing in lines.h. To itself: its time begins anew. */
static const uint16_t moves[LINE_STATES] = {
    [LINE_HANDSHAKE] = TO(FRESH) | TO_END,
    [LINE_FRESH] = TO(MIDLINE) | TO(OPEN) | TO_END,
    [LINE_MIDLINE] = TO(MIDLINE) | TO(OPEN) | TO_END,
    [LINE_OPEN] = TO(MIDLINE) | TO(OPEN) | TO_END,
    [LINE_ENDING] = TO(LINGER) | TO(GONE),
    [LINE_LINGER] = TO(GONE),
    [LINE_GONE] = 0,
};

bool line_conn_may_move(enum line_state from, enum line_state to)
{
    return (moves[from] >> to & 1u) != 0;
}

static void line_conn_enter(struct line_conn *conn, enum line_state state)
{
    struct deadline_list *list = &conn->sw->lists[state];
    conn->state = state;
    if (state == LINE_GONE) {
        deadline_leave(list, &conn->deadline); /* in no list */
    } else {
        deadline_enter(list, &conn->deadline);
    }
}

/* HANDSHAKE or FRESH */
static void line_conn_start_state(struct line_conn *conn, enum line_state first)
{
    assert(first == LINE_HANDSHAKE || first == LINE_FRESH);
    line_conn_enter(conn, first);
}

static void line_conn_set_state(struct line_conn *conn, enum line_state state)
{
    if (!line_conn_may_move(conn->state, state)) {
        assert(!"a transition that the table of states does not have");
        log_warn(LOG_TRANSPORT, "connection closed", KV("reason", "internal: impossible state"),
                 KV("from", (int)conn->state), KV("to", (int)state));
        line_conn_close(conn, "internal: impossible state");
        return;
    }
    line_conn_enter(conn, state);
}
