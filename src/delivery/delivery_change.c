/* SPDX-License-Identifier: MIT
 *
 * The road of a change on one worker: from the hub's letter to the outboxes of those it concerns.
 */
#include "access/principal.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "catalog/provider.h"
#include "delivery/delivery.h"
#include "delivery/list_changed.h"
#include "delivery/listen.h"
#include "delivery/lookup.h"
#include "delivery/resync.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "store/change.h"
#include "uri/uri.h"

void delivery_find_covered(struct worker *worker, struct tidings_str uri, match_fn fn, void *user)
{
    list_each (it, next, &worker->delivery->covers_subs) {
        struct subscription_extra *x = list_entry(it, struct subscription_extra, covers_link);
        struct tidings_provider *p = x->covers_provider;
        struct subscription *sub = x->sub;
        if (uri_is_within(uri, p->prefix) &&
            !pattern_matches(sub->kind, subscription_uri(sub), uri) &&
            p->ops->covers(p, subscription_uri(sub), uri)) {
            fn(user, &sub->node);
        }
    }
}

static bool is_listening(void *user, const struct subscription *sub)
{
    const struct change *change = user;
    const struct subscriber *subscriber = sub->subscriber;
    return !subscriber->catchup && !sub->catching_up && listen_is_open_for(sub, change->seq);
}

static void delivery_change_offer(void *user, struct match_node *node)
{
    const struct change *change = user;
    struct subscription *sub = list_entry(node, struct subscription, node);
    struct subscriber *subscriber = sub->subscriber;
    if (!subscriber->catchup && !sub->catching_up) {
        subscriber_offer(subscriber, sub, change, change->kind);
    } else if (subscriber->worker->delivery->trace.is_on) {
        delivery_log_fate(subscriber, DELIVERY_AWAY);
    }
}

/* Anything below `scope` may have changed: each subscription there is told to look again. */
static void offer_everything(struct worker *worker, struct tidings_str scope)
{
    list_each (pit, pnext, &worker->delivery->subscribers) {
        struct subscriber *subscriber = list_entry(pit, struct subscriber, link);
        if (subscriber->sink && !subscriber->catchup) {
            resync_mark_below(subscriber, scope, worker->last_seq);
        }
    }
}

/* A letter was lost for want of room or memory. Nobody knows what it said. */
static void resync_all(struct worker *worker)
{
    log_warn(LOG_DELIVERY, "changes lost", KV("reason", "no room or no memory"),
             KV("worker", worker->index));
    list_each (it, next, &worker->delivery->subscribers) {
        struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        if (subscriber->sink) {
            resync_mark_all(subscriber);
        }
    }
}

static void delivery_change_lost_deliver(struct letter *letter, void *owner)
{
    (void)letter;
    struct worker *worker = owner;
    __atomic_store_n(&worker->delivery->is_lost, false,
                     __ATOMIC_SEQ_CST); /* what is lost from now on counts */
    worker->delivery->is_resynced = true;
    resync_all(worker);
}

static void delivery_change_lost_drop(struct letter *letter)
{
    (void)letter; /* lies in the worker */
}

void delivery_lose(struct worker *worker)
{
    if (!__atomic_exchange_n(&worker->delivery->is_lost, true, __ATOMIC_SEQ_CST)) {
        worker->delivery->lost = (struct letter){.deliver = delivery_change_lost_deliver,
                                                 .drop = delivery_change_lost_drop};
        mailbox_send(worker->mailbox, &worker->delivery->lost);
    }
}

void delivery_on_change(struct worker *worker, const struct change *change)
{
    bool gap = change->seq != worker->last_seq + 1 && !worker->delivery->is_resynced;
    worker->delivery->is_resynced = false;
    worker->last_seq = change->seq;
    worker->stats.changes++;
    if (change->position > 0) {
        cursor_marks_add(&worker->delivery->marks, change->seq, change->position);
    }
    if (gap) {
        resync_all(worker);
    }
    if (change->lists != 0) {
        list_changed_offer(worker, change->lists);
    } else if (change->everything) {
        offer_everything(worker, change_scope(change));
        if (worker->principals->rules) {
            list_changed_touch_below(worker, change_scope(change));
        }
    } else {
        struct change *shared = (struct change *)(uintptr_t)change;
        static const struct lookup_calls calls = {is_listening, delivery_change_offer};
        if (!change->is_mute) {
            delivery_log_change_begin(worker);
            lookup_find(worker, change, &calls, shared);
            delivery_find_covered(worker, change->uri, delivery_change_offer, shared);
            delivery_log_change_end(worker, change);
        }
        if (worker->principals->rules && change->kind != TIDINGS_CHANGE_UPDATED) {
            list_changed_touch(worker, change->uri, change->target);
        }
    }
}
