/* SPDX-License-Identifier: MIT
 *
 * Reads messages from lines, writes answers and notifications as lines.
 */
#include "transport/line.h"

#include "access/limit.h"
#include "base/mem.h"
#include "protocol/inbound.h"
#include "transport/message_conn.h"
#include "transport/output_budget.h"

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

void line_answer(struct channel *channel, int status, const struct response_headers *headers,
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

void line_answer_long(struct channel *channel, int status, const struct response_headers *headers,
                      struct sendq_source *source)
{
    (void)status;
    (void)headers;
    struct line *line = line_of(channel);
    schedule_review(line);
    if (sendq_put_source(&line->out, source) == 0) {
        sendq_put(&line->out, "\n", 1);
    }
}

bool line_is_sending(const struct channel *channel, size_t *ret_held)
{
    return message_conn_is_sending(&line_of(channel)->out, ret_held);
}

void line_unbook(struct channel *channel)
{
    output_unbook_queue(channel, &line_of(channel)->sink);
}

void line_accepted(struct channel *channel)
{
    schedule_review(line_of(channel));
}

struct sink *line_stream(struct channel *channel, const struct response_headers *headers)
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

void line_flushed(struct line *line, enum sendq_state state)
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

void line_feed(struct line *line, const char *bytes, size_t len)
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

size_t line_size(const struct line *line)
{
    return line->reader ? line->reader->in.cap : 0;
}

void line_drop_input(struct line *line)
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

void line_pump(struct line *line)
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

bool line_is_midway(const struct line *line)
{
    return line->reader != NULL;
}

bool line_reads(const struct line *line)
{
    return !line->eof && line_has_room(line);
}

bool line_is_done(const struct line *line)
{
    return line->finished && list_empty(&line->channel.requests) && line->out.pending == 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

void line_init(struct line *line, const struct channel_ops *ops, struct worker *worker,
               size_t max_line)
{
    channel_init(&line->channel, ops, worker);
    line->sink.ops = &line_sink_ops;
    line->max_line = (uint32_t)max_line;
}

void line_deinit(struct line *line)
{
    channel_deinit(&line->channel);
    sendq_deinit(&line->out);
    output_book_queue(&line->channel, &line->sink, &line->out);
    line_drop_input(line);
}
