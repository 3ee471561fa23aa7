/* SPDX-License-Identifier: MIT
 *
 * JSON-RPC requests: written in the form of the era, numbered, and waiting for their response, a
 * deadline or their cancellation. A request is in exactly one list: `unsent` until the client is
 * ready, `in_flight` from then on.
 */
#include "client/requests.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/time.h"
#include "client/client.h"
#include "client/client_internal.h"
#include "client/comparison.h"
#include "client/connection.h"
#include "client/events.h"
#include "client/questions.h"
#include "client/subscriptions.h"
#include "client/tools.h"
#include "formats/json.h"
#include "formats/json_write.h"
#include "formats/rpc.h"

/* ---------------------------------------------------------------------------------------------- */

#define REQUESTS_FIELDS_MAX 16384u /* bytes of arguments that are header fields too */
#define LONGEST 10u /* progress extends the time limit of an answer, up to this number of times */

struct request {
    struct list link;
    struct tidings_client *client;
    struct loop_timer deadline;
    uint64_t last_due; /* independent of progress */
    int64_t id;        /* number for the program */
    int64_t wire;      /* … and for the server: another one in each round */
    char *method;
    struct json *params; /* NULL: none */
    response_fn fn;
    progress_fn on_progress;
    void *user;
    uint32_t timeout_ms;
    bool is_stream, is_connecting, is_sent, is_retried, can_ask;
    struct input_round *round; /* NULL: the server has not asked for input */
    unsigned asked;            /* questions in the legacy era */
};

static struct tidings_str requests_key_of(const int64_t *id)
{
    return tidings_strn((const char *)id, sizeof(*id));
}

static struct request *requests_find(const struct tidings_client *c, int64_t id)
{
    return map_find(&c->requests, requests_key_of(&id));
}

static void take_out(struct request *r)
{
    loop_timer_stop(&r->deadline);
    list_remove(&r->link);
    map_remove(&r->client->requests, requests_key_of(&r->id));
    if (r->wire != r->id) {
        map_remove(&r->client->requests, requests_key_of(&r->wire));
    }
}

static void input_round_free(struct input_round *r);

static void requests_request_free(struct request *r)
{
    input_round_free(r->round);
    jv_unref(r->params);
    mem_free(r->method);
    mem_free(r);
}

static void request_finish(struct request *r, struct response *a)
{
    take_out(r);
    a->id = r->id;
    r->fn(r->user, a);
    requests_request_free(r);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_client(struct jw *w, const struct tidings_client *c)
{
    jw_put_string(w, STR("io.modelcontextprotocol/protocolVersion"), STR(CLIENT_MODERN));
    jw_key(w, STR("io.modelcontextprotocol/clientCapabilities"));
    question_put_capabilities(c, w);
    jw_key(w, STR("io.modelcontextprotocol/clientInfo"));
    jw_begin_object(w);
    jw_put_string(w, STR("name"), tidings_str(c->settings.name));
    jw_put_string(w, STR("version"), tidings_str(tidings_version()));
    jw_end_object(w);
}

/* The members of `object` except the one with that name. */
static void requests_put_members(struct jw *w, struct json *object, struct tidings_str but)
{
    struct tidings_str key;
    struct json *value;
    for (void *at = NULL; (at = jv_next(object, at, &key, &value)) != NULL;) {
        if (!str_eq(key, but)) {
            jw_key(w, key);
            jw_value(w, value);
        }
    }
}

static void input_round_put(const struct input_round *r, struct jw *w);

/* {"jsonrpc":"2.0","id":…,"method":…,"params":{"_meta":{…},…}}; `id` 0: a notification. */
static void requests_put_message(struct buf *out, const struct tidings_client *c,
                                 const struct request *r)
{
    struct json *meta = jv_get(r->params, "_meta");
    bool is_modern = c->era != TIDINGS_ERA_LEGACY;
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("jsonrpc"), STR("2.0"));
    if (r->id > 0) {
        jw_put_integer(&w, STR("id"), r->wire);
    }
    jw_put_string(&w, STR("method"), tidings_str(r->method));
    jw_key(&w, STR("params"));
    jw_begin_object(&w);
    const struct trace *trace = &c->settings.trace;
    bool has_trace = trace_is_there(trace) && r->id > 0 && !jv_get(meta, "traceparent");
    if (is_modern || r->on_progress || has_trace || jv_count(meta) > 0) {
        jw_key(&w, STR("_meta"));
        jw_begin_object(&w);
        if (is_modern) {
            put_client(&w, c);
            server_log_put_level(c, meta, &w);
        }
        if (r->on_progress) {
            jw_put_integer(&w, STR("progressToken"), r->wire);
        }
        if (has_trace) {
            jw_put_string(&w, STR("traceparent"), tidings_str(trace->parent));
        }
        if (has_trace && trace->state[0]) {
            jw_put_string(&w, STR("tracestate"), tidings_str(trace->state));
        }
        requests_put_members(&w, meta, r->on_progress ? STR("progressToken") : STR_EMPTY);
        jw_end_object(&w);
    }
    requests_put_members(&w, r->params, STR("_meta"));
    input_round_put(r->round, &w);
    jw_end_object(&w);
    jw_end_object(&w);
}

