/* SPDX-License-Identifier: MIT
 *
 * What somebody may do changes while it is being told things: the rules were replaced, the time its
 * principal had is over, or its token was taken back. Then its subscriptions are narrowed to what
 * is left: one that names a resource it may not hear of any more ends, which its client is told as
 * of any that ends; a pattern stays and covers less; what waits to be told is looked through again.
 * Who may nothing at all, or is nobody any more, has its streams ended. A session stays: whoever
 * comes back with a good token finds it.
 *
 * Requests under way are answered by the rules they began with.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "delivery/core.h"
#include "delivery/hub_private.h"
#include "delivery/subscriber.h"
#include "protocol/session.h"

static void end_streams(struct peer *peer)
{
    if (peer->ops && peer->ops->end_streams) {
        peer->ops->end_streams(peer);
    } else {
        peer_disconnect(peer);
    }
}

/* ---- narrowing ------------------------------------------------------------------------------- */

static bool may_hear(void *who, const struct outbox_item *item)
{
    return access_hears(who, item->change);
}

/* A pattern only covers less; what is named is allowed or not. */
static bool is_over(const struct sub *sub, const struct principal *who)
{
    bool is_named = sub->kind == MATCH_LITERAL || sub->kind == MATCH_CONTAINER;
    bool is_query = sub->extra && sub->extra->condition_count > 0;
    return is_named && !is_query && !access_subscribes(who, sub_uri(sub));
}

static void narrow(struct peer *peer)
{
    struct principal *who = (struct principal *)(uintptr_t)peer->who;
    outbox_filter(&peer->outbox, may_hear, who);
    list_each (lit, lnext, &peer->listens) {
        list_each (it, next, &list_entry(lit, struct listen, link)->subs) {
            struct sub *sub = list_entry(it, struct sub, link);
            if (is_over(sub, who)) {
                sub_withdraw(sub);
                continue;
            }
            if (sub->window.held) {
                outbox_filter(sub->window.held, may_hear, who);
            }
            if (sub->window.held && sub->window.held->count == 0) {
                window_clear(&peer->core->windows, &sub->window);
                peer->held_count--;
            }
        }
    }
}

/* false: out of memory, and it may not go on by the old rules. */
static bool renew(struct core *core, struct peer *peer)
{
    const struct principal *who = principal_ref(peer->who);
    bool good = principal_renew(core, &who) == 0;
    peer_set_who(peer, good ? who : peer->who);
    principal_unref(who);
    return good;
}

void core_set_access(struct core *core, struct access_rules *rules)
{
    access_rules_unref(core->access);
    core->access = rules;
    principals_forget(&core->principals);
    list_each (sit, snext, &core->session_list) {
        struct session *session = list_entry(sit, struct session, link);
        if (principal_renew(core, &session->who) < 0) {
            session_destroy(session);
        }
    }
    list_each (it, next, &core->peers) {
        struct peer *peer = list_entry(it, struct peer, link);
        bool is_renewed = renew(core, peer);
        const struct access_class *class = peer->who ? peer->who->class : NULL;
        if (!is_renewed || (class && class->count == 0)) {
            end_streams(peer);
        } else if (class) {
            narrow(peer);
        }
    }
}

void core_expire_principals(struct core *core)
{
    struct principals *all = &core->principals;
    int64_t now = all->next_expiry_ms > 0 ? clock_wall_ms() : 0;
    if (all->next_expiry_ms == 0 || now < all->next_expiry_ms) {
        return;
    }
    list_each (it, next, &core->peers) {
        struct peer *peer = list_entry(it, struct peer, link);
        if (principal_is_expired(peer->who, now)) {
            end_streams(peer);
        }
    }
    principals_find_expiry(all, now);
}

void core_revoke(struct core *core, principal_test_fn is_gone, void *user)
{
    list_each (it, next, &core->peers) {
        struct peer *peer = list_entry(it, struct peer, link);
        if (peer->who && is_gone(user, peer->who)) {
            end_streams(peer);
        }
    }
}

/* ---- from the hub ---------------------------------------------------------------------------- */

struct access_letter {
    struct letter letter;
    struct access_rules *rules;
};

static void access_drop(struct letter *letter)
{
    struct access_letter *l = list_entry(letter, struct access_letter, letter);
    access_rules_unref(l->rules);
    mem_free(l);
}

static void access_deliver(struct letter *letter, void *owner)
{
    struct access_letter *l = list_entry(letter, struct access_letter, letter);
    core_set_access(owner, access_rules_ref(l->rules));
    access_drop(letter);
}

int hub_set_access(struct hub *hub, struct access_rules *rules, struct tidings_error *err)
{
    struct list letters;
    list_init(&letters);
    size_t made = 0;
    for (; made < hub->core_count; made++) {
        struct access_letter *l = mem_zalloc(sizeof(*l));
        if (!l) {
            break;
        }
        l->letter.deliver = access_deliver;
        l->letter.drop = access_drop;
        l->rules = access_rules_ref(rules);
        list_append(&letters, &l->letter.link);
    }
    bool good = made == hub->core_count;
    size_t i = 0;
    list_each (it, next, &letters) {
        struct letter *letter = list_entry(it, struct letter, link);
        list_remove(it);
        if (good) {
            mailbox_send(hub->cores[i++]->mailbox, letter);
        } else {
            access_drop(letter);
        }
    }
    return good ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}
