/* SPDX-License-Identifier: MIT
 *
 * Arms the watches of what is to be subscribed, makes the subscriptions, and begins what they asked
 * to hear first.
 */
#include "delivery/subscribe.h"

#include <stdarg.h>
#include <stdio.h>

#include "access/allowance.h"
#include "base/mem.h"
#include "base/str.h"
#include "delivery/baseline.h"
#include "delivery/bookmark.h"
#include "delivery/cursor_seal.h"
#include "delivery/delivery.h"
#include "delivery/filters.h"
#include "delivery/hub.h"
#include "delivery/initial_state.h"
#include "delivery/list_changed.h"
#include "delivery/listen.h"
#include "delivery/resync.h"
#include "delivery/subscribe_private.h"
#include "delivery/subscription.h"
#include "request/channel.h"
#include "store/change.h"
#include "uri/uri.h"

/* URIs and what is derived from them: patterns, scopes, conditions. */
#define ARENA_PER_ITEM (8u * URI_MAX)

struct subscribe_batch *subscribe_batch_create(struct listen *listen, size_t count)
{
    struct subscribe_batch *s = mem_zalloc(sizeof(*s) + count * sizeof(s->items[0]));
    if (!s) {
        return NULL;
    }
    s->worker = listen->subscriber->worker;
    s->principal = principal_ref(listen->subscriber->principal);
    s->rules = option_rules_ref(s->worker->delivery->rules);
    s->count = count;
    arena_init(&s->arena, (count + 1) * ARENA_PER_ITEM);
    s->pending.listen = listen;
    s->pending.is_subscribing = true;
    list_append(&listen->pending, &s->pending.link);
    return s;
}

void subscribe_batch_free(struct subscribe_batch *s)
{
    list_remove(&s->pending.link);
    for (size_t i = 0; i < s->count; i++) {
        job_free_stat(&s->items[i].stat);
        filter_release(s->items[i].filter);
        jv_unref(s->items[i].kept);
        mem_free(s->items[i].hooked);
        allowance_give_back(s->items[i].counted, ALLOWANCE_BROAD);
    }
    principal_unref(s->principal);
    allowance_release(s->client);
    option_rules_unref(s->rules);
    arena_deinit(&s->arena);
    mem_free(s);
}

bool subscribe_batch_set_channel(struct subscribe_batch *s, struct channel *channel)
{
    struct allowance *client = channel_allowance(channel);
    if (client) {
        subscribe_batch_set_client(s, client);
        allowance_release(client);
    }
    return client != NULL;
}

void subscribe_batch_set_client(struct subscribe_batch *s, struct allowance *client)
{
    struct subscriber *subscriber = s->pending.listen->subscriber;
    s->client = allowance_ref(client);
    if (!subscriber->allowance) {
        subscriber->allowance = allowance_ref(client);
    }
}

