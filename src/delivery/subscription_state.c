/* SPDX-License-Identifier: MIT
 *
 * State of a subscription while it lives: how often it is told, and what it has yet to be told.
 */
#include "base/str.h"
#include "catalog/provider.h"
#include "delivery/delivery.h"
#include "delivery/listen.h"
#include "delivery/options.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"

void subscription_set_rate(struct subscription *sub, uint64_t ms)
{
    uint32_t rate = ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
    uint32_t period = sub->asked_ms > rate ? sub->asked_ms : rate;
    struct worker *worker = sub->listen->subscriber->worker;
    window_set_period(&worker->delivery->windows, &sub->window, loop_now_ms(worker->loop), period);
}

void subscription_set_period(struct subscription *sub, const struct options *o)
{
    uint64_t period = o->window_ms > o->rate_ms ? o->window_ms : o->rate_ms;
    sub->asked_ms = period > UINT32_MAX ? UINT32_MAX : (uint32_t)period;
    sub->gather_ms = !o->gather                  ? 0
                     : o->window_ms > UINT32_MAX ? UINT32_MAX
                                                 : (uint32_t)o->window_ms;
    subscription_set_rate(sub, delivery_rate(sub->listen->subscriber->worker, sub));
}

void subscription_catch_up(struct subscription *sub, const void *job)
{
    struct subscriber *subscriber = sub->subscriber;
    uint64_t from = sub->since + 1;
    sub->catching_up = true;
    sub->catchup = job;
    subscriber->catching_count++;
    subscriber->catching_from = subscriber->catching_count > 1 && subscriber->catching_from < from
                                    ? subscriber->catching_from
                                    : from;
}

void subscription_caught_up(struct subscription *sub, uint64_t replayed_to)
{
    if (sub->catching_up) {
        sub->catching_up = false;
        sub->replayed_to = replayed_to;
        sub->subscriber->catching_count--;
        sub->subscriber->catching_from =
            sub->subscriber->catching_count > 0 ? sub->subscriber->catching_from : 0;
    }
}

uint64_t subscription_pending_from(const struct subscription *sub)
{
    uint64_t held = window_first_seq(&sub->window);
    if (sub->truncated || sub->catching_up || sub->since_pending || sub->queued > 0) {
        /* Not known better without looking through what waits. */
        return sub->since == SINCE_UNKNOWN ? 1 : sub->since + 1;
    }
    return held;
}

bool subscription_may_cover(const struct subscription *sub, struct tidings_str scope)
{
    struct tidings_str own = pattern_prefix(sub->kind, subscription_uri(sub));
    const struct tidings_provider *p = sub->extra ? sub->extra->covers_provider : NULL;
    return str_starts(own, scope) || str_starts(scope, own) || (p && str_eq(p->prefix, scope));
}
