/* SPDX-License-Identifier: MIT
 *
 * The life of a request: created, answered with a result or an error, cancelled, or expired.
 */
#include "engine/protocol/request.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/encode.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "engine/catalog/catalog.h"
#include "engine/catalog/job.h"
#include "engine/protocol/channel.h"
#include "engine/worker.h"
#include "formats/pattern.h"
#include "formats/uri.h"
#include "formats/uri_template.h"
#include "security/access.h"
#include "security/limits.h"

/* -------------------------------------------------------------------------------------------------
 * Shared by the request files: the maximum size of a response, and the end of a request that is
 * part of a batch.
 */

/* Escaping may turn one byte into six; the envelope and the rows' own members fit in the rest. */
#define REQUEST_OUT_FACTOR 6u
#define REQUEST_OUT_EXTRA (4u << 20)

/* -------------------------------------------------------------------------------------------------
 * Batches: several requests that came in one array (2025-03-26), whose responses are collected into
 * one array, in the order in which they are ready.
 */

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

/* Takes the response to one of its requests, and its booking. */
static void request_batch_put(struct batch *batch, struct request *request)
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

/* Bytes booked for the arrays of a channel. */
static size_t request_batches_output(const struct channel *channel)
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

/* One of its requests is gone, answered or not: after the last one the array is sent. */
static void request_batch_done(struct batch *batch)
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

/* -------------------------------------------------------------------------------------------------
 * The scopes that a denied request lacks. A denied resource is answered as if it did not exist. But
 * if a scope would have allowed it, the client may be able to get a token with it, so the answer
 * names the scope (RFC 6750 §3.1). This depends only on the rules, the URI and the token, so it
 * does not reveal what exists.
 */

#define SCOPES_MAX 4096u

/* The operations of a method on the URI it names; 0: the answer names no scope. */
static unsigned ops_of(struct tidings_str method)
{
    static const struct {
        const char *method;
        unsigned ops;
    } rows[] = {
        {"resources/read", 1u << ACCESS_READ},
        {"resources/subscribe", 1u << ACCESS_READ | 1u << ACCESS_SUBSCRIBE},
        {"resources/metadata", 1u << ACCESS_LIST},
        {"resources/list", 1u << ACCESS_LIST},
        {"resources/directory/read", 1u << ACCESS_LIST},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (str_eq(method, tidings_str(rows[i].method))) {
            return rows[i].ops;
        }
    }
    return 0;
}

static bool request_may(const struct request *request, unsigned ops, struct tidings_str uri)
{
    for (unsigned op = 0; op < ACCESS_OPS; op++) {
        if ((ops & 1u << op) != 0 && !access_allows(request->principal, (enum access_op)op, uri)) {
            return false;
        }
    }
    return true;
}

void request_note_denial(struct request *request, int code, struct tidings_str as_requested)
{
    request->is_denied = request->is_denied || code == TIDINGS_E_DENIED;
    bool is_missing = code == TIDINGS_E_NOTFOUND || code == TIDINGS_E_DENIED;
    unsigned ops = is_missing && as_requested.len > 0 ? ops_of(request->msg.method) : 0;
    if (ops == 0 || !request->principal || !request->principal->class) {
        return;
    }
    struct buf uri, scopes;
    buf_init(&uri, URI_MAX * 3);
    buf_init(&scopes, SCOPES_MAX);
    bool is_known =
        catalog_canonical(request->worker->catalog, as_requested, false, &uri, NULL) == 0;
    if (is_known && !request_may(request, ops, buf_str(&uri))) {
        request->is_denied = true;
    }
    if (is_known && access_put_missing(request->principal, ops, buf_str(&uri), &scopes) == 0 &&
        scopes.len > 0) {
        struct tidings_str copy = arena_dup(&request->arena, buf_str(&scopes));
        request->headers.scope = copy.ptr ? copy : STR_EMPTY;
    }
    buf_deinit(&scopes);
    buf_deinit(&uri);
}

/* Another scope, once. */
static void request_add_scopes(struct buf *all, struct tidings_str more)
{
    while (more.len > 0) {
        struct tidings_str word = str_cut(more, ' ', &more, NULL), rest = buf_str(all);
        bool is_there = false;
        while (rest.len > 0 && !is_there) {
            is_there = str_eq(str_cut(rest, ' ', &rest, NULL), word);
        }
        if (!is_there) {
            buf_puts(all, all->len > 0 ? STR(" ") : STR_EMPTY);
            buf_puts(all, word);
        }
    }
}

