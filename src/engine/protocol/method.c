/* SPDX-License-Identifier: MIT
 *
 * The table of JSON-RPC methods, and the methods that need only a few lines.
 */
#include "engine/protocol/method.h"

#include "base/str.h"
#include "base/time.h"
#include "engine/catalog/job.h"
#include "engine/catalog/roots.h"
#include "engine/delivery/list_changed.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/call.h"
#include "engine/protocol/feature.h"
#include "engine/protocol/method_listen.h"
#include "engine/protocol/request.h"
#include "engine/protocol/session.h"
#include "engine/protocol/session_migration.h"
#include "engine/protocol/tasks.h"
#include "security/client_account.h"
#include "security/failures.h"
#include "security/limits.h"
#include "store/change.h"

/* -------------------------------------------------------------------------------------------------
 * prompts/list and prompts/get. Each block of a handler is a message with a role. Failures are
 * protocol errors: a person chose the prompt, and no model reads it.
 */

static void method_prompts_invalid(struct request *request, const struct schema_error *e)
{
    request_fail(request, TIDINGS_E_INVALID, STR_EMPTY, "params.arguments%s: %s", e->instance_path,
                 e->text);
}

static void begin_message(struct tidings_call *h)
{
    jw_begin_object(&h->w);
    jw_put_string(&h->w, STR("role"), h->is_assistant ? STR("assistant") : STR("user"));
    jw_key(&h->w, STR("content"));
}

static void end_message(struct tidings_call *h)
{
    jw_end_object(&h->w);
}

static int method_prompts_check(struct tidings_call *h, struct tidings_error *err)
{
    if (h->block_count == 0) {
        return tidings_fail(err, TIDINGS_E_INTERNAL, "the prompt '%.*s' gave no message",
                            STR_ARG(h->feature->name));
    }
    jw_end_array(&h->w);
    return h->content.failed ? tidings_fail(err, h->content.failed, "the messages do not fit") : 0;
}

static void method_prompts_write_result(struct tidings_call *h, struct jw *w)
{
    if (h->feature->description_json.len > 0) {
        jw_put_raw(w, STR("description"), h->feature->description_json);
    }
    jw_put_raw(w, STR("messages"), buf_str(&h->content));
}

static void method_prompts_fail(struct request *request, const struct tidings_error *err)
{
    request_fail_err(request, err, STR_EMPTY);
}

static const struct call_kind prompts = {
    .feature = FEATURE_PROMPT,
    .what = "prompt",
    .invalid = method_prompts_invalid,
    .begin_block = begin_message,
    .end_block = end_message,
    .check = method_prompts_check,
    .write = method_prompts_write_result,
    .fail = method_prompts_fail,
};

static void method_prompts_get(struct request *request)
{
    call_run(request, &prompts);
}

static void method_prompts_list(struct request *request)
{
    call_list(request, FEATURE_PROMPT, STR("prompts"), 'P');
}

/* -------------------------------------------------------------------------------------------------
 * dev.tidings/subscriptions/list: lists the client's own subscriptions.
 */

static void subscriptions_listed(struct job *job)
{
    struct request *request = job->user;
    struct own_listing *l = list_entry(job, struct own_listing, base);
    request_end_job(request);
    if (job->code < 0) {
        request_fail_err(request, &job->err, STR_EMPTY);
    } else {
        request_begin(request);
        own_listing_write(l, &request->w);
        request_end(request, CACHE_NONE);
    }
}

/* Its memory goes with the request. */
static void subscriptions_done(struct job *job)
{
    struct own_listing *l = list_entry(job, struct own_listing, base);
    struct buf rows = l->rows; /* answering ends the request */
    subscriptions_listed(job);
    buf_deinit(&rows);
}

