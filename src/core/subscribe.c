/* SPDX-License-Identifier: MIT
 *
 * One `struct subscribing` per request. It outlives neither hub nor worker but may outlive its
 * listen (the client went): then whatever was armed is released again.
 *
 *     settle every URI (stat, maybe later) -> arm all scopes at the hub -> create subs, acknowledge
 */
#include "core/subscribe.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "core/hub.h"
#include "core/request.h"
#include "uri/uri.h"

struct subscribing;
struct wish {
    struct subscribing *owner;
    struct tidings_str spelled; /* in the arena */
    struct tidings_str uri;     /* canonical, in the arena */
    enum match_kind kind;
    struct tidings_stat stat; /* its err says why it was refused */
    bool refused;
    bool watched; /* a need of its scope is held at the hub */
};

struct subscribing {
    struct listen_pending pending; /* .listen is NULL once the client is gone */
    struct core *core;
    struct call *call; /* resources/subscribe; NULL for listens */
    struct arena arena;
    bool acknowledge; /* a listen waits for its acknowledgement */
    bool wants_list;  /* also arm every mount */
    bool withdrawn;   /* unsubscribed before it came to be */
    size_t unsettled;
    size_t count;
    struct wish wishes[];
};

static struct subscribing *subscribing_create(struct listen *listen, size_t count)
{
    struct subscribing *s = mem_zalloc(sizeof(*s) + count * sizeof(s->wishes[0]));
    if (!s) {
        return NULL;
    }
    s->core = listen->peer->core;
    s->count = count;
    arena_init(&s->arena, (count + 1) * 4 * URI_MAX);
    s->pending.listen = listen;
    list_append(&listen->pending, &s->pending.link);
    return s;
}

static void subscribing_free(struct subscribing *s)
{
    list_remove(&s->pending.link);
    for (size_t i = 0; i < s->count; i++) {
        mem_free(s->wishes[i].stat.copy);
    }
    arena_deinit(&s->arena);
    mem_free(s);
}

static void refuse(struct wish *w, int code, const char *text)
{
    w->refused = true;
    w->stat.base.err.code = code;
    tidings_fail(&w->stat.base.err, code, "%s", text);
}

/* ---- the end: subscriptions exist, the client is told ---------------------------------------- */

static void write_refused(struct jw *w, const struct subscribing *s)
{
    bool any = false;
    for (size_t i = 0; i < s->count; i++) {
        if (!s->wishes[i].refused) {
            continue;
        }
        if (!any) {
            any = true;
            jw_key(w, STR("dev.tidings/refused"));
            jw_begin_array(w);
        }
        jw_begin_object(w);
        jw_put_string(w, STR("uri"), s->wishes[i].spelled);
        jw_put_string(w, STR("reason"), tidings_str(s->wishes[i].stat.base.err.text));
        jw_end_object(w);
    }
    if (any) {
        jw_end_array(w);
    }
}

static void write_honoured(struct jw *w, const struct subscribing *s)
{
    bool any = false;
    jw_begin_object(w);
    if (s->pending.listen->wants_list) {
        jw_put_bool(w, STR("resourcesListChanged"), true);
    }
    for (size_t i = 0; i < s->count; i++) {
        if (s->wishes[i].refused) {
            continue;
        }
        if (!any) {
            any = true;
            jw_key(w, STR("resourceSubscriptions"));
            jw_begin_array(w);
        }
        jw_string(w, s->wishes[i].spelled);
    }
    if (any) {
        jw_end_array(w);
    }
    jw_end_object(w);
}

static void acknowledge(struct subscribing *s, uint64_t seq)
{
    struct listen *listen = s->pending.listen;
    struct buf out;
    buf_init(&out, SIZE_MAX / 2);
    struct jw w;
    jw_init(&w, &out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("jsonrpc"), STR("2.0"));
    jw_put_string(&w, STR("method"), STR("notifications/subscriptions/acknowledged"));
    jw_key(&w, STR("params"));
    jw_begin_object(&w);
    jw_key(&w, STR("notifications"));
    write_honoured(&w, s);
    jw_key(&w, STR("_meta"));
    jw_begin_object(&w);
    jw_put_raw(&w, STR("io.modelcontextprotocol/subscriptionId"), listen->id_json);
    char cursor[64];
    snprintf(cursor, sizeof(cursor), "%llx.%llu", (unsigned long long)s->core->epoch,
             (unsigned long long)seq);
    jw_put_string(&w, STR("dev.tidings/cursor"), tidings_str(cursor));
    write_refused(&w, s);
    jw_end_object(&w);
    jw_end_object(&w);
    jw_end_object(&w);
    listen->live = true;
    peer_send(listen->peer, &out);
    buf_deinit(&out);
}

