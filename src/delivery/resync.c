/* SPDX-License-Identifier: MIT
 *
 * Telling subscriptions to look again: what changed for them cannot be told one by one, because
 * history does not reach back or too much waited. One message each, marked as truncated.
 *
 * They are told in an order that follows from what the client calls them (cursor_order), and the
 * cursor of each message says how far that came. So a client that is cut in between goes on where
 * it was: nothing else but its cursor needs to be remembered. They come before all changes that
 * wait, whose cursors say nothing of who has yet to be told.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "base/str.h"
#include "delivery/subscriber.h"

void peer_owe_truncated(struct peer *peer, struct sub *sub, uint64_t seq)
{
    peer->core->stats.truncated += !sub->truncated;
    sub->truncated = sub->rereads = true;
    peer->has_truncated = true;
    if (peer->owed_from == 0 || seq < peer->owed_from) {
        peer->owed_from = seq;
    }
    peer_mark_dirty(peer);
}

bool sub_concerns(const struct sub *sub, struct tidings_str scope)
{
    struct tidings_str own = match_kind_beginning(sub->kind, sub_uri(sub));
    const struct tidings_provider *p = sub->extra ? sub->extra->covering : NULL;
    return str_starts(own, scope) || str_starts(scope, own) || (p && str_eq(p->prefix, scope));
}

void peer_owe_all(struct peer *peer, struct tidings_str scope, uint64_t seq)
{
    list_each (lit, lnext, &peer->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        if (listen->wants_lists & LIST_EVERYTHING) {
            peer_owe_lists(peer, listen, LIST_EVERYTHING, seq);
            continue;
        }
        list_each (it, next, &listen->subs) {
            struct sub *sub = list_entry(it, struct sub, link);
            if ((seq == 1 || seq > sub->since) && sub_concerns(sub, scope)) {
                peer_owe_truncated(peer, sub, seq);
            }
        }
    }
}

void peer_owe_rest(struct peer *peer, uint32_t lost)
{
    list_each (lit, lnext, &peer->listens) {
        list_each (it, next, &list_entry(lit, struct listen, link)->subs) {
            struct sub *sub = list_entry(it, struct sub, link);
            if (cursor_order(sub_spelled(sub)) >= lost) {
                peer_owe_truncated(peer, sub, 1);
            }
        }
    }
}

void peer_owe_suspended(struct peer *peer, struct sub *sub)
{
    sub->suspended = true;
    peer_owe_truncated(peer, sub, peer->core->last_seq);
    if (sub->listen->id_len == 0) {
        peer_warn(peer, "a subscription whose regular expression or filter took too long too often "
                        "is suspended");
    }
}

/* ---- who is marked --------------------------------------------------------------------------- */

struct marked {
    struct sub *sub;
    uint32_t order;
};

static int by_order(const void *a, const void *b)
{
    const struct marked *x = a, *y = b;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Those of listens that are acknowledged, into `out` unless that is NULL; and the first of all in
 * order, CURSOR_ALL_TOLD when there is none. */
static size_t find_marked(const struct peer *peer, struct marked *out, uint32_t *first)
{
    size_t n = 0;
    *first = CURSOR_ALL_TOLD;
    list_each (lit, lnext, &peer->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        list_each (it, next, &listen->subs) {
            struct sub *sub = list_entry(it, struct sub, link);
            if (!sub->truncated) {
                continue;
            }
            uint32_t order = cursor_order(sub_spelled(sub));
            *first = order < *first ? order : *first;
            if (!listen->live) {
                continue;
            }
            if (out) {
                out[n] = (struct marked){.sub = sub, .order = order};
            }
            n++;
        }
    }
    return n;
}

/* Numbers below the first of this epoch are those of an earlier one, and say nothing of what is not
 * kept in the store, unless all such subscriptions were told to look again. */
static uint32_t mark_of(const struct peer *peer, const struct log_cursor *at, uint32_t first)
{
    if (first < CURSOR_ALL_TOLD) {
        return first;
    }
    return peer->was_lost && at->seq < peer->core->marks.first ? CURSOR_ALL_TOLD : 0;
}

struct log_cursor peer_place_at(const struct peer *peer, uint64_t seq)
{
    struct log_cursor at = core_cursor(peer->core, seq);
    uint32_t first = CURSOR_ALL_TOLD;
    if (peer->has_truncated) {
        (void)find_marked(peer, NULL, &first);
    }
    at.lost = mark_of(peer, &at, first);
    return at;
}

/* ---- telling --------------------------------------------------------------------------------- */

/* `first`: of those who have yet to be told after it. */
static bool write_truncated(struct peer *peer, struct sub *sub, uint32_t first)
{
    if (!peer->sink || peer_is_blocked(peer)) {
        return false;
    }
    bool was_lost = peer->was_lost;
    peer->was_lost = true;
    struct log_cursor cursor = core_cursor(peer->core, peer_told(peer));
    cursor.lost = mark_of(peer, &cursor, first);
    struct dialect_updated u = {
        .kind = TIDINGS_CHANGE_UPDATED,
        .uri_json = sub_spelled_json(sub),
        .subscribed_json = sub_spelled_json(sub),
        .listen_id_json = listen_id(sub->listen),
        .cursor = cursor,
        .sealed = shown_seal(peer->core, peer->who, &cursor),
        .truncated = !sub->suspended,
        .suspended = sub->suspended,
        .profile = peer->core->self->profile,
    };
    if (!peer_write_update(peer, &u, sub)) {
        peer->was_lost = was_lost;
        return false;
    }
    sub->truncated = false;
    sub->suspended_told = sub->suspended;
    return true;
}

void sub_withdraw(struct sub *sub)
{
    struct peer *peer = sub->peer;
    if (sub->listen->live && peer->sink) {
        uint32_t first;
        sub->suspended = true;
        sub->truncated = false;
        (void)find_marked(peer, NULL, &first);
        (void)write_truncated(peer, sub, first); /* a blocked stream would be told much later */
    }
    sub_destroy(sub);
}

/* Without memory for the order the cursors stay where they are until all are told. */
static bool flush_unordered(struct peer *peer, uint32_t first, size_t left)
{
    list_each (lit, lnext, &peer->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        list_each (it, next, &listen->subs) {
            struct sub *sub = list_entry(it, struct sub, link);
            if (!listen->live || !sub->truncated) {
                continue;
            }
            if (!write_truncated(peer, sub, --left > 0 ? first : CURSOR_ALL_TOLD)) {
                return false;
            }
        }
    }
    return true;
}

static bool flush_in_order(struct peer *peer, struct marked *all, size_t n)
{
    qsort(all, n, sizeof(*all), by_order);
    for (size_t i = 0; i < n; i++) {
        if (!write_truncated(peer, all[i].sub, i + 1 < n ? all[i + 1].order : CURSOR_ALL_TOLD)) {
            return false;
        }
    }
    return true;
}

bool peer_flush_truncated(struct peer *peer)
{
    if (!peer->has_truncated) {
        return true;
    }
    uint32_t first;
    size_t n = find_marked(peer, NULL, &first);
    struct marked *all = n > 1 ? mem_alloc(n * sizeof(*all)) : NULL;
    bool good;
    if (all) {
        (void)find_marked(peer, all, &first);
        good = flush_in_order(peer, all, n);
    } else {
        good = flush_unordered(peer, first, n);
    }
    mem_free(all);
    if (good) {
        peer->has_truncated = false;
        peer->owed_from = 0;
    }
    return good;
}
