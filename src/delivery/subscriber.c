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
#include "delivery/hub.h"
#include "request/channel.h"
#include "store/change.h"

/* Beyond this much unsent, changes wait (and merge) in the outbox instead of the send buffer. */
#define PEER_HIGH_WATER (64u * 1024u)

struct peer *peer_create(struct core *core, const struct principal *who)
{
    struct peer *peer = mem_zalloc(sizeof(*peer));
    if (!peer) {
        return NULL;
    }
    peer->core = core;
    peer->who = principal_ref(who);
    peer->cursor = core->last_seq;
    peer->number = ++core->peers_made;
    outbox_init(&peer->outbox);
    list_init(&peer->listens);
    list_init(&peer->dirty_link);
    list_append(&core->peers, &peer->link);
    core->stats.peers++;
    return peer;
}

void peer_set_who(struct peer *peer, const struct principal *who)
{
    const struct principal *old = peer->who;
    peer->who = principal_ref(who);
    principal_unref(old);
}

uint64_t peer_id(const struct peer *peer)
{
    return ((uint64_t)peer->core->index + 1) << 32 | peer->number;
}

struct peer *channel_peer(struct channel *channel)
{
    if (!channel->peer) {
        struct peer *peer = peer_create(channel->core, channel->who);
        if (peer) {
            static const struct answer_headers none;
            peer_set_sink(peer, channel->ops->stream(channel, &none));
            channel->peer = peer;
        }
    }
    return channel->peer;
}

void peer_destroy(struct peer *peer)
{
    if (!peer) {
        return;
    }
    list_each (it, next, &peer->listens) {
        listen_destroy(list_entry(it, struct listen, link));
    }
    if (peer->catchup) {
        peer->catchup->user = NULL;
    }
    outbox_deinit(&peer->outbox);
    list_remove(&peer->dirty_link);
    list_remove(&peer->link);
    if (peer->sink) {
        sink_attach(peer->sink, NULL, NULL);
        peer->sink = NULL;
    }
    peer->core->stats.peers--;
    if (peer->ops && peer->ops->destroyed) {
        peer->ops->destroyed(peer);
    }
    peer_set_who(peer, NULL);
    allowance_release(peer->allowance);
    loop_discard(peer->core->loop, &peer->discard, mem_free, peer);
}

void peer_mark_dirty(struct peer *peer)
{
    if (list_empty(&peer->dirty_link)) {
        list_append(&peer->core->dirty, &peer->dirty_link);
    }
}

static uint64_t below(uint64_t from, uint64_t cursor)
{
    return from > 0 && cursor >= from ? from - 1 : cursor;
}

/* Nothing above what the log is asked for, what lists changed, and what is held back. */
static uint64_t below_owed(const struct peer *peer, uint64_t cursor)
{
    cursor = below(peer->lists_from, below(peer->catching_from, cursor));
    if (peer->held_count == 0) {
        return cursor;
    }
    list_each (lit, lnext, &peer->listens) {
        list_each (it, next, &list_entry(lit, struct listen, link)->subs) {
            uint64_t first = window_first_seq(&list_entry(it, struct sub, link)->window);
            if (first > 0 && cursor >= first) {
                cursor = first - 1;
            }
        }
    }
    return cursor;
}

uint64_t peer_told(const struct peer *peer)
{
    if (!peer->sink || peer->catchup) {
        return below_owed(peer, peer->cursor);
    }
    if (peer->outbox.count > 0) {
        struct outbox *o = (struct outbox *)(uintptr_t)&peer->outbox;
        return below_owed(peer, outbox_first(o)->first_seq - 1);
    }
    return below_owed(peer, peer->core->last_seq);
}

uint64_t peer_cursor(const struct peer *peer)
{
    return below(peer->owed_from, peer_told(peer));
}

struct log_cursor peer_place(const struct peer *peer)
{
    return peer_place_at(peer, peer_told(peer));
}

/* Without a stream nothing is owed: the cursor says where to begin again. What no cursor can say is
 * owed again with the next one: to look again, from the first number on. */
static void forget_waiting(struct peer *peer)
{
    peer->cursor = peer_cursor(peer);
    outbox_remove(&peer->outbox, NULL);
    list_each (lit, lnext, &peer->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        listen->owes_lists = 0;
        list_each (it, next, &listen->subs) {
            struct sub *sub = list_entry(it, struct sub, link);
            if (!sub->catching_up) {
                sub->replayed_to = 0;
            }
            if (sub->truncated && peer->owed_from == 1) {
                sub_caught_up(sub, 0);
                sub->owes_since = true;
                sub->since = SINCE_UNKNOWN;
            }
            sub->truncated = false;
            window_clear(&peer->core->windows, &sub->window);
        }
    }
    peer->held_count = 0;
    peer->has_truncated = peer->has_list_pending = false;
    peer->owed_from = peer->lists_from = 0;
}