/* The name that modern servers over HTTP expect in a header. */
static struct tidings_str requests_name_of(const struct request *r)
{
    if (strcmp(r->method, "resources/read") == 0) {
        return jv_str(jv_get(r->params, "uri"));
    }
    if (strcmp(r->method, "tools/call") == 0 || strcmp(r->method, "prompts/get") == 0) {
        return jv_str(jv_get(r->params, "name"));
    }
    return STR_EMPTY;
}

static int transmit(struct tidings_client *c, const struct request *r, struct tidings_error *err)
{
    struct buf text, fields;
    buf_init(&text, 2 * c->settings.max_bytes);
    buf_init(&fields, REQUESTS_FIELDS_MAX);
    requests_put_message(&text, c, r);
    if (strcmp(r->method, "tools/call") == 0) {
        tool_headers_put(c, requests_name_of(r), jv_get(r->params, "arguments"), &fields);
    }
    struct transport_message m = {.text = buf_str(&text),
                                  .id = r->wire,
                                  .method = r->method,
                                  .name = requests_name_of(r),
                                  .fields = buf_str(&fields),
                                  .is_stream = r->is_stream};
    int rc = text.failed     ? tidings_fail(err, text.failed, "the request is too large")
             : fields.failed ? tidings_fail(err, fields.failed,
                                            "the arguments that are header fields too are too "
                                            "large")
                             : transport_send(c->transport, &m, err);
    buf_deinit(&text);
    buf_deinit(&fields);
    return rc;
}

/* A message that wants no response. `params` is a JSON object, empty: none. */
static int requests_send_notification(struct tidings_client *c, const char *method,
                                      struct tidings_str params, struct tidings_error *err)
{
    struct request r = {.client = c, .method = str_dup(tidings_str(method))};
    int rc = r.method ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    if (rc == 0 && params.len > 0) {
        rc = jv_parse(params, JSON_MAX_DEPTH, &r.params, err);
    }
    if (rc == 0) {
        rc = transmit(c, &r, err);
    }
    jv_unref(r.params);
    mem_free(r.method);
    return rc;
}

void requests_notify(struct tidings_client *c, const char *method)
{
    (void)requests_send_notification(c, method, STR_EMPTY, NULL);
}

/* A response to the server: {"jsonrpc":"2.0","id":…,NAME:…}. Modern servers send no requests. */
static void requests_respond(struct tidings_client *c, const struct json *id,
                             struct tidings_str name, struct tidings_str value)
{
    struct buf text;
    struct jw w;
    if (c->era != TIDINGS_ERA_LEGACY || !c->is_open) {
        return;
    }
    buf_init(&text, 2 * c->settings.max_bytes);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_put_string(&w, STR("jsonrpc"), STR("2.0"));
    jw_key(&w, STR("id"));
    jw_value(&w, id);
    jw_put_raw(&w, name, value);
    jw_end_object(&w);
    struct transport_message m = {.text = buf_str(&text)};
    if (!text.failed) {
        (void)transport_send(c->transport, &m, NULL);
    }
    buf_deinit(&text);
}

void requests_reply(struct tidings_client *c, const struct json *id, struct tidings_str result)
{
    requests_respond(c, id, STR("result"), result);
}

