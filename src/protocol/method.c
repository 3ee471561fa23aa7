/* SPDX-License-Identifier: MIT
 *
 * Methods that need no more than a few lines, and the table.
 */
#include "protocol/method.h"

#include "base/str.h"
#include "delivery/subscribe.h"
#include "protocol/session.h"
#include "store/change.h"

static void method_initialize(struct call *call)
{
    struct json *asked = jv_get(call->msg.params, "protocolVersion");
    if (!jv_is(asked, JV_STRING)) {
        call_fail(call, TIDINGS_E_INVALID, STR_EMPTY, "params.protocolVersion must be a string");
        return;
    }
    const struct server_identity *self = call->core->self;
    const struct revision *rev = dialect_negotiate(jv_str(asked), self->ceiling, self->profile);
    struct channel *channel = call->channel;
    unsigned offers = core_offers(call->core);
    unsigned promised = self->list_changed ? offers & (LIST_TOOLS | LIST_PROMPTS) : 0;
    if (call->batch) {
        call_fail_rpc(call, RPC_INVALID_REQUEST, STR_EMPTY, "initialize may not be in a batch");
        return;
    }
    if (channel->ops->is_http) {
        struct session *session = NULL;
        struct tidings_error err;
        struct refusal why;
        int rc = session_open(channel, rev, &session, &why, &err);
        if (rc == TIDINGS_E_LIMIT) {
            call_fail_limit(call, &why, STR_EMPTY);
            return;
        }
        if (rc < 0) {
            call_fail_err(call, &err, STR_EMPTY);
            return;
        }
        listen_want_lists(session->listen, promised);
        call->headers.session_id =
            arena_dup(&call->arena, tidings_strn(session->id, SESSION_ID_LEN));
    } else {
        channel->revision = rev;
        channel->promised = (unsigned char)promised;
    }
    call_begin(call);
    dialect_write_initialize(&call->w, rev, self, offers);
    call_end(call, CACHE_NONE);
}

static void method_discover(struct call *call)
{
    call_begin(call);
    dialect_write_discover(&call->w, call->core->self, core_offers(call->core));
    call_end(call, CACHE_HOUR);
}

static void method_ping(struct call *call)
{
    call_empty(call);
}

/* The group of everything this client subscribed to in the legacy way. */
static struct listen *legacy_listen(struct call *call)
{
    if (call->channel->ops->is_http) {
        return call->session->listen;
    }
    struct peer *peer = channel_peer(call->channel);
    struct listen *listen = peer ? listen_find(peer, STR_EMPTY) : NULL;
    if (peer && !listen) {
        listen = listen_create(peer, STR_EMPTY);
        if (listen) {
            listen->live = true;
        }
    }
    return listen;
}

static void method_set_level(struct call *call)
{
    int level = dialect_log_level(jv_str(jv_get(call->msg.params, "level")));
    if (level < 0) {
        call_fail(call, TIDINGS_E_INVALID, STR_EMPTY,
                  "params.level must be one of debug, info, notice, warning, error, critical, "
                  "alert, emergency");
        return;
    }
    struct listen *listen = legacy_listen(call);
    if (listen) {
        listen->peer->log_level = (int8_t)level;
    }
    call_empty(call);
}

void method_confirm(struct call *call, unsigned what, struct tidings_str uri)
{
    call_begin(call);
    if (dialect_does(call->core->self, what)) {
        jw_put_bool(&call->w, what == PROFILE_SUBSCRIBED ? STR("subscribed") : STR("unsubscribed"),
                    true);
        jw_put_string(&call->w, STR("uri"), uri);
    }
    call_end(call, CACHE_NONE);
}

static void with_uri(struct call *call,
                     void (*run)(struct call *, struct listen *, struct tidings_str))
{
    struct json *uri = jv_get(call->msg.params, "uri");
    if (!jv_is(uri, JV_STRING)) {
        call_fail(call, TIDINGS_E_INVALID, STR_EMPTY, "params.uri must be a string");
        return;
    }
    if (!call->channel->ops->is_http && dialect_does(call->core->self, PROFILE_NEEDS_SESSION)) {
        call_fail_with(call, &dialect_session_required);
        return;
    }
    struct listen *listen = legacy_listen(call);
    if (!listen) {
        call_fail(call, TIDINGS_E_NOMEM, jv_str(uri), "out of memory");
        return;
    }
    run(call, listen, jv_str(uri));
}

static void method_subscribe(struct call *call)
{
    if (subscribe_is_too_often(call)) {
        return;
    }
    with_uri(call, subscribe_one);
}

static void method_unsubscribe(struct call *call)
{
    with_uri(call, unsubscribe_one);
}

enum { IN_LEGACY = 1, IN_MODERN = 2, IN_BOTH = 3 };

static const struct method {
    struct tidings_str name;
    void (*run)(struct call *call);
    unsigned eras;
    unsigned offer; /* of core_offers: exists only when that is offered; 0: always */
} methods[] = {
    {{"resources/read", 14}, method_resources_read, IN_BOTH, 0},
    {{"resources/list", 14}, method_resources_list, IN_BOTH, 0},
    {{"resources/metadata", 18}, method_resources_metadata, IN_BOTH, 0},
    {{"resources/directory/read", 24}, method_resources_children, IN_BOTH, 0},
    {{"resources/templates/list", 24}, method_resources_templates_list, IN_BOTH, 0},
    {{"subscriptions/listen", 20}, subscribe_listen, IN_MODERN, 0},
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
    {{"completion/complete", 19}, method_complete, IN_BOTH, OFFER_COMPLETIONS},
};

void method_run(struct call *call)
{
    unsigned era = call->era == ERA_MODERN ? IN_MODERN : IN_LEGACY;
    int code = RPC_METHOD_NOT_FOUND;
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        const struct method *m = &methods[i];
        if (!(m->eras & era) || !str_eq(m->name, call->msg.method)) {
            continue;
        }
        if (m->offer == 0 || (m->offer & core_offers(call->core))) {
            m->run(call);
            return;
        }
        if (era == IN_LEGACY) {
            code = dialect_code_incapable(call->core->self);
        }
    }
    call_fail_rpc(call, code, STR_EMPTY, "unknown method '%.*s'", STR_ARG(call->msg.method));
}