/* A new stream: what could not be told without one. */
static void tell_waiting(struct peer *peer)
{
    list_each (lit, lnext, &peer->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        bool begins = false;
        list_each (it, next, &listen->subs) {
            struct sub *sub = list_entry(it, struct sub, link);
            begins = begins || sub->owes_initial || sub->owes_since;
            if (sub->suspended && !sub->suspended_told) {
                peer_owe_truncated(peer, sub, peer->core->last_seq);
            }
        }
        if (begins && listen->live) {
            listen_begin(listen);
        }
    }
    if (peer->has_list_pending || peer->has_truncated) {
        peer_mark_dirty(peer);
    }
}

static void on_drained(void *user)
{
    struct peer *peer = user;
    if (peer->outbox.count > 0 || peer->has_truncated || peer->has_list_pending) {
        peer_mark_dirty(peer);
    }
}

static void on_closed(void *user)
{
    struct peer *peer = user;
    forget_waiting(peer);
    peer->sink = NULL;
    if (peer->ops && peer->ops->closed) {
        peer->ops->closed(peer);
    }
}

void peer_set_sink(struct peer *peer, struct sink *sink)
{
    if (peer->sink) {
        forget_waiting(peer);
        sink_attach(peer->sink, NULL, NULL);
    }
    peer->sink = sink;
    if (sink) {
        static const struct sink_events events = {.drained = on_drained, .closed = on_closed};
        sink_attach(sink, &events, peer);
        tell_waiting(peer);
    }
}

static size_t event_id(struct peer *peer, const struct log_cursor *at, char out[EVENT_ID_MAX])
{
    return peer->ops && peer->ops->event_id ? peer->ops->event_id(peer, at, out) : 0;
}

bool peer_send(struct peer *peer, const struct buf *message)
{
    struct sink *sink = peer->sink;
    if (!sink) {
        return false;
    }
    if (message->failed) {
        sink->ops->cut(sink, "out of memory");
        return false;
    }
    char id[EVENT_ID_MAX];
    struct log_cursor at = peer_place(peer);
    size_t id_len = event_id(peer, &at, id);
    char *room = sink->ops->room(sink, tidings_strn(id, id_len), message->len);
    if (!room) {
        return false;
    }
    memcpy(room, message->ptr, message->len);
    return true;
}

/* ---- delivery -------------------------------------------------------------------------------- */

/* Full: what waits becomes "something changed" per subscription. */
static void collapse(struct peer *peer)
{
    limit_hit(peer->core->book, LIMIT_OUTBOX);
    struct outbox_item *item;
    while ((item = outbox_first(&peer->outbox)) != NULL) {
        peer_owe_truncated(peer, item->sub, item->first_seq);
        outbox_pop(&peer->outbox);
    }
}

/* ---- offering -------------------------------------------------------------------------------- */

/* Into the outbox, or collapse it. */
static void enqueue(struct peer *peer, struct sub *sub, const struct change *change,
                    enum tidings_change_kind kind)
{
    enum outbox_result r =
        outbox_push(&peer->outbox, sub, change, kind, peer->core->limits->outbox_max);
    if (r == OUTBOX_MERGED) {
        peer->core->stats.coalesced++;
    } else if (r == OUTBOX_FULL) {
        collapse(peer);
        peer_owe_truncated(peer, sub, change->seq);
    }
    peer_mark_dirty(peer);
}

void peer_release_held(struct sub *sub)
{
    struct peer *peer = sub->listen->peer;
    struct outbox *held = sub->window.held;
    uint64_t first = window_first_seq(&sub->window);
    sub->window.held = NULL;
    peer->held_count--;
    if (held && !outbox_take(&peer->outbox, held, peer->core->limits->outbox_max)) {
        collapse(peer);
        peer_owe_truncated(peer, sub, first);
    }
    mem_free(held);
    peer_mark_dirty(peer);
}

void peer_offer_initial(struct peer *peer, struct sub *sub, const struct change *change)
{
    if (sub->truncated) {
        return; /* it will be told to re-read anyway */
    }
    if (peer->sink && outbox_push_initial(&peer->outbox, sub, change,
                                          peer->core->limits->outbox_max) == OUTBOX_FULL) {
        collapse(peer);
        peer_owe_truncated(peer, sub, change->seq);
    }
    peer_mark_dirty(peer);
}

