/* SPDX-License-Identifier: MIT
 *
 * Batches: several requests that came in one array (2025-03-26), whose responses are gathered into
 * one array, in the order in which they are ready.
 */
#include "base/mem.h"
#include "request/request.h"
#include "request/request_private.h"

struct batch {
    struct channel *channel; /* NULL once it is gone */
    struct batch *next;      /* of the same channel */
    struct buf out;
    struct output output; /* bytes booked for it */
    size_t open;          /* requests under way, and one until closed */
    size_t count;
};

struct batch *request_batch_create(struct channel *channel)
{
    struct batch *batch = mem_zalloc(sizeof(*batch));
    if (!batch) {
        return NULL;
    }
    const struct worker_limits *limits = channel->worker->limits;
    batch->channel = channel;
    batch->open = 1;
    output_init(&batch->output, channel->worker->limit_counters, channel_taker(channel));
    batch->next = channel->batches;
    channel->batches = batch;
    buf_init(&batch->out, limits->max_read_bytes * REQUEST_OUT_FACTOR + REQUEST_OUT_EXTRA);
    return batch;
}

static void batch_put_refusal(struct buf *out, int rpc_code, const char *text)
{
    struct jw w;
    jw_init(&w, out);
    struct dialect_error e = {.code = rpc_code, .message = tidings_str(text)};
    dialect_write_error(&w, STR_EMPTY, &e);
}

void request_batch_refuse(struct batch *batch, int rpc_code, const char *text)
{
    const struct channel *channel = batch->channel;
    const struct dialect_error e = {.code = rpc_code, .message = tidings_str(text)};
    if (channel) {
        channel_failed_rpc(channel, channel->principal, NULL, &e, false);
    }
    buf_putc(&batch->out, batch->count++ == 0 ? '[' : ',');
    batch_put_refusal(&batch->out, rpc_code, text);
}

void request_batch_put(struct batch *batch, const struct buf *response)
{
    struct refusal why;
    if (!output_book(&batch->output, response->len, &why)) {
        batch->out.failed = TIDINGS_E_LIMIT;
    }
    buf_putc(&batch->out, batch->count++ == 0 ? '[' : ',');
    buf_puts(&batch->out, buf_str(response));
    batch->out.failed = batch->out.failed ? batch->out.failed : response->failed;
}

void request_batch_add(struct batch *batch, struct request *request)
{
    request->batch = batch;
    batch->open++;
}

static void request_batch_send(struct batch *batch)
{
    static const struct response_headers none;
    struct channel *channel = batch->channel;
    struct payload *contents = NULL;
    struct sendq_source *source = NULL;
    if (channel->ops->answer_long && batch->out.cap > PAYLOAD_LONG) {
        source = payload_source(&batch->out, &contents, &batch->output);
    }
    if (source) {
        channel->ops->answer_long(channel, 200, &none, source);
    } else {
        channel->ops->answer(channel, 200, &none, &batch->out);
    }
}

void request_batch_done(struct batch *batch)
{
    if (--batch->open > 0) {
        return;
    }
    struct channel *channel = batch->channel;
    struct batch **at = channel ? &channel->batches : NULL;
    while (at && *at != batch) {
        at = &(*at)->next;
    }
    if (at) {
        *at = batch->next;
    }
    if (channel && batch->count > 0) {
        buf_putc(&batch->out, ']');
        if (batch->out.failed) {
            buf_deinit(&batch->out);
            buf_init(&batch->out, REQUEST_OUT_EXTRA);
            batch_put_refusal(&batch->out, RPC_INTERNAL,
                              "the answers do not fit; send fewer at a time");
        }
        request_batch_send(batch);
    } else if (channel) {
        channel->ops->accepted(channel);
    }
    output_end(&batch->output);
    buf_deinit(&batch->out);
    mem_free(batch);
}

void request_batch_close(struct batch *batch)
{
    request_batch_done(batch);
}

void request_batch_detach(struct channel *channel)
{
    for (; channel->batches; channel->batches = channel->batches->next) {
        channel->batches->channel = NULL;
    }
}
