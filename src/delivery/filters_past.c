/* SPDX-License-Identifier: MIT
 *
 * Remembers, for filters that compare a change with the one before, which change of each resource
 * the subscription was told last: a reference to it, which all share. Bounded for each
 * subscription, each client and the worker; what does not fit is not remembered, so that the next
 * change counts as the first.
 */
#include "access/allowance.h"
#include "base/mem.h"
#include "base/str.h"
#include "delivery/delivery.h"
#include "delivery/filters_private.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "store/change.h"

/* With its place in the table. */
static size_t past_cost(const struct change *change)
{
    return change_bytes(change) + 4 * sizeof(void *);
}

static struct filters *filters_of(const struct subscription *sub)
{
    return &sub->subscriber->worker->delivery->filters;
}

const struct change *filters_previous(const struct subscription *sub, const struct change *change)
{
    return sub->extra->past ? map_find(sub->extra->past, change->uri) : NULL;
}

static void past_drop(struct subscription *sub, struct change *old)
{
    if (old) {
        filters_of(sub)->past_bytes -= past_cost(old);
        allowance_give_back(sub->subscriber->allowance, ALLOWANCE_FILTER_PAST);
        change_unref(old);
    }
}

/* The table of a subscription with room for one more. NULL: there is none. */
static struct map *past_room(struct subscription *sub)
{
    struct subscription_extra *x = sub->extra;
    if (!x->past) {
        x->past = mem_alloc(sizeof(*x->past));
        if (!x->past) {
            return NULL;
        }
        map_init(x->past);
    }
    return x->past->count < FILTER_PAST_URIS ? x->past : NULL;
}

void filters_remember(struct subscription *sub, const struct change *change)
{
    struct filters *all = filters_of(sub);
    struct allowance *client = sub->subscriber->allowance;
    /* The one before goes first, and its share with it. */
    past_drop(sub, sub->extra->past ? map_remove(sub->extra->past, change->uri) : NULL);
    if (change->kind == TIDINGS_CHANGE_DELETED ||
        change->metadata_json.len > FILTER_PAST_METADATA ||
        all->past_bytes + past_cost(change) > FILTERS_PAST_BYTES) {
        return;
    }
    struct map *past = past_room(sub);
    if (!past || !allowance_take(client, ALLOWANCE_FILTER_PAST)) {
        return;
    }
    struct change *kept = change_ref(change);
    if (map_put(past, kept->uri, kept, NULL) < 0) {
        allowance_give_back(client, ALLOWANCE_FILTER_PAST);
        change_unref(kept);
        return;
    }
    all->past_bytes += past_cost(kept);
}

void filters_forget(struct subscription *sub)
{
    struct map *past = sub->extra->past;
    struct change *c;
    for (size_t pos = 0; past && (c = map_next(past, &pos)) != NULL;) {
        past_drop(sub, c);
    }
    if (past) {
        map_deinit(past);
        mem_free(past);
        sub->extra->past = NULL;
    }
}
