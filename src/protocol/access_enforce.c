/* SPDX-License-Identifier: MIT
 *
 * Narrowing and ending the subscriptions of principals that may do less than before.
 */
#include "protocol/access_enforce.h"

#include "access/access.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "delivery/delivery.h"
#include "delivery/filters.h"
#include "delivery/hub.h"
#include "delivery/listen.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "protocol/session.h"

static void access_enforce_end_streams(struct subscriber *subscriber)
{
    struct worker *worker = subscriber->worker; /* which outlives it */
    worker->ending = "its token or certificate does not count any more";
    if (subscriber->ops && subscriber->ops->end_streams) {
        subscriber->ops->end_streams(subscriber);
    } else {
        subscriber_disconnect(subscriber);
    }
    worker->ending = NULL;
}

/* ---- narrowing ------------------------------------------------------------------------------- */

static bool may_hear(void *principal, const struct outbox_item *item)
{
    return filters_allow(principal, item->change);
}

/* A pattern only covers less; what is named is allowed or not. */
static bool access_enforce_is_over(const struct subscription *sub,
                                   const struct principal *principal)
{
    bool is_named = sub->kind == PATTERN_LITERAL || sub->kind == PATTERN_CONTAINER;
    bool is_query = sub->extra && sub->extra->condition_count > 0;
    return is_named && !is_query && !access_subscribes(principal, subscription_uri(sub));
}

static void access_enforce_narrow(struct subscriber *subscriber)
{
    struct principal *principal = (struct principal *)(uintptr_t)subscriber->principal;
    outbox_filter(&subscriber->outbox, may_hear, principal);
    list_each (lit, lnext, &subscriber->listens) {
        list_each (it, next, &list_entry(lit, struct listen, link)->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            if (access_enforce_is_over(sub, principal)) {
                subscription_withdraw(sub);
                continue;
            }
            if (sub->window.held) {
                outbox_filter(sub->window.held, may_hear, principal);
            }
            if (sub->window.held && sub->window.held->count == 0) {
                window_clear(&subscriber->worker->delivery->windows, &sub->window);
                subscriber->held_count--;
            }
        }
    }
}

/* false: out of memory, and it may not go on by the old rules. */
static bool access_enforce_renew(struct worker *worker, struct subscriber *subscriber)
{
    const struct principal *principal = principal_ref(subscriber->principal);
    bool good = principal_renew(worker->principals, &principal) == 0;
    subscriber_set_principal(subscriber, good ? principal : subscriber->principal);
    principal_unref(principal);
    return good;
}

void access_enforce_rules(struct worker *worker, struct access_rules *rules)
{
    access_rules_unref(worker->principals->rules);
    worker->principals->rules = rules;
    principals_forget(worker->principals);
    list_each (sit, snext, &worker->sessions->all) {
        struct session *session = list_entry(sit, struct session, link);
        if (principal_renew(worker->principals, &session->principal) < 0) {
            session_destroy(session);
        }
    }
    list_each (it, next, &worker->delivery->subscribers) {
        struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        bool is_renewed = access_enforce_renew(worker, subscriber);
        const struct access_class *class =
            subscriber->principal ? subscriber->principal->class : NULL;
        if (!is_renewed || (class && class->count == 0)) {
            access_enforce_end_streams(subscriber);
        } else if (class) {
            access_enforce_narrow(subscriber);
        }
    }
}

void access_enforce_expiry(struct worker *worker)
{
    struct principals *all = worker->principals;
    int64_t now = all->next_expiry_ms > 0 ? clock_wall_ms() : 0;
    if (all->next_expiry_ms == 0 || now < all->next_expiry_ms) {
        return;
    }
    list_each (it, next, &worker->delivery->subscribers) {
        struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        if (principal_is_expired(subscriber->principal, now)) {
            access_enforce_end_streams(subscriber);
        }
    }
    principals_find_expiry(all, now);
}

void access_enforce_revocation(struct worker *worker, principal_test_fn is_gone, void *user)
{
    list_each (it, next, &worker->delivery->subscribers) {
        struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        if (subscriber->principal && is_gone(user, subscriber->principal)) {
            access_enforce_end_streams(subscriber);
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
    access_enforce_rules(owner, access_rules_ref(l->rules));
    access_drop(letter);
}

int access_enforce_everywhere(struct hub *hub, struct access_rules *rules,
                              struct tidings_error *err)
{
    struct list letters;
    list_init(&letters);
    size_t made = 0;
    for (; made < hub_worker_count(hub); made++) {
        struct access_letter *l = mem_zalloc(sizeof(*l));
        if (!l) {
            break;
        }
        l->letter.deliver = access_deliver;
        l->letter.drop = access_drop;
        l->rules = access_rules_ref(rules);
        list_append(&letters, &l->letter.link);
    }
    bool good = made == hub_worker_count(hub);
    size_t i = 0;
    list_each (it, next, &letters) {
        struct letter *letter = list_entry(it, struct letter, link);
        list_remove(it);
        if (good) {
            mailbox_send(hub_worker(hub, i++)->mailbox, letter);
        } else {
            access_drop(letter);
        }
    }
    return good ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}