bool request_lacks_scopes(struct request *request, struct json *uris)
{
    const unsigned ops = 1u << ACCESS_READ | 1u << ACCESS_SUBSCRIBE;
    const struct principal *principal = request->principal;
    struct buf uri, scopes, all;
    bool lacks = request->channel->ops->is_http && principal && principal->class;
    buf_init(&all, SCOPES_MAX);
    buf_puts(&all, STR_EMPTY);
    for (size_t i = 0; i < jv_count(uris) && lacks; i++) {
        struct tidings_str as_requested = jv_str(jv_at(uris, i));
        buf_init(&uri, URI_MAX * 3);
        buf_init(&scopes, SCOPES_MAX);
        lacks = catalog_canonical(request->worker->catalog, as_requested, false, &uri, NULL) == 0 &&
                !request_may(request, ops, buf_str(&uri)) &&
                access_put_missing(principal, ops, buf_str(&uri), &scopes) == 0 && scopes.len > 0;
        request_add_scopes(&all, buf_str(&scopes));
        buf_deinit(&scopes);
        buf_deinit(&uri);
    }
    struct tidings_str copy =
        lacks && !all.failed ? arena_dup(&request->arena, buf_str(&all)) : STR_EMPTY;
    buf_deinit(&all);
    if (copy.len > 0) {
        request->headers.scope = copy;
        request->is_denied = true;
    }
    return copy.len > 0;
}

/* -------------------------------------------------------------------------------------------------
 * Writes the access log lines that do not belong to a struct request.
 */

/* Seconds at the first one, then a count and the worker in the lower 30 bits: a run that starts a
 * second later counts from beyond any number that this one can reach in that time. */
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

static uint64_t access_log_us(uint64_t begun_ns)
{
    return begun_ns > 0 ? (clock_monotonic_ns() - begun_ns) / 1000 : 0;
}

static struct tidings_str access_log_address(const struct channel *channel,
                                             struct channel_facts *facts)
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

/* -------------------------------------------------------------------------------------------------
 * The line of the access log about a request.
 */

/* The client info of the request, or of its connection or session. */
static struct client_info request_log_client(const struct request *request)
{
    const struct client_info *known =
        client_info_get(&request->worker->requests->clients, request->client);
    const struct json *info = dialect_client_info(request->meta);
    const struct json *name = jv_get(info, "name"), *version = jv_get(info, "version");
    if (known && !info) {
        return *known;
    }
    return (struct client_info){
        .name = jv_is(name, JV_STRING) ? jv_str(name) : ACCESS_LOG_NOTHING,
        .version = jv_is(version, JV_STRING) ? jv_str(version) : ACCESS_LOG_NOTHING,
    };
}

/* The tool or prompt, or the URI, that a request names. */
static struct tidings_str request_log_param(const struct request *request, const char *key)
{
    const struct json *value = jv_get(request->msg.params, key);
    return jv_is(value, JV_STRING) ? jv_str(value) : ACCESS_LOG_NOTHING;
}

/* Logs a request that is answered with `bytes` of JSON, or that gets no answer. */
static void request_log(const struct request *request, size_t bytes)
{
    if (request->begun_ns == 0 || !log_wants_access()) {
        return;
    }
    struct channel_facts facts;
    const struct client_info client = request_log_client(request);
    int code = request->failed_code;
    bool is_answered = !request->cancelled && request->channel;
    const struct log_context *before = log_enter(&request->context);
    const struct log_field fields[] = {
        KV("method", request->method ? request->method : "unknown"),
        KV("name", request_log_param(request, "name")),
        KV("uri", request_log_param(request, "uri")),
        code != 0            ? KV("code", code)
        : !is_answered       ? KV("status", "cancelled")
        : request->has_error ? KV("status", "error")
                             : KV("status", "ok"),
        KV("reason", code != 0 ? request->failed_reason : ACCESS_LOG_NOTHING),
        KV("duration_us", access_log_us(request->begun_ns)),
        KV("bytes_in", request->bytes_in),
        KV("bytes_out", is_answered ? bytes : 0),
        KV("principal", access_log_name(request->principal)),
        KV("by", principal_by(request->principal)),
        KV("address", access_log_address(request->channel, &facts)),
        KV("transport", request->channel ? request->channel->ops->name : NULL),
        KV("client", client.name),
        KV("client_version", client.version),
        KV("era", dialect_era_name(request->era)),
        NO_FIELDS,
    };
    log_write_access("request", fields);
    (void)log_enter(before);
}

/* -------------------------------------------------------------------------------------------------
 * Pages of lists: reading and writing their cursors.
 */

#define PAGE_CURSOR_MAX (URI_MAX * 8u)

