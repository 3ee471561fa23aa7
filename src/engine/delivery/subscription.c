/* SPDX-License-Identifier: MIT
 *
 * Makes a subscription. It is in the match index exactly as long as it exists.
 */
#include "engine/delivery/subscription.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/catalog/provider.h"
#include "engine/delivery/catchup.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/filters.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/list_changed.h"
#include "engine/delivery/options.h"
#include "engine/delivery/outbox.h"
#include "engine/delivery/subscriber.h"
#include "engine/match/match.h"
#include "engine/worker.h"
#include "formats/json_write.h"
#include "security/cpu_budget.h"
#include "security/limits.h"

/* -------------------------------------------------------------------------------------------------
 * State of a subscription while it lives: how often it is told, and what it has yet to be told.
 */

void subscription_set_rate(struct subscription *sub, uint64_t ms)
{
    uint32_t rate = ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
    uint32_t period = sub->asked_ms > rate ? sub->asked_ms : rate;
    struct worker *worker = sub->listen->subscriber->worker;
    window_set_period(&worker->delivery->windows, &sub->window, loop_now_ms(worker->loop), period);
}

void subscription_set_period(struct subscription *sub, const struct options *o)
{
    uint64_t period = o->window_ms > o->rate_ms ? o->window_ms : o->rate_ms;
    sub->asked_ms = period > UINT32_MAX ? UINT32_MAX : (uint32_t)period;
    sub->gather_ms = !o->gather                  ? 0
                     : o->window_ms > UINT32_MAX ? UINT32_MAX
                                                 : (uint32_t)o->window_ms;
    subscription_set_rate(sub, delivery_rate(sub->listen->subscriber->worker, sub));
}

void subscription_catch_up(struct subscription *sub, const void *job)
{
    struct subscriber *subscriber = sub->subscriber;
    uint64_t from = sub->since + 1;
    sub->catching_up = true;
    sub->catchup = job;
    subscriber->catching_count++;
    subscriber->catching_from = subscriber->catching_count > 1 && subscriber->catching_from < from
                                    ? subscriber->catching_from
                                    : from;
}

void subscription_caught_up(struct subscription *sub, uint64_t replayed_to)
{
    if (sub->catching_up) {
        sub->catching_up = false;
        sub->replayed_to = replayed_to;
        sub->subscriber->catching_count--;
        sub->subscriber->catching_from =
            sub->subscriber->catching_count > 0 ? sub->subscriber->catching_from : 0;
    }
}

uint64_t subscription_pending_from(const struct subscription *sub)
{
    uint64_t held = window_first_seq(&sub->window);
    if (sub->truncated || sub->catching_up || sub->since_pending || sub->queued > 0) {
        /* Not known better without looking through what waits. */
        return sub->since == SINCE_UNKNOWN ? 1 : sub->since + 1;
    }
    return held;
}

bool subscription_may_cover(const struct subscription *sub, struct tidings_str scope)
{
    struct tidings_str own = pattern_prefix(sub->kind, subscription_uri(sub));
    const struct tidings_provider *p = sub->extra ? sub->extra->covers_provider : NULL;
    return str_starts(own, scope) || str_starts(scope, own) || (p && str_eq(p->prefix, scope));
}

/* -------------------------------------------------------------------------------------------------
 * Ends a subscription: out of the index and out of what waits, and its watches are released.
 */

void subscription_destroy(struct subscription *sub)
{
    struct listen *listen = sub->listen;
    struct subscriber *subscriber = listen->subscriber;
    subscriber->held_count -= sub->window.held != NULL;
    subscription_caught_up(sub, 0);
    bookmark_leave(sub);
    window_clear(&subscriber->worker->delivery->windows, &sub->window);
    if (sub->queued > 0) {
        outbox_remove(&subscriber->outbox, sub);
    }
    match_remove(&subscriber->worker->delivery->match, &sub->node);
    if (listen->id_len == 0) {
        map_remove(&listen->legacy->by_spelling, subscription_spelled(sub));
    }
    list_remove(&sub->link);
    subscriber->subscription_count--;
    subscriber->worker->stats.subscriptions--;
    subscriber->worker->stats.by_kind[sub->kind]--;
    share_give(subscriber->worker->limit_counters, LIMIT_ALL_SUBSCRIPTIONS, 1,
               subscriber->allowance);
    if (sub->watched) {
        hub_disarm(subscriber->worker->hub, subscription_uri(sub));
    }
    for (size_t i = 0; sub->extra && i < sub->extra->scope_count; i++) {
        hub_disarm(subscriber->worker->hub, sub->extra->scopes[i]);
    }
    if (sub->extra) {
        list_remove(&sub->extra->covers_link);
        filters_forget(sub);
        filter_release(sub->extra->schema);
        chain_destroy(sub->extra->chain);
        allowance_give_back(sub->extra->broad, ALLOWANCE_BROAD);
        mem_free(sub->extra->scopes);
        mem_free(sub->extra);
    }
    mem_free(sub);
}

void subscription_withdraw(struct subscription *sub)
{
    subscriber_hand_over(sub);
    resync_write_withdrawn(sub);
    subscription_destroy(sub);
}

/* -------------------------------------------------------------------------------------------------
 * Makes and finds groups of subscriptions.
 */

