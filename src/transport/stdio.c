/* SPDX-License-Identifier: MIT
 *
 * Messages by lines (transport/line.h) between two descriptors that other processes share.
 */
#include "transport/stdio.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "protocol/drain.h"
#include "transport/line.h"

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
