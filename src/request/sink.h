/* SPDX-License-Identifier: MIT
 *
 * Where a subscriber writes: one open stream of messages to a client. Implemented by transports (an
 * SSE response, a message connection) and by tests (a buffer).
 *
 * The stream is written to in whole messages. When it ends for any reason the transport calls
 * `closed` once; after that the sink is gone. A writer that has more to say than the stream takes
 * is told by `drained` when there is room again.
 */
#ifndef REQUEST_SINK_H
#define REQUEST_SINK_H

#include <tidings/types.h>

struct channel;
struct sendq_source;
struct sink;

struct sink_ops {
    const char *name;
    /* Room for one message of exactly `len` bytes, framed; the caller fills it before anything else
     * is written. `event_id` is used where the framing has ids; empty: none. NULL: the stream is
     * broken and will be closed. */
    char *(*room)(struct sink *sink, struct tidings_str event_id, size_t len);
    /* The first event of a resumable stream: an id, no data, and how long to wait before coming
     * back. */
    void (*prime)(struct sink *sink, struct tidings_str event_id, int64_t retry_ms);
    /* Bytes written but not yet taken by the kernel. */
    size_t (*pending)(const struct sink *sink);
    /* No more messages: finish what is pending, then end (HTTP: close the response; message
     * connections stay). */
    void (*end)(struct sink *sink);
    /* The same after one more message, which is produced while it is sent. Takes the source. NULL:
     * there are no such messages. */
    void (*end_long)(struct sink *sink, struct sendq_source *source);
    /* End at once, without ceremony, so that the client notices and comes back. */
    void (*cut)(struct sink *sink, const char *reason);
    /* What it is written through. NULL: it leads to the program. */
    struct channel *(*channel)(const struct sink *sink);
};

/* What the writer of a stream is told; each may be NULL. */
struct sink_events {
    void (*drained)(void *user);
    void (*closed)(void *user);
};

struct sink {
    const struct sink_ops *ops;
    const struct sink_events *events; /* NULL: nobody writes */
    void *user;
    bool blocked;    /* set by the writer: it has more to say and waits for `drained` */
    uint32_t booked; /* bytes of its queue (transport/output_budget.h) */
};

/* A stream that is always open and never full, and leads nowhere: for subscribers that are called
 * instead of written to (subscriber_ops.on_update). Acknowledgements and the like are not for
 * programs.
 */
extern const struct sink_ops sink_nowhere;

/* For whoever writes: be told from now on (`events` NULL: not any more). */
static inline void sink_attach(struct sink *sink, const struct sink_events *events, void *user)
{
    sink->events = events;
    sink->user = user;
}
/* For transports: it can take more; it is gone, which is told once. */
static inline void sink_drained(struct sink *sink)
{
    if (sink->events && sink->events->drained) {
        sink->events->drained(sink->user);
    }
}
static inline void sink_closed(struct sink *sink)
{
    const struct sink_events *events = sink->events;
    sink->events = NULL;
    if (events && events->closed) {
        events->closed(sink->user);
    }
}

#endif
