/* SPDX-License-Identifier: MIT
 *
 * Inbound messages. The checks are in the order of the specification: JSON, JSON-RPC, era, `_meta`,
 * headers, version, session, method, parameters.
 */
#include "engine/protocol/inbound.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/str.h"
#include "base/time.h"
#include "engine/delivery/list_changed.h"
#include "engine/delivery/subscribe.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/channel.h"
#include "engine/protocol/feature.h"
#include "engine/protocol/method.h"
#include "engine/protocol/request.h"
#include "engine/protocol/session.h"
#include "engine/protocol/session_migration.h"
#include "formats/http.h"
#include "formats/http_fields.h"
#include "security/limits.h"

/* -------------------------------------------------------------------------------------------------
 * Shared by the parts of inbound: refusing a message, and finding the session it names.
 */

/* -------------------------------------------------------------------------------------------------
 * Answers messages that are refused before there is a request: an error, a status, a line in the
 * access log.
 */

#define REFUSAL_MAX (64u * 1024u)

static void inbound_refuse_with(struct channel *channel, int status,
                                const struct response_headers *headers, struct json *id,
                                const struct dialect_error *e)
{
    struct buf text, id_json;
    buf_init(&text, REFUSAL_MAX);
    buf_init(&id_json, REFUSAL_MAX);
    struct jw w;
    if (id) {
        jw_init(&w, &id_json);
        jw_value(&w, id);
    }
    jw_init(&w, &text);
    dialect_write_error(&w, buf_str(&id_json), e);
    struct log_context context = {.request_id = ""};
    access_log_number(channel->worker, context.request_id);
    const struct log_context *before = log_enter(&context);
    channel_failed_rpc(channel, channel->principal, NULL, e, false);
    const struct access_log_line line = {.code = e->code,
                                         .reason = e->message,
                                         .principal = channel->principal,
                                         .bytes_in = channel->worker->message_bytes,
                                         .bytes_out = text.len};
    access_log_other(channel, &line);
    (void)log_enter(before);
    if (text.failed || id_json.failed) { /* half a message is useless */
        buf_deinit(&text);
        buf_init(&text, 0);
    }
    channel->ops->answer(channel, status, headers, &text);
    buf_deinit(&text);
    buf_deinit(&id_json);
}

/* Answers with an error, without a request; `id` NULL: unknown. */
static void inbound_answer_error(struct channel *channel, int status, struct json *id,
                                 const struct dialect_error *e)
{
    static const struct response_headers none;
    inbound_refuse_with(channel, status, &none, id, e);
}

void inbound_refuse_limit(struct channel *channel, const struct refusal *why, struct json *id)
{
    char sentence[REFUSAL_SENTENCE], data[REFUSAL_JSON], header[40];
    struct dialect_error e = {
        .code = RPC_INTERNAL,
        .message = tidings_str(refusal_sentence(why, sentence)),
        .reason = STR("limit"),
        .details = refusal_json(why, data),
    };
    snprintf(header, sizeof(header), "Retry-After: %llu\r\n",
             (unsigned long long)refusal_seconds(why));
    struct response_headers headers = {.extra = tidings_str(header)};
    inbound_refuse_with(channel, refusal_status(why), &headers, id, &e);
}

void inbound_refuse(struct channel *channel, int status, int rpc_code, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    struct dialect_error e = {.code = rpc_code, .message = tidings_str(text)};
    inbound_answer_error(channel, status, NULL, &e);
}

void inbound_refuse_later(struct channel *channel, const char *text)
{
    static const struct response_headers headers = {.extra = {"Retry-After: 1\r\n", 16}};
    const struct dialect_error e = {
        .code = RPC_INTERNAL, .message = tidings_str(text), .details = STR(REQUEST_LATER)};
    inbound_refuse_with(channel, 503, &headers, NULL, &e);
}