static void answer(struct subscribing *s)
{
    struct wish *w = &s->wishes[0];
    struct call *call = s->call;
    s->call = NULL;
    if (!s->pending.listen) {
        call_fail(call, TIDINGS_E_CLOSED, w->spelled, "the session ended meanwhile");
    } else if (w->refused) {
        call_fail_err(call, &w->stat.base.err, w->spelled);
    } else {
        call_empty(call);
    }
}

/* The watch is armed: make the subscription, or release the watch again. */
static void establish(struct subscribing *s, struct wish *w, uint64_t seq)
{
    struct listen *listen = s->pending.listen;
    size_t most = s->core->limits->max_subscriptions;
    /* Asked for twice before the first was there: once is enough. */
    bool needless = s->withdrawn || map_find(&listen->by_spelling, w->spelled) != NULL;
    struct sub *sub = NULL;
    if (!needless && listen->peer->sub_count >= most) {
        w->refused = true;
        tidings_fail(&w->stat.base.err, TIDINGS_E_LIMIT, "at most %zu subscriptions are allowed",
                     most);
    } else if (!needless) {
        sub = sub_create(listen, w->spelled, w->uri, w->kind, seq);
        if (!sub) {
            refuse(w, TIDINGS_E_NOMEM, "out of memory");
        }
    }
    if (sub) {
        sub->watched = w->watched;
    } else if (w->watched) {
        hub_disarm(s->core->hub, w->uri);
    }
}

static void finish(struct subscribing *s, uint64_t seq)
{
    struct listen *listen = s->pending.listen;
    for (size_t i = 0; listen && i < s->count; i++) {
        if (!s->wishes[i].refused) {
            establish(s, &s->wishes[i], seq);
        }
    }
    if (s->call) {
        answer(s);
    } else if (s->acknowledge && listen) {
        acknowledge(s, seq);
    }
    subscribing_free(s);
}

/* ---- arming ---------------------------------------------------------------------------------- */

/* Remember which scopes were armed for list_changed, in one block. */
static void keep_list_scopes(struct listen *listen, const struct hub_arm *arm, size_t from)
{
    size_t text = 0, n = 0;
    for (size_t i = from; i < arm->count; i++) {
        if (arm->items[i].watched) {
            text += arm->items[i].scope.len;
            n++;
        }
    }
    struct tidings_str *kept = n > 0 ? mem_alloc(n * sizeof(*kept) + text) : NULL;
    char *at = (char *)(kept + n);
    size_t k = 0;
    for (size_t i = from; i < arm->count; i++) {
        struct tidings_str scope = arm->items[i].scope;
        if (!arm->items[i].watched) {
            continue;
        }
        if (!kept) {
            hub_disarm(listen->peer->core->hub, scope);
            continue;
        }
        memcpy(at, scope.ptr, scope.len);
        kept[k++] = tidings_strn(at, scope.len);
        at += scope.len;
    }
    listen->list_scopes = kept;
    listen->list_scope_count = k;
}

static void release_all(struct hub_arm *arm)
{
    for (size_t i = 0; i < arm->count; i++) {
        if (arm->items[i].watched) {
            hub_disarm(arm->hub, arm->items[i].scope);
        }
    }
}

static void armed(struct hub_arm *arm, struct core *core)
{
    (void)core;
    struct subscribing *s = arm->user;
    struct listen *listen = s->pending.listen;
    if (!listen) {
        release_all(arm);
    } else {
        size_t item = 0;
        for (size_t i = 0; i < s->count; i++) {
            struct wish *w = &s->wishes[i];
            if (w->refused) {
                continue;
            }
            w->watched = arm->items[item].watched;
            if (arm->items[item].code < 0) {
                w->refused = true;
                w->stat.base.err = arm->items[item].err;
            }
            item++;
        }
        if (s->wants_list) {
            keep_list_scopes(listen, arm, item);
            listen_want_list(listen);
        }
    }
    uint64_t seq = arm->seq;
    hub_arm_free(arm);
    finish(s, seq);
}

