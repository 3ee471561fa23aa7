/* SPDX-License-Identifier: MIT
 *
 * How much may be under way on a message connection, and the operations of its channel and sink
 * that have nothing to do there.
 */
#include "transport/message_conn.h"

#include "request/request.h"
#include "transport/output_budget.h"

bool message_conn_has_room(const struct channel *channel, const struct sendq *out)
{
    if (out->pending >= MESSAGE_CONN_HIGH_WATER || output_must_wait(channel, out)) {
        return false;
    }
    if (list_empty(&channel->requests)) {
        return true;
    }
    unsigned calls = 0;
    list_each (it, next, &channel->requests) {
        if (++calls >= MESSAGE_CONN_MAX_CALLS) {
            return false;
        }
    }
    uint64_t most = channel->worker->limit_counters->values[LIMIT_CONNECTION_OUTPUT];
    size_t by_sources = 0;
    (void)sendq_held(out, &by_sources);
    return most == 0 || request_output_of(channel) + by_sources < most;
}

bool message_conn_is_sending(const struct sendq *out, size_t *ret_held)
{
    (void)sendq_held(out, ret_held);
    return out->pending > 0;
}

void message_conn_put(struct sendq *out, struct buf *text)
{
    if (text->len > SENDQ_LARGE) {
        size_t len = 0;
        char *memory = buf_detach(text, &len);
        sendq_take(out, memory, len);
    } else {
        sendq_puts(out, buf_str(text));
    }
}

void message_conn_accepted(struct channel *channel)
{
    (void)channel;
}

void message_conn_sink_prime(struct sink *sink, struct tidings_str event_id, int64_t retry_ms)
{
    (void)sink;
    (void)event_id;
    (void)retry_ms;
}

void message_conn_sink_end(struct sink *sink)
{
    (void)sink; /* the connection goes on; only what was said on it ends */
}
