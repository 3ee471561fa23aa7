/* SPDX-License-Identifier: MIT
 *
 * Who is told that a list (resources, tools, prompts) changed: listens that asked, and legacy
 * clients to whom that was promised when they began. However often a list changed, what waits for a
 * client is one message.
 */
#include "base/str.h"
#include "core/peer.h"
#include "store/change.h"

void listen_want_lists(struct listen *listen, unsigned lists)
{
    if (listen->wants_lists == 0 && lists != 0) {
        list_append(&listen->peer->core->list_watchers, &listen->list_link);
    }
    listen->wants_lists |= (unsigned char)lists;
}

void peer_owe_lists(struct peer *peer, struct listen *listen, unsigned lists, uint64_t seq)
{
    unsigned wanted = listen->wants_lists & lists;
    if (wanted != 0) {
        listen->owes_lists |= (unsigned char)wanted;
        peer->has_list_pending = true;
        peer_owe(peer, seq);
    }
}

void lists_offer(struct core *core, unsigned lists)
{
    list_each (it, next, &core->list_watchers) {
        struct listen *listen = list_entry(it, struct listen, list_link);
        if (listen->live && listen->peer->sink && !listen->peer->catchup) {
            peer_owe_lists(listen->peer, listen, lists, core->last_seq);
        }
    }
}

/* Does another listen after this one still owe something? */
static bool owes_more(struct peer *peer, struct listen *after)
{
    for (struct list *it = after->link.next; it != &peer->listens; it = it->next) {
        const struct listen *listen = list_entry(it, struct listen, link);
        if (listen->owes_lists != 0 && listen->live) {
            return true;
        }
    }
    return false;
}

/* All that one listen owes. */
static bool flush_one(struct peer *peer, struct listen *listen, struct buf *message)
{
    bool good = true;
    for (unsigned list = 1; good && list <= LIST_EVERYTHING; list <<= 1) {
        if (!(listen->owes_lists & list)) {
            continue;
        }
        listen->owes_lists &= (unsigned char)~list;
        if (listen->owes_lists == 0 && !owes_more(peer, listen) && peer->catching == 0) {
            peer->owed_from = 0; /* with this everything is told */
        }
        buf_clear(message);
        dialect_put_list_changed(message, list, listen_id(listen));
        good = peer_send(peer, message);
    }
    return good;
}

bool lists_flush(struct peer *peer)
{
    if (!peer->has_list_pending) {
        return true;
    }
    peer->has_list_pending = false;
    struct buf message;
    buf_init(&message, 16u * 1024u); /* an id of a kilobyte may escape to six */
    bool good = true;
    list_each (it, next, &peer->listens) {
        struct listen *listen = list_entry(it, struct listen, link);
        if (good && listen->live) {
            good = flush_one(peer, listen, &message);
        }
    }
    buf_deinit(&message);
    return good;
}
