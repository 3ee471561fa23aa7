/* SPDX-License-Identifier: MIT
 *
 * Groups of subscriptions. A subscription is in the match index exactly as long as it exists, and
 * holds one need of its scope at the hub.
 */
#include "access/limit.h"
#include "base/mem.h"
#include "base/str.h"
#include "delivery/hub.h"
#include "delivery/options.h"
#include "delivery/subscribe.h"
#include "delivery/subscriber.h"

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
        listen->by_spelling = mem_alloc(sizeof(*listen->by_spelling));
        if (!listen->by_spelling) {
            mem_free(listen);
            return NULL;
        }
        map_init(listen->by_spelling);
    }
    list_append(&subscriber->listens, &listen->link);
    subscriber->listen_count++;
    return listen;
}

void listen_destroy(struct listen *listen)
{
    if (!listen) {
        return;
    }
    list_each (it, next, &listen->pending) {
        list_entry(it, struct listen_pending, link)->listen = NULL;
        list_remove(it);
    }
    list_each (it, next, &listen->subs) {
        subscription_destroy(list_entry(it, struct subscription, link));
    }
    subscribe_list_end(listen);
    if (listen->by_spelling) {
        map_deinit(listen->by_spelling);
        mem_free(listen->by_spelling);
    }
    list_remove(&listen->list_link);
    list_remove(&listen->link);
    listen->subscriber->listen_count--;
    mem_free(listen);
}

