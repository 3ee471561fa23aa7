/* SPDX-License-Identifier: MIT
 *
 * Marks subscriptions that must read again, because what changed for them cannot be told one by
 * one, and sends each its `truncated` message, in an order that a cursor can name.
 */
#include "delivery/resync.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "delivery/cursor_seal.h"
#include "delivery/delivery.h"
#include "delivery/list_changed.h"
#include "delivery/listen.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "dialect/dialect.h"
#include "store/change.h"
#include "worker/worker.h"

void resync_mark(struct subscription *sub, uint64_t seq)
{
    struct subscriber *subscriber = sub->subscriber;
    subscriber->worker->stats.truncated += !sub->truncated;
    if (!subscriber->has_truncated) {
        subscriber->outbox.resync_due = lag_due_now();
    }
    sub->truncated = sub->rereads = true;
    subscriber->has_truncated = true;
    if (subscriber->resync_from == 0 || seq < subscriber->resync_from) {
        subscriber->resync_from = seq;
    }
    subscriber_mark_dirty(subscriber);
}

void resync_mark_below(struct subscriber *subscriber, struct tidings_str scope, uint64_t seq)
{
    list_each (lit, lnext, &subscriber->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        if (listen->wants_lists & LIST_EVERYTHING) {
            list_changed_mark(listen, LIST_EVERYTHING, seq);
            continue;
        }
        list_each (it, next, &listen->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            if ((seq == 1 || seq > sub->since) && subscription_may_cover(sub, scope)) {
                resync_mark(sub, seq);
            }
        }
    }
}

void resync_mark_rest(struct subscriber *subscriber, const struct log_cursor *at)
{
    list_each (lit, lnext, &subscriber->listens) {
        list_each (it, next, &list_entry(lit, struct listen, link)->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            if (cursor_has_lost(at, cursor_order(subscription_spelled(sub)))) {
                resync_mark(sub, 1);
            }
        }
    }
}

void resync_mark_all(struct subscriber *subscriber)
{
    bool is_legacy = false;
    resync_mark_below(subscriber, STR_EMPTY, 1);
    list_each (lit, lnext, &subscriber->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        is_legacy = is_legacy || listen->id_len == 0;
        list_changed_mark(listen, listen->wants_lists, 1);
    }
    if (is_legacy) { /* modern streams carry no log messages */
        subscriber_warn(subscriber,
                        "history does not reach back to where this stream ended; re-read what you "
                        "subscribed to");
    }
}

void resync_suspend(struct subscription *sub)
{
    struct subscriber *subscriber = sub->subscriber;
    sub->suspended = true;
    resync_mark(sub, subscriber->worker->last_seq);
    if (sub->listen->id_len == 0) {
        subscriber_warn(subscriber,
                        "a subscription whose regular expression or filter took too long too often "
                        "is suspended");
    }
}

/* ---- who is marked --------------------------------------------------------------------------- */

struct marked_sub {
    struct subscription *sub;
    uint32_t order;
};