static void method_subscriptions_list(struct request *request)
{
    struct tidings_error err;
    struct json *cursor = jv_get(request->msg.params, "cursor");
    size_t wanted = page_size(request);
    if (wanted == 0) {
        return;
    }
    if (cursor && !jv_is(cursor, JV_STRING)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY, "params.cursor must be a string");
        return;
    }
    struct own_listing *l = arena_alloc(&request->arena, sizeof(*l));
    int rc =
        l ? own_listing_init(l, own_subscriber(request), request->principal, jv_str(cursor), &err)
          : tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    if (rc < 0) {
        request_fail_err(request, &err, STR_EMPTY);
        return;
    }
    l->wanted = wanted < OWN_PAGE_ROWS ? wanted : OWN_PAGE_ROWS;
    job_init(&l->base, request->worker, subscriptions_done, request, STR_EMPTY);
    request_begin_job(request, &l->base);
    own_listing_start(l);
}

/* -------------------------------------------------------------------------------------------------
 * tasks/get, tasks/update and tasks/cancel, of the extension io.modelcontextprotocol/tasks.
 * Ownership is checked first: another principal's task is answered like a missing one.
 */

/* A request about a task that another node may work on. */
struct tasks_request {
    struct job job;
    struct task_asking asking;
    struct request *request;
};

static void method_tasks_missing(struct request *request)
{
    request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                 "there is no task of that id; its time to live may have passed");
}

static void method_tasks_write(struct request *request, struct task *t)
{
    request_begin(request);
    task_write(t, &request->w, true);
    request_end(request, CACHE_NONE);
}

/* ---- of other nodes -------------------------------------------------------------------------- */

static void method_tasks_on_asked(struct task_asking *asking, int code)
{
    struct tasks_request *r = list_entry(asking, struct tasks_request, asking);
    job_finish(&r->job, code, &asking->err);
}

static void method_tasks_done(struct job *job)
{
    struct tasks_request *r = job->user;
    struct request *request = r->request;
    struct task *found = r->asking.found;
    request_end_job(request);
    if (job->code == TIDINGS_E_NOTFOUND) {
        method_tasks_missing(request);
    } else if (job->code < 0) {
        request_fail_job(request, job, STR_EMPTY, STR_EMPTY);
    } else if (found) {
        method_tasks_write(request, found);
    } else {
        request_empty(request);
    }
    task_unref(found);
}

static bool method_tasks_may_ask(struct request *request)
{
    return tasks_may_ask(request->worker->handlers->tasks,
                         jv_str(jv_get(request->msg.params, "taskId")), request->principal);
}

/* The task is not on this node: queries the store, if nodes share one. */
static void method_tasks_ask(struct request *request, enum task_verb verb, struct json *answers)
{
    if (!method_tasks_may_ask(request)) {
        method_tasks_missing(request);
        return;
    }
    struct tasks_request *r = arena_alloc(&request->arena, sizeof(*r));
    if (!r) {
        request_fail(request, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
        return;
    }
    *r = (struct tasks_request){.request = request};
    r->asking = (struct task_asking){
        .verb = verb,
        .id = jv_str(jv_get(request->msg.params, "taskId")),
        .answers = answers,
        .done = method_tasks_on_asked,
    };
    job_init(&r->job, request->worker, method_tasks_done, r, STR_EMPTY);
    request_begin_job(request, &r->job);
    job_begin(&r->job);
    tasks_ask(request->worker->handlers->tasks, &r->asking);
}

/* ---- the methods ----------------------------------------------------------------------------- */

/* Checks the request. Returns false if it is invalid; it is answered then. */
static bool method_tasks_check(struct request *request)
{
    if (!call_task_is_possible(request)) {
        call_task_refuse(request, "declare the extension '" DIALECT_TASKS "'");
        return false;
    }
    if (!jv_is(jv_get(request->msg.params, "taskId"), JV_STRING)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY, "params.taskId must be a string");
        return false;
    }
    return true;
}

/* A reference to the task it names, if it is this node's. */
static struct task *method_tasks_find(struct request *request)
{
    return tasks_find(request->worker->handlers->tasks,
                      jv_str(jv_get(request->msg.params, "taskId")), request->principal);
}

