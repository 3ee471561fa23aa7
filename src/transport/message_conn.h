/* SPDX-License-Identifier: MIT
 *
 * What connections that carry messages both ways have in common, however they are framed (lines,
 * WebSocket): messages interleave freely, answers and notifications share one send queue, and the
 * number of requests under way, the memory for their answers, and the bytes in the queue are
 * bounded.
 * Order: short messages are sent in the order in which they arise. A long answer begins when the
 * queue is empty, and after pending notifications. So a notification waits for one long answer at
 * most.
 */
#ifndef TRANSPORT_MESSAGE_CONN_H
#define TRANSPORT_MESSAGE_CONN_H

#include "base/sendq.h"
#include "request/channel.h"

#define MESSAGE_CONN_HIGH_WATER (1u << 20) /* bytes of output that wait */
#define MESSAGE_CONN_MAX_CALLS 256u        /* requests under way */

/* May another message be handled? If not it waits, and nothing more is read. */
bool message_conn_has_room(const struct channel *channel, const struct sendq *out);
/* For channel_ops.is_sending. */
bool message_conn_is_sending(const struct sendq *out, size_t *ret_held);
/* Put a text into the queue; a large one gives its memory away, and is empty then. */
void message_conn_put(struct sendq *out, struct buf *text);

/* For channels and sinks that have nothing to say here: no status to a notification, no ids of
 * events, and no end of a stream but that of the connection. */
void message_conn_accepted(struct channel *channel);
void message_conn_sink_prime(struct sink *sink, struct tidings_str event_id, int64_t retry_ms);
void message_conn_sink_end(struct sink *sink);

#endif
