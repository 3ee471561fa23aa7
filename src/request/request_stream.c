/* SPDX-License-Identifier: MIT
 *
 * Requests of the legacy era whose stream can be resumed: what is sent on it before the answer has
 * ids of events, and when the connection is lost the answer is kept for a while, until the client
 * comes back with the id of the last event it has.
 */
#include "base/loop.h"
#include "base/str.h"
#include "request/request.h"
#include "request/request_private.h"

/* Beyond this much unsent, nothing more is asked. */
#define REQUEST_STREAM_HIGH_WATER (256u * 1024u)

/* Where its messages go: over HTTP the exchange becomes a stream now. */
static int request_stream_open(struct request *request, struct sink **ret)
{
    struct channel *channel = request->channel;
    if (!channel) {
        return TIDINGS_E_NOTFOUND;
    }
    bool is_http = channel->ops->is_http;
    if (is_http && !request->sink && (request->batch || !channel->ops->takes_stream(channel))) {
        return TIDINGS_E_UNSUPPORTED;
    }
    *ret = request->sink ? request->sink : channel->ops->stream(channel, &request->headers);
    request->sink = is_http ? *ret : NULL;
    return 0;
}

int request_message(struct request *request, const struct buf *message, struct tidings_str event_id)
{
    struct sink *sink = NULL;
    int rc = message->failed ? message->failed : request_stream_open(request, &sink);
    if (rc < 0) {
        return rc;
    }
    bool is_full = sink->ops->pending(sink) > REQUEST_STREAM_HIGH_WATER;
    char *room = is_full ? NULL : sink->ops->room(sink, event_id, message->len);
    if (!room) {
        return TIDINGS_E_BUSY;
    }
    memcpy(room, message->ptr, message->len);
    return 0;
}

void request_prime(struct request *request, struct tidings_str event_id)
{
    struct sink *sink = NULL;
    if (request->revision->has_priming && !dialect_rules(request->worker->self)->is_unprimed &&
        request_stream_open(request, &sink) == 0) {
        sink->ops->prime(sink, event_id, request->worker->limits->retry_ms);
    }
}

void request_resume(struct request *request, struct channel *channel)
{
    struct sink *before = request->sink;
    list_remove(&request->link);
    list_append(&channel->requests, &request->link);
    request->channel = channel;
    request->sink = channel->ops->stream(channel, &request->headers);
    if (before) { /* it has ended only in the client's eyes */
        before->ops->end(before);
    }
}

bool request_keep(struct request *request, int status)
{
    struct requests *all = request->worker->requests;
    if (request->stream == 0 || request->channel || request->cancelled || !request->session ||
        request->out.len > REQUESTS_KEPT_BYTES) {
        return false;
    }
    while (all->kept_bytes + request->out.len > REQUESTS_KEPT_BYTES) {
        request_drop(list_entry(all->kept.next, struct request, job_link));
    }
    request->is_kept = true;
    request->kept_status = status;
    request->job_begun_ms = loop_now_ms(request->worker->loop);
    all->kept_bytes += request->out.len;
    list_remove(&request->job_link);
    list_append(&all->kept, &request->job_link);
    return true;
}

void requests_drop_kept(struct worker *worker)
{
    uint64_t now = loop_now_ms(worker->loop);
    while (!list_empty(&worker->requests->kept)) {
        struct request *oldest = list_entry(worker->requests->kept.next, struct request, job_link);
        if (oldest->job_begun_ms + REQUEST_KEPT_MS > now) {
            break;
        }
        request_drop(oldest);
    }
}