/* -------------------------------------------------------------------------------------------------
 * Finds the session that a legacy request names, opens its stream (GET) and ends it (DELETE).
 */

static struct session *inbound_need_session(struct channel *channel,
                                            const struct dialect_headers *h, struct json *id)
{
    struct dialect_error e = {
        .code = dialect_code_uninitialized(channel->worker->self->profile, RPC_SESSION),
    };
    if (!h->session_id.ptr) {
        e.message = STR("the header Mcp-Session-Id is missing; send initialize to get a session");
        inbound_answer_error(channel, 400, id, &e);
        return NULL;
    }
    struct session *session = session_find(channel->worker, h->session_id, channel->principal);
    if (!session) {
        e.message = STR("session not found or ended; send initialize to get a new one");
        inbound_answer_error(channel, 404, id, &e);
    }
    return session;
}

static bool check_stream_version(struct channel *channel, const struct dialect_headers *h)
{
    const struct server_identity *self = channel->worker->self;
    int status = dialect_check_stream(h->protocol_version, self->ceiling, self->profile);
    if (status == 405) {
        static const struct response_headers post_only = {.allow = {"POST", 4}};
        struct buf text;
        buf_init(&text, 1024);
        struct jw w;
        struct dialect_error e = {.code = RPC_INVALID_REQUEST,
                                  .message = STR("this revision uses POST only")};
        jw_init(&w, &text);
        dialect_write_error(&w, STR_EMPTY, &e);
        channel->ops->answer(channel, 405, &post_only, &text);
        buf_deinit(&text);
    } else if (status) {
        inbound_refuse(channel, status, RPC_UNSUPPORTED_VERSION,
                       "unsupported MCP-Protocol-Version '%.*s'", STR_ARG(h->protocol_version));
    }
    return status == 0;
}

void inbound_get(struct channel *channel, const struct dialect_headers *h)
{
    if (!check_stream_version(channel, h)) {
        return;
    }
    struct session *session = inbound_need_session(channel, h, NULL);
    if (!session) {
        return;
    }
    int rc = session_open_stream(session, channel, h->last_event_id);
    if (rc == TIDINGS_E_DENIED) {
        inbound_refuse(channel, 404, RPC_SESSION,
                       "no such event; open the stream without Last-Event-ID");
    } else if (rc == TIDINGS_E_NOTFOUND) {
        inbound_refuse(channel, 400, RPC_SESSION,
                       "the request of that stream was answered or has ended; send it again");
    } else if (rc < 0) {
        limit_hit(channel->worker->limit_counters, LIMIT_SESSION_STREAMS);
        inbound_refuse(channel, 409, RPC_SESSION,
                       "this session has %u streams open already; close one first",
                       SESSION_MAX_STREAMS);
    }
}

void inbound_delete(struct channel *channel, const struct dialect_headers *h)
{
    if (!check_stream_version(channel, h)) {
        return;
    }
    struct session *session = inbound_need_session(channel, h, NULL);
    if (session) {
        channel->worker->ending = "its session was ended by the client";
        session_end(session);
        channel->worker->ending = NULL;
        static const struct response_headers none;
        struct buf nothing;
        buf_init(&nothing, 0);
        channel->ops->answer(channel, 204, &none, &nothing);
    }
}

/* ---------------------------------------------------------------------------------------------- */

#define ID_MAX (64u * 1024u)
#define BATCH_MAX 100u

struct arrival {
    struct channel *channel;
    const struct dialect_headers *headers;
    struct batch *batch;     /* NULL: not in a batch */
    struct session *session; /* of the batch */
};

static void refuse_verdict(struct channel *channel, const struct rpc_message *msg,
                           const struct dialect_verdict *v)
{
    struct dialect_error e = {
        .code = v->code,
        .message = tidings_str(v->text.text),
        .versions = v->lists_versions ? v : NULL,
        .ceiling = channel->worker->self->ceiling,
    };
    inbound_answer_error(channel, v->status, msg->kind == RPC_REQUEST ? msg->id : NULL, &e);
}