void requests_reply_error(struct tidings_client *c, const struct json *id, int code,
                          const char *message)
{
    struct buf error;
    struct jw w;
    buf_init(&error, 4096);
    jw_init(&w, &error);
    jw_begin_object(&w);
    jw_put_integer(&w, STR("code"), code);
    jw_put_string(&w, STR("message"), tidings_str(message));
    jw_end_object(&w);
    requests_respond(c, id, STR("error"),
                     error.failed ? STR("{\"code\":-32603,\"message\":\"\"}") : buf_str(&error));
    buf_deinit(&error);
}

/* ---- starting -------------------------------------------------------------------------------- */

/* Notifies the server that it may stop. Requests that begin a session cannot be cancelled. */
static void requests_send_cancelled(struct request *r)
{
    struct tidings_client *c = r->client;
    char params[64];
    if (!r->is_sent || !c->is_open) {
        return;
    }
    bool is_broken_off = c->transport->ops->has_exchanges && c->era != TIDINGS_ERA_LEGACY;
    if (!is_broken_off && strcmp(r->method, "initialize") != 0) {
        snprintf(params, sizeof(params), "{\"requestId\":%" PRId64 "}", r->wire);
        (void)requests_send_notification(c, "notifications/cancelled", tidings_str(params), NULL);
    }
    c->transport->ops->forget(c->transport, r->wire, false);
}

static void requests_on_deadline(struct loop_timer *timer, void *user)
{
    struct request *r = user;
    (void)timer;
    if (r->can_ask && r->client->question_count > 0) { /* the server waits for the client */
        loop_timer_start(&r->deadline, r->timeout_ms, 0);
        return;
    }
    struct response a = {0};
    if (r->client->held > 0) { /* a person is logging in */
        loop_timer_start(&r->deadline, r->timeout_ms, 0);
        return;
    }
    tidings_fail(&a.why, TIDINGS_E_TIMEOUT, "no answer to %s within %u ms", r->method,
                 r->timeout_ms);
    requests_send_cancelled(r);
    request_finish(r, &a);
}

static struct request *requests_create(struct tidings_client *c, const struct request_options *a,
                                       struct tidings_error *err)
{
    struct request *r = mem_zalloc(sizeof(*r));
    if (!r || !(r->method = str_dup(tidings_str(a->method)))) {
        mem_free(r);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    r->client = c;
    r->id = r->wire = ++c->next_id;
    r->can_ask = a->can_ask;
    r->fn = a->fn;
    r->on_progress = a->on_progress;
    r->user = a->user;
    r->timeout_ms = a->timeout_ms > 0 ? a->timeout_ms : c->settings.timeout_ms;
    r->is_stream = a->is_stream;
    r->is_connecting = a->is_connecting;
    list_init(&r->link);
    loop_timer_init(&r->deadline, c->loop, requests_on_deadline, r);
    struct tidings_error why = {0};
    int rc = a->params.len > 0 ? jv_parse(a->params, JSON_MAX_DEPTH, &r->params, &why) : 0;
    if (rc < 0 || (r->params && !jv_is(r->params, JV_OBJECT))) {
        tidings_fail(err, TIDINGS_E_INVALID, "the parameters of %s are not a JSON object%s%s",
                     a->method, rc < 0 ? ": " : "", why.text);
    } else if (map_put(&c->requests, requests_key_of(&r->id), r, NULL) < 0) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    } else {
        return r;
    }
    requests_request_free(r);
    return NULL;
}

int64_t requests_start(struct tidings_client *c, const struct request_options *a,
                       struct tidings_error *err)
{
    if (client_is_stopping(c)) {
        return tidings_fail(err, TIDINGS_E_CANCELLED, "stopped");
    }
    if (c->requests.count >= CLIENT_MAX_REQUESTS) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "%u requests are under way already",
                            CLIENT_MAX_REQUESTS);
    }
    struct request *r = requests_create(c, a, err);
    if (!r) {
        return err ? err->code : TIDINGS_E_INVALID;
    }
    if (!r->is_stream) {
        loop_timer_start(&r->deadline, r->timeout_ms, 0);
        r->last_due = r->deadline.due_ms + (uint64_t)(LONGEST - 1) * r->timeout_ms;
    }
    int64_t id = r->id;
    if (c->stage != STAGE_READY && !r->is_connecting) {
        list_append(&c->unsent, &r->link);
        connection_need(c); /* may fail the request at once */
        return id;
    }
    list_append(&c->in_flight, &r->link);
    r->is_sent = true;
    int rc = transmit(c, r, err);
    if (rc < 0) {
        take_out(r);
        requests_request_free(r);
        return rc;
    }
    return id;
}

