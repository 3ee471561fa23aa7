/* SPDX-License-Identifier: MIT
 *
 * Calls and batches of calls.
 */
#include "request/request.h"

#include <stdarg.h>
#include <stdio.h>

#include "access/allowance.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/job.h"
#include "delivery/hub.h"
#include "delivery/subscriber.h"

#define CALL_ARENA_MAX (1u << 20)
/* Escaping may turn one byte into six; the envelope and the rows' own members fit in the rest. */
#define CALL_OUT_FACTOR 6u
#define CALL_OUT_EXTRA (4u << 20)
/* Beyond this much unsent, notifications about a call are dropped. */
#define CALL_NOTES_HIGH_WATER (256u * 1024u)
#define CALL_OUT_FIRST 1024u /* most answers fit without growing */

struct batch {
    struct channel *channel; /* NULL once it is gone */
    struct batch *next;      /* of the same channel */
    struct buf out;
    size_t open; /* calls under way, and one until closed */
    size_t count;
};

struct call *call_create(struct channel *channel, struct json *root, const struct rpc_message *msg)
{
    struct call *call = mem_zalloc(sizeof(*call));
    if (!call) {
        return NULL;
    }
    const struct core_limits *limits = channel->core->limits;
    call->core = channel->core;
    call->channel = channel;
    call->who = principal_ref(channel->who);
    call->msg = *msg;
    call->root = jv_ref(root);
    arena_init(&call->arena, CALL_ARENA_MAX);
    buf_init(&call->out, limits->max_read_bytes * CALL_OUT_FACTOR + CALL_OUT_EXTRA);
    struct buf id;
    buf_init(&id, RPC_MAX_ID * CALL_OUT_FACTOR + 16);
    struct jw w;
    jw_init(&w, &id);
    jw_value(&w, msg->id);
    call->id_json = arena_dup(&call->arena, buf_str(&id));
    bool failed = id.failed || !call->id_json.ptr;
    buf_deinit(&id);
    list_init(&call->session_link);
    list_init(&call->asked_link);
    list_append(&channel->calls, &call->link);
    channel->core->stats.requests++;
    if (failed) {
        call_drop(call);
        return NULL;
    }
    return call;
}

static void call_free(struct call *call)
{
    list_remove(&call->link);
    list_remove(&call->session_link);
    list_remove(&call->asked_link);
    jv_unref(call->root);
    principal_unref(call->who);
    buf_deinit(&call->out);
    arena_deinit(&call->arena);
    mem_free(call);
}

static void batch_done(struct batch *batch);

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

static void deliver(struct call *call, int status)
{
    struct channel *channel = call->channel;
    struct batch *batch = call->batch;
    if (call->cancelled || !channel) {
        if (batch) {
            batch_done(batch);
        }
        call_free(call);
        return;
    }
    if (batch) {
        buf_putc(&batch->out, batch->count++ == 0 ? '[' : ',');
        buf_puts(&batch->out, buf_str(&call->out));
        batch->out.failed = batch->out.failed ? batch->out.failed : call->out.failed;
        call_free(call);
        batch_done(batch);
        return;
    }
    struct buf text = call->out;
    struct answer_headers headers = call->headers;
    buf_init(&call->out, 0);
    struct sink *sink = call->sink;
    list_remove(&call->link);
    if (sink) {
        end_stream(sink, buf_str(&text));
    } else {
        core_trim_later(channel->core, text.len);
        channel->ops->answer(channel, status, &headers, &text);
    }
    buf_deinit(&text);
    call_free(call);
}

bool call_notify(struct call *call, const struct buf *message)
{
    struct channel *channel = call->channel;
    if (call->cancelled || !channel || message->failed) {
        return false;
    }
    bool is_http = channel->ops->is_http;
    if (is_http && !call->sink && (call->batch || !channel->ops->takes_stream(channel))) {
        return false;
    }
    struct sink *sink = call->sink ? call->sink : channel->ops->stream(channel, &call->headers);
    call->sink = is_http ? sink : NULL;
    if (sink->ops->pending(sink) > CALL_NOTES_HIGH_WATER) {
        return false;
    }
    char *room = sink->ops->room(sink, STR_EMPTY, message->len);
    if (room) {
        memcpy(room, message->ptr, message->len);
    }
    return room != NULL;
}

