/* SPDX-License-Identifier: MIT
 *
 * Makes a subscription. It is in the match index exactly as long as it exists.
 */
#include "access/share.h"
#include "base/mem.h"
#include "base/str.h"
#include "delivery/delivery.h"
#include "delivery/listen.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "match/match.h"
#include "worker/worker.h"
#include "json/write.h"

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