void requests_send_all(struct tidings_client *c)
{
    while (!list_empty(&c->unsent) && c->stage == STAGE_READY) {
        struct request *r = list_entry(c->unsent.next, struct request, link);
        struct response a = {0};
        list_remove(&r->link);
        list_append(&c->in_flight, &r->link);
        r->is_sent = true;
        if (transmit(c, r, &a.why) < 0) {
            request_finish(r, &a);
        }
    }
}

static void requests_prolong_list(struct list *all)
{
    list_each (it, next, all) {
        struct request *r = list_entry(it, struct request, link);
        if (loop_timer_is_running(&r->deadline)) {
            loop_timer_start(&r->deadline, r->timeout_ms, 0);
        }
    }
}

void requests_prolong(struct tidings_client *c)
{
    requests_prolong_list(&c->unsent);
    requests_prolong_list(&c->in_flight);
}

bool requests_retry(struct tidings_client *c, int64_t id)
{
    struct request *r = requests_find(c, id);
    if (!r || r->is_retried || r->is_connecting) {
        return false;
    }
    r->is_retried = true;
    r->is_sent = false;
    list_remove(&r->link);
    list_append(&c->unsent, &r->link);
    return true;
}

/* ---- ending ---------------------------------------------------------------------------------- */

void requests_cancel(struct tidings_client *c, int64_t id)
{
    struct request *r = requests_find(c, id);
    if (r) {
        requests_send_cancelled(r);
        take_out(r);
        requests_request_free(r);
    }
}

void requests_forget(struct tidings_client *c, int64_t id)
{
    struct request *r = requests_find(c, id);
    if (r) {
        c->transport->ops->forget(c->transport, r->wire, false);
        take_out(r);
        requests_request_free(r);
    }
}

/* Returns true if a response to this number is expected. `is_stream` selects streams, which have no
 * time limit, or other requests. */
static bool requests_awaits(const struct tidings_client *c, int64_t id, bool is_stream)
{
    const struct request *r = requests_find(c, id);
    return r && r->is_sent && r->wire == id && r->is_stream == is_stream;
}

void *requests_user(const struct tidings_client *c, int64_t id, response_fn fn)
{
    struct request *r = requests_find(c, id);
    return r && r->fn == fn ? r->user : NULL;
}

void requests_fail(struct tidings_client *c, int64_t id, long status,
                   const struct tidings_error *why)
{
    struct request *r = requests_find(c, id);
    struct response a = {.status = status, .why = *why};
    if (r) {
        request_finish(r, &a);
    }
}

void requests_fail_all(struct tidings_client *c, const struct tidings_error *why, unsigned kinds)
{
    struct response a = {.why = *why};
    struct list ending;
    list_init(&ending);
    if (kinds & REQUESTS_UNSENT) {
        list_splice(&ending, &c->unsent);
    }
    if (kinds & REQUESTS_SENT) {
        list_splice(&ending, &c->in_flight);
    }
    while (!list_empty(&ending)) { /* ending a request may end others */
        request_finish(list_entry(ending.next, struct request, link), &a);
    }
}

static int input_round_begin_visits(struct tidings_client *c, struct input_round **at,
                                    int64_t request, struct json *error, struct tidings_error *err);

static bool input_round_is_wanted(const struct json *result);

static bool input_round_is_of(const char *method);

static int input_round_begin(struct tidings_client *c, struct input_round **at, int64_t request,
                             struct json *result, struct tidings_error *err);

/* The server wants input first. Returns true if the request continues, or has ended. */
static bool requests_begin_input_round(struct request *r, const struct response *a)
{
    struct tidings_client *c = r->client;
    struct response failed = {.status = a->status};
    bool is_offered = r->can_ask && question_is_offered(c) && input_round_is_of(r->method);
    bool is_wanted = is_offered && a->result && input_round_is_wanted(a->result);
    int rc = !is_offered ? 0
             : is_wanted ? input_round_begin(c, &r->round, r->id, a->result, &failed.why)
             : a->error  ? input_round_begin_visits(c, &r->round, r->id, a->error, &failed.why)
                         : 0;
    if (rc < 0) {
        request_finish(r, &failed);
    } else if (rc > 0 || is_wanted) {
        loop_timer_stop(&r->deadline); /* its questions have separate deadlines */
        r->is_sent = false;
    }
    return rc != 0 || is_wanted;
}