/* The hub went before it could answer. */
static void never_armed(struct hub_arm *arm)
{
    struct subscribing *s = arm->user;
    if (s->call) {
        call_drop(s->call);
    }
    subscribing_free(s);
}

static void arm_all(struct subscribing *s)
{
    const struct catalog *catalog = s->core->catalog;
    size_t most = s->count + (s->wants_list ? catalog->mount_count : 0);
    struct tidings_str *scopes = mem_alloc((most + 1) * sizeof(*scopes));
    struct hub_arm *arm = NULL;
    if (scopes) {
        size_t n = 0;
        for (size_t i = 0; i < s->count; i++) {
            if (!s->wishes[i].refused) {
                scopes[n++] = s->wishes[i].uri;
            }
        }
        for (size_t i = 0; s->wants_list && i < catalog->mount_count; i++) {
            scopes[n++] = catalog->mounts[i]->prefix;
        }
        arm = hub_arm_create(s->core, scopes, n);
        mem_free(scopes);
    }
    if (!arm) {
        for (size_t i = 0; i < s->count; i++) {
            refuse(&s->wishes[i], TIDINGS_E_NOMEM, "out of memory");
        }
        finish(s, s->core->last_seq);
        return;
    }
    arm->done = armed;
    arm->dropped = never_armed;
    arm->user = s;
    hub_arm_send(arm);
}

/* ---- settling what a URI means --------------------------------------------------------------- */

static void settled(struct subscribing *s)
{
    if (--s->unsettled == 0) {
        arm_all(s);
    }
}

static void stat_done(struct request *request)
{
    struct wish *w = request->user;
    struct subscribing *s = w->owner;
    const struct tidings_resource *about = &w->stat.about;
    bool container = w->uri.ptr[w->uri.len - 1] == '/';
    if (request->code < 0) {
        if (request->code != TIDINGS_E_NOTFOUND || !container) {
            w->refused = true;
        } else {
            w->kind = MATCH_CONTAINER;
        }
    } else if (!about->subscribable) {
        refuse(w, TIDINGS_E_INVALID, "this resource cannot be subscribed to");
    } else {
        w->kind = about->listable || container ? MATCH_CONTAINER : MATCH_LITERAL;
        if (!str_eq(about->uri, w->uri)) { /* the provider's own spelling is the one that changes */
            w->uri = arena_dup(&s->arena, about->uri);
            if (!w->uri.ptr) {
                refuse(w, TIDINGS_E_NOMEM, "out of memory");
            }
        }
    }
    settled(s);
}

static void settle(struct subscribing *s, struct wish *w)
{
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    struct tidings_error err = {0};
    int rc = uri_canonical(w->spelled, &canonical, &err);
    w->uri = rc < 0 ? STR_EMPTY : arena_dup(&s->arena, buf_str(&canonical));
    buf_deinit(&canonical);
    request_init(&w->stat.base, s->core, stat_done, w, w->uri);
    if (rc < 0 || !w->uri.ptr) {
        refuse(w, rc < 0 ? rc : TIDINGS_E_NOMEM, rc < 0 ? err.text : "out of memory");
        settled(s);
        return;
    }
    struct catalog_hit hit;
    const struct principal *who = s->pending.listen->peer->who;
    if (!access_allows(who, ACCESS_SUBSCRIBE, w->uri)) {
        refuse(w, TIDINGS_E_NOTFOUND, "resource not found");
        settled(s);
    } else if (catalog_find(s->core->catalog, w->uri, &s->arena, &hit)) {
        request_stat(&w->stat, &hit);
    } else {
        refuse(w, TIDINGS_E_NOTFOUND, "resource not found");
        settled(s);
    }
}

static void settle_all(struct subscribing *s)
{
    s->unsettled = s->count + 1; /* one for this loop */
    for (size_t i = 0; i < s->count; i++) {
        s->wishes[i].owner = s;
        if (s->wishes[i].refused) {
            settled(s);
        } else {
            settle(s, &s->wishes[i]);
        }
    }
    settled(s);
}

