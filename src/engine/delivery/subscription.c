/* SPDX-License-Identifier: MIT
 *
 * Creates a subscription. It is in the match index exactly as long as it exists.
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
#include "security/client_account.h"
#include "security/limits.h"

/* -------------------------------------------------------------------------------------------------
 * State of a live subscription: how often it notifies, and its pending updates.
 */

void subscription_set_rate(struct subscription *sub, uint64_t ms)
{
    uint32_t rate = ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
    uint32_t period = sub->asked_ms > rate ? sub->asked_ms : rate;
    struct worker *worker = sub->group->subscriber->worker;
    window_set_period(&worker->delivery->windows, &sub->window, loop_now_ms(worker->loop), period);
}

void subscription_set_period(struct subscription *sub, const struct options *o)
{
    uint64_t period = o->window_ms > o->rate_ms ? o->window_ms : o->rate_ms;
    sub->asked_ms = period > UINT32_MAX ? UINT32_MAX : (uint32_t)period;
    sub->gather_ms = !o->gather                  ? 0
                     : o->window_ms > UINT32_MAX ? UINT32_MAX
                                                 : (uint32_t)o->window_ms;
    subscription_set_rate(sub, delivery_rate(sub->group->subscriber->worker, sub));
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
    uint64_t deferred = window_first_seq(&sub->window);
    if (sub->truncated || sub->catching_up || sub->since_pending || sub->queued > 0) {
        /* A tighter bound would require a search of the queue. */
        return sub->since == SINCE_UNKNOWN ? 1 : sub->since + 1;
    }
    return deferred;
}

bool subscription_may_match(const struct subscription *sub, struct tidings_str scope)
{
    struct tidings_str own = pattern_prefix(sub->kind, subscription_uri(sub));
    const struct tidings_provider *p = sub->extra ? sub->extra->covers_provider : NULL;
    return str_starts(own, scope) || str_starts(scope, own) || (p && str_eq(p->prefix, scope));
}

/* -------------------------------------------------------------------------------------------------
 * Ends a subscription: removes it from the index and from the queues, and releases its watches.
 */