void call_begin(struct call *call)
{
    jw_init(&call->w, &call->out);
    (void)buf_reserve(&call->out, CALL_OUT_FIRST);
    dialect_begin_result(&call->w, call->id_json);
}

static void finish(struct call *call)
{
    if (call->out.failed) {
        call_fail(call, call->out.failed, STR_EMPTY, "the answer does not fit");
        return;
    }
    deliver(call, 200);
}

void call_end(struct call *call, enum dialect_cache cache)
{
    dialect_end_result(&call->w, call->era, call->core->self, cache);
    finish(call);
}

void call_begin_meta(struct call *call, enum dialect_cache cache)
{
    dialect_begin_meta(&call->w, call->era, call->core->self, cache);
}

void call_end_meta(struct call *call)
{
    dialect_end_meta(&call->w);
    finish(call);
}

void call_empty(struct call *call)
{
    call_begin(call);
    call_end(call, CACHE_NONE);
}

static void fail_as(struct call *call, const struct dialect_error *e, int status)
{
    buf_deinit(&call->out);
    buf_init(&call->out, CALL_OUT_EXTRA);
    jw_init(&call->w, &call->out);
    dialect_write_error(&call->w, call->id_json, e);
    if (call->out.failed && !call->batch) { /* half a message is worse than none */
        buf_deinit(&call->out);
        buf_init(&call->out, 0);
    }
    deliver(call, status);
}

void call_fail_with(struct call *call, const struct dialect_error *e)
{
    fail_as(call, e, dialect_status(call->core->self, call->era, e->code));
}

/* The code that is right for a failure of ours. */
static void name_failure(const struct call *call, int code, struct dialect_error *e)
{
    struct tidings_str scheme = str_cut(e->uri, ':', &(struct tidings_str){0}, NULL);
    struct dialect_failure f = {
        .era = call->era,
        .code = code,
        .method = call->msg.method,
        .is_unserved = e->uri.len > 0 && !catalog_has_scheme(call->core->catalog, scheme),
    };
    dialect_name_failure(call->core->self, &f, e);
}

static void fail(struct call *call, int code, struct dialect_error *e)
{
    name_failure(call, code, e);
    call_name_scopes(call, code, e->uri);
    call_fail_with(call, e);
}

void call_fail_limit(struct call *call, const struct refusal *why, struct tidings_str uri)
{
    char sentence[REFUSAL_SENTENCE], data[REFUSAL_JSON], header[40];
    struct dialect_error e = {
        .message = tidings_str(refusal_sentence(why, sentence)),
        .uri = uri,
        .reason = STR("limit"),
        .details = refusal_json(why, data),
    };
    name_failure(call, why->retry_ms > 0 ? TIDINGS_E_BUSY : TIDINGS_E_LIMIT, &e);
    int status = dialect_status(call->core->self, call->era, e.code);
    if (why->retry_ms > 0 &&
        !(call->era == ERA_LEGACY && profile_answers_200(call->core->self->profile, e.code))) {
        status = refusal_status(why);
        snprintf(header, sizeof(header), "Retry-After: %llu\r\n",
                 (unsigned long long)refusal_seconds(why));
        call->headers.extra = arena_dup(&call->arena, tidings_str(header));
    }
    fail_as(call, &e, status);
}

/* What one may not see does not exist, in data.reason as in the code. */
static struct tidings_str reason_of(int code, struct tidings_str uri)
{
    bool is_missing = code == TIDINGS_E_NOTFOUND || code == TIDINGS_E_DENIED;
    return is_missing && uri.len > 0 ? STR("not_found") : STR_EMPTY;
}

void call_fail_request(struct call *call, const struct request *r, struct tidings_str uri,
                       struct tidings_str reason)
{
    struct tidings_error err = r->err; /* the request goes with the call */
    struct dialect_error e = {.message = tidings_str(err.text),
                              .uri = uri,
                              .reason = reason,
                              .details = request_details(r)};
    if (reason.len == 0 && e.details.len == 0) {
        e.reason = reason_of(err.code, uri);
    }
    fail(call, err.code, &e);
}