struct subscription *listen_find_sub(const struct listen *listen, struct tidings_str spelled)
{
    return listen->by_spelling ? map_find(listen->by_spelling, spelled) : NULL;
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

void subscription_set_extra(struct subscription *sub, struct subscription_extra *extra)
{
    sub->extra = extra;
    extra->sub = sub;
    list_init(&extra->covers_link);
    if (extra->covering) {
        list_append(&sub->listen->subscriber->worker->delivery->covering, &extra->covers_link);
    }
}

struct subscription *subscription_create(struct listen *listen, struct tidings_str spelled,
                                         struct tidings_str uri, enum match_kind kind,
                                         uint64_t since, struct tidings_error *err)
{
    struct worker *worker = listen->subscriber->worker;
    size_t most = worker->limits->max_all_subscriptions;
    if (!limit_enter(worker->book, LIMIT_ALL_SUBSCRIPTIONS, most)) {
        tidings_fail(err, TIDINGS_E_BUSY,
                     "%zu subscriptions are what this server allows (--max-all-subscriptions); try "
                     "again later",
                     most);
        return NULL;
    }
    struct buf quoted;
    buf_init(&quoted, 8 * spelled.len + 16);
    jw_quote(&quoted, spelled);
    bool same = str_eq(spelled, uri);
    bool plain = quoted.len == spelled.len + 2; /* nothing needed escaping */
    size_t quoted_len = quoted.len;
    size_t extra = quoted_len + (plain ? 0 : spelled.len) + (same ? 0 : uri.len);
    struct subscription *sub = quoted.failed ? NULL : mem_zalloc(sizeof(*sub) + extra);
    if (!sub) {
        limit_leave(worker->book, LIMIT_ALL_SUBSCRIPTIONS);
        buf_deinit(&quoted);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    char *at = (char *)(sub + 1);
    (void)str_place(&at, buf_str(&quoted));
    buf_deinit(&quoted);
    if (!plain) {
        (void)str_place(&at, spelled);
    }
    if (!same) {
        (void)str_place(&at, uri);
    }
    sub->is_plain = plain;
    sub->is_canonical = same;
    sub->json_len = (uint32_t)quoted_len;
    sub->spelled_len = (uint32_t)spelled.len;
    sub->uri_len = (uint32_t)uri.len;
    sub->listen = listen;
    sub->subscriber = listen->subscriber;
    sub->since = since;
    sub->kind = kind;
    sub->is_literal = kind == MATCH_LITERAL;
    bool is_legacy = listen->id_len == 0;
    int rc = match_add_for(&worker->delivery->match, &sub->node, kind, subscription_uri(sub),
                           listen->subscriber->allowance, err);
    if (rc == 0 && is_legacy &&
        map_put(listen->by_spelling, subscription_spelled(sub), sub, NULL) < 0) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        match_remove(&worker->delivery->match, &sub->node);
    }
    if (rc < 0) {
        limit_leave(worker->book, LIMIT_ALL_SUBSCRIPTIONS);
        mem_free(sub);
        return NULL;
    }
    list_append(&listen->subs, &sub->link);
    listen->subscriber->subscription_count++;
    worker->stats.subscriptions++;
    return sub;
}

void subscription_catch_up(struct subscription *sub, const void *job)
{
    struct subscriber *subscriber = sub->subscriber;
    uint64_t from = sub->since + 1;
    sub->catching_up = true;
    sub->catchup = job;
    subscriber->catching++;
    subscriber->catching_from = subscriber->catching > 1 && subscriber->catching_from < from
                                    ? subscriber->catching_from
                                    : from;
}

void subscription_caught_up(struct subscription *sub, uint64_t replayed_to)
{
    if (sub->catching_up) {
        sub->catching_up = false;
        sub->replayed_to = replayed_to;
        sub->subscriber->catching--;
        sub->subscriber->catching_from =
            sub->subscriber->catching > 0 ? sub->subscriber->catching_from : 0;
    }
}

uint64_t subscription_owes_from(const struct subscription *sub)
{
    uint64_t held = window_first_seq(&sub->window);
    if (sub->truncated || sub->catching_up || sub->owes_since || sub->queued > 0) {
        /* Not known better without looking through what waits. */
        return sub->since == SINCE_UNKNOWN ? 1 : sub->since + 1;
    }
    return held;
}

void subscription_set_rate(struct subscription *sub, uint64_t ms)
{
    sub->rate_ms = ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
    uint32_t period = sub->asked_ms > sub->rate_ms ? sub->asked_ms : sub->rate_ms;
    struct worker *worker = sub->listen->subscriber->worker;
    window_set_period(&worker->delivery->windows, &sub->window, loop_now_ms(worker->loop), period);
}

void subscription_set_period(struct subscription *sub, const struct options *o)
{
    uint64_t period = o->window_ms > o->rate_ms ? o->window_ms : o->rate_ms;
    sub->asked_ms = period > UINT32_MAX ? UINT32_MAX : (uint32_t)period;
    subscription_set_rate(sub, delivery_rate(sub->listen->subscriber->worker, sub));
}

void subscription_destroy(struct subscription *sub)
{
    struct listen *listen = sub->listen;
    struct subscriber *subscriber = listen->subscriber;
    subscriber->held_count -= sub->window.held != NULL;
    subscription_caught_up(sub, 0);
    subscription_leave_bookmarks(sub);
    window_clear(&subscriber->worker->delivery->windows, &sub->window);
    if (sub->queued > 0) {
        outbox_remove(&subscriber->outbox, sub);
    }
    match_remove(&subscriber->worker->delivery->match, &sub->node);
    if (listen->id_len == 0) {
        map_remove(listen->by_spelling, subscription_spelled(sub));
    }
    list_remove(&sub->link);
    subscriber->subscription_count--;
    subscriber->worker->stats.subscriptions--;
    limit_leave(subscriber->worker->book, LIMIT_ALL_SUBSCRIPTIONS);
    if (sub->watched) {
        hub_disarm(subscriber->worker->hub, subscription_uri(sub));
    }
    for (size_t i = 0; sub->extra && i < sub->extra->scope_count; i++) {
        hub_disarm(subscriber->worker->hub, sub->extra->scopes[i]);
    }
    if (sub->extra) {
        list_remove(&sub->extra->covers_link);
        filter_release(sub->extra->schema);
        chain_destroy(sub->extra->chain);
        mem_free(sub->extra->scopes);
        mem_free(sub->extra);
    }
    mem_free(sub);
}
