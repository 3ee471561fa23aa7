/* SPDX-License-Identifier: MIT
 * Delivers a complete answer: to its batch, to its stream, to the connection, or to memory until
 * the client reconnects. A long answer is encoded while it is sent (catalog/payload.h). A
 * connection of messages sends one of them at a time, and pending notifications before the next.
 */
#include "access/limit.h"
#include "base/mem.h"
#include "base/str.h"
#include "request/request.h"
#include "request/request_private.h"

/* ---- booking --------------------------------------------------------------------------------- */

void request_open_output(struct request *request)
{
    if (!request->output.limit_counters && request->channel) {
        output_init(&request->output, request->worker->limit_counters,
                    channel_taker(request->channel));
    }
}

bool request_book_text(struct request *request, struct refusal *why)
{
    if (request->out.cap <= PAYLOAD_LONG) {
        return true;
    }
    request_open_output(request);
    return output_book_text(&request->output, request->out.cap, why);
}

size_t request_output_of(const struct channel *channel)
{
    size_t bytes = request_batches_output(channel);
    list_each (it, next, &channel->requests) {
        const struct request *request = list_entry(it, struct request, link);
        size_t booked = output_booked(&request->output);
        bytes += request->job && booked < PAYLOAD_HELD ? PAYLOAD_HELD : booked;
    }
    return bytes;
}

/* ---- out ------------------------------------------------------------------------------------- */

static size_t request_answer_len(const struct request *request)
{
    return request->out.len + payloads_told(request->payloads);
}

/* The last message of a stream. */
static void end_stream(struct sink *sink, struct tidings_str text)
{
    char *room = text.len > 0 ? sink->ops->room(sink, STR_EMPTY, text.len) : NULL;
    if (room) {
        memcpy(room, text.ptr, text.len);
        sink->ops->end(sink);
    } else {
        sink->ops->cut(sink, "out of memory");
    }
}

/* Returns true if the answer is encoded while it is sent. What became a stream has no payloads:
 * handlers make streams, and their results are text. */
static bool is_sent_long(const struct request *request)
{
    const struct sink *sink = request->sink;
    return (request->payloads || request->out.cap > PAYLOAD_LONG) && (!sink || sink->ops->end_long);
}

static void request_put_long(struct request *request)
{
    struct channel *channel = request->channel;
    size_t len = request_answer_len(request);
    struct sendq_source *source =
        payload_source(&request->out, &request->payloads, &request->output, request->worker);
    if (!source) {
        request_fail(request, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
        return;
    }
    struct response_headers headers = request->headers;
    list_remove(&request->link);
    worker_trim_later(channel->worker, len);
    if (request->sink) {
        request->sink->ops->end_long(request->sink, source);
    } else {
        channel->ops->answer_long(channel, request->kept_status, &headers, source);
    }
    request_free(request);
}

/* Returns the first request that waits; NULL: none. */
static struct request *first_ready(const struct channel *channel)
{
    list_each (it, next, &channel->requests) {
        struct request *request = list_entry(it, struct request, link);
        if (request->is_ready) {
            return request;
        }
    }
    return NULL;
}

static void request_send_long(struct request *request, int status)
{
    struct channel *channel = request->channel;
    struct limit_counters *counters = request->worker->limit_counters;
    uint64_t most = counters->values[LIMIT_CONNECTION_OUTPUT];
    size_t held = 0;
    bool waits = channel->ops->is_sending &&
                 (channel->ops->is_sending(channel, &held) || first_ready(channel));
    request->kept_status = status;
    if (waits && most > 0 && request_output_of(channel) + held > most) {
        const struct refusal why = limit_refusal(LIMIT_CONNECTION_OUTPUT, most, true);
        limit_hit(counters, LIMIT_CONNECTION_OUTPUT);
        request_fail_limit(request, &why, STR_EMPTY);
    } else if (waits) {
        request->is_ready = true;
        list_remove(&request->link); /* to the end of the queue */
        list_append(&channel->requests, &request->link);
    } else {
        request_put_long(request);
    }
}

bool request_next_ready(struct channel *channel)
{
    struct request *request = first_ready(channel);
    if (request && list_empty(&request->job_link)) {
        list_append(&channel->worker->requests->ready, &request->job_link);
    }
    return request != NULL;
}

void requests_send_ready(struct worker *worker)
{
    struct list *ready = &worker->requests->ready;
    while (!list_empty(ready)) {
        struct request *request = list_entry(ready->next, struct request, job_link);
        list_remove(&request->job_link);
        request->is_ready = false;
        request_put_long(request);
    }
}

static void request_send_short(struct request *request, int status)
{
    struct channel *channel = request->channel;
    struct buf text = request->out;
    struct response_headers headers = request->headers;
    buf_init(&request->out, 0);
    struct sink *sink = request->sink;
    list_remove(&request->link);
    if (sink) {
        end_stream(sink, buf_str(&text));
    } else {
        worker_trim_later(channel->worker, text.len);
        channel->ops->answer(channel, status, &headers, &text);
    }
    buf_deinit(&text);
    request_free(request);
}

void request_deliver(struct request *request, int status)
{
    struct batch *batch = request->batch;
    if (request->session_change > 0 && request->worker->requests->hold(request, status)) {
        return;
    }
    if (request->kept_status == 0) {
        request_log(request, request_answer_len(request));
    }
    if (request_keep(request, status)) {
        return;
    }
    if (request->cancelled || !request->channel) {
        if (batch) {
            request_batch_done(batch);
        }
        request_free(request);
    } else if (batch) {
        request_batch_put(batch, request);
        request_free(request);
        request_batch_done(batch);
    } else if (is_sent_long(request)) {
        request_send_long(request, status);
    } else {
        request_send_short(request, status);
    }
}