static void method_tasks_get(struct request *request)
{
    if (!method_tasks_check(request)) {
        return;
    }
    struct task *t = method_tasks_find(request);
    if (t) {
        method_tasks_write(request, t);
        task_unref(t);
    } else {
        method_tasks_ask(request, TASK_GET, NULL);
    }
}

/* An object of objects. */
static bool method_tasks_are_answers(struct json *answers)
{
    struct tidings_str key;
    struct json *value = NULL;
    bool are = jv_is(answers, JV_OBJECT);
    void *at = are ? jv_next(answers, NULL, &key, &value) : NULL;
    for (; at && are; at = jv_next(answers, at, &key, &value)) {
        are = jv_is(value, JV_OBJECT);
    }
    return are;
}

static void method_tasks_update(struct request *request)
{
    struct json *answers = jv_get(request->msg.params, "inputResponses");
    struct tidings_error err;
    if (!method_tasks_check(request)) {
        return;
    }
    struct task *t = method_tasks_find(request);
    bool is_possible = t || method_tasks_may_ask(request);
    if (is_possible && !method_tasks_are_answers(answers)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                     "params.inputResponses must be an object of objects");
    } else if (!t) {
        method_tasks_ask(request, TASK_UPDATE, answers);
    } else if (task_answer(t, answers, &err) < 0) {
        request_fail_err(request, &err, STR_EMPTY);
    } else {
        request_empty(request);
    }
    task_unref(t);
}

static void method_tasks_cancel(struct request *request)
{
    if (!method_tasks_check(request)) {
        return;
    }
    struct task *t = method_tasks_find(request);
    if (t) {
        task_cancel(t);
        request_empty(request);
        task_unref(t);
    } else {
        method_tasks_ask(request, TASK_CANCEL, NULL);
    }
}

/* -------------------------------------------------------------------------------------------------
 * tools/list and tools/call.
 *
 * Failures inside a tool, and arguments that its schema forbids (SEP-1303), are results with
 * isError: the model reads them and can correct its call. Only a request that is not a valid tool
 * call is a protocol error.
 */

#define RESULT_TOO_LARGE "ask for less, or serve with a larger --max-read"

/* The content of a result that is one string. */
static void method_tools_put_text(struct jw *w, struct tidings_str text)
{
    jw_key(w, STR("content"));
    jw_begin_array(w);
    jw_begin_object(w);
    jw_put_string(w, STR("type"), STR("text"));
    jw_put_string(w, STR("text"), text);
    jw_end_object(w);
    jw_end_array(w);
}

static void method_tools_note(struct request *request, struct tidings_str reason)
{
    const struct failure failure = {
        .kind = FAILURE_RESULT,
        .method = request->method,
        .reason = reason,
        .principal = request->principal,
    };
    request->has_error = true;
    if (request->channel && !request->cancelled) {
        const struct log_context *before = log_enter(&request->context);
        channel_failed(request->channel, &failure);
        (void)log_enter(before);
    }
}

/* Its handler returned a failure as a result: notes the error message in it. */
static void method_tools_note_result(const struct tidings_call *h)
{
    struct json *blocks = NULL, *object = NULL;
    struct tidings_str text = buf_str(&h->structured);
    if (h->block_count > 0 && jv_parse(buf_str(&h->content), JSON_MAX_DEPTH, &blocks, NULL) == 0) {
        text = jv_str(jv_get(jv_at(blocks, 0), "text"));
    }
    if (jv_parse(text, JSON_MAX_DEPTH, &object, NULL) == 0 && jv_get(object, "error")) {
        text = jv_str(jv_get(object, "error"));
    }
    method_tools_note(h->request, text.len > 0 ? text : STR("the tool says that it failed"));
    jv_unref(object);
    jv_unref(blocks);
}

static void method_tools_write_failure(struct jw *w, struct tidings_str text)
{
    method_tools_put_text(w, text);
    jw_put_bool(w, STR("isError"), true);
}

