/* SPDX-License-Identifier: MIT
 *
 * The life of a request: created, answered with a result or an error, cancelled, or expired.
 * Several requests in one array are in request_batch.c.
 */
#include "request/request.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/job.h"
#include "request/access_log.h"
#include "request/request_private.h"
#include "uri/pattern.h"
#include "uri/template.h"
#include "uri/uri.h"

#define REQUEST_ARENA_MAX (1u << 20)
/* Beyond this much unsent, notifications about a request are dropped. */
#define REQUEST_NOTES_HIGH_WATER (256u * 1024u)
#define REQUEST_OUT_FIRST 1024u /* most answers fit without growing */

struct request *request_create(struct channel *channel, struct json *root,
                               const struct rpc_message *msg)
{
    struct request *request = mem_zalloc(sizeof(*request));
    if (!request) {
        return NULL;
    }
    const struct worker_limits *limits = channel->worker->limits;
    request->worker = channel->worker;
    request->channel = channel;
    request->principal = principal_ref(channel->principal);
    request->msg = *msg;
    request->root = jv_ref(root);
    access_log_number(request->worker, request->context.request_id);
    request->begun_ns = log_wants_access() ? clock_monotonic_ns() : 0;
    request->bytes_in = channel->worker->message_bytes;
    arena_init(&request->arena, REQUEST_ARENA_MAX);
    buf_init(&request->out, limits->max_read_bytes * REQUEST_OUT_FACTOR + REQUEST_OUT_EXTRA);
    struct buf id;
    buf_init(&id, RPC_MAX_ID * REQUEST_OUT_FACTOR + 16);
    struct jw w;
    jw_init(&w, &id);
    jw_value(&w, msg->id);
    request->id_json = arena_dup(&request->arena, buf_str(&id));
    bool failed = id.failed || !request->id_json.ptr;
    buf_deinit(&id);
    list_init(&request->session_link);
    list_init(&request->job_link);
    list_append(&channel->requests, &request->link);
    channel->worker->stats.requests++;
    request->begun_us = clock_monotonic_ns() / 1000;
    if (failed) {
        request_drop(request);
        return NULL;
    }
    return request;
}

void request_free(struct request *request)
{
    struct operations *all = &request->worker->requests->operations;
    durations_count(&all->at[request->method_number][request->era][request->has_failed],
                    clock_monotonic_ns() / 1000 - request->begun_us);
    list_remove(&request->link); /* before the list that holds a kept answer is freed */
    request_unkeep(request);
    list_remove(&request->session_link);
    list_remove(&request->job_link);
    jv_unref(request->root);
    principal_unref(request->principal);
    payloads_destroy(&request->payloads);
    output_end(&request->output);
    buf_deinit(&request->out);
    arena_deinit(&request->arena);
    mem_free(request);
}

void request_answer_kept(struct request *request)
{
    request_unkeep(request);
    request_deliver(request, request->kept_status);
}

void request_release(struct request *request, int status)
{
    request->session_change = 0;
    request_deliver(request, status);
}

void request_unanswer(struct request *request)
{
    request->session_change = 0;
    payloads_destroy(&request->payloads);
    buf_clear(&request->out);
}

bool request_notify(struct request *request, const struct buf *message)
{
    struct channel *channel = request->channel;
    if (request->cancelled || !channel || message->failed) {
        return false;
    }
    bool is_http = channel->ops->is_http;
    if (is_http && !request->sink && (request->batch || !channel->ops->takes_stream(channel))) {
        return false;
    }
    struct sink *sink =
        request->sink ? request->sink : channel->ops->stream(channel, &request->headers);
    request->sink = is_http ? sink : NULL;
    if (sink->ops->pending(sink) > REQUEST_NOTES_HIGH_WATER) {
        return false;
    }
    char *room = sink->ops->room(sink, STR_EMPTY, message->len);
    if (room) {
        memcpy(room, message->ptr, message->len);
    }
    return room != NULL;
}

