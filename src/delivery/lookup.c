/* SPDX-License-Identifier: MIT
 *
 * Asks the match index which subscriptions a change concerns, and charges regexes that are searched
 * to the clients that have them.
 */
#include "delivery/lookup.h"

#include "access/allowance.h"
#include "access/limit.h"
#include "delivery/delivery.h"
#include "delivery/filters.h"
#include "delivery/resync.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "store/change.h"

struct paid_lookup {
    struct worker *worker;
    const struct change *change;
    const struct lookup_calls *calls;
    void *user;
};

static void lookup_on_found(void *user, struct match_node *node)
{
    struct paid_lookup *l = user;
    l->calls->found(l->user, node);
}

/* Access is asked before anything is spent. */
static bool is_concerned(const struct paid_lookup *l, const struct subscription *sub)
{
    return l->calls->concerns(l->user, sub) && filters_allow(sub->subscriber->principal, l->change);
}

static bool may_pay(void *user, struct match_node *node, uint64_t *ret_steps)
{
    struct paid_lookup *l = user;
    const struct subscription *sub = list_entry(node, struct subscription, node);
    if (!is_concerned(l, sub)) {
        return false;
    }
    *ret_steps = allowance_left(sub->subscriber->allowance, loop_now_ms(l->worker->loop));
    return true;
}

static void lookup_on_paid(void *user, struct match_node *node, uint64_t steps)
{
    struct paid_lookup *l = user;
    const struct subscription *sub = list_entry(node, struct subscription, node);
    allowance_spend(sub->subscriber->allowance, steps, loop_now_ms(l->worker->loop));
}

static void lookup_on_unpaid(void *user, struct match_node *node)
{
    struct paid_lookup *l = user;
    struct subscription *sub = list_entry(node, struct subscription, node);
    if (is_concerned(l, sub)) {
        limit_hit(l->worker->limit_counters, LIMIT_PATTERN_STEPS);
        resync_mark(sub, l->change->seq);
    }
}

void lookup_find(struct worker *worker, const struct change *change,
                 const struct lookup_calls *calls, void *user)
{
    static const struct match_calls with_price = {lookup_on_found, may_pay, lookup_on_paid,
                                                  lookup_on_unpaid};
    struct paid_lookup l = {worker, change, calls, user};
    match_find_paid(&worker->delivery->match, change->uri, &with_price, &l);
}

enum lookup_answer lookup_ask(struct subscription *sub, struct tidings_str uri)
{
    struct worker *worker = sub->subscriber->worker;
    if (sub->kind != PATTERN_REGEX) {
        return pattern_matches(sub->kind, subscription_uri(sub), uri) ? LOOKUP_YES : LOOKUP_NO;
    }
    uint64_t now = loop_now_ms(worker->loop),
             left = allowance_left(sub->subscriber->allowance, now);
    uint64_t steps = left;
    enum regex_result result = match_search(&sub->node, uri, &steps);
    allowance_spend(sub->subscriber->allowance, left - steps, now);
    if (result == REGEX_FOUND || result == REGEX_ABSENT) {
        return result == REGEX_FOUND ? LOOKUP_YES : LOOKUP_NO;
    }
    limit_hit(worker->limit_counters, LIMIT_PATTERN_STEPS);
    return LOOKUP_UNKNOWN;
}