/* A response came, `root` is the message; returns false if it matches no request. */
static bool requests_answered(struct tidings_client *c, int64_t id, struct json *root, long status)
{
    struct request *r = requests_find(c, id);
    if (!r || !r->is_sent || r->wire != id) {
        return false;
    }
    struct response a = {.error = jv_get(root, "error"), .status = status};
    if (a.error) {
        errors_from_response(a.error, status, &a.why);
        if (a.why.code == TIDINGS_E_UNSUPPORTED && c->has_info) {
            errors_name_missing(r->method, c->info.capabilities, &a.why);
        }
        if (c->challenge[0] && status == 403) { /* the challenge says what would help */
            errors_from_status(NULL, status, tidings_str(c->challenge), &a.why);
            errors_add_body(jv_str(jv_get(a.error, "message")), &a.why);
        }
    } else {
        a.result = jv_get(root, "result");
        c->failures = r->is_connecting || r->is_stream ? c->failures : 0;
    }
    c->transport->ops->forget(c->transport, id, true);
    if (!requests_begin_input_round(r, &a)) {
        request_finish(r, &a);
    }
    return true;
}

unsigned requests_count_question(struct tidings_client *c, int64_t exchange)
{
    struct request *r = requests_find(c, exchange);
    if (!r || !r->can_ask) {
        r = NULL;
        list_each (it, next, &c->in_flight) {
            struct request *one = list_entry(it, struct request, link);
            r = !r && one->can_ask ? one : r;
        }
    }
    return r ? ++r->asked : 0;
}

/* Sends it once more, under another number on the wire, with the results of its round so far. */
static void requests_resend(struct tidings_client *c, int64_t id)
{
    struct request *r = requests_find(c, id);
    struct response failed = {0};
    if (!r) {
        return;
    }
    if (r->wire != r->id) {
        map_remove(&c->requests, requests_key_of(&r->wire));
    }
    r->wire = ++c->next_id;
    r->is_retried = false;
    if (map_put(&c->requests, requests_key_of(&r->wire), r, NULL) < 0) {
        r->wire = r->id;
        tidings_fail(&failed.why, TIDINGS_E_NOMEM, "out of memory");
        request_finish(r, &failed);
        return;
    }
    loop_timer_start(&r->deadline, r->timeout_ms, 0);
    r->last_due = r->deadline.due_ms + (uint64_t)(LONGEST - 1) * r->timeout_ms;
    list_remove(&r->link);
    if (c->stage != STAGE_READY) {
        list_append(&c->unsent, &r->link);
        connection_need(c);
        return;
    }
    list_append(&c->in_flight, &r->link);
    r->is_sent = true;
    if (transmit(c, r, &failed.why) < 0) {
        request_finish(r, &failed);
    }
}

static void requests_progressed(struct tidings_client *c, struct json *params)
{
    struct json *token = jv_get(params, "progressToken");
    struct request *r = jv_is(token, JV_INT) ? requests_find(c, jv_int(token)) : NULL;
    if (!r || !r->on_progress) {
        return;
    }
    uint64_t now = clock_monotonic_ms();
    if (!r->is_stream && now < r->last_due) {
        uint64_t left = r->last_due - now;
        loop_timer_start(&r->deadline, left < r->timeout_ms ? left : r->timeout_ms, 0);
    }
    r->on_progress(r->user, params);
}

/* -------------------------------------------------------------------------------------------------
 * Handles a message of the server: a response, a notification or a request. One bad message does
 * not end a connection: an unreadable message fails the request that it answers, or is a gap in the
 * watched resources; a message that is not JSON-RPC at all is ignored.
 */

