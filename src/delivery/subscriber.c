/* SPDX-License-Identifier: MIT
 *
 * Peers: what they hear and how it is flushed. Subscriptions are in listen.c, catching up in
 * catchup.c.
 */
#include "delivery/subscriber.h"

#include "access/allowance.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/provider.h"
#include "delivery/cursor_seal.h"
#include "delivery/hub.h"
#include "request/channel.h"
#include "store/change.h"

/* Beyond this much unsent, changes wait (and merge) in the outbox instead of the send buffer. */
#define SUBSCRIBER_HIGH_WATER (64u * 1024u)

struct subscriber *subscriber_create(struct worker *worker, const struct principal *who)
{
    struct subscriber *subscriber = mem_zalloc(sizeof(*subscriber));
    if (!subscriber) {
        return NULL;
    }
    subscriber->worker = worker;
    subscriber->who = principal_ref(who);
    subscriber->cursor = worker->last_seq;
    subscriber->number = ++worker->delivery->subscribers_made;
    outbox_init(&subscriber->outbox);
    list_init(&subscriber->listens);
    list_init(&subscriber->dirty_link);
    list_append(&worker->delivery->subscribers, &subscriber->link);
    worker->stats.subscribers++;
    return subscriber;
}

void subscriber_set_who(struct subscriber *subscriber, const struct principal *who)
{
    const struct principal *old = subscriber->who;
    subscriber->who = principal_ref(who);
    principal_unref(old);
}

uint64_t subscriber_id(const struct subscriber *subscriber)
{
    return ((uint64_t)subscriber->worker->index + 1) << 32 | subscriber->number;
}

static void end_channel_subscriber(struct channel *channel)
{
    subscriber_destroy(channel->subscriber);
    channel->subscriber = NULL;
}

struct subscriber *subscriber_of_channel(struct channel *channel)
{
    if (!channel->subscriber) {
        struct subscriber *subscriber = subscriber_create(channel->worker, channel->who);
        if (subscriber) {
            static const struct answer_headers none;
            subscriber_set_sink(subscriber, channel->ops->stream(channel, &none));
            channel->subscriber = subscriber;
            channel->end_subscriber = end_channel_subscriber;
        }
    }
    return channel->subscriber;
}

void subscriber_destroy(struct subscriber *subscriber)
{
    if (!subscriber) {
        return;
    }
    list_each (it, next, &subscriber->listens) {
        listen_destroy(list_entry(it, struct listen, link));
    }
    if (subscriber->catchup) {
        subscriber->catchup->user = NULL;
    }
    outbox_deinit(&subscriber->outbox);
    list_remove(&subscriber->dirty_link);
    list_remove(&subscriber->link);
    if (subscriber->sink) {
        sink_attach(subscriber->sink, NULL, NULL);
        subscriber->sink = NULL;
    }
    subscriber->worker->stats.subscribers--;
    if (subscriber->ops && subscriber->ops->destroyed) {
        subscriber->ops->destroyed(subscriber);
    }
    subscriber_set_who(subscriber, NULL);
    allowance_release(subscriber->allowance);
    loop_discard(subscriber->worker->loop, &subscriber->discard, mem_free, subscriber);
}

void subscriber_mark_dirty(struct subscriber *subscriber)
{
    if (list_empty(&subscriber->dirty_link)) {
        list_append(&subscriber->worker->delivery->dirty, &subscriber->dirty_link);
    }
}

static uint64_t below(uint64_t from, uint64_t cursor)
{
    return from > 0 && cursor >= from ? from - 1 : cursor;
}

