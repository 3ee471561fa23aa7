/* SPDX-License-Identifier: MIT
 *
 * resources/subscribe and unsubscribe, and what every client of the legacy era hears of unasked.
 */
#include "access/quota.h"
#include "base/mem.h"
#include "base/str.h"
#include "delivery/hub.h"
#include "delivery/subscribe.h"
#include "delivery/subscribe_batch.h"
#include "protocol/method.h"
#include "store/change.h"
#include "uri/uri.h"

bool subscribe_is_too_often(struct call *call)
{
    struct refusal why;
    struct core *core = call->core;
    if (quota_take_subscribe(channel_quota(call->channel), loop_now_ms(core->loop), &why)) {
        return false;
    }
    call_fail_limit(call, &why, STR_EMPTY);
    return true;
}

void subscribe_one(struct call *call, struct listen *listen, struct tidings_str spelled)
{
    struct json *given = options_of(&call->msg);
    struct options options;
    struct tidings_error err;
    options_init(&options);
    if (options_read(&options, given, false, &err) < 0 ||
        options_read_params(&options, call->msg.params, &err) < 0) {
        call_fail_err(call, &err, STR_EMPTY);
        return;
    }
    if (!given && !options.given && listen_find_sub(listen, spelled)) {
        method_confirm(call, PROFILE_SUBSCRIBED, spelled);
        return;
    }
    if (spelled.len > URI_MAX) {
        limit_hit(call->core->book, LIMIT_URI);
        call_fail(call, TIDINGS_E_INVALID, STR_EMPTY, "params.uri may be at most %u bytes long",
                  URI_MAX);
        return;
    }
    struct subscribing *s = subscribing_create(listen, 1);
    struct tidings_str copy = s ? arena_dup(&s->arena, spelled) : STR_EMPTY;
    if (!s || !copy.ptr || !subscribing_set_channel(s, call->channel)) {
        call_fail(call, TIDINGS_E_NOMEM, spelled, "out of memory");
        if (s) {
            subscribing_free(s);
        }
        return;
    }
    s->call = call;
    s->wishes[0].spelled = copy;
    s->wishes[0].options = options;
    subscribing_settle(s);
}

void unsubscribe_one(struct call *call, struct listen *listen, struct tidings_str spelled)
{
    struct sub *sub = listen_find_sub(listen, spelled);
    bool was_known = sub != NULL;
    if (sub) {
        sub_destroy(sub);
    }
    list_each (it, next, &listen->pending) {
        struct listen_pending *pending = list_entry(it, struct listen_pending, link);
        struct subscribing *s =
            pending->is_subscribing ? list_entry(pending, struct subscribing, pending) : NULL;
        if (s && s->call && s->count == 1 && str_eq(s->wishes[0].spelled, spelled)) {
            s->withdrawn = was_known = true;
        }
    }
    if (!was_known && dialect_does(call->core->self, PROFILE_KNOWN_ONLY)) {
        call_fail_rpc(call, RPC_NO_SUBSCRIPTION, STR_EMPTY, "Subscription not found");
    } else {
        method_confirm(call, PROFILE_UNSUBSCRIBED, spelled);
    }
}

void subscribe_list(struct listen *listen)
{
    if (!listen->peer->core->self->list_changed) {
        return;
    }
    listen_want_lists(listen, LIST_RESOURCES); /* registrations are announced without arming */
    bool needless = !listen->peer->sink || listen->list_scopes || listen->arms_lists;
    struct subscribing *s = needless ? NULL : subscribing_create(listen, 0);
    if (s) {
        listen->arms_lists = s->wants_list = true;
        subscribing_settle(s);
    }
}

void subscribe_list_end(struct listen *listen)
{
    for (size_t i = 0; listen->list_scopes && i < listen->list_scopes->count; i++) {
        hub_disarm(listen->peer->core->hub, listen->list_scopes->at[i]);
    }
    mem_free(listen->list_scopes);
    listen->list_scopes = NULL;
}
