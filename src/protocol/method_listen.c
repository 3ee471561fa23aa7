/* SPDX-License-Identifier: MIT
 *
 * subscriptions/listen: everything that can be wrong with the request itself is answered; then it
 * becomes a stream (a pipe is one already) and its URIs are settled one by one, each refused or not
 * by itself.
 */
#include "base/mem.h"
#include "base/str.h"
#include "delivery/subscribe.h"
#include "delivery/subscribe_batch.h"
#include "store/change.h"
#include "uri/uri.h"

/* A pipe has one peer for everything it hears; an HTTP listen is a peer of its own. */
static void http_listen_closed(struct peer *peer)
{
    peer_destroy(peer);
}

static struct peer *listen_peer(struct call *call)
{
    struct channel *channel = call->channel;
    if (!channel->ops->is_http) {
        return channel_peer(channel);
    }
    struct peer *peer = peer_create(call->core, channel->who);
    if (peer) {
        static const struct answer_headers none;
        static const struct peer_ops ops = {.closed = http_listen_closed};
        peer->ops = &ops;
        peer_set_sink(peer, channel->ops->stream(channel, &none));
    }
    return peer;
}

/* Options of one URI: those for all, then its own. An error refuses the wish. */
static void read_options(struct subscribing *s, struct wish *w, struct json *given)
{
    struct tidings_error err;
    options_init(&w->options);
    struct json *own = jv_get_str(jv_get(given, "uris"), w->spelled);
    if (options_read(&w->options, given, true, &err) < 0 ||
        options_read(&w->options, own, false, &err) < 0) {
        wish_refuse(w, err.code, "%s", err.text);
        return;
    }
    /* The message goes before the subscription is made. */
    w->kept = jv_ref(w->options.filter);
    w->options.origin = arena_dup(&s->arena, w->options.origin);
    w->options.baseline = arena_dup(&s->arena, w->options.baseline);
    w->options.sealed = arena_dup(&s->arena, w->options.sealed);
    if (!w->options.origin.ptr || !w->options.baseline.ptr || !w->options.sealed.ptr) {
        wish_refuse(w, TIDINGS_E_NOMEM, "out of memory");
    }
}

/* Copy the wishes; a repeated one counts once. */
static int copy_wishes(struct subscribing *s, struct json *uris, struct json *options)
{
    struct map seen;
    map_init(&seen);
    size_t n = 0;
    int rc = 0;
    for (size_t i = 0; i < jv_count(uris) && rc == 0; i++) {
        struct tidings_str spelled = jv_str(jv_at(uris, i));
        if (map_find(&seen, spelled)) {
            continue;
        }
        struct wish *w = &s->wishes[n++];
        w->spelled = arena_dup(&s->arena, spelled);
        rc = w->spelled.ptr ? map_put(&seen, w->spelled, w, NULL) : TIDINGS_E_NOMEM;
        if (rc == 0) {
            read_options(s, w, options);
        }
    }
    s->count = n;
    map_deinit(&seen);
    return rc;
}

static bool check_flag(struct call *call, struct json *wanted, const char *name)
{
    struct json *flag = jv_get(wanted, name);
    if (flag && !jv_is(flag, JV_TRUE) && !jv_is(flag, JV_FALSE)) {
        call_fail(call, TIDINGS_E_INVALID, STR_EMPTY, "notifications.%s must be true or false",
                  name);
        return false;
    }
    return true;
}

static bool check_uris(struct call *call, struct json *uris)
{
    size_t most = call->core->limits->max_uris_per_listen;
    if (uris && !jv_is(uris, JV_ARRAY)) {
        call_fail(call, TIDINGS_E_INVALID, STR_EMPTY,
                  "notifications.resourceSubscriptions must be an array of URIs");
        return false;
    }
    if (jv_count(uris) > most) {
        struct refusal why = {.limit = LIMIT_LISTEN_URIS, .value = most};
        limit_hit(call->core->book, LIMIT_LISTEN_URIS);
        call_fail_limit(call, &why, STR_EMPTY);
        return false;
    }
    for (size_t i = 0; i < jv_count(uris); i++) {
        struct json *uri = jv_at(uris, i);
        if (!jv_is(uri, JV_STRING) || jv_str(uri).len > URI_MAX) {
            if (jv_is(uri, JV_STRING)) {
                limit_hit(call->core->book, LIMIT_URI);
            }
            call_fail(
                call, TIDINGS_E_INVALID, STR_EMPTY,
                "notifications.resourceSubscriptions[%zu] must be a string of at most %u bytes", i,
                URI_MAX);
            return false;
        }
    }
    return true;
}