bool page_read_cursor(struct request *request, const char *sources, char *ret_source,
                      struct tidings_str *ret_after)
{
    char source = sources[0];
    *ret_after = STR_EMPTY;
    struct json *given = jv_get(request->msg.params, "cursor");
    if (given && !(jv_is(given, JV_STRING) && jv_str(given).len == 0)) {
        struct buf text;
        buf_init(&text, PAGE_CURSOR_MAX);
        bool good = jv_is(given, JV_STRING) && base64url_decode(&text, jv_str(given)) == 0 &&
                    text.len > 1 && text.ptr[0] != '\0' && strchr(sources, text.ptr[0]) &&
                    str_is_utf8(buf_str(&text));
        if (good) {
            source = text.ptr[0];
            *ret_after = arena_dup(&request->arena, str_skip(buf_str(&text), 1));
            good = ret_after->ptr != NULL;
        }
        buf_deinit(&text);
        if (!good) {
            request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                         "params.cursor is not from this server; retry without it");
            return false;
        }
    }
    if (ret_source) {
        *ret_source = source;
    }
    return true;
}

void page_write_cursor(struct jw *w, char source, struct tidings_str last)
{
    struct buf text, coded;
    buf_init(&text, PAGE_CURSOR_MAX);
    buf_init(&coded, PAGE_CURSOR_MAX * 2);
    buf_putc(&text, source);
    buf_puts(&text, last);
    base64url_put(&coded, buf_str(&text));
    jw_put_string(w, STR("nextCursor"), buf_str(&coded));
    if (text.failed || coded.failed) {
        w->out->failed = TIDINGS_E_NOMEM; /* half a cursor is useless */
    }
    buf_deinit(&text);
    buf_deinit(&coded);
}

size_t page_size(struct request *request)
{
    const struct worker_limits *limits = request->worker->limits;
    static const char *const names[] = {"pageSize", "limit"};
    for (size_t i = 0; i < 2; i++) {
        struct json *hint = jv_get(request->msg.params, names[i]);
        if (!hint) {
            continue;
        }
        if (!jv_is(hint, JV_INT) || jv_int(hint) < 1) {
            request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                         "params.%s must be an integer from 1 to %zu", names[i],
                         limits->max_page_size);
            return 0;
        }
        uint64_t n = (uint64_t)jv_int(hint);
        return n < limits->max_page_size ? (size_t)n : limits->max_page_size;
    }
    return limits->page_size;
}

/* ---------------------------------------------------------------------------------------------- */

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

static void request_unkeep(struct request *request);

/* Frees it. */
static void request_free(struct request *request)
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

static void request_deliver(struct request *request, int status);

void request_answer_retained(struct request *request)
{
    request_unkeep(request);
    request_deliver(request, request->retained_status);
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

static bool request_book_text(struct request *request, struct refusal *why);

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
    if (request->out.failed && !request->batch) { /* half a message is useless */
        buf_deinit(&request->out);
        buf_init(&request->out, 0);
    }
    request_deliver(request, status);
}

void request_fail_with(struct request *request, const struct dialect_error *e)
{
    request_answer_error(request, e, dialect_status(request->worker->self, request->era, e->code));
}

/* Returns true if it is neither a valid URI nor a valid pattern. */
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

/* Notes the URI in the client's parameters, even if the error does not mention it, and whether it
 * is valid. */