static void answer_error(struct request *request, struct tidings_str text)
{
    request->has_failed = true;
    method_tools_note(request, text);
    request_begin(request);
    method_tools_write_failure(&request->w, text);
    request_end(request, CACHE_NONE);
}

static bool fails_calls(const struct request *request)
{
    return dialect_rules_in(request->worker->self, request->era)->fails_calls;
}

static void method_tools_invalid(struct request *request, const struct schema_error *e)
{
    struct buf text;
    buf_init(&text, 4096);
    buf_putf(&text, "invalid arguments: %s%s%s (schema: %s)",
             e->instance_path[0] ? e->instance_path : "", e->instance_path[0] ? ": " : "", e->text,
             e->schema_path[0] ? e->schema_path : "/");
    if (fails_calls(request)) {
        request_fail_rpc(request, RPC_INVALID_PARAMS, STR_EMPTY, "%.*s", STR_ARG(buf_str(&text)));
    } else {
        answer_error(request, buf_str(&text));
    }
    buf_deinit(&text);
}

static void block_border(struct tidings_call *h)
{
    (void)h; /* blocks are the elements themselves */
}

/* Checks structured content against the output schema, and charges the client, even beyond its
 * budget, since the tool has done its work. */
static int check_structured(struct tidings_call *h, struct tidings_error *err)
{
    const struct json_schema *schema = h->feature->output;
    if (!schema || h->is_error || h->is_checked) {
        return 0;
    }
    if (h->structured.len == 0) {
        return tidings_fail(err, TIDINGS_E_INTERNAL,
                            "the tool '%.*s' has an output schema but gave no structured content",
                            STR_ARG(h->feature->name));
    }
    struct json *value = NULL;
    struct schema_error e;
    uint64_t most = schema_max_steps(schema), steps = most;
    int rc = jv_parse(buf_str(&h->structured), JSON_MAX_DEPTH, &value, err);
    bool is_valid = rc == 0 && schema_check_within(schema, value, &e, &steps) == SCHEMA_VALID;
    client_account_pay(h->account, most - steps, clock_monotonic_ms());
    if (rc == 0 && !is_valid) {
        rc = tidings_fail(err, TIDINGS_E_INTERNAL,
                          "the tool '%.*s' gave structured content its schema forbids: %s: %s",
                          STR_ARG(h->feature->name), e.instance_path[0] ? e.instance_path : "/",
                          e.text);
    }
    jv_unref(value);
    return rc;
}

static int method_tools_check(struct tidings_call *h, struct tidings_error *err)
{
    int rc = buf_check(&h->structured, "the result", RESULT_TOO_LARGE, err);
    rc = rc < 0 ? rc : buf_check(&h->content, "the result", RESULT_TOO_LARGE, err);
    rc = rc < 0 ? rc : check_structured(h, err);
    if (rc == 0 && h->block_count > 0) {
        jw_end_array(&h->w);
        rc = buf_check(&h->content, "the result", RESULT_TOO_LARGE, err);
    }
    return rc;
}

static void method_tools_write_result(struct tidings_call *h, struct jw *w)
{
    if (h->block_count == 0 && h->structured.len > 0) {
        /* For clients that do not support structured content. */
        method_tools_put_text(w, buf_str(&h->structured));
    } else {
        jw_put_raw(w, STR("content"), h->block_count > 0 ? buf_str(&h->content) : STR("[]"));
    }
    if (h->structured.len > 0) {
        jw_put_raw(w, STR("structuredContent"), buf_str(&h->structured));
    }
    if (h->rules->has_plain_writes && h->structured.len > 0) {
        dialect_put_plain_write(w, buf_str(&h->structured));
    }
    if (h->is_error && h->request) {
        h->request->has_failed = true;
        method_tools_note_result(h);
    }
    if (h->is_error) {
        jw_put_bool(w, STR("isError"), true);
    }
}

static void method_tools_fail(struct request *request, const struct tidings_error *err)
{
    if (fails_calls(request)) {
        request_fail_rpc(request, RPC_INTERNAL, STR_EMPTY, "%s", err->text);
    } else {
        answer_error(request, tidings_str(err->text));
    }
}