/* Options for a URI that is not asked for would be ignored in silence. */
static bool check_option_uris(struct call *call, struct json *options, struct json *uris)
{
    struct tidings_str key;
    struct json *value = NULL;
    void *at = options ? jv_next(options, NULL, &key, &value) : NULL;
    for (; at; at = jv_next(options, at, &key, &value)) {
        bool found = false;
        for (size_t i = 0; i < jv_count(uris) && !found; i++) {
            found = str_eq(jv_str(jv_at(uris, i)), key);
        }
        if (!found) {
            call_fail(call, TIDINGS_E_INVALID, STR_EMPTY,
                      "option 'uris' names '%.*s', which is not in resourceSubscriptions",
                      (int)(key.len < 128 ? key.len : 128), key.ptr);
            return false;
        }
    }
    return true;
}

/* Everything that can be wrong with the request itself, before it becomes a stream. */
static bool check_listen(struct call *call, struct json *wanted)
{
    if (!jv_is(wanted, JV_OBJECT)) {
        call_fail(call, TIDINGS_E_INVALID, STR_EMPTY, "params.notifications must be an object");
        return false;
    }
    if (!check_flag(call, wanted, "toolsListChanged") ||
        !check_flag(call, wanted, "promptsListChanged") ||
        !check_flag(call, wanted, "resourcesListChanged") ||
        !check_uris(call, jv_get(wanted, "resourceSubscriptions"))) {
        return false;
    }
    struct json *options = options_of(&call->msg);
    if (options && (!jv_is(options, JV_OBJECT) ||
                    (jv_get(options, "uris") && !jv_is(jv_get(options, "uris"), JV_OBJECT)))) {
        call_fail(call, TIDINGS_E_INVALID, STR_EMPTY,
                  "'dev.tidings/options' must be an object, and so must its 'uris'");
        return false;
    }
    if (!check_option_uris(call, jv_get(options, "uris"),
                           jv_get(wanted, "resourceSubscriptions"))) {
        return false;
    }
    struct peer *peer = call->channel->peer;
    size_t open = peer ? peer->listen_count - (listen_find(peer, STR_EMPTY) != NULL) : 0;
    if (open >= call->core->limits->max_listens) {
        struct refusal why = limit_refusal(LIMIT_LISTENS, call->core->limits->max_listens, true);
        limit_hit(call->core->book, LIMIT_LISTENS);
        call_fail_limit(call, &why, STR_EMPTY);
        return false;
    }
    if (call->core->stopping) {
        call_fail(call, TIDINGS_E_BUSY, STR_EMPTY, "the server is stopping");
        return false;
    }
    return true;
}

/* Out of memory half way. A stream that has begun is cut, so that the client tries again. */
static void give_up(struct call *call, struct peer *peer, struct listen *listen,
                    struct subscribing *s)
{
    if (s) {
        subscribing_free(s);
    }
    listen_destroy(listen);
    if (peer && call->channel->ops->is_http) {
        struct sink *sink = peer->sink;
        call_drop(call);
        peer_destroy(peer);
        sink->ops->cut(sink, "out of memory");
    } else {
        call_fail(call, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
    }
}

void subscribe_listen(struct call *call)
{
    struct json *wanted = jv_get(call->msg.params, "notifications");
    if (subscribe_is_too_often(call) || !check_listen(call, wanted)) {
        return;
    }
    struct channel *channel = call->channel;
    if (!channel->ops->is_http && channel->peer &&
        listen_find(channel->peer, call->id_json) != NULL) {
        call_fail_rpc(call, RPC_INVALID_REQUEST, STR_EMPTY, "a listen with this id is open");
        return;
    }
    struct json *uris = jv_get(wanted, "resourceSubscriptions");
    struct peer *peer = listen_peer(call);
    struct listen *listen = peer ? listen_create(peer, call->id_json) : NULL;
    struct subscribing *s = listen ? subscribing_create(listen, jv_count(uris)) : NULL;
    if (!s || !subscribing_set_channel(s, channel) ||
        copy_wishes(s, uris, options_of(&call->msg)) < 0) {
        give_up(call, peer, listen, s);
        return;
    }
    s->acknowledge = true;
    if (call->core->self->list_changed) {
        unsigned offers = core_offers(call->core);
        s->wants_list = jv_is_true(jv_get(wanted, "resourcesListChanged"));
        listen_want_lists(
            listen,
            offers & ((jv_is_true(jv_get(wanted, "toolsListChanged")) ? LIST_TOOLS : 0u) |
                      (jv_is_true(jv_get(wanted, "promptsListChanged")) ? LIST_PROMPTS : 0u)));
    }
    call_drop(call);
    subscribing_settle(s);
}