static void check_uri(const struct request *request, struct tidings_str uri,
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

/* Chooses the code for a failure of the server. */
static void name_failure(const struct request *request, int code, struct dialect_error *e)
{
    struct dialect_failure f = {.era = request->era, .code = code, .method = request->msg.method};
    if (request->worker->self->profile) {
        check_uri(request, e->uri, &f);
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

/* In data.reason, as in the code, a resource that the principal may not see counts as missing. The
 * reason also distinguishes a failure of the program from a busy server, which have the same
 * code. */
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
    if (request->retained_for || request->is_ready) {
        request_drop(request);
        return;
    }
    request_abandon(request);
    if (sink) {
        sink->ops->end(sink); /* without further messages */
    } else if (alone && channel && channel->ops->is_http) {
        channel->ops->accepted(channel); /* the exchange still needs an end */
    }
}

static void request_open_output(struct request *request);

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
        return; /* no client, or no memory: it keeps waiting */
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

/* -------------------------------------------------------------------------------------------------
 * Delivers a complete answer: to its batch, to its stream, to the connection, or to memory until
 * the client reconnects. A long answer is encoded while it is sent (engine/catalog/payload.h). A
 * connection of messages sends one of them at a time, and pending notifications before the next.
 */

/* ---- booking --------------------------------------------------------------------------------- */

static void request_open_output(struct request *request)
{
    if (!request->output.limit_counters && request->channel) {
        output_init(&request->output, request->worker->limit_counters,
                    channel_taker(request->channel));
    }
}

/* Prepares the booking; books the text of the answer if it is long (false: there is no room). */
static bool request_book_text(struct request *request, struct refusal *why)
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
    return request->out.len + payloads_encoded_size(request->payloads);
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

/* Returns true if the answer is encoded while it is sent. Requests that became streams have no
 * payloads, because only handlers make streams and their results are text. */
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
        channel->ops->answer_long(channel, request->retained_status, &headers, source);
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
    request->retained_status = status;
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

static bool request_keep(struct request *request, int status);

/* Sends a complete answer. */
static void request_deliver(struct request *request, int status)
{
    struct batch *batch = request->batch;
    if (request->session_change > 0 && request->worker->requests->hold(request, status)) {
        return;
    }
    if (request->retained_status == 0) {
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

/* -------------------------------------------------------------------------------------------------
 * Resumable requests of the legacy era: messages on their stream before the answer have event ids,
 * and when the connection is lost the answer is kept for a while, until the client resumes with the
 * id of its last event.
 */

/* Beyond this number of unsent bytes, the server sends no further questions. */
#define REQUEST_STREAM_HIGH_WATER (256u * 1024u)

/* Prepares a stream for its messages: over HTTP the exchange becomes a stream now. */
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
    request_open_output(request); /* its account, in case the client is gone by then */
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
    if (before) { /* the client has reconnected, so its end was not noticed here */
        before->ops->end(before);
    }
}

/* ---- answers that are kept ------------------------------------------------------------------- */

static size_t retained_size(const struct request *request)
{
    return sizeof(*request) + request->out.cap;
}

static struct retained_client *retained_client_find(const struct requests *all,
                                                    const struct client_account *account)
{
    list_each (it, next, &all->retained_clients) {
        struct retained_client *k = list_entry(it, struct retained_client, link);
        if (k->account == account) {
            return k;
        }
    }
    return NULL;
}

/* Drops answers until there is room for this number of further bytes of that client. Returns false
 * if the client has most bytes even without any. */
static bool keep_make_room(struct requests *all, const struct client_account *account, size_t bytes)
{
    while (all->retained_bytes + bytes > all->retained_most) {
        struct retained_client *with_most = retained_client_find(all, account);
        size_t most = bytes + (with_most ? with_most->bytes : 0);
        list_each (it, next, &all->retained_clients) {
            struct retained_client *k = list_entry(it, struct retained_client, link);
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

static struct retained_client *retained_client_of(struct requests *all,
                                                  struct client_account *account)
{
    struct retained_client *k = retained_client_find(all, account);
    if (!k && (k = mem_zalloc(sizeof(*k)))) {
        k->account = account;
        list_init(&k->answers);
        list_append(&all->retained_clients, &k->link);
    }
    return k;
}

static bool request_keep(struct request *request, int status)
{
    struct requests *all = request->worker->requests;
    struct client_account *account = request->output.account;
    size_t bytes = retained_size(request);
    if (request->stream == 0 || request->channel || request->cancelled || !request->session ||
        !keep_make_room(all, account, bytes)) {
        return false;
    }
    struct retained_client *k = retained_client_of(all, account);
    if (!k) {
        return false;
    }
    request->retained_for = k;
    request->retained_status = status;
    request->job_begun_ms = loop_now_ms(request->worker->loop);
    all->retained_bytes += bytes;
    k->bytes += bytes;
    k->count++;
    list_append(&k->answers, &request->link);
    list_remove(&request->job_link);
    list_append(&all->retained, &request->job_link);
    return true;
}

/* The request no longer counts as kept. */
static void request_unkeep(struct request *request)
{
    struct retained_client *k = request->retained_for;
    if (!k) {
        return;
    }
    request->retained_for = NULL;
    request->worker->requests->retained_bytes -= retained_size(request);
    k->bytes -= retained_size(request);
    if (--k->count == 0) {
        list_remove(&k->link);
        mem_free(k);
    }
}

void requests_drop_retained(struct worker *worker)
{
    uint64_t now = loop_now_ms(worker->loop);
    while (!list_empty(&worker->requests->retained)) {
        struct request *oldest =
            list_entry(worker->requests->retained.next, struct request, job_link);
        if (oldest->job_begun_ms + REQUEST_RETAINED_MS > now) {
            break;
        }
        request_drop(oldest);
    }
}