static const struct call_kind tools = {
    .feature = FEATURE_TOOL,
    .what = "tool",
    .invalid = method_tools_invalid,
    .begin_block = block_border,
    .end_block = block_border,
    .check = method_tools_check,
    .write = method_tools_write_result,
    .fail = method_tools_fail,
    .write_failure = method_tools_write_failure,
};

static void method_tools_call(struct request *request)
{
    call_run(request, &tools);
}

static void method_tools_list(struct request *request)
{
    call_list(request, FEATURE_TOOL, STR("tools"), 'T');
}

/* -------------------------------------------------------------------------------------------------
 * Writes instructions from the catalog, the tools and the rights of one client.
 */

#define ROOTS_BYTES 220u

#define WAIT                                                                                       \
    "To wait for a change, call the tool wait_for_change with `uris`, then again with the "        \
    "`cursor` of its answer. "
#define SUBSCRIBE                                                                                  \
    "To be notified, subscribe to a URI; a URI that ends in / covers everything below it. "
#define PATHS "Tools also take paths of files. "

_Static_assert(sizeof("Live resources: ") + ROOTS_BYTES + sizeof(" and more. ") + sizeof(WAIT) +
                       sizeof(SUBSCRIBE) + sizeof(PATHS) <=
                   INSTRUCTIONS_MAX,
               "instructions fit");

/* Returns the text for this client, in `room` if it had to be written. Empty: there are no
 * instructions. */
static struct tidings_str instructions_for(const struct request *request, struct buf *room)
{
    const struct worker *worker = request->worker;
    const struct server_identity *self = worker->self;
    if (self->has_instructions || self->profile) {
        return self->instructions;
    }
    struct buf roots;
    buf_init(&roots, INSTRUCTIONS_MAX);
    size_t count = roots_put(worker->catalog, request->principal, NULL, ROOTS_BYTES, &roots);
    bool waits = feature_find(worker->handlers->features[FEATURE_TOOL], STR("wait_for_change"));
    if (count > 0) {
        buf_puts(room, STR("Live resources: "));
        buf_puts(room, buf_str(&roots));
        buf_puts(room, STR(". "));
    }
    if (waits) {
        buf_puts(room, STR(WAIT));
    }
    if (!self->no_subscriptions && (count > 0 || waits)) {
        buf_puts(room, STR(SUBSCRIBE));
    }
    if (waits && roots_first(worker->catalog, request->principal, ROOTS_FILES, &count).len > 0) {
        buf_puts(room, STR(PATHS));
    }
    bool is_written = !room->failed && !roots.failed && room->len > 0;
    buf_deinit(&roots);
    return is_written ? tidings_strn(room->ptr, room->len - 1) : STR_EMPTY;
}

/* -------------------------------------------------------------------------------------------------
 * Finds the subscriber of the client that received an error, and keeps the error there.
 */

void last_error_note(const struct request *request, const struct dialect_error *e)
{
    struct subscriber *subscriber = request->session ? request->session->subscriber
                                    : request->channel && !request->channel->ops->is_http
                                        ? request->channel->subscriber
                                        : NULL;
    if (subscriber) {
        subscriber_note_error(subscriber, e->code, e->message);
    }
}

/* ---------------------------------------------------------------------------------------------- */

