/* SPDX-License-Identifier: MIT
 *
 * A change that concerns a subscription on its way into the outbox of its subscriber: filters, then
 * the window, then the queue; when that is full, what waits becomes "something changed" per
 * subscription.
 */
#include "access/limit.h"
#include "base/mem.h"
#include "delivery/change_content.h"
#include "delivery/delivery.h"
#include "delivery/filters.h"
#include "delivery/listen.h"
#include "delivery/lookup.h"
#include "delivery/outbox.h"
#include "delivery/resync.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "store/change.h"
#include "store/changelog.h"

/* What `sub` would have been told of `uri` (empty: of anything) is lost. Where a change is told
 * once for all subscriptions of a session, it may be lost for each of them. */
static void mark_lost(struct subscription *sub, struct tidings_str uri, uint64_t seq)
{
    if (listen_tells_once(sub->listen)) {
        resync_mark_below(sub->subscriber, uri, seq);
    } else {
        resync_mark(sub, seq);
    }
}

/* Full: what waits becomes "something changed" per subscription. */
static void subscriber_collapse(struct subscriber *subscriber)
{
    limit_hit(subscriber->worker->limit_counters, LIMIT_OUTBOX);
    delivery_log_full(subscriber);
    bool was_marked = subscriber->has_truncated;
    struct outbox_item *item = outbox_first(&subscriber->outbox);
    uint32_t due = item ? item->due : lag_due_now();
    for (; item != NULL; item = outbox_first(&subscriber->outbox)) {
        mark_lost(item->sub, item->change->uri, item->first_seq);
        outbox_pop(&subscriber->outbox);
    }
    subscriber->outbox.resync_due = was_marked ? subscriber->outbox.resync_due : due;
}

/* Into the outbox, or collapse it. */
static void subscriber_enqueue(struct subscriber *subscriber, struct subscription *sub,
                               const struct change *change, struct outbox_as as)
{
    enum outbox_result r =
        outbox_push(&subscriber->outbox, sub, change, as, subscriber->worker->limits->outbox_max);
    if (r == OUTBOX_MERGED) {
        subscriber->worker->stats.coalesced++;
    } else if (r == OUTBOX_FULL) {
        subscriber_collapse(subscriber);
        mark_lost(sub, change->uri, change->seq);
    }
    subscriber_mark_dirty(subscriber);
}

void subscriber_release_held(struct subscription *sub, uint32_t due)
{
    struct subscriber *subscriber = sub->listen->subscriber;
    struct outbox *held = sub->window.held;
    uint64_t first = window_first_seq(&sub->window);
    sub->window.held = NULL;
    subscriber->held_count--;
    if (held &&
        !outbox_take(&subscriber->outbox, held, due, subscriber->worker->limits->outbox_max)) {
        subscriber_collapse(subscriber);
        mark_lost(sub, STR_EMPTY, first);
    }
    mem_free(held);
    subscriber_mark_dirty(subscriber);
}

void subscriber_offer_initial(struct subscriber *subscriber, struct subscription *sub,
                              const struct change *change)
{
    if (sub->truncated) {
        return; /* it will be told to re-read anyway */
    }
    if (subscriber->sink &&
        outbox_push_initial(&subscriber->outbox, sub, change, lag_due_now(),
                            subscriber->worker->limits->outbox_max) == OUTBOX_FULL) {
        subscriber_collapse(subscriber);
        resync_mark(sub, change->seq);
    }
    subscriber_mark_dirty(subscriber);
}

/* Was the session told, or will it be, because of another of its subscriptions? */
static bool is_told_already(const struct subscription *sub, const struct change *change)
{
    return listen_tells_once(sub->listen) && sub->listen->legacy->told_seq == change->seq;
}

static enum delivery_fate subscriber_offer_filtered(struct subscriber *subscriber,
                                                    struct subscription *sub,
                                                    const struct change *change,
                                                    struct outbox_as as, bool alone)
{
    if (!listen_is_open_for(sub, change->seq)) {
        return DELIVERY_AWAY;
    }
    if (is_told_already(sub, change)) {
        return DELIVERY_ONCE;
    }
    if (!filters_pass(sub, change, alone)) {
        change_content_skipped(sub, change);
        return DELIVERY_FILTERED;
    }
    if (sub->truncated) {
        subscriber_mark_dirty(subscriber); /* it will be told to re-read anyway */
        return DELIVERY_REREADS;
    }
    if (listen_tells_once(sub->listen)) {
        sub->listen->legacy->told_seq = change->seq;
    }
    struct worker *worker = subscriber->worker;
    bool held_before = sub->window.held != NULL;
    struct tidings_str value;
    struct baseline *to;
    switch (window_offer(&worker->delivery->windows, &sub->window, loop_now_ms(worker->loop), sub,
                         change, as, worker->limits->outbox_max)) {
    case WINDOW_PASS:
        if (sub->wants_content) {
            (void)change_content_for(sub, change, &value,
                                     &to); /* so that it is there when it is needed */
        }
        subscriber_enqueue(subscriber, sub, change, as);
        return DELIVERY_SENT;
    case WINDOW_HELD:
        subscriber->held_count += !held_before;
        return DELIVERY_HELD;
    case WINDOW_FULL:
        subscriber->held_count -= held_before;
        mark_lost(sub, STR_EMPTY, held_before ? window_first_seq(&sub->window) : change->seq);
        window_clear(&worker->delivery->windows, &sub->window);
        break;
    }
    return DELIVERY_REREADS;
}

/* One other subscription of the session that matches is told to look again. */
static bool look_again(void *user, const struct outbox_item *item)
{
    struct subscription *sub = user;
    if (item->sub != sub) {
        return true;
    }
    list_each (it, next, &sub->listen->subs) {
        struct subscription *other = list_entry(it, struct subscription, link);
        if (other != sub && lookup_ask(other, item->change->uri) != LOOKUP_NO) {
            resync_mark(other, item->first_seq);
            return true;
        }
    }
    return true;
}

void subscriber_hand_over(struct subscription *sub)
{
    if (sub->queued == 0 || !listen_tells_once(sub->listen)) {
        return;
    }
    outbox_filter(&sub->subscriber->outbox, look_again, sub);
    if (sub->window.held) {
        outbox_filter(sub->window.held, look_again, sub);
    }
}

void subscriber_offer(struct subscriber *subscriber, struct subscription *sub,
                      const struct change *change, enum tidings_change_kind kind)
{
    enum delivery_fate fate =
        subscriber_offer_filtered(subscriber, sub, change, (struct outbox_as){.kind = kind}, true);
    if (subscriber->worker->delivery->trace.is_on) {
        bool is_hidden = fate == DELIVERY_FILTERED && !filters_allow(subscriber->principal, change);
        delivery_log_fate(subscriber, is_hidden ? DELIVERY_HIDDEN : fate);
    }
}

void subscriber_offer_row(struct subscriber *subscriber, struct subscription *sub,
                          const struct changelog_row *row, uint64_t since)
{
    uint64_t from = since > sub->since ? since : sub->since;
    enum tidings_change_kind kind = row->change->kind;
    if (kind == TIDINGS_CHANGE_UPDATED && row->created_seq > from) {
        kind = TIDINGS_CHANGE_CREATED;
    }
    struct outbox_as as = {.kind = kind, .caught_up = true, .due = lag_due_now()};
    (void)subscriber_offer_filtered(subscriber, sub, row->change, as, row->replaced_seq <= from);
}