/* Returns true if the profile opens a session for a message without one. */
static bool opens_unasked(const struct arrival *a)
{
    return !a->headers->session_id.ptr && dialect_rules(a->channel->worker->self)->opens_sessions;
}

static struct session *open_unasked(struct channel *channel, const struct dialect_headers *h,
                                    struct json *id)
{
    struct session *session = NULL;
    struct tidings_error err;
    struct refusal why;
    const struct revision *rev = dialect_assume(h->protocol_version);
    int rc = session_open(channel, rev, &session, &why, &err);
    if (rc == TIDINGS_E_LIMIT) {
        inbound_refuse_limit(channel, &why, id);
        return NULL;
    }
    if (rc < 0) {
        struct dialect_error e = {.code = RPC_INTERNAL, .message = tidings_str(err.text)};
        inbound_answer_error(channel, 503, id, &e);
        return NULL;
    }
    return session;
}

/* ---- notifications --------------------------------------------------------------------------- */

/* notifications/cancelled: one table of the requests under way, for both eras. */
static void inbound_cancel(struct channel *channel, struct session *session,
                           const struct rpc_message *msg)
{
    struct json *id = jv_get(msg->params, "requestId");
    if (!jv_is(id, JV_INT) && !jv_is(id, JV_STRING)) {
        return;
    }
    struct buf text;
    buf_init(&text, ID_MAX);
    struct jw w;
    jw_init(&w, &text);
    jw_value(&w, id);
    struct tidings_str id_json = buf_str(&text);
    struct request *request = session ? request_find(&session->requests, id_json, true)
                                      : request_find(&channel->requests, id_json, false);
    if (request && !str_eq(request->msg.method, STR("initialize"))) {
        request_cancel(request);
    } else if (!request && !session && channel->subscriber && !channel->ops->is_http) {
        struct subscription_group *group = subscription_group_find(channel->subscriber, id_json);
        if (group && group->id_len > 0) {
            channel->worker->ending = "cancelled by the client";
            subscription_group_destroy(group);
            channel->worker->ending = NULL;
        }
    }
    buf_deinit(&text);
}

static void inbound_ready(struct channel *channel, struct session *session, struct request *request)
{
    if (session) {
        session->initialized = true;
        session_changed(session, NULL);
        list_changed_watch(session->group);
        if (request) {
            request_accept(request);
        }
        return;
    }
    if (!channel->revision || channel->initialized) {
        return;
    }
    channel->initialized = true;
    struct subscriber *subscriber = subscriber_of_channel(channel);
    struct subscription_group *group =
        subscriber ? subscription_group_find(subscriber, STR_EMPTY) : NULL;
    if (subscriber && !group) {
        group = subscription_group_create(subscriber, STR_EMPTY);
    }
    if (group) {
        group->is_open = true;
        list_changed_want(group, channel->promised);
        list_changed_watch(group);
    }
}

static void inbound_notification(struct channel *channel, struct session *session,
                                 const struct rpc_message *msg)
{
    if (str_eq(msg->method, STR("notifications/cancelled"))) {
        inbound_cancel(channel, session, msg);
    } else if (str_eq(msg->method, STR("notifications/initialized"))) {
        inbound_ready(channel, session, NULL);
    }
}

/* ---- one message ----------------------------------------------------------------------------- */

static void refuse_in_batch(struct arrival *a, struct json *root, const struct rpc_message *msg,
                            int code, const char *text)
{
    struct request *request = request_create(a->channel, root, msg);
    if (request) {
        request_batch_add(a->batch, request);
        request_fail_rpc(request, code, STR_EMPTY, "%s", text);
    }
}

/* A message connection becomes visible with its first request. Without memory it stays
 * invisible. */