void call_fail_capability(struct call *call, const char *text, struct tidings_str required_json)
{
    struct dialect_error e = {.code = RPC_MISSING_CAPABILITY,
                              .message = tidings_str(text),
                              .required_json = required_json};
    call_fail_with(call, &e);
}

void call_fail_rpc(struct call *call, int rpc_code, struct tidings_str uri, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    struct dialect_error e = {.code = rpc_code, .message = tidings_str(text), .uri = uri};
    call_fail_with(call, &e);
}

void call_fail(struct call *call, int code, struct tidings_str uri, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    struct dialect_error e = {
        .message = tidings_str(text), .uri = uri, .reason = reason_of(code, uri)};
    fail(call, code, &e);
}

void call_fail_reason(struct call *call, int code, struct tidings_str uri,
                      struct tidings_str reason, const char *text)
{
    struct dialect_error e = {.message = tidings_str(text), .uri = uri, .reason = reason};
    fail(call, code, &e);
}

void call_fail_err(struct call *call, const struct tidings_error *err, struct tidings_str uri)
{
    struct dialect_error e = {
        .message = tidings_str(err->text), .uri = uri, .reason = reason_of(err->code, uri)};
    fail(call, err->code, &e);
}

void call_accept(struct call *call)
{
    struct channel *channel = call->cancelled ? NULL : call->channel;
    call_free(call);
    if (channel) {
        channel->ops->accepted(channel);
    }
}

void call_drop(struct call *call)
{
    struct batch *batch = call->batch;
    call_free(call);
    if (batch) {
        batch_done(batch);
    }
}

static void abandon(struct call *call)
{
    call->cancelled = true;
    list_remove(&call->link);
    list_remove(&call->session_link);
    list_remove(&call->asked_link);
    if (call->request) {
        request_cancel(call->request);
    }
}

void call_cancel(struct call *call)
{
    struct channel *channel = call->channel;
    struct sink *sink = call->sink;
    bool alone = !call->batch;
    abandon(call);
    if (sink) {
        sink->ops->end(sink); /* and nothing more is said */
    } else if (alone && channel && channel->ops->is_http) {
        channel->ops->accepted(channel); /* the exchange still needs an end */
    }
}

/* ---- deadlines ------------------------------------------------------------------------------- */

void call_asks(struct call *call, struct request *request)
{
    call->request = request;
    call->asked_ms = loop_now_ms(call->core->loop);
    list_remove(&call->asked_link);
    list_append(&call->core->asked, &call->asked_link);
}

void call_asked(struct call *call)
{
    call->request = NULL;
    list_remove(&call->asked_link);
}

/* A provider may still be writing into the answer: another call is answered in its place, and this
 * one vanishes when the provider is done. */
static void expire(struct call *call, uint64_t allowed_ms)
{
    list_remove(&call->asked_link);
    struct call *other = call->channel ? call_create(call->channel, call->root, &call->msg) : NULL;
    if (!other) {
        return; /* nobody there; or no memory, then it waits on */
    }
    call->core->stats.requests--;
    other->era = call->era;
    other->revision = call->revision;
    other->headers = call->headers;
    other->batch = call->batch;
    other->sink = call->sink;
    call->batch = NULL;
    call->sink = NULL;
    abandon(call);
    call->channel = NULL;
    limit_hit(other->core->book, LIMIT_CALL_TIME);
    call_fail(other, TIDINGS_E_TIMEOUT, STR_EMPTY,
              "whoever provides this did not answer within %llu ms (--call-timeout)",
              (unsigned long long)allowed_ms);
}

void calls_expire(struct core *core)
{
    uint64_t allowed = core->limits->call_timeout_ms, now = loop_now_ms(core->loop);
    while (allowed > 0 && !list_empty(&core->asked)) {
        struct call *oldest = list_entry(core->asked.next, struct call, asked_link);
        if (oldest->asked_ms + allowed > now) {
            break;
        }
        expire(oldest, allowed);
    }
}

struct call *call_find(struct list *calls, struct tidings_str id_json, bool by_session)
{
    list_each (it, next, calls) {
        struct call *call = by_session ? list_entry(it, struct call, session_link)
                                       : list_entry(it, struct call, link);
        if (str_eq(call->id_json, id_json)) {
            return call;
        }
    }
    return NULL;
}