static void offer(struct peer *peer, struct sub *sub, const struct change *change,
                  enum tidings_change_kind kind, bool alone)
{
    if (!sub_hears_live(sub, change->seq)) {
        return;
    }
    if (!filters_pass(sub, change, alone)) {
        sub_left_out(sub, change);
        return;
    }
    if (sub->truncated) {
        peer_mark_dirty(peer); /* it will be told to re-read anyway */
        return;
    }
    struct core *core = peer->core;
    bool held_before = sub->window.held != NULL;
    struct tidings_str value;
    struct baseline *to;
    switch (window_offer(&core->windows, &sub->window, loop_now_ms(core->loop), sub, change, kind,
                         core->limits->outbox_max)) {
    case WINDOW_PASS:
        if (sub->wants_value) {
            (void)sub_value(sub, change, &value, &to); /* so that it is there when it is needed */
        }
        enqueue(peer, sub, change, kind);
        break;
    case WINDOW_HELD:
        peer->held_count += !held_before;
        break;
    case WINDOW_FULL:
        peer->held_count -= held_before;
        peer_owe_truncated(peer, sub, held_before ? window_first_seq(&sub->window) : change->seq);
        window_clear(&core->windows, &sub->window);
        break;
    }
}

void peer_offer(struct peer *peer, struct sub *sub, const struct change *change,
                enum tidings_change_kind kind)
{
    offer(peer, sub, change, kind, true);
}

void peer_offer_row(struct peer *peer, struct sub *sub, const struct changelog_row *row,
                    uint64_t since)
{
    uint64_t from = since > sub->since ? since : sub->since;
    enum tidings_change_kind kind = row->change->kind;
    if (kind == TIDINGS_CHANGE_UPDATED && row->created_seq > from) {
        kind = TIDINGS_CHANGE_CREATED;
    }
    offer(peer, sub, row->change, kind, row->replaced_seq <= from);
}

struct room_request {
    struct peer *peer;
    const struct log_cursor *at;
};

static char *take_room(void *user, size_t size)
{
    struct room_request *r = user;
    struct peer *peer = r->peer;
    char id[EVENT_ID_MAX];
    size_t id_len = event_id(peer, r->at, id);
    return peer->sink->ops->room(peer->sink, tidings_strn(id, id_len), size);
}

bool peer_write_update(struct peer *peer, const struct dialect_updated *u, const struct sub *sub)
{
    peer->core->stats.deliveries++;
    if (peer->ops && peer->ops->told) {
        peer->ops->told(peer, u, sub);
        return true;
    }
    struct room_request r = {.peer = peer, .at = &u->cursor};
    return dialect_updated_write(u, take_room, &r);
}

/* The number up to which everything is written once the first item is. */
static uint64_t cursor_after_first(struct peer *peer)
{
    const struct outbox_item *second = outbox_second(&peer->outbox);
    if (second) {
        return below_owed(peer, second->first_seq - 1);
    }
    return below_owed(peer, peer->core->last_seq);
}

bool peer_is_blocked(struct peer *peer)
{
    struct sink *sink = peer->sink;
    sink->blocked = sink->ops->pending(sink) >= PEER_HIGH_WATER;
    return sink->blocked;
}

static bool flush_items(struct peer *peer)
{
    struct outbox_item *item;
    while (peer->sink && (item = outbox_first(&peer->outbox)) != NULL) {
        if (peer_is_blocked(peer)) {
            return false;
        }
        struct sub *sub = item->sub;
        struct tidings_str value = STR_EMPTY;
        struct baseline *to = NULL;
        if (sub->wants_value && sub_value(sub, item->change, &value, &to) == VALUE_READING) {
            peer->waits_value = true;
            return false;
        }
        struct log_cursor cursor = peer_place_at(peer, cursor_after_first(peer));
        struct dialect_updated u = {
            .change = item->change,
            .value_json = value,
            .initial = item->initial,
            .top_metadata = sub->wants_metadata,
            .kind = (enum tidings_change_kind)item->kind,
            .uri_json = sub->is_literal ? sub_spelled_json(sub) : item->change->uri_json,
            .subscribed_json = sub_spelled_json(sub),
            .listen_id_json = listen_id(sub->listen),
            .cursor = cursor,
            .sealed = shown_seal(peer->core, peer->who, &cursor),
            .hides_version = !access_is_full(peer->who),
            .hides_from = !access_shows_from(peer->who, item->change),
            .merged = item->merged,
            .profile = peer->core->self->profile,
        };
        if (!peer_write_update(peer, &u, sub)) {
            return false;
        }
        sub_told(sub, item->change, to);
        outbox_pop(&peer->outbox);
    }
    return true;
}

void peer_flush(struct peer *peer)
{
    if (!peer->sink || peer->catchup) {
        return;
    }
    /* First what has no number of its own, or the cursors of the others would wait for it. */
    (void)(lists_flush(peer) && peer_flush_truncated(peer) && flush_items(peer));
}