void request_begin(struct request *request)
{
    jw_init(&request->w, &request->out);
    (void)buf_reserve(&request->out, REQUEST_OUT_FIRST);
    dialect_begin_result(&request->w, request->id_json);
}

static void request_deliver_result(struct request *request)
{
    struct tidings_error err;
    if (buf_check(&request->out, "the answer", "ask for less at a time", &err) < 0) {
        request_fail(request, err.code, STR_EMPTY, "%s", err.text);
        return;
    }
    struct refusal why;
    if (!request_book_text(request, &why)) {
        request_fail_limit(request, &why, STR_EMPTY);
        return;
    }
    request_deliver(request, 200);
}

void request_end(struct request *request, enum dialect_cache cache)
{
    dialect_end_result(&request->w, request->era, request->worker->self, cache);
    request_deliver_result(request);
}

void request_begin_meta(struct request *request, enum dialect_cache cache)
{
    dialect_begin_meta(&request->w, request->era, request->worker->self, cache);
}

void request_end_meta(struct request *request)
{
    dialect_end_meta(&request->w);
    request_deliver_result(request);
}

void request_empty(struct request *request)
{
    request_begin(request);
    request_end(request, CACHE_NONE);
}

static void request_answer_error(struct request *request, const struct dialect_error *e, int status)
{
    if (request->begun_ns > 0) {
        request->failed_code = e->code;
        request->failed_reason = arena_dup(&request->arena, e->message);
    }
    if (request->channel && !request->cancelled) {
        request->has_failed = true;
        const struct log_context *before = log_enter(&request->context);
        channel_failed_rpc(request->channel, request->principal, request->method, e,
                           request->is_denied);
        (void)log_enter(before);
        if (request->worker->requests->failed) {
            request->worker->requests->failed(request, e);
        }
    }
    payloads_destroy(&request->payloads);
    buf_deinit(&request->out);
    buf_init(&request->out, REQUEST_OUT_EXTRA);
    jw_init(&request->w, &request->out);
    dialect_write_error(&request->w, request->id_json, e);
    if (request->out.failed && !request->batch) { /* half a message is worse than none */
        buf_deinit(&request->out);
        buf_init(&request->out, 0);
    }
    request_deliver(request, status);
}

void request_fail_with(struct request *request, const struct dialect_error *e)
{
    request_answer_error(request, e, dialect_status(request->worker->self, request->era, e->code));
}

/* Can it be read neither as a URI nor as a pattern of URIs? */
static bool is_malformed(const struct catalog *catalog, struct tidings_str uri)
{
    bool has_braces = str_find(uri, '{') >= 0 || str_find(uri, '}') >= 0;
    bool is_pattern = has_braces || str_find(uri, '*') >= 0 || str_find(uri, '[') >= 0;
    struct uri_template *template = NULL;
    struct buf text;
    buf_init(&text, URI_MAX * 3);
    bool bad =
        catalog_canonical(catalog, uri, is_pattern, &text, NULL) == TIDINGS_E_INVALID ||
        (has_braces && template_create(buf_str(&text), &template, NULL) == TIDINGS_E_INVALID) ||
        (is_pattern && !has_braces && glob_check_uri(buf_str(&text), false, NULL) < 0);
    template_destroy(template);
    buf_deinit(&text);
    return bad;
}

/* The URI that the client gave as a parameter, also if the error does not say it; and whether it is
 * one. */
static void judge_uri(const struct request *request, struct tidings_str uri,
                      struct dialect_failure *f)
{
    const struct catalog *catalog = request->worker->catalog;
    const struct json *given = jv_get(request->msg.params, "uri");
    bool is_given = uri.len > 0 || jv_is(given, JV_STRING);
    f->uri = uri.len > 0 ? uri : jv_str(given);
    f->is_malformed = is_given && is_malformed(catalog, f->uri);
    f->is_unserved =
        f->uri.len > 0 && !catalog_is_alias(catalog, f->uri) &&
        !catalog_has_scheme(catalog, str_cut(f->uri, ':', &(struct tidings_str){0}, NULL));
}

