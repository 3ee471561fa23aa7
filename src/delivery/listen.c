/* SPDX-License-Identifier: MIT
 *
 * Groups of subscriptions. A subscription is in the match index exactly as long as it exists, and
 * holds one need of its scope at the hub.
 */
#include "base/mem.h"
#include "base/str.h"
#include "delivery/hub.h"
#include "delivery/subscribe.h"
#include "delivery/subscriber.h"

struct listen *listen_create(struct peer *peer, struct tidings_str id_json)
{
    struct listen *listen = mem_zalloc(offsetof(struct listen, id_text) + id_json.len);
    if (!listen) {
        return NULL;
    }
    if (id_json.len > 0) {
        memcpy(listen->id_text, id_json.ptr, id_json.len);
    }
    listen->id_len = (uint32_t)id_json.len;
    listen->peer = peer;
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
    list_append(&peer->listens, &listen->link);
    peer->listen_count++;
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
        sub_destroy(list_entry(it, struct sub, link));
    }
    subscribe_list_end(listen);
    if (listen->by_spelling) {
        map_deinit(listen->by_spelling);
        mem_free(listen->by_spelling);
    }
    list_remove(&listen->list_link);
    list_remove(&listen->link);
    listen->peer->listen_count--;
    mem_free(listen);
}

struct sub *listen_find_sub(const struct listen *listen, struct tidings_str spelled)
{
    return listen->by_spelling ? map_find(listen->by_spelling, spelled) : NULL;
}

struct listen *listen_find(struct peer *peer, struct tidings_str id_json)
{
    list_each (it, next, &peer->listens) {
        struct listen *listen = list_entry(it, struct listen, link);
        if (str_eq(listen_id(listen), id_json)) {
            return listen;
        }
    }
    return NULL;
}

void sub_set_extra(struct sub *sub, struct sub_extra *extra)
{
    sub->extra = extra;
    extra->sub = sub;
    list_init(&extra->covers_link);
    if (extra->covering) {
        list_append(&sub->listen->peer->core->covering, &extra->covers_link);
    }
}

struct sub *sub_create(struct listen *listen, struct tidings_str spelled, struct tidings_str uri,
                       enum match_kind kind, uint64_t since, struct tidings_error *err)
{
    struct core *core = listen->peer->core;
    size_t most = core->limits->max_all_subscriptions;
    if (!limit_enter(core->book, LIMIT_ALL_SUBSCRIPTIONS, most)) {
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
    struct sub *sub = quoted.failed ? NULL : mem_zalloc(sizeof(*sub) + extra);
    if (!sub) {
        limit_leave(core->book, LIMIT_ALL_SUBSCRIPTIONS);
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
    sub->peer = listen->peer;
    sub->since = since;
    sub->kind = kind;
    sub->is_literal = kind == MATCH_LITERAL;
    bool is_legacy = listen->id_len == 0;
    int rc =
        match_add_for(&core->match, &sub->node, kind, sub_uri(sub), listen->peer->allowance, err);
    if (rc == 0 && is_legacy && map_put(listen->by_spelling, sub_spelled(sub), sub, NULL) < 0) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        match_remove(&core->match, &sub->node);
    }
    if (rc < 0) {
        limit_leave(core->book, LIMIT_ALL_SUBSCRIPTIONS);
        mem_free(sub);
        return NULL;
    }
    list_append(&listen->subs, &sub->link);
    listen->peer->sub_count++;
    core->stats.subscriptions++;
    return sub;
}

void sub_catch_up(struct sub *sub, const void *request)
{
    struct peer *peer = sub->peer;
    uint64_t from = sub->since + 1;
    sub->catching_up = true;
    sub->catchup = request;
    peer->catching++;
    peer->catching_from =
        peer->catching > 1 && peer->catching_from < from ? peer->catching_from : from;
}

void sub_caught_up(struct sub *sub, uint64_t replayed_to)
{
    if (sub->catching_up) {
        sub->catching_up = false;
        sub->replayed_to = replayed_to;
        sub->peer->catching--;
        sub->peer->catching_from = sub->peer->catching > 0 ? sub->peer->catching_from : 0;
    }
}

uint64_t sub_owes_from(const struct sub *sub)
{
    uint64_t held = window_first_seq(&sub->window);
    if (sub->truncated || sub->catching_up || sub->owes_since || sub->queued > 0) {
        /* Not known better without looking through what waits. */
        return sub->since == SINCE_UNKNOWN ? 1 : sub->since + 1;
    }
    return held;
}

void sub_set_rate(struct sub *sub, uint64_t ms)
{
    sub->rate_ms = ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
    uint32_t period = sub->asked_ms > sub->rate_ms ? sub->asked_ms : sub->rate_ms;
    struct core *core = sub->listen->peer->core;
    window_set_period(&core->windows, &sub->window, loop_now_ms(core->loop), period);
}

void sub_set_period(struct sub *sub, const struct options *o)
{
    uint64_t period = o->window_ms > o->rate_ms ? o->window_ms : o->rate_ms;
    sub->asked_ms = period > UINT32_MAX ? UINT32_MAX : (uint32_t)period;
    sub_set_rate(sub, core_rate(sub->listen->peer->core, sub));
}

void sub_destroy(struct sub *sub)
{
    struct listen *listen = sub->listen;
    struct peer *peer = listen->peer;
    peer->held_count -= sub->window.held != NULL;
    sub_caught_up(sub, 0);
    sub_leave_bookmarks(sub);
    window_clear(&peer->core->windows, &sub->window);
    if (sub->queued > 0) {
        outbox_remove(&peer->outbox, sub);
    }
    match_remove(&peer->core->match, &sub->node);
    if (listen->id_len == 0) {
        map_remove(listen->by_spelling, sub_spelled(sub));
    }
    list_remove(&sub->link);
    peer->sub_count--;
    peer->core->stats.subscriptions--;
    limit_leave(peer->core->book, LIMIT_ALL_SUBSCRIPTIONS);
    if (sub->watched) {
        hub_disarm(peer->core->hub, sub_uri(sub));
    }
    for (size_t i = 0; sub->extra && i < sub->extra->scope_count; i++) {
        hub_disarm(peer->core->hub, sub->extra->scopes[i]);
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