static void take_notification(struct tidings_client *c, const struct rpc_message *m,
                              struct json *root, size_t bytes, int64_t exchange)
{
    if (str_eq(m->method, STR("notifications/progress"))) {
        requests_progressed(c, m->params);
    } else if (str_eq(m->method, STR("notifications/subscriptions/acknowledged"))) {
        subscriptions_acknowledged(c, m->params, exchange);
    } else if (str_eq(m->method, STR("notifications/tools/list_changed"))) {
        tool_schemas_forget(c);
        tool_headers_forget(c);
    } else if (str_eq(m->method, STR("notifications/cancelled"))) {
        subscriptions_cancelled(c, jv_int(jv_get(m->params, "requestId")));
        question_cancelled(c, jv_get(m->params, "requestId"));
    } else if (str_eq(m->method, STR("notifications/message"))) {
        server_log_received(c, m->params);
    }
    events_put_notification(c, root, bytes);
}

/* A program that echoes its input, as cat does: no server sends these. */
static bool is_echo(struct tidings_client *c, const struct rpc_message *m)
{
    if (!str_eq(m->method, STR("server/discover")) && !str_eq(m->method, STR("initialize"))) {
        return false;
    }
    struct tidings_error why;
    tidings_fail(&why, TIDINGS_E_PARSE, "not an MCP server: it echoes its input");
    requests_fail(c, jv_is(m->id, JV_INT) ? jv_int(m->id) : 0, 0, &why);
    return true;
}

static void fail_answer(struct tidings_client *c, int64_t id, long status,
                        struct tidings_error *why)
{
    c->transport->ops->forget(c->transport, id, true);
    error_wrap(why, why->code, "the answer of the server cannot be read");
    requests_fail(c, id, status, why);
}

static void count_unread(struct tidings_client *c)
{
    c->info.public.unread = ++c->unread;
}

/* Handles input that is not JSON, or too large. Log lines between messages, and pages of proxies,
 * are not messages: the transport reports more about those. */
static void take_unread(struct tidings_client *c, struct tidings_str text, int64_t exchange,
                        long status, struct tidings_error *why)
{
    static const char sign[] = "\"jsonrpc\"";
    if (why->code == TIDINGS_E_NOMEM || !memmem(text.ptr, text.len, sign, sizeof(sign) - 1)) {
        return;
    }
    struct tidings_str method = json_peek(text, STR("method")), id = json_peek(text, STR("id"));
    int64_t number = 0;
    count_unread(c);
    if (method.len > 1 && id.len > 0) {
        struct json *asked = NULL;
        if (jv_parse(id, 1, &asked, NULL) == 0) {
            requests_reply_error(c, asked, -32700, "the request cannot be read");
        }
        jv_unref(asked);
    } else if (method.len > 1) {
        if (events_is_update(tidings_strn(method.ptr + 1, method.len - 2))) {
            comparison_missed(c, why->text);
        }
    } else if (str_to_i64(id, &number) && requests_awaits(c, number, false)) {
        fail_answer(c, number, status, why);
    } else if (requests_awaits(c, exchange, false)) {
        fail_answer(c, exchange, status, why);
    } else {
        comparison_missed(c, why->text);
    }
}

static void take_object(struct tidings_client *c, struct json *root, size_t bytes, int64_t exchange,
                        long status)
{
    struct rpc_message m;
    struct tidings_error why = {0};
    if (rpc_read(root, &m, &why) < 0) {
        if (requests_awaits(c, jv_int(m.id), false) && jv_get(root, "jsonrpc") &&
            !jv_get(root, "method")) {
            count_unread(c);
            fail_answer(c, jv_int(m.id), status, &why);
        }
        return;
    }
    if (m.kind == RPC_REQUEST && is_echo(c, &m)) {
        return;
    }
    if (m.kind == RPC_REQUEST) {
        if (str_eq(m.method, STR("ping"))) {
            heartbeat_received(c, true);
            requests_reply(c, m.id, STR("{}"));
        } else {
            question_asked(c, m.method, m.id, m.params, exchange);
        }
    } else if (m.kind == RPC_NOTIFICATION) {
        take_notification(c, &m, root, bytes, exchange);
    } else if (!m.id) {
        if (!requests_answered(c, exchange, root, status)) { /* it answers a message there */
            struct tidings_str text = jv_str(jv_get(jv_get(root, "error"), "message"));
            snprintf(c->stray_error, sizeof(c->stray_error), "%.*s", STR_ARG(text));
        }
    } else if (jv_is(m.id, JV_INT)) {
        (void)requests_answered(c, jv_int(m.id), root, status);
    }
}