/* The code that is right for a failure of ours. */
static void name_failure(const struct request *request, int code, struct dialect_error *e)
{
    struct dialect_failure f = {.era = request->era, .code = code, .method = request->msg.method};
    if (request->worker->self->profile) {
        judge_uri(request, e->uri, &f);
    }
    dialect_name_failure(request->worker->self, &f, e);
}

static void request_fail_named(struct request *request, int code, struct dialect_error *e)
{
    name_failure(request, code, e);
    request_note_denial(request, code, e->uri);
    request_fail_with(request, e);
}

void request_fail_limit(struct request *request, const struct refusal *why, struct tidings_str uri)
{
    char sentence[REFUSAL_SENTENCE], data[REFUSAL_JSON], header[40];
    struct dialect_error e = {
        .message = tidings_str(refusal_sentence(why, sentence)),
        .uri = uri,
        .reason = STR("limit"),
        .details = refusal_json(why, data),
    };
    name_failure(request, why->retry_ms > 0 ? TIDINGS_E_BUSY : TIDINGS_E_LIMIT, &e);
    int status = dialect_status(request->worker->self, request->era, e.code);
    if (why->retry_ms > 0 && !dialect_answers_200(request->worker->self, request->era, e.code)) {
        status = refusal_status(why);
        snprintf(header, sizeof(header), "Retry-After: %llu\r\n",
                 (unsigned long long)refusal_seconds(why));
        request->headers.extra = arena_dup(&request->arena, tidings_str(header));
    }
    request_answer_error(request, &e, status);
}

/* What one may not see does not exist, in data.reason as in the code. A failure of the program is
 * told from a server that is busy, which has the same code. */
static struct tidings_str request_reason_of(int code, struct tidings_str uri)
{
    bool is_missing = code == TIDINGS_E_NOTFOUND || code == TIDINGS_E_DENIED;
    return is_missing && uri.len > 0    ? STR("not_found")
           : code == TIDINGS_E_INTERNAL ? STR("internal")
           : code == TIDINGS_E_BUSY     ? STR("unavailable")
                                        : STR_EMPTY;
}

struct tidings_str request_details_of(const struct job *r)
{
    struct tidings_str details = job_details(r);
    return details.len == 0 && r->err.code == TIDINGS_E_BUSY ? STR(REQUEST_LATER) : details;
}

void request_fail_job(struct request *request, const struct job *r, struct tidings_str uri,
                      struct tidings_str reason)
{
    struct tidings_error err = r->err; /* the job goes with the request */
    struct dialect_error e = {
        .message = tidings_str(err.text), .uri = uri, .reason = reason, .details = job_details(r)};
    if (reason.len == 0 && e.details.len == 0) {
        e.reason = request_reason_of(err.code, uri);
    }
    if (err.code == TIDINGS_E_BUSY && e.details.len == 0) {
        e.details = STR(REQUEST_RETRY);
    }
    request_fail_named(request, err.code, &e);
}

void request_fail_capability(struct request *request, const char *text,
                             struct tidings_str required_json)
{
    struct dialect_error e = {.code = RPC_MISSING_CAPABILITY,
                              .message = tidings_str(text),
                              .required_json = required_json};
    request_fail_with(request, &e);
}

void request_fail_rpc(struct request *request, int rpc_code, struct tidings_str uri,
                      const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    struct dialect_error e = {.code = rpc_code, .message = tidings_str(text), .uri = uri};
    request_fail_with(request, &e);
}

void request_fail(struct request *request, int code, struct tidings_str uri, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    struct dialect_error e = {
        .message = tidings_str(text),
        .uri = uri,
        .reason = request_reason_of(code, uri),
        .details = code == TIDINGS_E_BUSY ? STR(REQUEST_RETRY) : STR_EMPTY,
    };
    request_fail_named(request, code, &e);
}

void request_fail_reason(struct request *request, int code, struct tidings_str uri,
                         struct tidings_str reason, const char *text)
{
    struct dialect_error e = {.message = tidings_str(text), .uri = uri, .reason = reason};
    request_fail_named(request, code, &e);
}