/* ---- batches --------------------------------------------------------------------------------- */

struct batch *batch_create(struct channel *channel)
{
    struct batch *batch = mem_zalloc(sizeof(*batch));
    if (!batch) {
        return NULL;
    }
    const struct core_limits *limits = channel->core->limits;
    batch->channel = channel;
    batch->open = 1;
    batch->next = channel->batches;
    channel->batches = batch;
    buf_init(&batch->out, limits->max_read_bytes * CALL_OUT_FACTOR + CALL_OUT_EXTRA);
    return batch;
}

static void put_refusal(struct buf *out, int rpc_code, const char *text)
{
    struct jw w;
    jw_init(&w, out);
    struct dialect_error e = {.code = rpc_code, .message = tidings_str(text)};
    dialect_write_error(&w, STR_EMPTY, &e);
}

void batch_refuse(struct batch *batch, int rpc_code, const char *text)
{
    buf_putc(&batch->out, batch->count++ == 0 ? '[' : ',');
    put_refusal(&batch->out, rpc_code, text);
}

void batch_add(struct batch *batch, struct call *call)
{
    call->batch = batch;
    batch->open++;
}

static void batch_done(struct batch *batch)
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
            buf_init(&batch->out, CALL_OUT_EXTRA);
            put_refusal(&batch->out, RPC_INTERNAL, "the answers do not fit; send fewer at a time");
        }
        static const struct answer_headers none;
        channel->ops->answer(channel, 200, &none, &batch->out);
    } else if (channel) {
        channel->ops->accepted(channel);
    }
    buf_deinit(&batch->out);
    mem_free(batch);
}

void batch_close(struct batch *batch)
{
    batch_done(batch);
}

/* ---- channels -------------------------------------------------------------------------------- */

void channel_principal(const struct channel *channel, char out[PRINCIPAL_MAX])
{
    bool is_known = channel->who && channel->who->kind != PRINCIPAL_ANONYMOUS;
    snprintf(out, PRINCIPAL_MAX, "%s", is_known ? channel->who->name.ptr : channel->ops->name);
    if (!is_known && channel->ops->principal) {
        channel->ops->principal(channel, out);
    }
}

struct allowance *channel_allowance(const struct channel *channel)
{
    char name[PRINCIPAL_MAX];
    channel_principal(channel, name);
    return allowances_find(hub_allowances(channel->core->hub), tidings_str(name),
                           loop_now_ms(channel->core->loop));
}

void channel_set_who(struct channel *channel, const struct principal *who)
{
    const struct principal *old = channel->who;
    channel->who = principal_ref(who);
    principal_unref(old);
}

void channel_init(struct channel *channel, const struct channel_ops *ops, struct core *core)
{
    memset(channel, 0, sizeof(*channel));
    channel->ops = ops;
    channel->core = core;
    list_init(&channel->calls);
}

bool channel_may_go_on(struct channel *channel)
{
    struct core *core = channel->core;
    uint32_t turn = loop_turn_number(core->loop);
    if (channel->turn != turn) {
        channel->turn = turn;
        channel->handled = 0;
    }
    if (channel->handled >= CHANNEL_QUANTUM) {
        core->stats.pauses++;
        return false;
    }
    channel->handled++;
    if (channel->handled > core->stats.most_per_turn) {
        core->stats.most_per_turn = channel->handled;
    }
    return true;
}

struct quota *channel_quota(const struct channel *channel)
{
    return channel->who && channel->who->quota ? channel->who->quota : channel->quota;
}

void channel_deinit(struct channel *channel)
{
    list_each (it, next, &channel->calls) {
        struct call *call = list_entry(it, struct call, link);
        call->channel = NULL;
        call->sink = NULL;
        if (call->session) {
            list_remove(&call->link); /* losing the connection cancels nothing in that era */
        } else {
            abandon(call);
        }
    }
    for (; channel->batches; channel->batches = channel->batches->next) {
        channel->batches->channel = NULL;
    }
    peer_destroy(channel->peer);
    channel->peer = NULL;
    channel_set_who(channel, NULL);
}