void inbound_active(struct tidings_client *c, int64_t exchange, bool is_beat)
{
    if (exchange == 0 || exchange == c->listen) { /* an answer has no effect on the stream */
        heartbeat_received(c, is_beat);
    }
}

void inbound_message(struct tidings_client *c, struct tidings_str text, int64_t exchange,
                     long status)
{
    struct json *root = NULL;
    struct jv_mended mended;
    struct tidings_error why = {0};
    if (json_parse_lenient(text, &root, &mended, &why) < 0) {
        take_unread(c, text, exchange, status, &why);
        return;
    }
    c->info.public.replaced = c->replaced += mended.halves;
    c->info.public.repeated = c->repeated += mended.repeated;
    if (jv_is(root, JV_ARRAY)) { /* 2025-03-26 */
        for (size_t i = 0; i < jv_count(root); i++) {
            take_object(c, jv_at(root, i), text.len / jv_count(root), exchange, status);
        }
    } else {
        take_object(c, root, text.len, exchange, status);
    }
    jv_unref(root);
}

/* -------------------------------------------------------------------------------------------------
 * Rounds of a request that wants input: from `input_required` to the same request with answers.
 */

#define ROUND_MAX_STATE (1u << 20) /* bytes of a requestState */
#define ROUND_PAUSE_MS 500u /* before a request whose answer was only a state is sent again, … */
#define ROUND_PAUSE_MAX_MS 10000u /* … doubled each time */

struct input_round_item {
    char *key;
    char *result; /* JSON; NULL: not answered yet */
};

struct input_round {
    struct tidings_client *client;
    int64_t request;
    unsigned rounds;
    unsigned asked; /* questions in all rounds */
    unsigned waits; /* rounds in a row without questions */
    struct input_round_item items[QUESTIONS_OPEN];
    size_t count, open;
    struct json *state; /* a string, a reference; NULL: none */
    bool are_visits;    /* to addresses: the request is repeated unchanged */
    bool is_declined;   /* … and the program refused to visit one */
    struct loop_timer pause;
};

/* Returns true if a result of this method may ask for input. Other results may not. */
static bool input_round_is_of(const char *method)
{
    return strcmp(method, "tools/call") == 0 || strcmp(method, "prompts/get") == 0 ||
           strcmp(method, "resources/read") == 0;
}

/* Returns true if the result wants input first. */
static bool input_round_is_wanted(const struct json *result)
{
    return str_eq(jv_str(jv_get(result, "resultType")), STR("input_required"));
}

static void input_round_forget(struct input_round *r)
{
    question_withdraw_input_round(r->client, r);
    for (size_t i = 0; i < r->count; i++) {
        mem_free(r->items[i].key);
        mem_free(r->items[i].result);
    }
    r->count = r->open = 0;
    jv_unref(r->state);
    r->state = NULL;
    r->are_visits = r->is_declined = false;
    loop_timer_stop(&r->pause);
}

/* Withdraws its questions; NULL is fine */
static void input_round_free(struct input_round *r)
{
    if (r) {
        input_round_forget(r);
        mem_free(r);
    }
}

static void input_round_on_pause(struct loop_timer *timer, void *user)
{
    struct input_round *r = user;
    (void)timer;
    requests_resend(r->client, r->request);
}

static int input_round_prepare(struct tidings_client *c, struct input_round **at, int64_t request,
                               struct tidings_error *err)
{
    struct input_round *r = *at ? *at : mem_zalloc(sizeof(*r));
    if (!r) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (!*at) {
        *r = (struct input_round){.client = c, .request = request};
        loop_timer_init(&r->pause, c->loop, input_round_on_pause, r);
        *at = r;
    }
    input_round_forget(r);
    if (r->rounds++ >= c->handlers.max_questions) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "the server asks again and again: more than %u times",
                            c->handlers.max_questions);
    }
    return 0;
}

struct tidings_client *input_round_client(const struct input_round *r)
{
    return r->client;
}

static int input_round_add(struct input_round *r, struct tidings_str key, struct tidings_str method,
                           struct json *params, struct tidings_error *err)
{
    if (r->count >= QUESTIONS_OPEN || r->asked++ >= r->client->handlers.max_questions) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "the server asks more than %u things",
                            r->client->handlers.max_questions);
    }
    struct input_round_item *item = &r->items[r->count];
    *item = (struct input_round_item){.key = str_dup(key)};
    if (!item->key) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    r->open++;
    return question_add(r, r->count++, method, params, err);
}

