/* SPDX-License-Identifier: MIT
 *
 * A subscriber and its stream: created, marked to be flushed, written to.
 */
#include "engine/delivery/subscriber.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "engine/delivery/catchup.h"
#include "engine/delivery/content.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/filters.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/list_changed.h"
#include "engine/delivery/outbox.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/channel.h"
#include "engine/protocol/dialect.h"
#include "engine/protocol/request.h"
#include "engine/worker.h"
#include "formats/json.h"
#include "security/access.h"
#include "security/client_account.h"
#include "security/limits.h"
#include "security/principal.h"
#include "store/change.h"
#include "store/change_log.h"

/* -------------------------------------------------------------------------------------------------
 * The position of a subscriber: the number up to which every change that concerns it was written,
 * and its cursor for the client.
 */

static uint64_t subscriber_cursor_below(uint64_t from, uint64_t cursor)
{
    return from > 0 && cursor >= from ? from - 1 : cursor;
}

/* Not above pending log queries, changed lists and held changes. */
static uint64_t below_pending(const struct subscriber *subscriber, uint64_t cursor)
{
    cursor = subscriber_cursor_below(subscriber->lists_from,
                                     subscriber_cursor_below(subscriber->catching_from, cursor));
    if (subscriber->deferred_count == 0) {
        return cursor;
    }
    list_each (lit, lnext, &subscriber->groups) {
        list_each (it, next, &list_entry(lit, struct subscription_group, link)->subs) {
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

/* … and after the first item of the outbox is written … */
static uint64_t subscriber_written_with_first(const struct subscriber *subscriber)
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
    resync_put_cursor(subscriber, &at);
    return at;
}

/* -------------------------------------------------------------------------------------------------
 * A subscriber as the operator sees it: the client's name, its address, how far it is behind, and
 * its last error.
 */

void subscriber_set_client(struct subscriber *subscriber, const struct json *info)
{
    struct client_infos *all = &subscriber->worker->requests->clients;
    uint16_t number = info ? client_info_intern(all, info) : 0;
    if (number > 0) {
        client_info_release(all, subscriber->client);
        subscriber->client = number;
    }
}

void subscriber_note_error(struct subscriber *subscriber, int code, struct tidings_str text)
{
    client_errors_note(&subscriber->worker->delivery->errors, &subscriber->error, code, text);
}

void subscriber_get_facts(const struct subscriber *subscriber, struct channel_facts *ret)
{
    const struct sink *sink = subscriber->sink;
    *ret = (struct channel_facts){0};
    if (sink && sink->ops->channel) {
        channel_get_facts(sink->ops->channel(sink), ret);
    } else if (subscriber->ops && subscriber->ops->facts) {
        subscriber->ops->facts(subscriber, ret);
    }
}

uint64_t subscriber_lag_us(const struct subscriber *subscriber, uint64_t now_us)
{
    struct outbox *outbox = (struct outbox *)(uintptr_t)&subscriber->outbox;
    const struct outbox_item *first = outbox_first(outbox);
    uint64_t lag = subscriber->has_truncated ? lag_since(outbox->resync_due, now_us) : 0;
    uint64_t waited = first ? outbox_waited(first, now_us) : 0;
    return waited > lag ? waited : lag;
}

/* -------------------------------------------------------------------------------------------------
 * Writes one message to the stream of a subscriber.
 */

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
    struct log_cursor at = subscriber_cursor(subscriber);
    size_t id_len = event_id(subscriber, &at, id);
    char *room = sink->ops->room(sink, tidings_strn(id, id_len), message->len);
    if (!room) {
        return false;
    }
    memcpy(room, message->ptr, message->len);
    return true;
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
                             const struct subscription *sub, uint64_t waited_us)
{
    struct worker *worker = subscriber->worker;
    if (subscriber->ops && subscriber->ops->on_update) {
        subscriber->ops->on_update(subscriber, u, sub);
    } else {
        struct room_request r = {.subscriber = subscriber, .at = &u->cursor};
        if (!dialect_updated_write(u, take_room, &r)) {
            return false;
        }
        if (sub) {
            subscription_group_counts(sub->group)->deliveries++;
        }
    }
    worker->stats.deliveries++;
    lag_count(&worker->delivery->lag, waited_us);
    return true;
}

/* ---------------------------------------------------------------------------------------------- */

/* Beyond this many unsent bytes, changes wait (and merge) in the outbox instead of the send
 * buffer. */
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
    list_init(&subscriber->groups);
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

/* -------------------------------------------------------------------------------------------------
 * Writes pending notifications of a subscriber to its stream, as far as the stream accepts them.
 */

/* Sets the URI of an update, as the subscriber spells it. */
static void put_uri(struct dialect_updated *u, const struct subscription *sub, bool leads)
{
    const struct server_identity *self = sub->subscriber->worker->self;
    if (sub->is_literal && !leads) {
        u->uri_json = subscription_as_requested_json(sub);
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
        if (sub->is_task && value.len == 0) { /* the task was dropped: no update */
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
            .subscribed_json = subscription_as_requested_json(sub),
            .listen_id_json = subscription_group_id(sub->group),
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
    initial_state_flush(subscriber);
    /* First the notifications without their own number; otherwise the cursors of the others would
     * wait for them. */
    (void)(list_changed_flush(subscriber) && resync_flush(subscriber) && flush_items(subscriber));
}

/* -------------------------------------------------------------------------------------------------
 * Ends a subscriber: its session, or its groups with their results, and its stream; and frees it.
 */

static void end_group(struct subscription_group *group, struct worker *worker)
{
    struct buf result;
    buf_init(&result, 64u * 1024u);
    dialect_put_listen_result(&result, subscription_group_id(group), worker->self);
    if (!result.failed) { /* otherwise the end of the stream tells the client */
        subscriber_send(group->subscriber, &result);
    }
    buf_deinit(&result);
    subscription_group_destroy(group);
}

/* Ends its session, or its groups with their results; and its stream. `withdraws`: also ends its
 * legacy subscriptions on a message connection, which stays open, and notifies the client. */
void subscriber_end(struct subscriber *subscriber, bool withdraws)
{
    if (subscriber->ops && subscriber->ops->disconnect) {
        subscriber->ops->disconnect(subscriber);
        return;
    }
    subscriber_flush(subscriber);
    list_each (lit, lnext, &subscriber->groups) {
        struct subscription_group *group = list_entry(lit, struct subscription_group, link);
        if (group->id_len > 0) {
            end_group(group, subscriber->worker);
            continue;
        }
        list_each (it, next, &group->subs) {
            if (withdraws) {
                subscription_withdraw(list_entry(it, struct subscription, link));
            }
        }
    }
    if (subscriber->sink) {
        subscriber->sink->ops->end(subscriber->sink);
    }
}

void subscriber_disconnect(struct subscriber *subscriber)
{
    subscriber_end(subscriber, true);
}

void subscriber_destroy(struct subscriber *subscriber)
{
    if (!subscriber) {
        return;
    }
    list_each (it, next, &subscriber->groups) {
        subscription_group_destroy(list_entry(it, struct subscription_group, link));
    }
    if (subscriber->catchup) {
        subscriber->catchup->user = NULL;
    }
    outbox_deinit(&subscriber->outbox);
    list_remove(&subscriber->dirty_link);
    struct delivery_asked *asked = &subscriber->worker->delivery->asked;
    asked->next = asked->next == &subscriber->link ? subscriber->link.next : asked->next;
    list_remove(&subscriber->link);
    if (subscriber->sink) {
        sink_attach(subscriber->sink, NULL, NULL);
        subscriber->sink = NULL;
    }
    subscriber->worker->stats.subscribers--;
    if (subscriber->ops && subscriber->ops->on_destroy) {
        subscriber->ops->on_destroy(subscriber);
    }
    subscriber_set_principal(subscriber, NULL);
    client_account_release(subscriber->account);
    client_info_release(&subscriber->worker->requests->clients, subscriber->client);
    client_errors_forget(&subscriber->worker->delivery->errors, &subscriber->error);
    loop_discard(subscriber->worker->loop, &subscriber->discard, mem_free, subscriber);
}

/* -------------------------------------------------------------------------------------------------
 * The path of a matching change into the outbox of its subscriber: filters, then the window, then
 * the queue. A full queue collapses into "something changed" per subscription.
 */

/* An update of `sub` about `uri` (empty: about anything) is lost. If the session receives each
 * change only once, any of its subscriptions may have lost it. */
static void flag_overflow(struct subscription *sub, struct tidings_str uri, uint64_t seq)
{
    if (subscription_group_notifies_once(sub->group)) {
        resync_flag_below(sub->subscriber, uri, seq);
    } else {
        resync_flag(sub, seq);
    }
}

/* Full: the queue collapses into "something changed" per subscription. */
static void subscriber_collapse(struct subscriber *subscriber)
{
    limit_hit(subscriber->worker->limit_counters, LIMIT_OUTBOX);
    delivery_log_full(subscriber);
    bool was_flagged = subscriber->has_truncated;
    struct outbox_item *item = outbox_first(&subscriber->outbox);
    uint32_t due = item ? item->due : lag_due_now();
    for (; item != NULL; item = outbox_first(&subscriber->outbox)) {
        flag_overflow(item->sub, item->change->uri, item->first_seq);
        outbox_pop(&subscriber->outbox);
    }
    subscriber->outbox.resync_due = was_flagged ? subscriber->outbox.resync_due : due;
}

/* Adds it to the outbox, or collapses the queue. */
static void subscriber_enqueue(struct subscriber *subscriber, struct subscription *sub,
                               const struct change *change, struct outbox_as as)
{
    enum outbox_result r =
        outbox_push(&subscriber->outbox, sub, change, as, subscriber->worker->limits->outbox_max);
    if (r == OUTBOX_MERGED) {
        subscriber->worker->stats.coalesced++;
    } else if (r == OUTBOX_FULL) {
        subscriber_collapse(subscriber);
        flag_overflow(sub, change->uri, change->seq);
    }
    subscriber_mark_dirty(subscriber);
}

void subscriber_release_deferred(struct subscription *sub, uint32_t due)
{
    struct subscriber *subscriber = sub->group->subscriber;
    struct outbox *deferred = sub->window.deferred;
    uint64_t first = window_first_seq(&sub->window);
    sub->window.deferred = NULL;
    subscriber->deferred_count--;
    if (deferred &&
        !outbox_take(&subscriber->outbox, deferred, due, subscriber->worker->limits->outbox_max)) {
        subscriber_collapse(subscriber);
        flag_overflow(sub, STR_EMPTY, first);
    }
    mem_free(deferred);
    subscriber_mark_dirty(subscriber);
}

void subscriber_enqueue_initial(struct subscriber *subscriber, struct subscription *sub,
                                const struct change *change)
{
    if (sub->truncated) {
        return; /* the client is going to read again anyway */
    }
    if (subscriber->sink &&
        outbox_push_initial(&subscriber->outbox, sub, change, lag_due_now(),
                            subscriber->worker->limits->outbox_max) == OUTBOX_FULL) {
        subscriber_collapse(subscriber);
        resync_flag(sub, change->seq);
    }
    subscriber_mark_dirty(subscriber);
}

/* Returns true if the session was or is going to be notified through another of its
 * subscriptions. */
static bool is_notified_already(const struct subscription *sub, const struct change *change)
{
    return subscription_group_notifies_once(sub->group) &&
           sub->group->legacy->notified_seq == change->seq;
}

static enum delivery_fate subscriber_enqueue_filtered(struct subscriber *subscriber,
                                                      struct subscription *sub,
                                                      const struct change *change,
                                                      struct outbox_as as, bool alone)
{
    if (!subscription_group_is_open_for(sub, change->seq)) {
        return DELIVERY_AWAY;
    }
    if (is_notified_already(sub, change)) {
        return DELIVERY_ONCE;
    }
    if (!filters_pass(sub, change, alone)) {
        change_content_skipped(sub, change);
        return DELIVERY_FILTERED;
    }
    if (sub->truncated) {
        subscriber_mark_dirty(subscriber); /* the client is going to read again anyway */
        return DELIVERY_REREADS;
    }
    if (subscription_group_notifies_once(sub->group)) {
        sub->group->legacy->notified_seq = change->seq;
    }
    struct worker *worker = subscriber->worker;
    bool deferred_before = sub->window.deferred != NULL;
    struct tidings_str value;
    struct baseline *to;
    switch (window_enqueue(&worker->delivery->windows, &sub->window, loop_now_ms(worker->loop), sub,
                           change, as, worker->limits->outbox_max)) {
    case WINDOW_PASS:
        if (sub->wants_content) {
            (void)change_content_for(sub, change, &value,
                                     &to); /* starts reading, so that it is ready when needed */
        }
        subscriber_enqueue(subscriber, sub, change, as);
        return DELIVERY_SENT;
    case WINDOW_DEFERRED:
        subscriber->deferred_count += !deferred_before;
        return DELIVERY_DEFERRED;
    case WINDOW_FULL:
        subscriber->deferred_count -= deferred_before;
        flag_overflow(sub, STR_EMPTY,
                      deferred_before ? window_first_seq(&sub->window) : change->seq);
        window_clear(&worker->delivery->windows, &sub->window);
        break;
    }
    return DELIVERY_REREADS;
}

/* One other matching subscription of the session must send a `truncated` update. */
static bool look_again(void *user, const struct outbox_item *item)
{
    struct subscription *sub = user;
    if (item->sub != sub) {
        return true;
    }
    list_each (it, next, &sub->group->subs) {
        struct subscription *other = list_entry(it, struct subscription, link);
        if (other != sub && lookup_ask(other, item->change->uri) != LOOKUP_NO) {
            resync_flag(other, item->first_seq);
            return true;
        }
    }
    return true;
}

void subscriber_hand_over(struct subscription *sub)
{
    if (sub->queued == 0 || !subscription_group_notifies_once(sub->group)) {
        return;
    }
    outbox_filter(&sub->subscriber->outbox, look_again, sub);
    if (sub->window.deferred) {
        outbox_filter(sub->window.deferred, look_again, sub);
    }
}

void subscriber_enqueue_change(struct subscriber *subscriber, struct subscription *sub,
                               const struct change *change, enum tidings_change_kind kind)
{
    enum delivery_fate fate = subscriber_enqueue_filtered(subscriber, sub, change,
                                                          (struct outbox_as){.kind = kind}, true);
    if (subscriber->worker->delivery->trace.is_on) {
        bool is_hidden = fate == DELIVERY_FILTERED && !filters_allow(subscriber->principal, change);
        delivery_log_fate(subscriber, is_hidden ? DELIVERY_HIDDEN : fate);
    }
}

void subscriber_enqueue_row(struct subscriber *subscriber, struct subscription *sub,
                            const struct changelog_row *row, uint64_t since)
{
    uint64_t from = since > sub->since ? since : sub->since;
    enum tidings_change_kind kind = row->change->kind;
    if (kind == TIDINGS_CHANGE_UPDATED && row->created_seq > from) {
        kind = TIDINGS_CHANGE_CREATED;
    }
    struct outbox_as as = {.kind = kind, .caught_up = true, .due = lag_due_now()};
    (void)subscriber_enqueue_filtered(subscriber, sub, row->change, as, row->replaced_seq <= from);
}

/* -------------------------------------------------------------------------------------------------
 * A subscriber gets a stream, or loses it. Its queue is then dropped, and its cursor determines
 * where the next stream starts.
 */

/* Without a stream nothing is queued: the cursor determines where the next stream starts. State
 * that no cursor can hold (a subscription that was truncated from the first number on) is kept for
 * the next stream. */
static void forget_waiting(struct subscriber *subscriber)
{
    subscriber->cursor = subscriber_low_water(subscriber);
    outbox_remove(&subscriber->outbox, NULL);
    list_each (lit, lnext, &subscriber->groups) {
        struct subscription_group *group = list_entry(lit, struct subscription_group, link);
        group->lists_pending = 0;
        if (group->id_len == 0) {
            group->legacy->notified_seq = 0;
        }
        list_each (it, next, &group->subs) {
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
    subscriber->deferred_count = 0;
    subscriber->has_truncated = subscriber->has_list_pending = false;
    subscriber->resync_from = subscriber->lists_from = 0;
}

/* A new stream: sends the notifications that were waiting for one. */
static void send_waiting(struct subscriber *subscriber)
{
    list_each (lit, lnext, &subscriber->groups) {
        struct subscription_group *group = list_entry(lit, struct subscription_group, link);
        bool begins = false;
        list_each (it, next, &group->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            begins = begins || sub->initial_pending || sub->since_pending;
            if (sub->suspended && !sub->suspension_written) {
                resync_flag(sub, subscriber->worker->last_seq);
            }
        }
        if (begins && group->is_open) {
            initial_state_begin(group);
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
        /* If the kernel accepted everything at once, this turn's flush is over and no other event
         * may follow.
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
        send_waiting(subscriber);
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

struct subscriber *subscriber_register(struct channel *channel)
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
    struct subscriber *subscriber = subscriber_register(channel);
    if (subscriber && !subscriber->sink) {
        static const struct response_headers none;
        subscriber->cursor = channel->worker->last_seq;
        subscriber_set_sink(subscriber, channel->ops->stream(channel, &none));
    }
    return subscriber;
}
