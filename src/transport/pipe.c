/* SPDX-License-Identifier: MIT
 *
 * Pipes of messages.
 */
#include "transport/pipe.h"

bool pipe_has_room(const struct channel *channel, const struct sendq *out)
{
    if (out->pending >= PIPE_HIGH_WATER) {
        return false;
    }
    unsigned calls = 0;
    list_each (it, next, &channel->calls) {
        if (++calls >= PIPE_MAX_CALLS) {
            return false;
        }
    }
    return true;
}

void pipe_put(struct sendq *out, struct buf *text)
{
    if (text->len > SENDQ_SHARE) {
        size_t len = 0;
        char *memory = buf_detach(text, &len);
        sendq_take(out, memory, len);
    } else {
        sendq_puts(out, buf_str(text));
    }
}

void pipe_accepted(struct channel *channel)
{
    (void)channel;
}

void pipe_sink_prime(struct sink *sink, struct tidings_str event_id, int64_t retry_ms)
{
    (void)sink;
    (void)event_id;
    (void)retry_ms;
}

void pipe_sink_end(struct sink *sink)
{
    (void)sink; /* the pipe goes on; only what was said on it ends */
}