static void inbound_greet(struct request *request)
{
    struct channel *channel = request->channel;
    bool is_new = !channel->subscriber;
    struct subscriber *subscriber = subscriber_register(channel);
    if (subscriber && request->meta && (is_new || subscriber->client == 0)) {
        subscriber->is_modern = true;
        subscriber_set_client(subscriber, dialect_client_info(request->meta));
    }
}

/* Reads the message's trace from `_meta` (SEP-414) or from its headers. */
static void inbound_read_trace(struct request *request, const struct dialect_headers *headers)
{
    const struct json *meta = jv_get(request->msg.params, "_meta");
    struct tidings_str parent = jv_str(jv_get(meta, "traceparent"));
    struct tidings_str state = jv_str(jv_get(meta, "tracestate"));
    struct trace trace;
    bool is_there = parent.len > 0 && trace_read(parent, state, &trace);
    if (!is_there && headers && headers->all) {
        unsigned count = 0;
        parent = http_header(headers->all, "traceparent", &count);
        is_there =
            count == 1 && trace_read(parent, http_header(headers->all, "tracestate", NULL), &trace);
    }
    struct trace *kept = is_there ? arena_alloc(&request->arena, sizeof(trace)) : NULL;
    if (kept) {
        *kept = trace;
        request->trace = kept;
        memcpy(request->context.trace_id, trace_id(kept).ptr, TRACE_ID_LEN);
        memcpy(request->context.span_id, trace_span_id(kept).ptr, TRACE_SPAN_LEN);
    }
}

static void inbound_run(struct arrival *a, struct json *root, const struct rpc_message *msg,
                        const struct dialect_verdict *v, struct session *session)
{
    struct channel *channel = a->channel;
    struct request *request = request_create(channel, root, msg);
    if (!request) {
        if (a->batch) {
            request_batch_refuse(a->batch, RPC_INTERNAL, "out of memory");
        } else {
            inbound_refuse(channel, 503, RPC_INTERNAL, "out of memory");
        }
        return;
    }
    request->era = v->era;
    request->meta = v->meta;
    request->revision = v->revision ? v->revision : session ? session->revision : channel->revision;
    request->session = session;
    if (session) {
        list_append(&session->requests, &request->session_link);
    }
    if (session && dialect_rules(channel->worker->self)->opens_sessions) {
        request->headers.session_id =
            arena_dup(&request->arena, tidings_strn(session->id, SESSION_ID_LEN));
    }
    if (a->batch) {
        request_batch_add(a->batch, request);
    }
    if (!channel->ops->is_http) {
        inbound_greet(request);
    }
    const struct subscriber *subscriber = session ? session->subscriber : channel->subscriber;
    request->client = subscriber ? subscriber->client : 0;
    inbound_read_trace(request, a->headers);
    const struct log_context context =
        request->context; /* which may go before the method is done */
    const struct log_context *before = log_enter(&context);
    method_run(request);
    (void)log_enter(before);
}

/* Headers that repeat arguments of a tool. */
static void check_header_params(const struct worker *worker, const struct dialect_headers *headers,
                                const struct rpc_message *msg, struct dialect_verdict *v)
{
    if (!headers->all || !str_eq(msg->method, STR("tools/call"))) {
        return;
    }
    const struct feature *f =
        feature_find(worker->handlers->features[FEATURE_TOOL], jv_str(jv_get(msg->params, "name")));
    if (f && !header_params_holds(f->header_params, jv_get(msg->params, "arguments"), headers->all,
                                  &v->text)) {
        v->status = 400;
        v->code = RPC_HEADER_MISMATCH;
    }
}

/* Checks the client's request rate. Returns true if the client has exceeded it and got an error.
 * Messages on a message connection that are not requests cannot be answered: they count and are
 * handled anyway. */