void subscribe_one(struct call *call, struct listen *listen, struct tidings_str spelled)
{
    if (map_find(&listen->by_spelling, spelled)) {
        call_empty(call);
        return;
    }
    if (spelled.len > URI_MAX) {
        call_fail(call, TIDINGS_E_INVALID, STR_EMPTY, "params.uri may be at most %u bytes long",
                  URI_MAX);
        return;
    }
    struct subscribing *s = subscribing_create(listen, 1);
    struct tidings_str copy = s ? arena_dup(&s->arena, spelled) : STR_EMPTY;
    if (!s || !copy.ptr) {
        call_fail(call, TIDINGS_E_NOMEM, spelled, "out of memory");
        if (s) {
            subscribing_free(s);
        }
        return;
    }
    s->call = call;
    s->wishes[0].spelled = copy;
    settle_all(s);
}

void unsubscribe_one(struct call *call, struct listen *listen, struct tidings_str spelled)
{
    struct sub *sub = map_find(&listen->by_spelling, spelled);
    if (sub) {
        sub_destroy(sub);
    }
    list_each(it, next, &listen->pending)
    {
        struct listen_pending *pending = list_entry(it, struct listen_pending, link);
        struct subscribing *s = list_entry(pending, struct subscribing, pending);
        if (s->call && str_eq(s->wishes[0].spelled, spelled)) {
            s->withdrawn = true;
        }
    }
    call_empty(call);
}

void subscribe_list(struct listen *listen)
{
    struct core *core = listen->peer->core;
    if (listen->wants_list || !core->self->list_changed) {
        return;
    }
    struct subscribing *s = subscribing_create(listen, 0);
    if (s) {
        listen_want_list(listen); /* registrations are announced without arming */
        s->wants_list = true;
        settle_all(s);
    }
}

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
        peer->closed = http_listen_closed;
        peer_set_sink(peer, channel->ops->stream(channel, &none));
    }
    return peer;
}

/* Copy the wishes; one that is not a string is refused by itself, a repeated one counts once. */
static int copy_wishes(struct subscribing *s, struct json *uris)
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

/* Everything that can be wrong with the request itself, before it becomes a stream. */
static bool check_listen(struct call *call, struct json *wanted)
{
    if (!jv_is(wanted, JV_OBJECT)) {
        call_fail(call, TIDINGS_E_INVALID, STR_EMPTY, "params.notifications must be an object");
        return false;
    }
    if (!check_flag(call, wanted, "toolsListChanged") ||
        !check_flag(call, wanted, "promptsListChanged") ||
        !check_flag(call, wanted, "resourcesListChanged")) {
        return false;
    }
    struct json *uris = jv_get(wanted, "resourceSubscriptions");
    if (uris && !jv_is(uris, JV_ARRAY)) {
        call_fail(call, TIDINGS_E_INVALID, STR_EMPTY,
                  "notifications.resourceSubscriptions must be an array of URIs");
        return false;
    }
    for (size_t i = 0; i < jv_count(uris); i++) {
        struct json *uri = jv_at(uris, i);
        if (!jv_is(uri, JV_STRING) || jv_str(uri).len > URI_MAX) {
            call_fail(
                call, TIDINGS_E_INVALID, STR_EMPTY,
                "notifications.resourceSubscriptions[%zu] must be a string of at most %u bytes", i,
                URI_MAX);
            return false;
        }
    }
    const struct core_limits *limits = call->core->limits;
    if (jv_count(uris) > limits->max_uris_per_listen) {
        call_fail(call, TIDINGS_E_LIMIT, STR_EMPTY, "at most %zu URIs are allowed in one listen",
                  limits->max_uris_per_listen);
        return false;
    }
    struct channel *channel = call->channel;
    struct peer *peer = channel->peer;
    size_t open = peer ? peer->listen_count - (listen_find(peer, STR_EMPTY) != NULL) : 0;
    if (open >= limits->max_listens) {
        call_fail(call, TIDINGS_E_BUSY, STR_EMPTY, "at most %zu listens are allowed here",
                  limits->max_listens);
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
    if (!check_listen(call, wanted)) {
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
    if (!s || copy_wishes(s, uris) < 0) {
        give_up(call, peer, listen, s);
        return;
    }
    s->acknowledge = true;
    s->wants_list =
        jv_is_true(jv_get(wanted, "resourcesListChanged")) && call->core->self->list_changed;
    call_drop(call);
    settle_all(s);
}
