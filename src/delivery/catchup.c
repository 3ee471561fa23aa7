/* SPDX-License-Identifier: MIT
 *
 * Coming back: everything from the log that changed since a cursor and concerns one subscriber.
 * While the hub is being asked, live changes are passed over: they were numbered before the answer
 * and are in it.
 */
#include "base/str.h"
#include "delivery/hub.h"
#include "delivery/lookup.h"
#include "delivery/subscriber.h"
#include "dialect/dialect.h"
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

void subscriber_resync(struct subscriber *subscriber)
{
    bool is_legacy = false;
    subscriber_owe_all(subscriber, STR_EMPTY, 1);
    list_each (lit, lnext, &subscriber->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        is_legacy = is_legacy || listen->id_len == 0;
        subscriber_owe_lists(subscriber, listen, listen->wants_lists, 1);
    }
    if (is_legacy) { /* modern streams carry no log messages */
        subscriber_warn(subscriber,
                        "history does not reach back to where this stream ended; re-read what you "
                        "subscribed to");
    }
}

void subscriber_warn(struct subscriber *subscriber, const char *text)
{
    if (!subscriber->sink || subscriber->log_level > LOG_LEVEL_WARNING) {
        return;
    }
    struct buf message;
    buf_init(&message, 4096);
    dialect_put_log_message(&message, STR("warning"), STR_EMPTY, tidings_str(text));
    subscriber_send(subscriber, &message);
    buf_deinit(&message);
}

static bool went_elsewhere(const struct subscriber *subscriber, uint64_t seq)
{
    for (unsigned i = 0; subscriber->skips && i < subscriber->skips->count; i++) {
        if (seq > subscriber->skips->at[i].from && seq <= subscriber->skips->at[i].to) {
            return true;
        }
    }
    return false;
}

static void replay(struct subscriber *subscriber, const struct hub_catchup *c)
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
            subscriber_owe_all(subscriber, change_scope(change), change->seq);
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
            subscriber_resync(subscriber);
        } else if (subscriber->sink) { /* else it went meanwhile, and the next one asks again */
            replay(subscriber, c);
        }
        subscriber_mark_dirty(subscriber);
    }
    hub_catchup_free(c);
}

void subscriber_catch_up(struct subscriber *subscriber, uint64_t since)
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
        subscriber_resync(subscriber);
    }
}