static void method_initialize(struct request *request)
{
    struct json *asked = jv_get(request->msg.params, "protocolVersion");
    if (!jv_is(asked, JV_STRING)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                     "params.protocolVersion must be a string");
        return;
    }
    const struct server_identity *self = request->worker->self;
    const struct revision *rev = dialect_negotiate(jv_str(asked), self->ceiling, self->profile);
    struct channel *channel = request->channel;
    unsigned offers = handlers_offers(request->worker);
    unsigned can = dialect_askable(jv_get(request->msg.params, "capabilities"));
    unsigned promised = self->list_changed ? offers & (LIST_TOOLS | LIST_PROMPTS) : 0;
    if (request->batch) {
        request_fail_rpc(request, RPC_INVALID_REQUEST, STR_EMPTY,
                         "initialize may not be in a batch");
        return;
    }
    if (channel->ops->is_http) {
        struct session *session = NULL;
        struct tidings_error err;
        struct refusal why;
        int rc = session_open(channel, rev, &session, &why, &err);
        if (rc == TIDINGS_E_LIMIT) {
            request_fail_limit(request, &why, STR_EMPTY);
            return;
        }
        if (rc < 0) {
            request_fail_err(request, &err, STR_EMPTY);
            return;
        }
        subscriber_set_client(session->subscriber, jv_get(request->msg.params, "clientInfo"));
        list_changed_want(session->group, promised);
        session_declare(session, can);
        request->headers.session_id =
            arena_dup(&request->arena, tidings_strn(session->id, SESSION_ID_LEN));
        request->session = session;
        list_append(&session->requests, &request->session_link);
        session_changed(session, request);
    } else {
        if (channel->subscriber) {
            subscriber_set_client(channel->subscriber, jv_get(request->msg.params, "clientInfo"));
            channel->subscriber->is_modern = false;
        }
        channel->revision = rev;
        channel_declare(channel, can);
        channel->promised = (unsigned char)promised;
    }
    struct buf room;
    buf_init(&room, INSTRUCTIONS_MAX);
    request_begin(request);
    dialect_write_initialize(&request->w, rev, self, offers, instructions_for(request, &room));
    request_end(request, CACHE_NONE);
    buf_deinit(&room);
}

static void method_discover(struct request *request)
{
    struct buf room;
    buf_init(&room, INSTRUCTIONS_MAX);
    request_begin(request);
    dialect_write_discover(&request->w, request->worker->self, handlers_offers(request->worker),
                           instructions_for(request, &room));
    request_end(request, CACHE_HOUR);
    buf_deinit(&room);
}

static void method_ping(struct request *request)
{
    request_empty(request);
}

/* The group of everything this client subscribed to in the legacy way. */
static struct subscription_group *legacy_group(struct request *request)
{
    if (request->channel->ops->is_http) {
        return request->session->group;
    }
    struct subscriber *subscriber = subscriber_of_channel(request->channel);
    struct subscription_group *group =
        subscriber ? subscription_group_find(subscriber, STR_EMPTY) : NULL;
    if (subscriber && !group) {
        group = subscription_group_create(subscriber, STR_EMPTY);
        if (group) {
            group->is_open = true;
        }
    }
    return group;
}

static void method_set_level(struct request *request)
{
    int level = dialect_log_level(jv_str(jv_get(request->msg.params, "level")));
    if (level < 0) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                     "params.level must be one of debug, info, notice, warning, error, critical, "
                     "alert, emergency");
        return;
    }
    struct subscription_group *group = legacy_group(request);
    if (group) {
        group->subscriber->log_level = (int8_t)level;
        session_changed(request->session, request);
    }
    request_empty(request);
}

void method_confirm(struct request *request, bool subscribed, struct tidings_str uri)
{
    request_begin(request);
    dialect_put_confirmation(&request->w, request->worker->self, subscribed, uri);
    request_end(request, CACHE_NONE);
}

static void run_with_uri(struct request *request,
                         void (*run)(struct request *, struct subscription_group *,
                                     struct tidings_str))
{
    struct json *uri = jv_get(request->msg.params, "uri");
    if (!jv_is(uri, JV_STRING)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY, "params.uri must be a string");
        return;
    }
    if (!request->channel->ops->is_http && dialect_rules(request->worker->self)->needs_session) {
        request_fail_with(request, &dialect_session_required);
        return;
    }
    struct subscription_group *group = legacy_group(request);
    if (!group) {
        request_fail(request, TIDINGS_E_NOMEM, jv_str(uri), "out of memory");
        return;
    }
    run(request, group, jv_str(uri));
}

