/* SPDX-License-Identifier: MIT
 *
 * A subscriber gets a stream, or loses it: what waited is forgotten then, and the cursor says where
 * to begin again with the next one.
 */
#include "delivery/delivery.h"
#include "delivery/initial_state.h"
#include "delivery/listen.h"
#include "delivery/outbox.h"
#include "delivery/resync.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "request/channel.h"

/* Without a stream nothing is queued: the cursor says where to begin again. What no cursor can say
 * (that a subscription must look again, from the first number on) is noted for the next stream. */
static void forget_waiting(struct subscriber *subscriber)
{
    subscriber->cursor = subscriber_low_water(subscriber);
    outbox_remove(&subscriber->outbox, NULL);
    list_each (lit, lnext, &subscriber->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        listen->lists_pending = 0;
        if (listen->id_len == 0) {
            listen->legacy->told_seq = 0;
        }
        list_each (it, next, &listen->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            if (!sub->catching_up) {
                sub->replayed_to = 0;
            }
            if (sub->truncated && subscriber->resync_from == 1) {
                subscription_caught_up(sub, 0);
                sub->since_pending = true;
                sub->since = SINCE_UNKNOWN;
            }
            sub->truncated = false;
            window_clear(&subscriber->worker->delivery->windows, &sub->window);
        }
    }
    subscriber->held_count = 0;
    subscriber->has_truncated = subscriber->has_list_pending = false;
    subscriber->resync_from = subscriber->lists_from = 0;
}

/* A new stream: what could not be told without one. */
static void tell_waiting(struct subscriber *subscriber)
{
    list_each (lit, lnext, &subscriber->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        bool begins = false;
        list_each (it, next, &listen->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            begins = begins || sub->initial_pending || sub->since_pending;
            if (sub->suspended && !sub->suspension_written) {
                resync_mark(sub, subscriber->worker->last_seq);
            }
        }
        if (begins && listen->is_open) {
            initial_state_begin(listen);
        }
    }
    if (subscriber->has_list_pending || subscriber->has_truncated) {
        subscriber_mark_dirty(subscriber);
    }
}

static void on_drained(void *user)
{
    struct subscriber *subscriber = user;
    if (subscriber->outbox.count > 0 || subscriber->has_truncated || subscriber->has_list_pending) {
        subscriber_mark_dirty(subscriber);
        /* Where the kernel took all at once, this turn's flush is over and nothing else may come.
         */
        loop_wakeup_send(&subscriber->worker->delivery->flush_again);
    }
}

static void on_closed(void *user)
{
    struct subscriber *subscriber = user;
    forget_waiting(subscriber);
    subscriber->sink = NULL;
    if (subscriber->ops && subscriber->ops->on_stream_end) {
        subscriber->ops->on_stream_end(subscriber);
    }
}

void subscriber_set_sink(struct subscriber *subscriber, struct sink *sink)
{
    if (subscriber->sink) {
        forget_waiting(subscriber);
        sink_attach(subscriber->sink, NULL, NULL);
    }
    subscriber->sink = sink;
    if (sink) {
        static const struct sink_events events = {.drained = on_drained, .closed = on_closed};
        sink_attach(sink, &events, subscriber);
        tell_waiting(subscriber);
    }
}

void subscriber_end_of_channel(struct channel *channel)
{
    subscriber_destroy(channel->subscriber);
    channel->subscriber = NULL;
}

static void channel_subscriber_facts(const struct subscriber *subscriber, struct channel_facts *ret)
{
    channel_get_facts(subscriber->owner, ret);
}

static const struct subscriber_ops channel_subscriber_ops = {.facts = channel_subscriber_facts};

struct channel *subscriber_channel(const struct subscriber *subscriber)
{
    const struct sink *sink = subscriber->sink;
    if (sink) {
        return sink->ops->channel ? sink->ops->channel(sink) : NULL;
    }
    return subscriber->ops == &channel_subscriber_ops ? subscriber->owner : NULL;
}

struct subscriber *subscriber_greet(struct channel *channel)
{
    struct subscriber *subscriber =
        channel->subscriber ? NULL : subscriber_create(channel->worker, channel->principal);
    if (subscriber) {
        subscriber->ops = &channel_subscriber_ops;
        subscriber->owner = channel;
        channel->subscriber = subscriber;
    }
    return channel->subscriber;
}

struct subscriber *subscriber_of_channel(struct channel *channel)
{
    struct subscriber *subscriber = subscriber_greet(channel);
    if (subscriber && !subscriber->sink) {
        static const struct response_headers none;
        subscriber->cursor = channel->worker->last_seq;
        subscriber_set_sink(subscriber, channel->ops->stream(channel, &none));
    }
    return subscriber;
}