void request_fail_details(struct request *request, int code, struct tidings_str text,
                          struct tidings_str details)
{
    struct dialect_error e = {.message = text, .details = details};
    request_fail_named(request, code, &e);
}

void request_fail_err(struct request *request, const struct tidings_error *err,
                      struct tidings_str uri)
{
    struct dialect_error e = {
        .message = tidings_str(err->text),
        .uri = uri,
        .reason = request_reason_of(err->code, uri),
        .details = err->code == TIDINGS_E_BUSY ? STR(REQUEST_RETRY) : STR_EMPTY,
    };
    request_fail_named(request, err->code, &e);
}

void request_accept(struct request *request)
{
    struct channel *channel = request->cancelled ? NULL : request->channel;
    request_free(request);
    if (channel) {
        channel->ops->accepted(channel);
    }
}

void request_drop(struct request *request)
{
    struct batch *batch = request->batch;
    request_free(request);
    if (batch) {
        request_batch_done(batch);
    }
}

void request_abandon(struct request *request)
{
    request->cancelled = true;
    list_remove(&request->link);
    list_remove(&request->session_link);
    list_remove(&request->job_link);
    if (request->job) {
        job_cancel(request->job);
    }
}

void request_cancel(struct request *request)
{
    struct channel *channel = request->channel;
    struct sink *sink = request->sink;
    bool alone = !request->batch;
    if (request->kept_for || request->is_ready) {
        request_drop(request);
        return;
    }
    request_abandon(request);
    if (sink) {
        sink->ops->end(sink); /* and nothing more is said */
    } else if (alone && channel && channel->ops->is_http) {
        channel->ops->accepted(channel); /* the exchange still needs an end */
    }
}

/* ---- deadlines ------------------------------------------------------------------------------- */

void request_begin_job(struct request *request, struct job *job)
{
    request_open_output(request);
    request->job = job;
    request->job_begun_ms = loop_now_ms(request->worker->loop);
    list_remove(&request->job_link);
    list_append(&request->worker->requests->with_job, &request->job_link);
}

void request_end_job(struct request *request)
{
    request->job = NULL;
    list_remove(&request->job_link);
}

/* A provider may still be writing into the answer: another request is answered in its place, and
 * this one vanishes when the provider is done. */
static void request_expire(struct request *request, uint64_t allowed_ms)
{
    list_remove(&request->job_link);
    struct request *other =
        request->channel ? request_create(request->channel, request->root, &request->msg) : NULL;
    if (!other) {
        return; /* nobody there; or no memory, then it waits on */
    }
    request->worker->stats.requests--;
    other->era = request->era;
    other->method = request->method;
    other->meta = request->meta;
    other->revision = request->revision;
    other->headers = request->headers;
    other->batch = request->batch;
    other->sink = request->sink;
    other->context = request->context;
    other->begun_ns = request->begun_ns;
    request->begun_ns = 0;
    request->batch = NULL;
    request->sink = NULL;
    request_abandon(request);
    request->channel = NULL;
    limit_hit(other->worker->limit_counters, LIMIT_CALL_TIME);
    request_fail(other, TIDINGS_E_TIMEOUT, STR_EMPTY,
                 "the provider did not answer within %llu ms (--call-timeout)",
                 (unsigned long long)allowed_ms);
}

void requests_expire(struct worker *worker)
{
    uint64_t allowed = worker->limits->call_timeout_ms, now = loop_now_ms(worker->loop);
    while (allowed > 0 && !list_empty(&worker->requests->with_job)) {
        struct request *oldest =
            list_entry(worker->requests->with_job.next, struct request, job_link);
        if (oldest->job_begun_ms + allowed > now) {
            break;
        }
        request_expire(oldest, allowed);
    }
}

struct request *request_find(struct list *requests, struct tidings_str id_json, bool by_session)
{
    list_each (it, next, requests) {
        struct request *request = by_session ? list_entry(it, struct request, session_link)
                                             : list_entry(it, struct request, link);
        if (str_eq(request->id_json, id_json)) {
            return request;
        }
    }
    return NULL;
}
