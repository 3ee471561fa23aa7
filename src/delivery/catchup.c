/* SPDX-License-Identifier: MIT
 *
 * Replays from the log what one subscriber has missed.
 */
#include "delivery/catchup.h"

#include "base/str.h"
#include "delivery/delivery.h"
#include "delivery/hub.h"
#include "delivery/list_changed.h"
#include "delivery/listen.h"
#include "delivery/lookup.h"
#include "delivery/resync.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "store/change.h"

struct finder {
    struct subscriber *subscriber;
    const struct changelog_row *row;
    uint64_t since;
};

static bool is_ours(void *user, const struct subscription *sub)
{
    const struct finder *f = user;
    return sub->listen->subscriber == f->subscriber && !sub->catching_up &&
           f->row->change->seq > sub->replayed_to;
}

static void offer_if_ours(void *user, struct match_node *node)
{
    struct finder *f = user;
    struct subscription *sub = list_entry(node, struct subscription, node);
    if (is_ours(f, sub)) {
        subscriber_offer_row(f->subscriber, sub, f->row, f->since);
    }
}

static bool went_elsewhere(const struct subscriber *subscriber, uint64_t seq)
{
    const struct subscriber_skips *skips =
        subscriber->ops && subscriber->ops->skips ? subscriber->ops->skips(subscriber) : NULL;
    for (unsigned i = 0; skips && i < skips->count; i++) {
        if (seq > skips->at[i].from && seq <= skips->at[i].to) {
            return true;
        }
    }
    return false;
}

static void catchup_replay(struct subscriber *subscriber, const struct hub_catchup *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct change *change = c->changes[i].change;
        if (went_elsewhere(subscriber, change->seq)) {
            continue;
        }
        list_changed_replay(subscriber, &c->changes[i], c->since);
        if (change->lists != 0) {
            continue;
        }
        if (change->everything) {
            resync_mark_below(subscriber, change_scope(change), change->seq);
            continue;
        }
        struct finder f = {.subscriber = subscriber, .row = &c->changes[i], .since = c->since};
        static const struct lookup_calls calls = {is_ours, offer_if_ours};
        lookup_find(subscriber->worker, change, &calls, &f);
        delivery_find_covered(subscriber->worker, change->uri, offer_if_ours, &f);
    }
}

static void caught_up(struct hub_catchup *c, struct worker *worker)
{
    (void)worker;
    struct subscriber *subscriber = c->user;
    if (subscriber) {
        subscriber->catchup = NULL;
        if (subscriber->sink && c->truncated) {
            resync_mark_all(subscriber);
        } else if (subscriber->sink) { /* else it went meanwhile, and the next one asks again */
            catchup_replay(subscriber, c);
        }
        subscriber_mark_dirty(subscriber);
    }
    hub_catchup_free(c);
}

void catchup_start(struct subscriber *subscriber, uint64_t since)
{
    if (subscriber->catchup) { /* asked already, for another stream */
        subscriber->catchup->user = NULL;
        subscriber->catchup = NULL;
    }
    subscriber->cursor = since;
    if (since == subscriber->worker->last_seq) {
        return; /* what is under way from the hub arrives as live changes */
    }
    subscriber->catchup = hub_catchup(subscriber->worker, since, caught_up, subscriber);
    if (!subscriber->catchup) {
        resync_mark_all(subscriber);
    }
}