struct listen *listen_create(struct subscriber *subscriber, struct tidings_str id_json)
{
    struct listen *listen = mem_zalloc(offsetof(struct listen, id_text) + id_json.len);
    if (!listen) {
        return NULL;
    }
    if (id_json.len > 0) {
        memcpy(listen->id_text, id_json.ptr, id_json.len);
    }
    listen->id_len = (uint32_t)id_json.len;
    listen->subscriber = subscriber;
    list_init(&listen->subs);
    list_init(&listen->list_link);
    list_init(&listen->pending);
    if (id_json.len == 0) {
        listen->legacy = mem_zalloc(sizeof(*listen->legacy));
        if (!listen->legacy) {
            mem_free(listen);
            return NULL;
        }
        map_init(&listen->legacy->by_spelling);
    }
    list_append(&subscriber->listens, &listen->link);
    subscriber->listen_count++;
    return listen;
}

struct subscription *listen_find_sub(const struct listen *listen, struct tidings_str spelled)
{
    return listen->id_len == 0 ? map_find(&listen->legacy->by_spelling, spelled) : NULL;
}

struct listen *listen_find(struct subscriber *subscriber, struct tidings_str id_json)
{
    list_each (it, next, &subscriber->listens) {
        struct listen *listen = list_entry(it, struct listen, link);
        if (str_eq(listen_id(listen), id_json)) {
            return listen;
        }
    }
    return NULL;
}

/* -------------------------------------------------------------------------------------------------
 * Ends a group of subscriptions with all that is in it.
 */

void listen_destroy(struct listen *listen)
{
    if (!listen) {
        return;
    }
    delivery_log_ended(listen);
    list_each (it, next, &listen->pending) {
        list_entry(it, struct listen_pending, link)->listen = NULL;
        list_remove(it);
    }
    list_each (it, next, &listen->subs) {
        subscription_destroy(list_entry(it, struct subscription, link));
    }
    list_changed_unwatch(listen);
    if (listen->id_len == 0) {
        map_deinit(&listen->legacy->by_spelling);
        mem_free(listen->legacy);
    }
    list_remove(&listen->list_link);
    list_remove(&listen->link);
    listen->subscriber->listen_count--;
    mem_free(listen);
}

/* ---------------------------------------------------------------------------------------------- */

struct subscription *subscription_create(struct listen *listen, struct tidings_str spelled,
                                         struct tidings_str uri, enum pattern_kind kind,
                                         uint64_t since, struct tidings_error *err)
{
    struct worker *worker = listen->subscriber->worker;
    struct allowance *account = listen->subscriber->allowance;
    if (spelled.len > URI_MAX || uri.len > UINT16_MAX) {
        share_give(worker->limit_counters, LIMIT_ALL_SUBSCRIPTIONS, 1, account);
        tidings_fail(err, TIDINGS_E_INVALID, "a URI has at most %u bytes", URI_MAX);
        return NULL;
    }
    struct buf quoted;
    buf_init(&quoted, 8 * spelled.len + 16);
    jw_quote(&quoted, spelled);
    bool same = str_eq(spelled, uri);
    bool plain = quoted.len == spelled.len + 2; /* nothing needed escaping */
    size_t quoted_len = quoted.len;
    size_t extra = quoted_len + (plain ? 0 : spelled.len) + (same ? 0 : uri.len);
    struct subscription *sub =
        quoted.failed ? NULL : mem_zalloc(offsetof(struct subscription, text) + extra);
    if (!sub) {
        share_give(worker->limit_counters, LIMIT_ALL_SUBSCRIPTIONS, 1, account);
        buf_deinit(&quoted);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    char *at = sub->text;
    (void)str_pack(&at, buf_str(&quoted));
    buf_deinit(&quoted);
    if (!plain) {
        (void)str_pack(&at, spelled);
    }
    if (!same) {
        (void)str_pack(&at, uri);
    }
    sub->is_plain = plain;
    sub->is_canonical = same;
    sub->json_len = (uint16_t)quoted_len;
    sub->spelled_len = (uint16_t)spelled.len;
    sub->uri_len = (uint16_t)uri.len;
    sub->listen = listen;
    sub->subscriber = listen->subscriber;
    sub->since = since;
    sub->kind = kind;
    sub->is_literal = kind == PATTERN_LITERAL;
    bool is_legacy = listen->id_len == 0;
    int rc = match_add_for(&worker->delivery->match, &sub->node, kind, subscription_uri(sub),
                           listen->subscriber->allowance, err);
    if (rc == 0 && is_legacy &&
        map_put(&listen->legacy->by_spelling, subscription_spelled(sub), sub, NULL) < 0) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        match_remove(&worker->delivery->match, &sub->node);
    }
    if (rc < 0) {
        share_give(worker->limit_counters, LIMIT_ALL_SUBSCRIPTIONS, 1, account);
        mem_free(sub);
        return NULL;
    }
    list_append(&listen->subs, &sub->link);
    listen->subscriber->subscription_count++;
    worker->stats.subscriptions++;
    worker->stats.by_kind[sub->kind]++;
    return sub;
}

void subscription_set_extra(struct subscription *sub, struct subscription_extra *extra)
{
    sub->extra = extra;
    extra->sub = sub;
    list_init(&extra->covers_link);
    if (extra->covers_provider) {
        list_append(&sub->listen->subscriber->worker->delivery->covers_subs, &extra->covers_link);
    }
}
