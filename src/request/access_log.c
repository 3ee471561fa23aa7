/* SPDX-License-Identifier: MIT
 *
 * Writes the lines of the access log that are about no struct request.
 */
#include "request/access_log.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/str.h"
#include "request/channel.h"
#include "worker/worker.h"

/* Seconds at the first one, then a count and the worker in the lower 30 bits: a run that begins a
 * second later counts from beyond what this one can reach in that time. */
void access_log_number(struct worker *worker, char out[17])
{
    static const char digits[] = "0123456789abcdef";
    if (worker->next_request == 0) {
        worker->next_request = (uint64_t)(clock_wall_ms() / 1000) << 30 | (worker->index & 63u);
    }
    uint64_t n = worker->next_request;
    worker->next_request += 64;
    for (size_t i = 16; i-- > 0; n >>= 4) {
        out[i] = digits[n & 15];
    }
    out[16] = '\0';
}

uint64_t access_log_us(uint64_t begun_ns)
{
    return begun_ns > 0 ? (clock_monotonic_ns() - begun_ns) / 1000 : 0;
}

struct tidings_str access_log_address(const struct channel *channel, struct channel_facts *facts)
{
    *facts = (struct channel_facts){.listener = NULL};
    if (channel) {
        channel_get_facts(channel, facts);
    }
    return facts->address[0] ? tidings_str(facts->address) : ACCESS_LOG_NOTHING;
}

struct tidings_str access_log_name(const struct principal *principal)
{
    return principal && principal->kind != PRINCIPAL_ANONYMOUS ? principal->name
                                                               : ACCESS_LOG_NOTHING;
}

void access_log_other(const struct channel *channel, const struct access_log_line *line)
{
    if (!log_wants_access()) {
        return;
    }
    struct channel_facts facts;
    struct log_context context = {.request_id = ""};
    const struct log_context *before = log_enter(&context);
    if (before) {
        context = *before;
    }
    if (!context.request_id[0]) {
        access_log_number(channel->worker, context.request_id);
    }
    const struct log_field fields[] = {
        KV("method", line->method),
        KV("path", line->path),
        KV("uri", line->uri),
        line->code != 0 ? KV("code", line->code) : KV("status", line->status),
        KV("reason", line->reason.len > 0 ? line->reason : ACCESS_LOG_NOTHING),
        KV("duration_us", access_log_us(line->begun_ns)),
        KV("bytes_in", line->bytes_in),
        KV("bytes_out", line->bytes_out),
        KV("principal", access_log_name(line->principal)),
        KV("by", principal_by(line->principal)),
        KV("address", access_log_address(channel, &facts)),
        KV("transport", channel->ops->name),
        NO_FIELDS,
    };
    log_write_access("request", fields);
    (void)log_enter(before);
}
