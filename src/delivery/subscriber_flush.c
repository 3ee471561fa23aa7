/* SPDX-License-Identifier: MIT
 *
 * Writes what waits for a subscriber to its stream, as far as that takes it.
 */
#include "access/access.h"
#include "delivery/change_content.h"
#include "delivery/cursor_seal.h"
#include "delivery/delivery.h"
#include "delivery/filters.h"
#include "delivery/list_changed.h"
#include "delivery/listen.h"
#include "delivery/outbox.h"
#include "delivery/resync.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "dialect/dialect.h"
#include "store/change.h"

/* The URI that is told, as its subscriber spells such ones. */
static void put_uri(struct dialect_updated *u, const struct subscription *sub, bool leads)
{
    const struct server_identity *self = sub->subscriber->worker->self;
    if (sub->is_literal && !leads) {
        u->uri_json = subscription_spelled_json(sub);
        return;
    }
    u->uri_json = leads ? u->change->to_json : u->change->uri_json;
    if (sub->is_absolute && str_starts(leads ? u->change->to : u->change->uri, self->absolute_of)) {
        u->uri_begin = self->absolute_json;
        u->uri_json = str_skip(u->uri_json, 1 + self->absolute_of.len);
    }
}

static bool flush_items(struct subscriber *subscriber)
{
    struct outbox_item *item;
    while (subscriber->sink && (item = outbox_first(&subscriber->outbox)) != NULL) {
        if (subscriber_is_blocked(subscriber)) {
            return false;
        }
        struct subscription *sub = item->sub;
        struct tidings_str value = STR_EMPTY;
        struct baseline *to = NULL;
        if (sub->wants_content &&
            change_content_for(sub, item->change, &value, &to) == CHANGE_CONTENT_READING) {
            subscriber->waits_content = true;
            return false;
        }
        if (sub->is_task && value.len == 0) { /* it is forgotten: nothing is told of that */
            outbox_pop(&subscriber->outbox);
            continue;
        }
        bool hides_from = !filters_show_from(subscriber->principal, item->change);
        bool leads = change_names_destination(item->change, (enum tidings_change_kind)item->kind,
                                              hides_from);
        struct log_cursor cursor =
            subscriber_cursor_at(subscriber, subscriber_written_with_first(subscriber));
        struct dialect_updated u = {
            .change = item->change,
            .value_json = value,
            .initial = item->initial,
            .top_metadata = sub->wants_metadata,
            .is_slim = sub->is_slim,
            .is_task = sub->is_task,
            .kind = leads ? TIDINGS_CHANGE_CREATED : (enum tidings_change_kind)item->kind,
            .subscribed_json = subscription_spelled_json(sub),
            .listen_id_json = listen_id(sub->listen),
            .cursor = cursor,
            .sealed = cursor_seal_make(subscriber->worker, subscriber->principal, &cursor),
            .hides_version = !access_is_full(subscriber->principal),
            .hides_from = hides_from,
            .merged = item->merged,
            .caught_up = item->caught_up,
            .profile = subscriber->worker->self->profile,
        };
        put_uri(&u, sub, leads);
        uint64_t waited = outbox_waited(item, subscriber->worker->delivery->lag.now_us);
        if (!subscriber_write_update(subscriber, &u, sub, waited)) {
            return false;
        }
        change_content_written(sub, item->change, to);
        outbox_pop(&subscriber->outbox);
    }
    return true;
}

void subscriber_flush(struct subscriber *subscriber)
{
    if (!subscriber->sink || subscriber->catchup) {
        return;
    }
    /* First what has no number of its own, or the cursors of the others would wait for it. */
    (void)(list_changed_flush(subscriber) && resync_flush(subscriber) && flush_items(subscriber));
}
