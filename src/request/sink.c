/* SPDX-License-Identifier: MIT
 *
 * The sink that discards what is written, for subscribers inside the program.
 */
#include "request/sink.h"

static char *no_room(struct sink *sink, struct tidings_str event_id, size_t len)
{
    (void)sink;
    (void)event_id;
    (void)len;
    return NULL;
}

static void sink_ignore(struct sink *sink, struct tidings_str event_id, int64_t retry_ms)
{
    (void)sink;
    (void)event_id;
    (void)retry_ms;
}

static size_t never_pending(const struct sink *sink)
{
    (void)sink;
    return 0;
}

static void end_nothing(struct sink *sink)
{
    (void)sink;
}

static void cut_nothing(struct sink *sink, const char *reason)
{
    (void)sink;
    (void)reason;
}

const struct sink_ops sink_nowhere = {
    .name = "local",
    .room = no_room,
    .prime = sink_ignore,
    .pending = never_pending,
    .end = end_nothing,
    .cut = cut_nothing,
};