/* Nothing above what the log is asked for, what lists changed, and what is held back. */
static uint64_t below_owed(const struct subscriber *subscriber, uint64_t cursor)
{
    cursor = below(subscriber->lists_from, below(subscriber->catching_from, cursor));
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

uint64_t subscriber_told(const struct subscriber *subscriber)
{
    if (!subscriber->sink || subscriber->catchup) {
        return below_owed(subscriber, subscriber->cursor);
    }
    if (subscriber->outbox.count > 0) {
        struct outbox *o = (struct outbox *)(uintptr_t)&subscriber->outbox;
        return below_owed(subscriber, outbox_first(o)->first_seq - 1);
    }
    return below_owed(subscriber, subscriber->worker->last_seq);
}

uint64_t subscriber_cursor(const struct subscriber *subscriber)
{
    return below(subscriber->owed_from, subscriber_told(subscriber));
}

struct log_cursor subscriber_place(const struct subscriber *subscriber)
{
    return subscriber_place_at(subscriber, subscriber_told(subscriber));
}

/* Without a stream nothing is owed: the cursor says where to begin again. What no cursor can say is
 * owed again with the next one: to look again, from the first number on. */
static void forget_waiting(struct subscriber *subscriber)
{
    subscriber->cursor = subscriber_cursor(subscriber);
    outbox_remove(&subscriber->outbox, NULL);
    list_each (lit, lnext, &subscriber->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        listen->owes_lists = 0;
        list_each (it, next, &listen->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            if (!sub->catching_up) {
                sub->replayed_to = 0;
            }
            if (sub->truncated && subscriber->owed_from == 1) {
                subscription_caught_up(sub, 0);
                sub->owes_since = true;
                sub->since = SINCE_UNKNOWN;
            }
            sub->truncated = false;
            window_clear(&subscriber->worker->delivery->windows, &sub->window);
        }
    }
    subscriber->held_count = 0;
    subscriber->has_truncated = subscriber->has_list_pending = false;
    subscriber->owed_from = subscriber->lists_from = 0;
}

/* A new stream: what could not be told without one. */
static void tell_waiting(struct subscriber *subscriber)
{
    list_each (lit, lnext, &subscriber->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        bool begins = false;
        list_each (it, next, &listen->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            begins = begins || sub->owes_initial || sub->owes_since;
            if (sub->suspended && !sub->suspended_told) {
                subscriber_owe_truncated(subscriber, sub, subscriber->worker->last_seq);
            }
        }
        if (begins && listen->live) {
            listen_begin(listen);
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
    }
}

static void on_closed(void *user)
{
    struct subscriber *subscriber = user;
    forget_waiting(subscriber);
    subscriber->sink = NULL;
    if (subscriber->ops && subscriber->ops->closed) {
        subscriber->ops->closed(subscriber);
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

static size_t event_id(struct subscriber *subscriber, const struct log_cursor *at,
                       char out[EVENT_ID_MAX])
{
    return subscriber->ops && subscriber->ops->event_id
               ? subscriber->ops->event_id(subscriber, at, out)
               : 0;
}

bool subscriber_send(struct subscriber *subscriber, const struct buf *message)
{
    struct sink *sink = subscriber->sink;
    if (!sink) {
        return false;
    }
    if (message->failed) {
        sink->ops->cut(sink, "out of memory");
        return false;
    }
    char id[EVENT_ID_MAX];
    struct log_cursor at = subscriber_place(subscriber);
    size_t id_len = event_id(subscriber, &at, id);
    char *room = sink->ops->room(sink, tidings_strn(id, id_len), message->len);
    if (!room) {
        return false;
    }
    memcpy(room, message->ptr, message->len);
    return true;
}

/* ---- delivery -------------------------------------------------------------------------------- */

/* Full: what waits becomes "something changed" per subscription. */
static void collapse(struct subscriber *subscriber)
{
    limit_hit(subscriber->worker->book, LIMIT_OUTBOX);
    struct outbox_item *item;
    while ((item = outbox_first(&subscriber->outbox)) != NULL) {
        subscriber_owe_truncated(subscriber, item->sub, item->first_seq);
        outbox_pop(&subscriber->outbox);
    }
}

/* ---- offering -------------------------------------------------------------------------------- */

/* Into the outbox, or collapse it. */
static void enqueue(struct subscriber *subscriber, struct subscription *sub,
                    const struct change *change, enum tidings_change_kind kind)
{
    enum outbox_result r =
        outbox_push(&subscriber->outbox, sub, change, kind, subscriber->worker->limits->outbox_max);
    if (r == OUTBOX_MERGED) {
        subscriber->worker->stats.coalesced++;
    } else if (r == OUTBOX_FULL) {
        collapse(subscriber);
        subscriber_owe_truncated(subscriber, sub, change->seq);
    }
    subscriber_mark_dirty(subscriber);
}

void subscriber_release_held(struct subscription *sub)
{
    struct subscriber *subscriber = sub->listen->subscriber;
    struct outbox *held = sub->window.held;
    uint64_t first = window_first_seq(&sub->window);
    sub->window.held = NULL;
    subscriber->held_count--;
    if (held && !outbox_take(&subscriber->outbox, held, subscriber->worker->limits->outbox_max)) {
        collapse(subscriber);
        subscriber_owe_truncated(subscriber, sub, first);
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
        outbox_push_initial(&subscriber->outbox, sub, change,
                            subscriber->worker->limits->outbox_max) == OUTBOX_FULL) {
        collapse(subscriber);
        subscriber_owe_truncated(subscriber, sub, change->seq);
    }
    subscriber_mark_dirty(subscriber);
}

static void offer(struct subscriber *subscriber, struct subscription *sub,
                  const struct change *change, enum tidings_change_kind kind, bool alone)
{
    if (!subscription_hears_live(sub, change->seq)) {
        return;
    }
    if (!filters_pass(sub, change, alone)) {
        subscription_left_out(sub, change);
        return;
    }
    if (sub->truncated) {
        subscriber_mark_dirty(subscriber); /* it will be told to re-read anyway */
        return;
    }
    struct worker *worker = subscriber->worker;
    bool held_before = sub->window.held != NULL;
    struct tidings_str value;
    struct baseline *to;
    switch (window_offer(&worker->delivery->windows, &sub->window, loop_now_ms(worker->loop), sub,
                         change, kind, worker->limits->outbox_max)) {
    case WINDOW_PASS:
        if (sub->wants_value) {
            (void)subscription_value(sub, change, &value,
                                     &to); /* so that it is there when it is needed */
        }
        enqueue(subscriber, sub, change, kind);
        break;
    case WINDOW_HELD:
        subscriber->held_count += !held_before;
        break;
    case WINDOW_FULL:
        subscriber->held_count -= held_before;
        subscriber_owe_truncated(subscriber, sub,
                                 held_before ? window_first_seq(&sub->window) : change->seq);
        window_clear(&worker->delivery->windows, &sub->window);
        break;
    }
}

void subscriber_offer(struct subscriber *subscriber, struct subscription *sub,
                      const struct change *change, enum tidings_change_kind kind)
{
    offer(subscriber, sub, change, kind, true);
}

void subscriber_offer_row(struct subscriber *subscriber, struct subscription *sub,
                          const struct changelog_row *row, uint64_t since)
{
    uint64_t from = since > sub->since ? since : sub->since;
    enum tidings_change_kind kind = row->change->kind;
    if (kind == TIDINGS_CHANGE_UPDATED && row->created_seq > from) {
        kind = TIDINGS_CHANGE_CREATED;
    }
    offer(subscriber, sub, row->change, kind, row->replaced_seq <= from);
}

struct room_request {
    struct subscriber *subscriber;
    const struct log_cursor *at;
};

static char *take_room(void *user, size_t size)
{
    struct room_request *r = user;
    struct subscriber *subscriber = r->subscriber;
    char id[EVENT_ID_MAX];
    size_t id_len = event_id(subscriber, r->at, id);
    return subscriber->sink->ops->room(subscriber->sink, tidings_strn(id, id_len), size);
}

bool subscriber_write_update(struct subscriber *subscriber, const struct dialect_updated *u,
                             const struct subscription *sub)
{
    subscriber->worker->stats.deliveries++;
    if (subscriber->ops && subscriber->ops->told) {
        subscriber->ops->told(subscriber, u, sub);
        return true;
    }
    struct room_request r = {.subscriber = subscriber, .at = &u->cursor};
    return dialect_updated_write(u, take_room, &r);
}

/* The number up to which everything is written once the first item is. */
static uint64_t cursor_after_first(struct subscriber *subscriber)
{
    const struct outbox_item *second = outbox_second(&subscriber->outbox);
    if (second) {
        return below_owed(subscriber, second->first_seq - 1);
    }
    return below_owed(subscriber, subscriber->worker->last_seq);
}

bool subscriber_is_blocked(struct subscriber *subscriber)
{
    struct sink *sink = subscriber->sink;
    sink->blocked = sink->ops->pending(sink) >= SUBSCRIBER_HIGH_WATER;
    return sink->blocked;
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
        if (sub->wants_value &&
            subscription_value(sub, item->change, &value, &to) == CHANGE_CONTENT_READING) {
            subscriber->waits_value = true;
            return false;
        }
        struct log_cursor cursor = subscriber_place_at(subscriber, cursor_after_first(subscriber));
        struct dialect_updated u = {
            .change = item->change,
            .value_json = value,
            .initial = item->initial,
            .top_metadata = sub->wants_metadata,
            .kind = (enum tidings_change_kind)item->kind,
            .uri_json = sub->is_literal ? subscription_spelled_json(sub) : item->change->uri_json,
            .subscribed_json = subscription_spelled_json(sub),
            .listen_id_json = listen_id(sub->listen),
            .cursor = cursor,
            .sealed = cursor_seal_make(subscriber->worker, subscriber->who, &cursor),
            .hides_version = !access_is_full(subscriber->who),
            .hides_from = !access_shows_from(subscriber->who, item->change),
            .merged = item->merged,
            .profile = subscriber->worker->self->profile,
        };
        if (!subscriber_write_update(subscriber, &u, sub)) {
            return false;
        }
        subscription_told(sub, item->change, to);
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
    (void)(list_changed_flush(subscriber) && subscriber_flush_truncated(subscriber) &&
           flush_items(subscriber));
}
