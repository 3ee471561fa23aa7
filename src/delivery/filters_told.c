/* SPDX-License-Identifier: MIT
 *
 * What a subscription whose filter looks back was told last of each resource: a reference to the
 * change, which all share. Bounded for each subscription, each client and the worker; what does not
 * fit is not remembered, so that the next change counts as the first.
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
static size_t told_cost(const struct change *change)
{
    return change_bytes(change) + 4 * sizeof(void *);
}

static struct filters *filters_of(const struct subscription *sub)
{
    return &sub->subscriber->worker->delivery->filters;
}

const struct change *filters_told_before(const struct subscription *sub,
                                         const struct change *change)
{
    return sub->extra->told ? map_find(sub->extra->told, change->uri) : NULL;
}

static void told_drop(struct subscription *sub, struct change *old)
{
    if (old) {
        filters_of(sub)->told_bytes -= told_cost(old);
        allowance_give_back(sub->subscriber->allowance, ALLOWANCE_FILTER_PAST);
        change_unref(old);
    }
}

/* The table of a subscription with room for one more. NULL: there is none. */
static struct map *told_room(struct subscription *sub)
{
    struct subscription_extra *x = sub->extra;
    if (!x->told) {
        x->told = mem_alloc(sizeof(*x->told));
        if (!x->told) {
            return NULL;
        }
        map_init(x->told);
    }
    return x->told->count < FILTER_TOLD_URIS ? x->told : NULL;
}

void filters_remember(struct subscription *sub, const struct change *change)
{
    struct filters *all = filters_of(sub);
    struct allowance *client = sub->subscriber->allowance;
    /* The one before goes first, and its share with it. */
    told_drop(sub, sub->extra->told ? map_remove(sub->extra->told, change->uri) : NULL);
    if (change->kind == TIDINGS_CHANGE_DELETED ||
        change->metadata_json.len > FILTER_TOLD_METADATA ||
        all->told_bytes + told_cost(change) > FILTERS_TOLD_BYTES) {
        return;
    }
    struct map *told = told_room(sub);
    if (!told || !allowance_take(client, ALLOWANCE_FILTER_PAST)) {
        return;
    }
    struct change *kept = change_ref(change);
    if (map_put(told, kept->uri, kept, NULL) < 0) {
        allowance_give_back(client, ALLOWANCE_FILTER_PAST);
        change_unref(kept);
        return;
    }
    all->told_bytes += told_cost(kept);
}

void filters_forget(struct subscription *sub)
{
    struct map *told = sub->extra->told;
    struct change *c;
    for (size_t pos = 0; told && (c = map_next(told, &pos)) != NULL;) {
        told_drop(sub, c);
    }
    if (told) {
        map_deinit(told);
        mem_free(told);
        sub->extra->told = NULL;
    }
}
