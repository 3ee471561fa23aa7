/* SPDX-License-Identifier: MIT
 *
 * Where a subscriber stands: up to which number everything that concerns it was written, and that
 * as a cursor for its client.
 */
#include "delivery/delivery.h"
#include "delivery/listen.h"
#include "delivery/outbox.h"
#include "delivery/resync.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"

static uint64_t subscriber_cursor_below(uint64_t from, uint64_t cursor)
{
    return from > 0 && cursor >= from ? from - 1 : cursor;
}

/* Nothing above what the log is asked for, what lists changed, and what is held back. */
static uint64_t below_pending(const struct subscriber *subscriber, uint64_t cursor)
{
    cursor = subscriber_cursor_below(subscriber->lists_from,
                                     subscriber_cursor_below(subscriber->catching_from, cursor));
    if (subscriber->held_count == 0) {
        return cursor;
    }
    list_each (lit, lnext, &subscriber->listens) {
        list_each (it, next, &list_entry(lit, struct listen, link)->subs) {
            uint64_t first = window_first_seq(&list_entry(it, struct subscription, link)->window);
            if (first > 0 && cursor >= first) {
                cursor = first - 1;
            }
        }
    }
    return cursor;
}

uint64_t subscriber_written(const struct subscriber *subscriber)
{
    if (!subscriber->sink || subscriber->catchup) {
        return below_pending(subscriber, subscriber->cursor);
    }
    if (subscriber->outbox.count > 0) {
        struct outbox *o = (struct outbox *)(uintptr_t)&subscriber->outbox;
        return below_pending(subscriber, outbox_first(o)->first_seq - 1);
    }
    return below_pending(subscriber, subscriber->worker->last_seq);
}

uint64_t subscriber_written_with_first(const struct subscriber *subscriber)
{
    const struct outbox_item *second = outbox_second(&subscriber->outbox);
    if (second) {
        return below_pending(subscriber, second->first_seq - 1);
    }
    return below_pending(subscriber, subscriber->worker->last_seq);
}

uint64_t subscriber_low_water(const struct subscriber *subscriber)
{
    return subscriber_cursor_below(subscriber->resync_from, subscriber_written(subscriber));
}

struct log_cursor subscriber_cursor(const struct subscriber *subscriber)
{
    return subscriber_cursor_at(subscriber, subscriber_written(subscriber));
}

struct log_cursor subscriber_cursor_at(const struct subscriber *subscriber, uint64_t seq)
{
    struct log_cursor at = delivery_cursor(subscriber->worker, seq);
    resync_cursor_mark(subscriber, &at);
    return at;
}
