/* SPDX-License-Identifier: MIT
 *
 * Narrowing and ending the subscriptions of principals that may do less than before.
 */
#include "engine/protocol/enforce.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/filters.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/channel.h"
#include "engine/protocol/session.h"
#include "security/access.h"

/* -------------------------------------------------------------------------------------------------
 * Ending the subscribers of a worker one after the other.
 */

#define DRAIN_TICK_MS 20u
#define DRAIN_FEW 16u

static void release_held(struct worker *worker)
{
    struct window *window;
    uint32_t due = lag_due_now();
    while ((window = windows_due(&worker->delivery->windows, UINT64_MAX)) != NULL) {
        subscriber_release_deferred(list_entry(window, struct subscription, window), due);
    }
}

/* Returns true if its stream has yet to be ended. Programs' own subscriptions have no stream. */
static bool is_due(const struct worker *worker, const struct subscriber *subscriber)
{
    return subscriber->sink && subscriber->number > worker->drain->ended_upto;
}

static void end_some(struct worker *worker, size_t count)
{
    release_held(worker);
    list_each (it, next, &worker->delivery->subscribers) {
        struct subscriber *subscriber = list_entry(it, struct subscriber, link);
        if (count == 0) {
            return;
        }
        if (is_due(worker, subscriber)) {
            worker->drain->ended_upto = subscriber->number; /* they are in order */
            worker->drain->ended++;
            count--;
            worker->ending = "the server is stopping";
            subscriber_end(subscriber, false);
            worker->ending = NULL;
        }
    }
}

static void end_rest(struct worker *worker)
{
    end_some(worker, SIZE_MAX);
    list_each (it, next, &worker->sessions->all) { /* without a stream */
        worker->ending = "the server is stopping";
        session_destroy(list_entry(it, struct session, link));
        worker->ending = NULL;
    }
}

static void drain_on_tick(struct loop_timer *timer, void *user)
{
    struct worker *worker = user;
    uint64_t passed = loop_now_ms(worker->loop) - worker->drain->begun_ms;
    if (passed >= worker->drain->over_ms) {
        loop_timer_stop(timer);
        end_rest(worker);
        return;
    }
    size_t due = (size_t)(worker->drain->total * passed / worker->drain->over_ms) + 1;
    if (due > worker->drain->ended) {
        end_some(worker, due - worker->drain->ended);
    }
}

bool drain_is_done_with(const struct worker *worker, const struct channel *channel)
{
    return worker->stopping && list_empty(&channel->requests) &&
           (!channel->subscriber || !is_due(worker, channel->subscriber));
}

void drain_begin(struct worker *worker, uint64_t over_ms)
{
    if (worker->stopping) {
        if (worker->drain->timer) {
            loop_timer_stop(worker->drain->timer);
        }
        end_rest(worker);
        return;
    }
    worker->stopping = true;
    worker->drain->begun_ms = loop_now_ms(worker->loop);
    worker->drain->over_ms = over_ms;
    list_each (it, next, &worker->delivery->subscribers) {
        worker->drain->total += is_due(worker, list_entry(it, struct subscriber, link));
    }
    worker->drain->timer =
        over_ms > 0 ? loop_timer_open(worker->loop, drain_on_tick, worker) : NULL;
    if (!worker->drain->timer) {
        end_rest(worker);
        return;
    }
    if (worker->drain->total <= DRAIN_FEW) {
        end_some(worker, SIZE_MAX);
    }
    loop_timer_start(worker->drain->timer, 0, DRAIN_TICK_MS);
}

void drain_deinit(struct worker *worker)
{
    loop_timer_close(worker->drain->timer);
}

/* ---------------------------------------------------------------------------------------------- */

static void access_enforce_end_streams(struct subscriber *subscriber)
{
    struct worker *worker = subscriber->worker; /* which outlives it */
    worker->ending = "its token or certificate is no longer valid";
    if (subscriber->ops && subscriber->ops->end_streams) {
        subscriber->ops->end_streams(subscriber);
    } else {
        subscriber_disconnect(subscriber);
    }
    worker->ending = NULL;
}

/* ---- narrowing ------------------------------------------------------------------------------- */

static bool may_notify(void *principal, const struct outbox_item *item)
{
    return filters_allow(principal, item->change);
}

/* Returns true if the subscription must end. A pattern only covers less; a named resource is
 * allowed or not. */
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
    outbox_filter(&subscriber->outbox, may_notify, principal);
    list_each (lit, lnext, &subscriber->groups) {
        list_each (it, next, &list_entry(lit, struct subscription_group, link)->subs) {
            struct subscription *sub = list_entry(it, struct subscription, link);
            if (access_enforce_is_over(sub, principal)) {
                subscription_withdraw(sub);
                continue;
            }
            if (sub->window.deferred) {
                outbox_filter(sub->window.deferred, may_notify, principal);
            }
            if (sub->window.deferred && sub->window.deferred->count == 0) {
                window_clear(&subscriber->worker->delivery->windows, &sub->window);
                subscriber->deferred_count--;
            }
        }
    }
}

/* Returns false when out of memory: the subscriber may not continue by the old rules. */
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

struct access_message {
    struct thread_message message;
    struct access_rules *rules;
};

static void access_drop(struct thread_message *message)
{
    struct access_message *l = list_entry(message, struct access_message, message);
    access_rules_unref(l->rules);
    mem_free(l);
}

static void access_deliver(struct thread_message *message, void *owner)
{
    struct access_message *l = list_entry(message, struct access_message, message);
    access_enforce_rules(owner, access_rules_ref(l->rules));
    access_drop(message);
}

int access_enforce_everywhere(struct hub *hub, struct access_rules *rules,
                              struct tidings_error *err)
{
    struct list messages;
    list_init(&messages);
    size_t made = 0;
    for (; made < hub_worker_count(hub); made++) {
        struct access_message *l = mem_zalloc(sizeof(*l));
        if (!l) {
            break;
        }
        l->message.deliver = access_deliver;
        l->message.drop = access_drop;
        l->rules = access_rules_ref(rules);
        list_append(&messages, &l->message.link);
    }
    bool good = made == hub_worker_count(hub);
    size_t i = 0;
    list_each (it, next, &messages) {
        struct thread_message *message = list_entry(it, struct thread_message, link);
        list_remove(it);
        if (good) {
            mailbox_send(hub_worker(hub, i++)->mailbox, message);
        } else {
            access_drop(message);
        }
    }
    return good ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}
