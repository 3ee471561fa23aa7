/* SPDX-License-Identifier: MIT
 *
 * A subscriber and its stream: made, marked to be flushed, written to.
 */
#include "delivery/subscriber.h"

#include "access/principal.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "delivery/delivery.h"
#include "dialect/dialect.h"

/* Beyond this much unsent, changes wait (and merge) in the outbox instead of the send buffer. */
#define SUBSCRIBER_HIGH_WATER (64u * 1024u)

struct subscriber *subscriber_create(struct worker *worker, const struct principal *principal)
{
    struct subscriber *subscriber = mem_zalloc(sizeof(*subscriber));
    if (!subscriber) {
        return NULL;
    }
    subscriber->worker = worker;
    subscriber->principal = principal_ref(principal);
    subscriber->cursor = worker->last_seq;
    subscriber->created_s = (uint32_t)(clock_wall_coarse_ms() / 1000);
    subscriber->number = ++worker->delivery->subscribers_made;
    outbox_init(&subscriber->outbox);
    list_init(&subscriber->listens);
    list_init(&subscriber->dirty_link);
    list_append(&worker->delivery->subscribers, &subscriber->link);
    worker->stats.subscribers++;
    return subscriber;
}

void subscriber_set_principal(struct subscriber *subscriber, const struct principal *principal)
{
    const struct principal *old = subscriber->principal;
    subscriber->principal = principal_ref(principal);
    principal_unref(old);
}

uint64_t subscriber_id(const struct subscriber *subscriber)
{
    return ((uint64_t)subscriber->worker->index + 1) << 32 | subscriber->number;
}

void subscriber_mark_dirty(struct subscriber *subscriber)
{
    if (subscriber->is_behind) {
        list_remove(&subscriber->dirty_link);
        subscriber->is_behind = false;
    }
    if (list_empty(&subscriber->dirty_link)) {
        list_append(&subscriber->worker->delivery->dirty, &subscriber->dirty_link);
    }
}

void subscriber_note_behind(struct subscriber *subscriber)
{
    if (subscriber->outbox.count > 0 && list_empty(&subscriber->dirty_link)) {
        list_append(&subscriber->worker->delivery->behind, &subscriber->dirty_link);
        subscriber->is_behind = true;
    }
}

bool subscriber_is_blocked(struct subscriber *subscriber)
{
    struct sink *sink = subscriber->sink;
    sink->blocked = sink->ops->pending(sink) >= SUBSCRIBER_HIGH_WATER;
    return sink->blocked;
}