void subscribe_item_refuse(struct subscribe_item *w, int code, const char *fmt, ...)
{
    char text[sizeof(w->stat.base.err.text)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    w->refused = true;
    mem_free(w->stat.base.details); /* it was about something else */
    w->stat.base.details = NULL;
    tidings_fail(&w->stat.base.err, code, "%s", text);
}

/* ---- making ---------------------------------------------------------------------------------- */

static void release_scopes(struct subscribe_batch *s, const struct subscribe_item *w,
                           const struct hub_arm *arm)
{
    for (size_t i = 0; i < w->scope_count; i++) {
        const struct hub_arm_item *item = &arm->items[w->first_item + i];
        if (item->watched) {
            hub_disarm(s->worker->hub, item->scope);
        }
    }
}

/* Whose changes it is not to hear of, in the arena; empty: nobody's. ptr is NULL: out of memory. */
static struct tidings_str own_origin(struct subscribe_batch *s, const struct subscribe_item *w)
{
    struct buf text;
    buf_init(&text, ORIGIN_MAX + PRINCIPAL_ORIGIN_MAX);
    principal_put_origin(s->principal, w->options.echo ? STR_EMPTY : w->options.origin, &text);
    struct tidings_str own = arena_dup(&s->arena, buf_str(&text));
    own.ptr = text.failed ? NULL : own.ptr;
    buf_deinit(&text);
    return own;
}

/* What few subscriptions have, in one block; false: out of memory. */
static bool add_extra(struct subscribe_batch *s, struct subscribe_item *w,
                      const struct hub_arm *arm)
{
    struct tidings_str origin = own_origin(s, w);
    size_t text = origin.len, scopes = 0, scope_text = 0;
    for (size_t i = 0; i < w->condition_count; i++) {
        text += w->conditions[i].key.len + w->conditions[i].value.len;
    }
    bool resource_io_scope = w->scope_count == 1 && str_eq(w->scopes[0], w->uri);
    for (size_t i = 0; i < w->scope_count && !resource_io_scope; i++) {
        const struct hub_arm_item *item = &arm->items[w->first_item + i];
        scopes += item->watched;
        scope_text += item->watched ? item->scope.len : 0;
    }
    struct subscription *sub = w->sub;
    sub->watched = resource_io_scope && arm->items[w->first_item].watched;
    bool patches = w->options.include == OPTION_INCLUDE_PATCH;
    if (text == 0 && scopes == 0 && w->condition_count == 0 && !w->filter && !s->filter &&
        !w->covers_provider && !patches && !w->counted) {
        return true;
    }
    struct subscription_extra *x =
        mem_zalloc(sizeof(*x) + w->condition_count * sizeof(x->conditions[0]) + text);
    struct tidings_str *kept = scopes ? mem_zalloc(scopes * sizeof(*kept) + scope_text) : NULL;
    struct chain *chain = patches ? subscribe_item_begin_chain(w) : NULL;
    if (!x || !origin.ptr || (scopes && !kept) || (patches && !chain)) {
        mem_free(x);
        mem_free(kept);
        chain_destroy(chain);
        return false;
    }
    x->chain = chain;
    x->broad = w->counted;
    w->counted = NULL;
    char *at = (char *)&x->conditions[w->condition_count];
    for (size_t i = 0; i < w->condition_count; i++) {
        x->conditions[i].key = str_pack(&at, w->conditions[i].key);
        x->conditions[i].value = str_pack(&at, w->conditions[i].value);
    }
    x->condition_count = w->condition_count;
    x->origin = str_pack(&at, origin);
    x->claimed = origin.len > 0 ? w->options.origin.len : 0;
    x->schema = w->filter;
    w->filter = NULL;
    x->filter = s->filter;
    x->filter_user = s->filter_user;
    x->covers_provider = w->covers_provider;
    at = scopes > 0 ? (char *)(kept + scopes) : NULL;
    for (size_t i = 0; i < w->scope_count && scopes > 0; i++) {
        const struct hub_arm_item *item = &arm->items[w->first_item + i];
        if (item->watched) {
            kept[x->scope_count++] = str_pack(&at, item->scope);
        }
    }
    x->scopes = kept;
    subscription_set_extra(sub, x);
    return true;
}

/* It goes back before there is a stream: until then no answer says that it was told. */
static void keep_pending(struct subscription *sub)
{
    struct subscriber *subscriber = sub->subscriber;
    if (!subscriber->sink && sub->since == SINCE_UNKNOWN) {
        resync_mark(sub, 1);
    } else if (!subscriber->sink && sub->since < subscriber->cursor) {
        subscriber->cursor = sub->since;
    }
}

/* The watch is armed: make the subscription, or release the watch again. */
static void subscribe_establish(struct subscribe_batch *s, struct subscribe_item *w,
                                const struct hub_arm *arm)
{
    struct listen *listen = s->pending.listen;
    struct subscription *old = listen_find_sub(listen, w->spelled);
    uint64_t pending_from = old ? subscription_pending_from(old) : 0;
    /* It was subscribed all the time: a stream to come still replays from where it began. */
    uint64_t since = old && old->since < arm->seq ? old->since : arm->seq;
    if (old) {
        subscriber_hand_over(old);
        subscription_destroy(old); /* subscribing again replaces the options */
    }
    bool is_named =
        w->condition_count == 0 && (w->kind == PATTERN_LITERAL || w->kind == PATTERN_CONTAINER);
    if (is_named &&
        !access_subscribes(listen->subscriber->principal, w->uri)) { /* since it was resolved */
        subscribe_item_refuse(w, TIDINGS_E_NOTFOUND, "resource not found");
    }
    if (w->refused || s->withdrawn || subscribe_item_is_too_many(s, w)) {
        release_scopes(s, w, arm);
        return;
    }
    struct tidings_error err = {.code = TIDINGS_E_NOMEM, .text = "out of memory"};
    w->sub = subscribe_item_make_sub(s, w, since, &err);
    if (!w->sub || !add_extra(s, w, arm) || (w->options.bookmarks && !bookmark_want(w->sub))) {
        if (w->sub) {
            subscription_destroy(w->sub);
            w->sub = NULL;
        }
        release_scopes(s, w, arm);
        subscribe_item_refuse(w, err.code, "%s", err.text);
        return;
    }
    struct subscription *sub = w->sub;
    sub->is_absolute = catalog_is_absolute(s->worker->catalog, w->spelled);
    sub->is_slim = w->options.is_slim;
    sub->wants_metadata = sub->is_slim ? w->options.include == OPTION_INCLUDE_METADATA
                                       : w->options.include != OPTION_INCLUDE_NONE;
    sub->wants_content = w->options.include >= OPTION_INCLUDE_VALUE || w->is_task;
    sub->is_task = w->is_task;
    sub->broad = w->broad;
    sub->needs_baseline = w->subject.len > 0;
    sub->is_strict = w->options.is_strict;
    sub->initial_pending = w->options.initial && !w->is_awaited; /* there is no state yet */
    sub->since_pending = w->options.given & OPTION_SINCE;
    if (sub->since_pending) {
        sub->since = subscribe_item_since(w, arm->seq);
        listen->subscriber->was_truncated =
            listen->subscriber->was_truncated || w->options.since.lost > 0;
        keep_pending(sub);
    }
    if (s->is_resumed) { /* what the log has is told with everything else of its session */
        sub->since = subscribe_item_since(w, arm->seq);
        sub->since_pending = sub->since == SINCE_UNKNOWN;
        sub->is_resumed = true;
        listen->subscriber->was_truncated =
            listen->subscriber->was_truncated || w->options.since.lost > 0;
        keep_pending(sub);
    }
    subscription_set_period(sub, &w->options);
    if (pending_from > 0) { /* what the old one had yet to tell */
        resync_mark(sub, pending_from);
    }
}

/* Where the client stands once it is told that it has its subscriptions: not above what has yet to
 * be told to it. A cursor that is not known is given back, so that coming back with it is noticed
 * again. */
static struct log_cursor subscribe_cursor_at(const struct subscribe_batch *s, uint64_t seq)
{
    const struct subscriber *subscriber = s->pending.listen ? s->pending.listen->subscriber : NULL;
    uint64_t at =
        subscriber && subscriber_written(subscriber) < seq ? subscriber_written(subscriber) : seq;
    for (size_t i = 0; i < s->count; i++) {
        const struct subscribe_item *w = &s->items[i];
        if (!w->sub || !(w->options.given & OPTION_SINCE)) {
            continue;
        }
        uint64_t since = subscribe_item_since(w, seq);
        if (since == SINCE_UNKNOWN) {
            return w->options.since;
        }
        at = since < at ? since : at;
    }
    return subscriber ? subscriber_cursor_at(subscriber, at) : delivery_cursor(s->worker, at);
}

static void subscribe_finish(struct subscribe_batch *s, const struct hub_arm *arm)
{
    struct listen *listen = s->pending.listen;
    for (size_t i = 0; listen && arm && i < s->count; i++) {
        if (!s->items[i].refused) {
            subscribe_establish(s, &s->items[i], arm);
        }
    }
    if (listen && s->wants_list) {
        listen->is_arming_lists = false;
    }
    struct log_cursor at = subscribe_cursor_at(s, arm ? arm->seq : s->worker->last_seq);
    if (s->done) {
        s->done(s, &at);
    }
    if (s->pending.listen) {
        initial_state_begin(s->pending.listen);
    }
    subscribe_batch_free(s);
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
    struct listen_scopes *kept =
        n > 0 ? mem_zalloc(sizeof(*kept) + n * sizeof(kept->at[0]) + text) : NULL;
    char *at = kept ? (char *)&kept->at[n] : NULL;
    for (size_t i = from; i < arm->count; i++) {
        if (!arm->items[i].watched) {
            continue;
        }
        if (kept) {
            kept->at[kept->count++] = str_pack(&at, arm->items[i].scope);
        } else {
            hub_disarm(listen->subscriber->worker->hub, arm->items[i].scope);
        }
    }
    listen->list_scopes = kept;
}

/* What may change its list is watched. */
static void lists_armed(struct listen *listen)
{
    if (!listen->subscriber->sink) {
        list_changed_unwatch(listen); /* its stream went meanwhile */
    } else if (listen->has_listed && listen->list_scopes) {
        /* Nothing was watched when it listed: it may have changed. */
        list_changed_mark(listen, LIST_RESOURCES, listen->subscriber->worker->last_seq);
    }
}

static void release_all(struct hub_arm *arm)
{
    for (size_t i = 0; i < arm->count; i++) {
        if (arm->items[i].watched) {
            hub_disarm(arm->hub, arm->items[i].scope);
        }
    }
}

/* One scope that could not be armed refuses the whole item; but mounts that it merely passes over
 * may have nothing to watch, unless that goes for all of them and nothing else matches. */
static void check_armed(struct subscribe_batch *s, struct subscribe_item *w,
                        const struct hub_arm *arm)
{
    bool is_idle = w->needs_watch && w->scope_count > 0;
    for (size_t i = 0; i < w->scope_count; i++) {
        const struct hub_arm_item *item = &arm->items[w->first_item + i];
        bool passes_over = w->broad || i > 0;
        is_idle = is_idle && item->code == TIDINGS_E_NOTFOUND;
        if ((item->code < 0 && !(passes_over && item->code == TIDINGS_E_NOTFOUND)) ||
            (is_idle && i + 1 == w->scope_count)) {
            release_scopes(s, w, arm);
            w->refused = true;
            w->stat.base.err = item->err;
            return;
        }
    }
}

static void subscribe_on_armed(struct hub_arm *arm, struct worker *worker)
{
    (void)worker;
    struct subscribe_batch *s = arm->user;
    struct listen *listen = s->pending.listen;
    if (!listen) {
        release_all(arm);
    } else {
        size_t items = 0;
        for (size_t i = 0; i < s->count; i++) {
            if (!s->items[i].refused) {
                items += s->items[i].scope_count;
                check_armed(s, &s->items[i], arm);
            }
        }
        if (s->wants_list) {
            keep_list_scopes(listen, arm, items);
            list_changed_want(listen, LIST_RESOURCES);
            lists_armed(listen);
        }
    }
    subscribe_finish(s, arm);
    hub_arm_free(arm);
}

/* The hub went before it could answer. */
static void subscribe_on_dropped(struct hub_arm *arm)
{
    struct subscribe_batch *s = arm->user;
    if (s->dropped) {
        s->dropped(s);
    }
    subscribe_batch_free(s);
}

static size_t collect_scopes(struct subscribe_batch *s, struct tidings_str *ret)
{
    const struct catalog *catalog = s->worker->catalog;
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) {
        struct subscribe_item *w = &s->items[i];
        w->first_item = n;
        for (size_t k = 0; k < w->scope_count && !w->refused; k++, n++) {
            if (ret) {
                ret[n] = w->scopes[k];
            }
        }
    }
    for (size_t i = 0; s->wants_list && i < catalog->mount_count; i++) {
        const struct tidings_provider_ops *ops = catalog->mounts[i]->ops;
        if (!ops->list || (ops->flags & TIDINGS_PROVIDER_FIXED_LIST)) {
            continue; /* its list does not change by what could be watched */
        }
        if (ret) {
            ret[n] = catalog->mounts[i]->prefix;
        }
        n++;
    }
    return n;
}

void subscribe_batch_arm(struct subscribe_batch *s)
{
    struct hub_arm *arm = NULL;
    subscribe_batch_compile_filters(s);
    subscribe_batch_count_broad(s);
    size_t n = collect_scopes(s, NULL);
    struct tidings_str *scopes = mem_alloc((n + 1) * sizeof(*scopes));
    if (scopes) {
        collect_scopes(s, scopes);
        arm = hub_arm_create(s->worker, scopes, n);
        mem_free(scopes);
    }
    if (!arm) {
        for (size_t i = 0; i < s->count; i++) {
            subscribe_item_refuse(&s->items[i], TIDINGS_E_NOMEM, "out of memory");
        }
        subscribe_finish(s, NULL);
        return;
    }
    arm->done = subscribe_on_armed;
    arm->dropped = subscribe_on_dropped;
    arm->user = s;
    subscribe_batch_await(s, arm);
    hub_arm_send(arm);
}
