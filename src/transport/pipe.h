/* SPDX-License-Identifier: MIT
 *
 * What all pipes of messages have in common, however they frame them (lines, WebSocket): messages
 * interleave freely, answers and notifications share one send queue, and so much may be under way.
 */
#ifndef TRANSPORT_PIPE_H
#define TRANSPORT_PIPE_H

#include "base/sendq.h"
#include "core/channel.h"

#define PIPE_HIGH_WATER (1u << 20) /* bytes of output that wait */
#define PIPE_MAX_CALLS 256u        /* requests under way */

/* May another message be handled? If not it waits, and nothing more is read. */
bool pipe_has_room(const struct channel *channel, const struct sendq *out);
/* Put a text into the queue; a large one gives its memory away, and is empty then. */
void pipe_put(struct sendq *out, struct buf *text);

/* For channels and sinks that have nothing to say here: no status to a notification, no ids of
 * events, and no end of a stream but that of the pipe. */
void pipe_accepted(struct channel *channel);
void pipe_sink_prime(struct sink *sink, struct tidings_str event_id, int64_t retry_ms);
void pipe_sink_end(struct sink *sink);

#endif