void subscription_destroy(struct subscription *sub)
{
    struct subscription_group *group = sub->group;
    struct subscriber *subscriber = group->subscriber;
    subscriber->deferred_count -= sub->window.deferred != NULL;
    subscription_caught_up(sub, 0);
    bookmark_leave(sub);
    window_clear(&subscriber->worker->delivery->windows, &sub->window);
    if (sub->queued > 0) {
        outbox_remove(&subscriber->outbox, sub);
    }
    match_remove(&subscriber->worker->delivery->match, &sub->node);
    if (group->id_len == 0) {
        map_remove(&group->legacy->by_requested, subscription_as_requested(sub));
    }
    list_remove(&sub->link);
    subscriber->subscription_count--;
    subscriber->worker->stats.subscriptions--;
    subscriber->worker->stats.by_kind[sub->kind]--;
    share_give(subscriber->worker->limit_counters, LIMIT_ALL_SUBSCRIPTIONS, 1, subscriber->account);
    if (sub->watched) {
        hub_unwatch(subscriber->worker->hub, subscription_uri(sub));
    }
    for (size_t i = 0; sub->extra && i < sub->extra->scope_count; i++) {
        hub_unwatch(subscriber->worker->hub, sub->extra->scopes[i]);
    }
    if (sub->extra) {
        list_remove(&sub->extra->matched_link);
        filters_forget(sub);
        filter_release(sub->extra->schema);
        patch_base_destroy(sub->extra->patch_base);
        client_account_give_back(sub->extra->broad, CLIENT_ACCOUNT_BROAD);
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
 * Creates and finds groups of subscriptions.
 */

struct subscription_group *subscription_group_create(struct subscriber *subscriber,
                                                     struct tidings_str id_json)
{
    struct subscription_group *group =
        mem_zalloc(offsetof(struct subscription_group, id_text) + id_json.len);
    if (!group) {
        return NULL;
    }
    if (id_json.len > 0) {
        memcpy(group->id_text, id_json.ptr, id_json.len);
    }
    group->id_len = (uint32_t)id_json.len;
    group->subscriber = subscriber;
    list_init(&group->subs);
    list_init(&group->list_link);
    list_init(&group->pending);
    if (id_json.len == 0) {
        group->legacy = mem_zalloc(sizeof(*group->legacy));
        if (!group->legacy) {
            mem_free(group);
            return NULL;
        }
        map_init(&group->legacy->by_requested);
    }
    list_append(&subscriber->groups, &group->link);
    subscriber->group_count++;
    return group;
}

struct subscription *subscription_group_find_sub(const struct subscription_group *group,
                                                 struct tidings_str as_requested)
{
    return group->id_len == 0 ? map_find(&group->legacy->by_requested, as_requested) : NULL;
}

struct subscription_group *subscription_group_find(struct subscriber *subscriber,
                                                   struct tidings_str id_json)
{
    list_each (it, next, &subscriber->groups) {
        struct subscription_group *group = list_entry(it, struct subscription_group, link);
        if (str_eq(subscription_group_id(group), id_json)) {
            return group;
        }
    }
    return NULL;
}

/* -------------------------------------------------------------------------------------------------
 * Ends a group and all its subscriptions.
 */

void subscription_group_destroy(struct subscription_group *group)
{
    if (!group) {
        return;
    }
    delivery_log_ended(group);
    list_each (it, next, &group->pending) {
        list_entry(it, struct subscription_group_pending, link)->group = NULL;
        list_remove(it);
    }
    list_each (it, next, &group->subs) {
        subscription_destroy(list_entry(it, struct subscription, link));
    }
    list_changed_unwatch(group);
    if (group->id_len == 0) {
        map_deinit(&group->legacy->by_requested);
        mem_free(group->legacy);
    }
    list_remove(&group->list_link);
    list_remove(&group->link);
    group->subscriber->group_count--;
    mem_free(group);
}

/* ---------------------------------------------------------------------------------------------- */

struct subscription *subscription_create(struct subscription_group *group,
                                         struct tidings_str as_requested, struct tidings_str uri,
                                         enum pattern_kind kind, uint64_t since,
                                         struct tidings_error *err)
{
    struct worker *worker = group->subscriber->worker;
    struct client_account *account = group->subscriber->account;
    if (as_requested.len > URI_MAX || uri.len > UINT16_MAX) {
        share_give(worker->limit_counters, LIMIT_ALL_SUBSCRIPTIONS, 1, account);
        tidings_fail(err, TIDINGS_E_INVALID, "a URI has at most %u bytes", URI_MAX);
        return NULL;
    }
    struct buf quoted;
    buf_init(&quoted, 8 * as_requested.len + 16);
    jw_quote(&quoted, as_requested);
    bool same = str_eq(as_requested, uri);
    bool plain = quoted.len == as_requested.len + 2; /* nothing needed escaping */
    size_t quoted_len = quoted.len;
    size_t extra = quoted_len + (plain ? 0 : as_requested.len) + (same ? 0 : uri.len);
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
        (void)str_pack(&at, as_requested);
    }
    if (!same) {
        (void)str_pack(&at, uri);
    }
    sub->is_plain = plain;
    sub->is_canonical = same;
    sub->json_len = (uint16_t)quoted_len;
    sub->as_requested_len = (uint16_t)as_requested.len;
    sub->uri_len = (uint16_t)uri.len;
    sub->group = group;
    sub->subscriber = group->subscriber;
    sub->since = since;
    sub->kind = kind;
    sub->is_literal = kind == PATTERN_LITERAL;
    bool is_legacy = group->id_len == 0;
    int rc = match_add_for(&worker->delivery->match, &sub->node, kind, subscription_uri(sub),
                           group->subscriber->account, err);
    if (rc == 0 && is_legacy &&
        map_put(&group->legacy->by_requested, subscription_as_requested(sub), sub, NULL) < 0) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        match_remove(&worker->delivery->match, &sub->node);
    }
    if (rc < 0) {
        share_give(worker->limit_counters, LIMIT_ALL_SUBSCRIPTIONS, 1, account);
        mem_free(sub);
        return NULL;
    }
    list_append(&group->subs, &sub->link);
    group->subscriber->subscription_count++;
    worker->stats.subscriptions++;
    worker->stats.by_kind[sub->kind]++;
    return sub;
}

void subscription_set_extra(struct subscription *sub, struct subscription_extra *extra)
{
    sub->extra = extra;
    extra->sub = sub;
    list_init(&extra->matched_link);
    if (extra->covers_provider) {
        list_append(&sub->group->subscriber->worker->delivery->matched_by_provider,
                    &extra->matched_link);
    }
}