static int by_order(const void *a, const void *b)
{
    const struct marked_sub *x = a, *y = b;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* The first and the last of those that are marked, in order. */
struct marked_range {
    uint32_t first, last; /* CURSOR_ALL_TOLD, 0: there is none */
};

/* Those of listens that are acknowledged, into `out` unless that is NULL; and the range of all. */
static size_t find_marked(const struct subscriber *subscriber, struct marked_sub *out,
                          struct marked_range *range)
{
    size_t n = 0;
    *range = (struct marked_range){.first = CURSOR_ALL_TOLD};
    list_each (lit, lnext, &subscriber->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        list_each (it, next, &listen->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            if (!sub->truncated) {
                continue;
            }
            uint32_t order = cursor_order(subscription_spelled(sub));
            range->first = order < range->first ? order : range->first;
            range->last = order > range->last ? order : range->last;
            if (!listen->is_open) {
                continue;
            }
            if (out) {
                out[n] = (struct marked_sub){.sub = sub, .order = order};
            }
            n++;
        }
    }
    return n;
}

/* Numbers below the first of this epoch are those of an earlier one, and say nothing of what is not
 * kept in the store, unless all such subscriptions were told to look again. */
static void put_mark(const struct subscriber *subscriber, const struct marked_range *range,
                     struct log_cursor *at)
{
    bool is_told = subscriber->was_truncated && at->seq < subscriber->worker->delivery->marks.first;
    bool is_marked = range->first < CURSOR_ALL_TOLD;
    at->lost = is_marked ? range->first : is_told ? CURSOR_ALL_TOLD : 0;
    at->lost_to = is_marked ? range->last : 0;
}

void resync_cursor_mark(const struct subscriber *subscriber, struct log_cursor *at)
{
    struct marked_range range = {.first = CURSOR_ALL_TOLD};
    if (subscriber->has_truncated) {
        (void)find_marked(subscriber, NULL, &range);
    }
    put_mark(subscriber, &range, at);
}

/* ---- telling --------------------------------------------------------------------------------- */

/* Whoever follows a task is told how it is now. false: out of memory; with the next flush. */
static bool resync_offer_task(struct subscription *sub)
{
    const struct worker *worker = sub->subscriber->worker;
    const struct tidings_change now = {.uri = subscription_uri(sub)};
    struct change *change = change_create(&now, worker->epoch, worker->last_seq);
    if (!change) {
        return false;
    }
    sub->truncated = false;
    if (!sub->suspended) {
        subscriber_offer_initial(sub->subscriber, sub, change);
    }
    change_unref(change);
    return true;
}

/* `left`: those who have yet to be told after it. */
static bool write_truncated(struct subscriber *subscriber, struct subscription *sub,
                            const struct marked_range *left)
{
    if (!subscriber->sink || subscriber_is_blocked(subscriber)) {
        return false;
    }
    if (sub->is_task) {
        return resync_offer_task(sub);
    }
    bool was_truncated = subscriber->was_truncated;
    subscriber->was_truncated = true;
    struct log_cursor cursor = delivery_cursor(subscriber->worker, subscriber_written(subscriber));
    put_mark(subscriber, left, &cursor);
    struct dialect_updated u = {
        .kind = TIDINGS_CHANGE_UPDATED,
        .uri_json = subscription_spelled_json(sub),
        .subscribed_json = subscription_spelled_json(sub),
        .listen_id_json = listen_id(sub->listen),
        .cursor = cursor,
        .sealed = cursor_seal_make(subscriber->worker, subscriber->principal, &cursor),
        .truncated = !sub->suspended,
        .suspended = sub->suspended,
        .is_slim = sub->is_slim,
        .profile = subscriber->worker->self->profile,
    };
    uint64_t now_us = subscriber->worker->delivery->lag.now_us;
    uint64_t waited =
        subscriber->has_truncated ? lag_since(subscriber->outbox.resync_due, now_us) : 0;
    if (!subscriber_write_update(subscriber, &u, sub, waited)) {
        subscriber->was_truncated = was_truncated;
        return false;
    }
    sub->truncated = false;
    sub->suspension_written = sub->suspended;
    return true;
}

void resync_write_withdrawn(struct subscription *sub)
{
    struct subscriber *subscriber = sub->subscriber;
    if (sub->listen->is_open && subscriber->sink) {
        struct marked_range left;
        sub->suspended = true;
        sub->truncated = false;
        (void)find_marked(subscriber, NULL, &left);
        /* A blocked stream would be told much later. */
        (void)write_truncated(subscriber, sub, &left);
    }
}

/* Without memory for the order the cursors stay where they are until all are told. */
static bool flush_unordered(struct subscriber *subscriber, const struct marked_range *range,
                            size_t left)
{
    static const struct marked_range none = {.first = CURSOR_ALL_TOLD};
    list_each (lit, lnext, &subscriber->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        list_each (it, next, &listen->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            if (!listen->is_open || !sub->truncated) {
                continue;
            }
            if (!write_truncated(subscriber, sub, --left > 0 ? range : &none)) {
                return false;
            }
        }
    }
    return true;
}

static bool flush_in_order(struct subscriber *subscriber, struct marked_sub *all, size_t n)
{
    qsort(all, n, sizeof(*all), by_order);
    for (size_t i = 0; i < n; i++) {
        const struct marked_range left = {
            .first = i + 1 < n ? all[i + 1].order : CURSOR_ALL_TOLD,
            .last = i + 1 < n ? all[n - 1].order : 0,
        };
        if (!write_truncated(subscriber, all[i].sub, &left)) {
            return false;
        }
    }
    return true;
}

bool resync_flush(struct subscriber *subscriber)
{
    if (!subscriber->has_truncated) {
        return true;
    }
    struct marked_range range;
    size_t n = find_marked(subscriber, NULL, &range);
    struct marked_sub *all = n > 1 ? mem_alloc(n * sizeof(*all)) : NULL;
    bool good;
    if (all) {
        (void)find_marked(subscriber, all, &range);
        good = flush_in_order(subscriber, all, n);
    } else {
        good = flush_unordered(subscriber, &range, n);
    }
    mem_free(all);
    if (good) {
        subscriber->has_truncated = false;
        subscriber->resync_from = 0;
    }
    return good;
}
