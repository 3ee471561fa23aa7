/* SPDX-License-Identifier: MIT
 *
 * Requests of the legacy era whose stream can be resumed: what is sent on it before the answer has
 * ids of events, and when the connection is lost the answer is kept for a while, until the client
 * comes back with the id of the last event it has.
 */
#include "base/loop.h"
#include "base/mem.h"
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
    request_open_output(request); /* whose answer it is, should the client be gone by then */
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

/* ---- answers that are kept ------------------------------------------------------------------- */

static size_t kept_size(const struct request *request)
{
    return sizeof(*request) + request->out.cap;
}

static struct kept_client *kept_client_find(const struct requests *all,
                                            const struct allowance *account)
{
    list_each (it, next, &all->kept_clients) {
        struct kept_client *k = list_entry(it, struct kept_client, link);
        if (k->account == account) {
            return k;
        }
    }
    return NULL;
}

/* Forgets answers until there is room for so many bytes more of that client. Returns false if it
 * has most without any. */
static bool keep_make_room(struct requests *all, const struct allowance *account, size_t bytes)
{
    while (all->kept_bytes + bytes > all->kept_most) {
        struct kept_client *with_most = kept_client_find(all, account);
        size_t most = bytes + (with_most ? with_most->bytes : 0);
        list_each (it, next, &all->kept_clients) {
            struct kept_client *k = list_entry(it, struct kept_client, link);
            if (k->account != account && k->bytes > most) {
                with_most = k;
                most = k->bytes;
            }
        }
        if (!with_most) {
            return false;
        }
        request_drop(list_entry(with_most->answers.next, struct request, link));
    }
    return true;
}

static struct kept_client *kept_client_of(struct requests *all, struct allowance *account)
{
    struct kept_client *k = kept_client_find(all, account);
    if (!k && (k = mem_zalloc(sizeof(*k)))) {
        k->account = account;
        list_init(&k->answers);
        list_append(&all->kept_clients, &k->link);
    }
    return k;
}

bool request_keep(struct request *request, int status)
{
    struct requests *all = request->worker->requests;
    struct allowance *account = request->output.account;
    size_t bytes = kept_size(request);
    if (request->stream == 0 || request->channel || request->cancelled || !request->session ||
        !keep_make_room(all, account, bytes)) {
        return false;
    }
    struct kept_client *k = kept_client_of(all, account);
    if (!k) {
        return false;
    }
    request->kept_for = k;
    request->kept_status = status;
    request->job_begun_ms = loop_now_ms(request->worker->loop);
    all->kept_bytes += bytes;
    k->bytes += bytes;
    k->count++;
    list_append(&k->answers, &request->link);
    list_remove(&request->job_link);
    list_append(&all->kept, &request->job_link);
    return true;
}

void request_unkeep(struct request *request)
{
    struct kept_client *k = request->kept_for;
    if (!k) {
        return;
    }
    request->kept_for = NULL;
    request->worker->requests->kept_bytes -= kept_size(request);
    k->bytes -= kept_size(request);
    if (--k->count == 0) {
        list_remove(&k->link);
        mem_free(k);
    }
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
