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
    struct payload *payloads; /* long contents and responses that belong into `out` */
    struct output output;     /* bytes booked for it */
    size_t open;              /* requests under way, and one until closed */
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

/* A long response without contents beside it becomes content itself, so that it is not copied. */
static void request_batch_put_long(struct batch *batch, struct buf *response)
{
    size_t len = 0;
    char *memory = buf_detach(response, &len);
    struct payload *whole = payload_of_memory(memory, tidings_strn(memory, len), false);
    if (whole) {
        payload_set_form(whole, PAYLOAD_RAW);
        payloads_append(&batch->payloads, &whole, batch->out.len);
    } else {
        batch->out.failed = TIDINGS_E_NOMEM;
    }
}

void request_batch_put(struct batch *batch, struct request *request)
{
    struct buf *response = &request->out;
    struct refusal why;
    buf_putc(&batch->out, batch->count++ == 0 ? '[' : ',');
    if (response->failed) {
        batch->out.failed = batch->out.failed ? batch->out.failed : response->failed;
    } else if (!request->payloads && response->cap > PAYLOAD_LONG) {
        request_batch_put_long(batch, response); /* it is booked */
    } else {
        if (!output_book(&batch->output, response->len, &why)) {
            batch->out.failed = TIDINGS_E_LIMIT;
        }
        payloads_append(&batch->payloads, &request->payloads, batch->out.len);
        buf_puts(&batch->out, buf_str(response));
    }
    output_join(&batch->output, &request->output);
}

size_t request_batches_output(const struct channel *channel)
{
    size_t bytes = 0;
    for (const struct batch *batch = channel->batches; batch; batch = batch->next) {
        bytes += output_booked(&batch->output);
    }
    return bytes;
}

void request_batch_add(struct batch *batch, struct request *request)
{
    request->batch = batch;
    batch->open++;
}

static void request_batch_fail(struct batch *batch)
{
    payloads_destroy(&batch->payloads);
    buf_deinit(&batch->out);
    buf_init(&batch->out, REQUEST_OUT_EXTRA);
    batch_put_refusal(&batch->out, RPC_INTERNAL, "the answers do not fit; send fewer at a time");
}

static void request_batch_send(struct batch *batch)
{
    static const struct response_headers none;
    struct channel *channel = batch->channel;
    if (!batch->payloads && batch->out.cap <= PAYLOAD_LONG) {
        channel->ops->answer(channel, 200, &none, &batch->out);
        return;
    }
    struct sendq_source *source =
        payload_source(&batch->out, &batch->payloads, &batch->output, channel->worker);
    if (source) {
        channel->ops->answer_long(channel, 200, &none, source);
    } else {
        request_batch_fail(batch);
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
            request_batch_fail(batch);
        }
        request_batch_send(batch);
    } else if (channel) {
        channel->ops->accepted(channel);
    }
    payloads_destroy(&batch->payloads);
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