/* Begins a round of the request: 0, and requests_resend or requests_fail follows, maybe before this
 * returns. `*at`, NULL at first, belongs to the request; input_round_free releases it. */
static int input_round_begin(struct tidings_client *c, struct input_round **at, int64_t request,
                             struct json *result, struct tidings_error *err)
{
    struct json *asked = jv_get(result, "inputRequests"), *state = jv_get(result, "requestState");
    struct json *one;
    struct tidings_str key;
    int rc = input_round_prepare(c, at, request, err);
    struct input_round *r = *at;
    if (rc == 0 && state && !jv_is(state, JV_STRING)) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "the server's requestState is not a string");
    } else if (rc == 0 && jv_str(state).len > ROUND_MAX_STATE) {
        rc = tidings_fail(err, TIDINGS_E_LIMIT, "the server's requestState is above %u bytes",
                          ROUND_MAX_STATE);
    } else if (rc == 0 && !state && jv_count(asked) == 0) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "the server wants input and does not say which");
    }
    for (void *next = NULL; rc == 0 && (next = jv_next(asked, next, &key, &one)) != NULL;) {
        rc = input_round_add(r, key, jv_str(jv_get(one, "method")), jv_get(one, "params"), err);
    }
    if (rc < 0) {
        return rc;
    }
    r->state = jv_ref(state);
    r->waits = r->count > 0 ? 0 : r->waits + 1;
    if (r->count == 0) { /* it is not ready yet */
        uint64_t pause = (uint64_t)ROUND_PAUSE_MS << (r->waits < 8 ? r->waits - 1 : 7);
        loop_timer_start(&r->pause, pause < ROUND_PAUSE_MAX_MS ? pause : ROUND_PAUSE_MAX_MS, 0);
    }
    return 0;
}

static int input_round_begin_visits(struct tidings_client *c, struct input_round **at,
                                    int64_t request, struct json *error, struct tidings_error *err)
{
    struct json *list = jv_get(jv_get(error, "data"), "elicitations");
    if (jv_int(jv_get(error, "code")) != -32042 || jv_count(list) == 0 || !c->handlers.on_url) {
        return 0;
    }
    int rc = input_round_prepare(c, at, request, err);
    for (size_t i = 0; rc == 0 && i < jv_count(list); i++) {
        rc = input_round_add(*at, STR_EMPTY, STR("elicitation/create"), jv_at(list, i), err);
    }
    if (rc == 0) {
        (*at)->are_visits = true;
    }
    return rc < 0 ? rc : 1;
}

/* The members that the next request of the round has: answers and state; `r` NULL: none. */
static void input_round_put(const struct input_round *r, struct jw *w)
{
    if (r && !r->are_visits && r->count > 0) {
        jw_key(w, STR("inputResponses"));
        jw_begin_object(w);
        for (size_t i = 0; i < r->count; i++) {
            jw_put_raw(w, tidings_str(r->items[i].key), tidings_str(r->items[i].result));
        }
        jw_end_object(w);
    }
    if (r && r->state) {
        jw_put_string(w, STR("requestState"), jv_str(r->state));
    }
}

void input_round_answered(struct input_round *r, size_t index, struct tidings_str result)
{
    struct tidings_error why = {0};
    struct input_round_item *item = &r->items[index];
    item->result = str_dup(result);
    r->is_declined = r->is_declined || !str_eq(result, STR("{\"action\":\"accept\"}"));
    if (!item->result) {
        tidings_fail(&why, TIDINGS_E_NOMEM, "out of memory");
    } else if (--r->open > 0) {
        return;
    } else if (r->are_visits && r->is_declined) {
        tidings_fail(&why, TIDINGS_E_CANCELLED, "the user did not visit what the server wants");
    }
    if (why.code < 0) {
        requests_fail(r->client, r->request, 0, &why); /* frees the round */
    } else {
        requests_resend(r->client, r->request);
    }
}

void input_round_refused(struct input_round *r, const char *reason)
{
    struct tidings_error why;
    tidings_fail(&why, TIDINGS_E_CANCELLED, "the server's question was not answered: %.150s",
                 reason);
    requests_fail(r->client, r->request, 0, &why);
}