static bool is_too_often(struct arrival *a, struct json *root, const struct rpc_message *msg)
{
    struct channel *channel = a->channel;
    struct refusal why;
    if (quota_take_request(channel_quota(channel), loop_now_ms(channel->worker->loop), &why)) {
        return false;
    }
    if (a->batch) {
        struct request *request =
            msg->kind == RPC_REQUEST ? request_create(channel, root, msg) : NULL;
        if (request) {
            request_batch_add(a->batch, request);
            request_fail_limit(request, &why, STR_EMPTY);
        }
        return request != NULL;
    }
    if (msg->kind != RPC_REQUEST && !channel->ops->is_http) {
        return false;
    }
    inbound_refuse_limit(channel, &why, msg->kind == RPC_REQUEST ? msg->id : NULL);
    return true;
}

static bool opens_session(const struct rpc_message *msg)
{
    return msg->kind == RPC_REQUEST && str_eq(msg->method, STR("initialize"));
}

static bool needs_session(const struct arrival *a, const struct rpc_message *msg,
                          const struct dialect_verdict *v)
{
    return a->channel->ops->is_http && v->is_sessionful && !opens_session(msg) && !a->session;
}

/* `initialize` in a session that is initialized already. Refuses it and returns true. */
static bool refuse_second_initialize(const struct arrival *a, const struct rpc_message *msg)
{
    struct channel *channel = a->channel;
    const struct server_identity *self = channel->worker->self;
    if (!channel->ops->is_http || a->batch || !opens_session(msg) || !a->headers->session_id.ptr ||
        dialect_rules(self)->opens_sessions ||
        !session_find(channel->worker, a->headers->session_id, channel->principal)) {
        return false;
    }
    struct dialect_error e = {
        .code = dialect_code_uninitialized(self->profile, RPC_INVALID_REQUEST),
        .message = STR("this session is initialized already; leave out Mcp-Session-Id to open "
                       "another"),
    };
    inbound_answer_error(channel, 400, msg->id, &e);
    return true;
}

/* Returns NULL after an answer. */
static struct session *find_session(const struct arrival *a, const struct rpc_message *msg)
{
    struct json *id = msg->kind == RPC_REQUEST ? msg->id : NULL;
    if (!opens_unasked(a)) {
        return inbound_need_session(a->channel, a->headers, id);
    }
    if (!id) { /* no client would learn the session's id */
        a->channel->ops->accepted(a->channel);
        return NULL;
    }
    return open_unasked(a->channel, a->headers, id);
}

static void inbound_one(struct arrival *a, struct json *root)
{
    struct channel *channel = a->channel;
    struct rpc_message msg;
    struct tidings_error err;
    if (rpc_read(root, &msg, &err) < 0) {
        struct dialect_error e = {.code = RPC_INVALID_REQUEST, .message = tidings_str(err.text)};
        if (!a->batch) {
            inbound_answer_error(channel, 400, msg.id, &e);
        } else if (msg.id) {
            refuse_in_batch(a, root, &msg, RPC_INVALID_REQUEST, err.text);
        } else {
            request_batch_refuse(a->batch, RPC_INVALID_REQUEST, err.text);
        }
        return;
    }
    if (is_too_often(a, root, &msg)) {
        return;
    }
    struct dialect_context ctx = {
        .headers = a->headers,
        .ceiling = channel->worker->self->ceiling,
        .profile = channel->worker->self->profile,
        .handshaken = channel->revision != NULL,
    };
    struct dialect_verdict v;
    dialect_check(&ctx, &msg, &v);
    if (a->batch && (!v.may_be_batched || v.code)) {
        if (msg.kind == RPC_REQUEST) {
            refuse_in_batch(a, root, &msg, RPC_INVALID_REQUEST,
                            "this message may not be part of a batch");
        }
        return;
    }
    if (v.code == 0 && v.repeats_params && a->headers) {
        check_header_params(channel->worker, a->headers, &msg, &v);
    }
    if (v.code) {
        if (msg.kind == RPC_REQUEST || channel->ops->is_http) {
            refuse_verdict(channel, &msg, &v);
        }
        return;
    }
    if (v.is_sessionful && refuse_second_initialize(a, &msg)) {
        return;
    }
    struct session *session = a->session;
    if (needs_session(a, &msg, &v)) {
        session = find_session(a, &msg);
        if (!session) {
            return;
        }
    }
    if (msg.kind == RPC_REQUEST) {
        inbound_run(a, root, &msg, &v, session);
        return;
    }
    if (!a->batch && session && msg.kind == RPC_NOTIFICATION &&
        str_eq(msg.method, STR("notifications/initialized"))) {
        struct request *request = request_create(channel, root, &msg);
        if (request) {
            inbound_ready(channel, session, request);
            return;
        }
    }
    if (msg.kind == RPC_NOTIFICATION) {
        inbound_notification(channel, session, &msg);
    } else {
        client_requests_answer(
            session ? session->client_requests : channel_client_requests(channel), msg.id, root);
    }
    if (!a->batch) {
        channel->ops->accepted(channel);
    }
}

