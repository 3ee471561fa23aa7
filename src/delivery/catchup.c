/* SPDX-License-Identifier: MIT
 *
 * Coming back: everything from the log that changed since a cursor and concerns one peer. While the
 * hub is being asked, live changes are passed over: they were numbered before the answer and are in
 * it.
 */
#include "base/str.h"
#include "delivery/hub.h"
#include "delivery/lookup.h"
#include "delivery/subscriber.h"
#include "store/change.h"

struct finder {
    struct peer *peer;
    const struct changelog_row *row;
    uint64_t since;
};

static bool is_ours(void *user, const struct sub *sub)
{
    const struct finder *f = user;
    return sub->listen->peer == f->peer && !sub->catching_up &&
           f->row->change->seq > sub->replayed_to;
}

static void offer_if_ours(void *user, struct match_node *node)
{
    struct finder *f = user;
    struct sub *sub = list_entry(node, struct sub, node);
    if (is_ours(f, sub)) {
        peer_offer_row(f->peer, sub, f->row, f->since);
    }
}

void peer_resync(struct peer *peer)
{
    bool is_legacy = false;
    peer_owe_all(peer, STR_EMPTY, 1);
    list_each (lit, lnext, &peer->listens) {
        struct listen *listen = list_entry(lit, struct listen, link);
        is_legacy = is_legacy || listen->id_len == 0;
        peer_owe_lists(peer, listen, listen->wants_lists, 1);
    }
    if (is_legacy) { /* modern streams carry no log messages */
        peer_warn(peer, "history does not reach back to where this stream ended; re-read what you "
                        "subscribed to");
    }
}

void peer_warn(struct peer *peer, const char *text)
{
    if (!peer->sink || peer->log_level > LOG_LEVEL_WARNING) {
        return;
    }
    struct buf message;
    buf_init(&message, 4096);
    dialect_put_log_message(&message, STR("warning"), STR_EMPTY, tidings_str(text));
    peer_send(peer, &message);
    buf_deinit(&message);
}

static bool went_elsewhere(const struct peer *peer, uint64_t seq)
{
    for (unsigned i = 0; peer->skips && i < peer->skips->count; i++) {
        if (seq > peer->skips->at[i].from && seq <= peer->skips->at[i].to) {
            return true;
        }
    }
    return false;
}

static void replay(struct peer *peer, const struct hub_catchup *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct change *change = c->changes[i].change;
        if (went_elsewhere(peer, change->seq)) {
            continue;
        }
        lists_replay(peer, &c->changes[i], c->since);
        if (change->lists != 0) {
            continue;
        }
        if (change->everything) {
            peer_owe_all(peer, change_scope(change), change->seq);
            continue;
        }
        struct finder f = {.peer = peer, .row = &c->changes[i], .since = c->since};
        static const struct lookup_calls calls = {is_ours, offer_if_ours};
        lookup_find(peer->core, change, &calls, &f);
        core_find_covered(peer->core, change->uri, offer_if_ours, &f);
    }
}

static void caught_up(struct hub_catchup *c, struct core *core)
{
    (void)core;
    struct peer *peer = c->user;
    if (peer) {
        peer->catchup = NULL;
        if (peer->sink && c->truncated) {
            peer_resync(peer);
        } else if (peer->sink) { /* else it went meanwhile, and the next one asks again */
            replay(peer, c);
        }
        peer_mark_dirty(peer);
    }
    hub_catchup_free(c);
}

void peer_catch_up(struct peer *peer, uint64_t since)
{
    if (peer->catchup) { /* asked already, for another stream */
        peer->catchup->user = NULL;
        peer->catchup = NULL;
    }
    peer->cursor = since;
    if (since == peer->core->last_seq) {
        return; /* what is under way from the hub arrives as live changes */
    }
    peer->catchup = hub_catchup(peer->core, since, caught_up, peer);
    if (!peer->catchup) {
        peer_resync(peer);
    }
}
