/* SPDX-License-Identifier: MIT
 *
 * A pipe is a channel and a sink at once: answers and notifications share it, one message per line.
 */
#include "transport/stdio.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "core/channel.h"
#include "core/inbound.h"
#include "wire/line.h"

/* Reading pauses while this much output waits. */
#define OUT_HIGH_WATER (1u << 20)

struct stdio {
    struct channel channel;
    struct sink sink;
    struct stdio_options options;
    struct line_reader lines;
    struct sendq out;
    struct loop_poll *poll_in, *poll_out;
    struct loop_timer *pump; /* for input that cannot be polled: a file */
    struct loop_hook flush_hook, end_hook;
    bool eof, broken, ended;
    char scratch[65536];
};

/* ---- output ---------------------------------------------------------------------------------- */

static struct stdio *of_channel(struct channel *channel)
{
    return list_entry(channel, struct stdio, channel);
}

static struct stdio *of_sink(const struct sink *sink)
{
    return list_entry((struct sink *)(uintptr_t)sink, struct stdio, sink);
}

static void answer(struct channel *channel, int status, const struct answer_headers *headers,
                   struct buf *text)
{
    (void)status;
    (void)headers;
    struct stdio *s = of_channel(channel);
    if (text->len == 0) {
        return; /* out of memory even for an error */
    }
    buf_putc(text, '\n');
    if (text->failed) {
        s->broken = true; /* a message without its end would corrupt the rest */
        return;
    }
    if (text->len > SENDQ_SHARE) {
        size_t len = 0;
        char *memory = buf_detach(text, &len);
        sendq_take(&s->out, memory, len);
    } else {
        sendq_puts(&s->out, buf_str(text));
    }
}

static void accepted(struct channel *channel)
{
    (void)channel;
}

static struct sink *stream(struct channel *channel, const struct answer_headers *headers)
{
    (void)headers;
    return &of_channel(channel)->sink;
}

static const struct channel_ops stdio_channel_ops = {
    .name = "stdio",
    .is_http = false,
    .answer = answer,
    .accepted = accepted,
    .stream = stream,
};

static char *sink_room(struct sink *sink, struct tidings_str event_id, size_t len)
{
    (void)event_id;
    struct stdio *s = of_sink(sink);
    char *at = sendq_room(&s->out, len + 1);
    if (at) {
        at[len] = '\n';
    }
    return at;
}

static void sink_prime(struct sink *sink, struct tidings_str event_id, int64_t retry_ms)
{
    (void)sink;
    (void)event_id;
    (void)retry_ms;
}

static size_t sink_pending(const struct sink *sink)
{
    return of_sink(sink)->out.pending;
}

static void sink_end(struct sink *sink)
{
    (void)sink; /* the pipe goes on; only what was said on it ends */
}

static void sink_cut(struct sink *sink, const char *reason)
{
    struct stdio *s = of_sink(sink);
    log_warn("stdio cut", "reason=\"%s\"", reason);
    s->broken = true;
}

static const struct sink_ops stdio_sink_ops = {
    .name = "line",
    .room = sink_room,
    .prime = sink_prime,
    .pending = sink_pending,
    .end = sink_end,
    .cut = sink_cut,
};

/* ---- input ----------------------------------------------------------------------------------- */

static void want(struct stdio *s)
{
    bool reads = !s->eof && !s->broken && s->out.pending < OUT_HIGH_WATER;
    if (s->poll_in) {
        loop_poll_want(s->poll_in, reads ? LOOP_READ : 0);
    } else if (reads) {
        loop_timer_start(s->pump, 0, 0);
    }
    if (s->poll_out) {
        loop_poll_want(s->poll_out, s->out.pending > 0 && s->out.is_waiting ? LOOP_WRITE : 0);
    }
}

static void handle(struct stdio *s, enum line_result result, struct tidings_str line)
{
    if (result == LINE_TOO_LONG) {
        inbound_refuse(&s->channel, 413, RPC_INVALID_REQUEST,
                       "a message may be at most %zu bytes long", s->options.max_line);
    } else {
        inbound_text(&s->channel, line, NULL);
    }
}

static void read_input(struct stdio *s)
{
    ssize_t n = read(s->options.in, s->scratch, sizeof(s->scratch));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
        return;
    }
    struct tidings_str line;
    enum line_result result;
    if (n > 0 && line_reader_feed(&s->lines, s->scratch, (size_t)n) < 0) {
        log_error("stdio input lost", "reason=\"out of memory\"");
        n = 0;
    }
    while ((result = line_reader_next(&s->lines, &line)) != LINE_MORE) {
        handle(s, result, line);
    }
    if (n <= 0) {
        s->eof = true;
        result = line_reader_finish(&s->lines, &line);
        if (result != LINE_MORE) {
            handle(s, result, line);
        }
    }
}

static void on_readable(struct loop_poll *poll, int events, void *user)
{
    (void)poll;
    (void)events;
    struct stdio *s = user;
    read_input(s);
    want(s);
}

static void on_pump(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct stdio *s = user;
    read_input(s);
    want(s);
}

static void on_flushed(struct sendq *q, enum sendq_state state, void *user)
{
    (void)q;
    struct stdio *s = user;
    if (state == SENDQ_BROKEN) {
        s->broken = true;
    } else if (state == SENDQ_EMPTY) {
        sink_drained(&s->sink);
    }
    want(s);
}

static void on_writable(struct loop_poll *poll, int events, void *user)
{
    (void)poll;
    (void)events;
    struct stdio *s = user;
    on_flushed(&s->out, sendq_flush(&s->out), s);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void flush_batch(void *user)
{
    struct stdio *s = user;
    sendq_batch_flush(&s->channel.core->batch);
}

/* The end of a turn: is there anything left to wait for? */
static void check_end(void *user)
{
    struct stdio *s = user;
    bool done = s->eof && list_empty(&s->channel.calls) && s->out.pending == 0;
    if (!s->ended && (done || s->broken)) {
        s->ended = true;
        s->options.ended(s->options.user);
    }
}

struct stdio *stdio_open(struct core *core, const struct stdio_options *options,
                         struct tidings_error *err)
{
    struct stdio *s = mem_zalloc(sizeof(*s));
    if (!s) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    s->options = *options;
    channel_init(&s->channel, &stdio_channel_ops, core);
    s->sink.ops = &stdio_sink_ops;
    line_reader_init(&s->lines, options->max_line);
    sendq_init(&s->out, &core->batch, options->out, on_flushed, s);
    loop_hook_add(core->loop, &s->flush_hook, flush_batch, s);
    loop_hook_add(core->loop, &s->end_hook, check_end, s);
    s->pump = loop_timer_open(core->loop, on_pump, s);
    s->poll_in = loop_poll_open_shared(core->loop, options->in, on_readable, s, NULL);
    s->poll_out = loop_poll_open_shared(core->loop, options->out, on_writable, s, NULL);
    if (!s->pump) {
        stdio_close(s);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    want(s);
    return s;
}

void stdio_drain(struct stdio *s)
{
    s->eof = true;
    want(s);
}

void stdio_close(struct stdio *s)
{
    if (!s) {
        return;
    }
    channel_deinit(&s->channel);
    loop_hook_remove(&s->flush_hook);
    loop_hook_remove(&s->end_hook);
    loop_poll_close(s->poll_in);
    loop_poll_close(s->poll_out);
    loop_timer_close(s->pump);
    sendq_deinit(&s->out);
    line_reader_deinit(&s->lines);
    mem_free(s);
}
