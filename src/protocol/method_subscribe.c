/* SPDX-License-Identifier: MIT
 *
 * resources/subscribe and resources/unsubscribe.
 */
#include "access/quota.h"
#include "base/mem.h"
#include "base/str.h"
#include "delivery/cursor_seal.h"
#include "delivery/delivery_log.h"
#include "delivery/subscribe.h"
#include "delivery/subscription.h"
#include "protocol/method.h"
#include "protocol/session_moving.h"
#include "store/change.h"
#include "uri/uri.h"

bool method_subscribes_too_often(struct request *request)
{
    struct refusal why;
    struct worker *worker = request->worker;
    if (quota_take_subscribe(channel_quota(request->channel), loop_now_ms(worker->loop), &why)) {
        return false;
    }
    request_fail_limit(request, &why, STR_EMPTY);
    return true;
}

/* Answer with {} and, in _meta, the cursor and a warning. */
static void answer_subscribed(struct subscribe_batch *s, const struct log_cursor *at)
{
    struct subscribe_item *w = &s->items[0];
    struct request *request = s->user;
    struct listen *listen = s->pending.listen;
    if (!listen) {
        request_fail(request, TIDINGS_E_CLOSED, w->spelled, "the session ended meanwhile");
    } else if (w->refused) {
        bool is_invalid = w->stat.base.err.code == TIDINGS_E_INVALID && !w->stat.base.details;
        request_fail_job(request, &w->stat.base, w->spelled,
                         is_invalid ? STR("invalid") : STR_EMPTY);
    } else if (dialect_rules(request->worker->self)->is_literal) {
        delivery_log_begun(listen);
        session_subscribed(request->session, request, w->spelled);
        method_confirm(request, true, w->spelled);
    } else {
        delivery_log_begun(listen);
        session_subscribed(request->session, request, w->spelled);
        const struct principal *principal = listen->subscriber->principal;
        char text[CURSOR_TEXT];
        request_begin(request);
        dialect_put_subscribed(&request->w, cursor_seal_put(s->worker, principal, at, text),
                               w->spelled, w->warning);
        request_end(request, CACHE_NONE);
    }
}

static void method_subscribe_on_dropped(struct subscribe_batch *s)
{
    request_drop(s->user);
}

void method_subscribe_one(struct request *request, struct listen *listen,
                          struct tidings_str spelled)
{
    struct json *given = options_find(request->msg.params);
    struct options options;
    struct tidings_error err;
    options_init(&options);
    if (options_read(&options, given, false, &err) < 0 ||
        options_read_params(&options, request->msg.params, &err) < 0) {
        request_fail_err(request, &err, STR_EMPTY);
        return;
    }
    const struct subscription *old = listen_find_sub(listen, spelled);
    if (old && !given && !options.given && !old->needs_baseline) {
        method_confirm(request, true, spelled);
        return;
    }
    if (spelled.len > URI_MAX) {
        limit_hit(request->worker->limit_counters, LIMIT_URI);
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                     "params.uri may be at most %u bytes long", URI_MAX);
        return;
    }
    struct subscribe_batch *s = subscribe_batch_create(listen, 1);
    struct tidings_str copy = s ? arena_dup(&s->arena, spelled) : STR_EMPTY;
    if (!s || !copy.ptr || !subscribe_batch_set_channel(s, request->channel)) {
        request_fail(request, TIDINGS_E_NOMEM, spelled, "out of memory");
        if (s) {
            subscribe_batch_free(s);
        }
        return;
    }
    s->is_legacy = true;
    s->done = answer_subscribed;
    s->dropped = method_subscribe_on_dropped;
    s->user = request;
    s->items[0].spelled = copy;
    s->items[0].options = options;
    subscribe_batch_resolve(s);
}

/* Does `spelled` mean the URI or pattern `uri`, which is canonical? */
static bool is_spelling_of(const struct catalog *c, struct tidings_str spelled,
                           struct tidings_str uri)
{
    struct buf text;
    buf_init(&text, URI_MAX * 3);
    bool is = catalog_canonical(c, spelled, true, &text, NULL) == 0 && str_eq(buf_str(&text), uri);
    buf_deinit(&text);
    return is;
}

/* The subscription to the same that was made with another spelling; NULL: none. */
static struct subscription *find_other_spelling(const struct request *request,
                                                const struct listen *listen,
                                                struct tidings_str spelled)
{
    const struct catalog *catalog = request->worker->catalog;
    struct subscription *found = NULL;
    struct buf uri;
    buf_init(&uri, URI_MAX * 3);
    bool is_uri = catalog_canonical(catalog, spelled, true, &uri, NULL) == 0;
    list_each (it, next, &listen->subs) {
        struct subscription *sub = list_entry(it, struct subscription, link);
        if (is_uri && !found && str_starts(buf_str(&uri), subscription_uri(sub)) &&
            is_spelling_of(catalog, subscription_spelled(sub), buf_str(&uri))) {
            found = sub;
        }
    }
    buf_deinit(&uri);
    return found;
}

void method_unsubscribe_one(struct request *request, struct listen *listen,
                            struct tidings_str spelled)
{
    struct subscription *sub = listen_find_sub(listen, spelled);
    sub = sub ? sub : find_other_spelling(request, listen, spelled);
    bool was_known = sub != NULL;
    if (sub) {
        subscriber_hand_over(sub);
        subscription_destroy(sub);
        session_changed(request->session, request);
    }
    list_each (it, next, &listen->pending) {
        struct listen_pending *pending = list_entry(it, struct listen_pending, link);
        struct subscribe_batch *s =
            pending->is_subscribing ? list_entry(pending, struct subscribe_batch, pending) : NULL;
        if (s && s->is_legacy && s->count == 1 && str_eq(s->items[0].spelled, spelled)) {
            s->withdrawn = was_known = true;
        }
    }
    if (!was_known && dialect_rules(request->worker->self)->knows_subscriptions) {
        request_fail_rpc(request, RPC_NO_SUBSCRIPTION, STR_EMPTY, "Subscription not found");
    } else {
        method_confirm(request, false, spelled);
    }
}
