/* SPDX-License-Identifier: MIT
 *
 * Handling messages that come in. The order of checks is the specification's: JSON, JSON-RPC, era,
 * `_meta`, headers, version, session, method, parameters.
 */
#include "protocol/inbound.h"

#include "access/quota.h"
#include "base/clock.h"
#include "base/str.h"
#include "delivery/list_changed.h"
#include "delivery/listen.h"
#include "delivery/subscribe.h"
#include "handler/feature.h"
#include "handler/handlers.h"
#include "handler/header_params.h"
#include "protocol/inbound_private.h"
#include "protocol/method.h"
#include "protocol/session_moving.h"
#include "request/access_log.h"
#include "request/asking.h"
#include "request/request.h"
#include "wire/http.h"
#include "wire/trace.h"

#define ID_MAX (64u * 1024u)
#define BATCH_MAX 100u

struct arrival {
    struct channel *channel;
    const struct dialect_headers *headers;
    struct batch *batch;     /* NULL: by itself */
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

/* Does the profile want a session for whatever comes without one? */
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

/* notifications/cancelled: one table of what is under way, whatever the era. */
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
        struct listen *listen = listen_find(channel->subscriber, id_json);
        if (listen && listen->id_len > 0) {
            channel->worker->ending = "cancelled by the client";
            listen_destroy(listen);
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
        list_changed_watch(session->listen);
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
    struct listen *listen = subscriber ? listen_find(subscriber, STR_EMPTY) : NULL;
    if (subscriber && !listen) {
        listen = listen_create(subscriber, STR_EMPTY);
    }
    if (listen) {
        listen->is_open = true;
        list_changed_want(listen, channel->promised);
        list_changed_watch(listen);
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

/* A message connection is there from its first request on. Without memory it is not seen. */
static void inbound_greet(struct request *request)
{
    struct channel *channel = request->channel;
    bool is_new = !channel->subscriber;
    struct subscriber *subscriber = subscriber_greet(channel);
    if (subscriber && request->meta && (is_new || subscriber->client == 0)) {
        subscriber->is_modern = true;
        subscriber_set_client(subscriber, dialect_client_info(request->meta));
    }
}

/* The trace it belongs to: `_meta` says so (SEP-414), or the headers it came with. */
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

/* Has its client asked too often? Then it was told so. What is no request and came on a message
 * connection cannot be answered: it counts, and is handled all the same. */
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

/* `initialize` in a session that has had one. Refused, and true. */
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

/* NULL after having answered. */
static struct session *find_session(const struct arrival *a, const struct rpc_message *msg)
{
    struct json *id = msg->kind == RPC_REQUEST ? msg->id : NULL;
    if (!opens_unasked(a)) {
        return inbound_need_session(a->channel, a->headers, id);
    }
    if (!id) { /* nobody would learn of the session */
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
    dialect_judge(&ctx, &msg, &v);
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
        asking_answer(session ? session->asking : channel_asking(channel), msg.id, root);
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
    channel->handled += (uint16_t)(n - 1); /* one was counted when it came */
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
