/* SPDX-License-Identifier: MIT
 *
 * A connection that carries messages both ways, one per line: what standard input and output and
 * line-framed sockets have in common. It is a channel and a sink at once; answers and notifications
 * share it. It knows nothing of reading, deadlines or its end: its owner feeds it, flushes it and
 * looks at it again at the end of each turn in which something happened to it.
 *
 * A message is handled when it is complete and not too much is under way
 * (transport/message_conn.h). What comes beyond waits in the reader, and nothing more is read.
 */
#ifndef TRANSPORT_LINE_H
#define TRANSPORT_LINE_H

#include "base/sendq.h"
#include "delivery/delivery.h"
#include "request/channel.h"
#include "wire/line.h"

struct line {
    struct channel channel;
    struct sink sink;
    struct line_reader *reader; /* NULL: nothing came that is not handled yet */
    struct sendq out;
    /* Something may have ended, or may go on: the owner looks at it at the end of the turn. NULL:
     * it does so in every turn anyway. */
    void (*schedule_review)(struct line *line);
    const char *reason; /* why it is broken, for the log; NULL: it is not */
    uint64_t received;  /* bytes, since it began */
    uint32_t max_line;
    bool eof;         /* nothing more will come */
    bool finished;    /* … and nothing of what came is left */
    bool broken;      /* nothing more will go: its owner closes it */
    bool took;        /* a message was handled since the owner looked */
    bool has_yielded; /* it has used up its turn: the owner wakes it in the next, and pumps it */
};

/* `ops` has the functions below, and what is the owner's own. `flushed` of the send queue is the
 * owner's too, which calls line_flushed. */
void line_init(struct line *line, const struct channel_ops *ops, struct worker *worker,
               size_t max_line);
/* Cancels what is under way and drops everything but the descriptor. */
void line_deinit(struct line *line);

/* Bytes that were read. Call line_pump afterwards. Out of memory breaks it. */
void line_feed(struct line *line, const char *bytes, size_t len);
/* Handle the complete messages that may be handled now, as far as this turn goes. */
void line_pump(struct line *line);
/* Is there the beginning of a message, or one that waits? */
bool line_is_midway(const struct line *line);
/* Bytes that wait to be handled, or are half a message, in memory; forget them. */
size_t line_size(const struct line *line);
void line_drop_input(struct line *line);
/* Is there room for more input? */
bool line_reads(const struct line *line);
/* The end of input, and everything asked is answered and written. */
bool line_is_done(const struct line *line);
/* What the send queue said after a flush. */
void line_flushed(struct line *line, enum sendq_state state);

void line_answer(struct channel *channel, int status, const struct response_headers *headers,
                 struct buf *text);
void line_answer_long(struct channel *channel, int status, const struct response_headers *headers,
                      struct sendq_source *source);
bool line_is_sending(const struct channel *channel, size_t *ret_held);
void line_accepted(struct channel *channel);
void line_unbook(struct channel *channel);
struct sink *line_stream(struct channel *channel, const struct response_headers *headers);

static inline struct line *line_of(const struct channel *channel)
{
    return list_entry((struct channel *)(uintptr_t)channel, struct line, channel);
}

#endif