static void method_subscribe(struct request *request)
{
    if (method_subscribes_too_often(request)) {
        return;
    }
    run_with_uri(request, method_subscribe_one);
}

static void method_unsubscribe(struct request *request)
{
    run_with_uri(request, method_unsubscribe_one);
}

enum { IN_LEGACY = 1 << ERA_LEGACY, IN_MODERN = 1 << ERA_MODERN, IN_BOTH = IN_LEGACY | IN_MODERN };

static const struct method {
    struct tidings_str name;
    void (*run)(struct request *request);
    unsigned eras;
    unsigned offer; /* of handlers_offers: exists only when that is offered; 0: always */
} methods[] = {
    {{"resources/read", 14}, method_resources_read, IN_BOTH, 0},
    {{"resources/list", 14}, method_resources_list, IN_BOTH, 0},
    {{"resources/metadata", 18}, method_resources_metadata, IN_BOTH, 0},
    {{"resources/directory/read", 24}, method_resources_children, IN_BOTH, 0},
    {{"resources/templates/list", 24}, method_resources_templates_list, IN_BOTH, 0},
    {{"subscriptions/listen", 20}, method_listen, IN_MODERN, 0},
    {{"resources/subscribe", 19}, method_subscribe, IN_LEGACY, OFFER_SUBSCRIPTIONS},
    {{"resources/unsubscribe", 21}, method_unsubscribe, IN_LEGACY, OFFER_SUBSCRIPTIONS},
    {{"initialize", 10}, method_initialize, IN_LEGACY, 0},
    {{"server/discover", 15}, method_discover, IN_MODERN, 0},
    {{"ping", 4}, method_ping, IN_LEGACY, 0},
    {{"logging/setLevel", 16}, method_set_level, IN_LEGACY, 0},
    {{"tools/call", 10}, method_tools_call, IN_BOTH, LIST_TOOLS},
    {{"tools/list", 10}, method_tools_list, IN_BOTH, LIST_TOOLS},
    {{"prompts/get", 11}, method_prompts_get, IN_BOTH, LIST_PROMPTS},
    {{"prompts/list", 12}, method_prompts_list, IN_BOTH, LIST_PROMPTS},
    {{"tasks/get", 9}, method_tasks_get, IN_MODERN, OFFER_TASKS},
    {{"tasks/update", 12}, method_tasks_update, IN_MODERN, OFFER_TASKS},
    {{"tasks/cancel", 12}, method_tasks_cancel, IN_MODERN, OFFER_TASKS},
    {{"skills/list", 11}, method_skills_list, IN_BOTH, OFFER_SKILLS},
    {{"skills/get", 10}, method_skills_get, IN_BOTH, OFFER_SKILLS},
    {{"dev.tidings/subscriptions/list", 30}, method_subscriptions_list, IN_BOTH, 0},
    {{"completion/complete", 19}, method_complete, IN_BOTH, OFFER_COMPLETIONS},
};

void method_run(struct request *request)
{
    unsigned era = 1u << request->era;
    int code = RPC_METHOD_NOT_FOUND;
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        const struct method *m = &methods[i];
        if (!(m->eras & era) || !str_eq(m->name, request->msg.method)) {
            continue;
        }
        request->method = m->name.ptr;
        request->method_number = (uint8_t)(i + 1);
        if (m->offer == 0 || (m->offer & handlers_offers(request->worker))) {
            m->run(request);
            return;
        }
        if (era == IN_LEGACY) {
            code = dialect_code_incapable(request->worker->self);
        }
    }
    request_fail_rpc(request, code, STR_EMPTY, "unknown method '%.*s'",
                     STR_ARG(request->msg.method));
}

const char *method_name(unsigned number)
{
    _Static_assert(sizeof(methods) / sizeof(methods[0]) < OPERATIONS_METHODS, "each has a number");
    return number == 0                                      ? "other"
           : number <= sizeof(methods) / sizeof(methods[0]) ? methods[number - 1].name.ptr
                                                            : NULL;
}
