/* SPDX-License-Identifier: MIT
 *
 * The table of JSON-RPC methods, and those of them that need no more than a few lines.
 */
#include "protocol/method.h"

#include "access/limit.h"
#include "base/str.h"
#include "delivery/list_changed.h"
#include "delivery/listen.h"
#include "delivery/subscriber.h"
#include "handler/handlers.h"
#include "protocol/instructions.h"
#include "protocol/session_moving.h"
#include "store/change.h"

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
        list_changed_want(session->listen, promised);
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
static struct listen *legacy_listen(struct request *request)
{
    if (request->channel->ops->is_http) {
        return request->session->listen;
    }
    struct subscriber *subscriber = subscriber_of_channel(request->channel);
    struct listen *listen = subscriber ? listen_find(subscriber, STR_EMPTY) : NULL;
    if (subscriber && !listen) {
        listen = listen_create(subscriber, STR_EMPTY);
        if (listen) {
            listen->is_open = true;
        }
    }
    return listen;
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
    struct listen *listen = legacy_listen(request);
    if (listen) {
        listen->subscriber->log_level = (int8_t)level;
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
                         void (*run)(struct request *, struct listen *, struct tidings_str))
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
    struct listen *listen = legacy_listen(request);
    if (!listen) {
        request_fail(request, TIDINGS_E_NOMEM, jv_str(uri), "out of memory");
        return;
    }
    run(request, listen, jv_str(uri));
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
