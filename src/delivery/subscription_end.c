/* SPDX-License-Identifier: MIT
 *
 * Ends a subscription: out of the index and out of what waits, and its watches are released.
 */
#include "access/allowance.h"
#include "access/share.h"
#include "base/mem.h"
#include "delivery/bookmark.h"
#include "delivery/delivery.h"
#include "delivery/filters.h"
#include "delivery/hub.h"
#include "delivery/listen.h"
#include "delivery/outbox.h"
#include "delivery/resync.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "match/match.h"

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
