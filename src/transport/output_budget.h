/* SPDX-License-Identifier: MIT
 * Books the send queue of a connection (access/output.h). Long answers have a booking of their own.
 * These functions book the rest: short answers and notifications that a client does not read at
 * once.
 */
#ifndef TRANSPORT_OUTPUT_BUDGET_H
#define TRANSPORT_OUTPUT_BUDGET_H

#include "access/allowance.h"
#include "access/output.h"
#include "base/sendq.h"
#include "request/channel.h"
#include "worker/worker.h"

/* The account of its client, borrowed: the principal's, or where it comes from. */
static inline struct allowance *output_account(const struct channel *channel)
{
    const struct principal *p = channel->principal;
    return p && p->kind != PRINCIPAL_ANONYMOUS ? p->account : channel->origin;
}

/* Books nothing for the queue, until it is booked again. */
static inline void output_unbook_queue(const struct channel *channel, struct sink *sink)
{
    if (sink->booked > 0) {
        output_count(channel->worker->limit_counters, output_account(channel), &sink->booked, 0);
    }
}

/* Books the present size of the queue. Call it after each change. */
static inline void output_book_queue(const struct channel *channel, struct sink *sink,
                                     const struct sendq *out)
{
    size_t by_sources;
    if (out->pending > 0 || sink->booked > 0) {
        output_count(channel->worker->limit_counters, output_account(channel), &sink->booked,
                     out->pending > 0 ? sendq_held(out, &by_sources) : 0);
    }
}

/* Call this after an answer was queued. It ignores small queues, which the next flush empties. */
static inline void output_book_answer(const struct channel *channel, struct sink *sink,
                                      const struct sendq *out)
{
    if (out->pending > SENDQ_MADE) {
        output_book_queue(channel, sink, out);
    }
}

/* Returns true if the connection must read its answers before it may send more requests. */
static inline bool output_must_wait(const struct channel *channel, const struct sendq *out)
{
    struct limit_counters *counters = channel->worker->limit_counters;
    if (out->pending == 0) {
        return false;
    }
    struct share_taker who = channel_taker(channel);
    bool is_over = share_is_over(counters, LIMIT_OUTPUT, counters->values[LIMIT_OUTPUT], &who);
    allowance_release(who.account);
    return is_over;
}

#endif