/* ---- batches --------------------------------------------------------------------------------- */

static void inbound_batch(struct arrival *a, struct json *root)
{
    struct channel *channel = a->channel;
    const struct revision *rev = channel->revision;
    if (channel->ops->is_http) {
        if (!a->headers->session_id.ptr) {
            inbound_refuse(channel, 400, RPC_INVALID_REQUEST,
                           "a batch needs a session of revision 2025-03-26");
            return;
        }
        a->session = inbound_need_session(channel, a->headers, NULL);
        if (!a->session) {
            return;
        }
        rev = a->session->revision;
    }
    if (!rev || !rev->has_batches) {
        inbound_refuse(channel, 400, RPC_INVALID_REQUEST,
                       "batches exist in revision 2025-03-26 only; send one message at a time");
        return;
    }
    size_t n = jv_count(root);
    if (n > BATCH_MAX) {
        limit_hit(channel->worker->limit_counters, LIMIT_BATCH);
    }
    if (n == 0 || n > BATCH_MAX) {
        inbound_refuse(channel, 400, RPC_INVALID_REQUEST, "a batch holds 1 to %u messages",
                       BATCH_MAX);
        return;
    }
    a->batch = request_batch_create(channel);
    if (!a->batch) {
        inbound_refuse(channel, 503, RPC_INTERNAL, "out of memory");
        return;
    }
    channel->handled += (uint16_t)(n - 1); /* its arrival has counted one */
    for (size_t i = 0; i < n; i++) {
        inbound_one(a, jv_at(root, i));
    }
    request_batch_close(a->batch);
}

void inbound_text(struct channel *channel, struct tidings_str text,
                  const struct dialect_headers *headers)
{
    struct json *root = NULL;
    struct tidings_error err;
    worker_trim_later(channel->worker, text.len);
    channel->worker->message_bytes = text.len;
    if (principal_renew(channel->worker->principals, &channel->principal) < 0) {
        inbound_refuse(channel, 503, RPC_INTERNAL, "out of memory");
        return;
    }
    if (!channel->ops->is_http && principal_is_expired(channel->principal, clock_wall_ms())) {
        inbound_refuse(channel, 401, RPC_INVALID_REQUEST,
                       "the token or certificate this connection began with has expired; connect "
                       "again");
        return;
    }
    int rc = jv_parse(text, channel->worker->limits->max_depth, &root, &err);
    if (rc < 0) {
        if (rc == TIDINGS_E_LIMIT) {
            limit_hit(channel->worker->limit_counters, LIMIT_DEPTH);
        }
        inbound_refuse(channel, 400, RPC_PARSE_ERROR, "not valid JSON: %s", err.text);
        return;
    }
    struct arrival a = {.channel = channel, .headers = headers};
    if (jv_is(root, JV_ARRAY)) {
        inbound_batch(&a, root);
    } else {
        inbound_one(&a, root);
    }
    jv_unref(root);
}
