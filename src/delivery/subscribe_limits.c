/* SPDX-License-Identifier: MIT
 *
 * What an item may cost and how many there may be: refusals by limits, with which limit it was, and
 * compiling filters and regexes at the expense of their client.
 */
#include "access/allowance.h"
#include "access/share.h"
#include "base/str.h"
#include "delivery/delivery.h"
#include "delivery/filters.h"
#include "delivery/listen.h"
#include "delivery/subscribe_private.h"
#include "delivery/subscription.h"

static void subscribe_item_explain(struct subscribe_item *w, const struct refusal *why)
{
    char data[REFUSAL_JSON];
    w->stat.base.details = str_dup(refusal_json(why, data));
}

static void subscribe_item_explain_limit(struct subscribe_item *w, enum limit limit, uint64_t value)
{
    const struct refusal why = {.limit = limit, .value = value};
    subscribe_item_explain(w, &why);
}

/* A refusal by what the patterns of a client may cost. */
static void explain_steps(struct subscribe_batch *s, struct subscribe_item *w)
{
    const struct listen *listen = s->pending.listen;
    struct refusal why =
        allowance_refusal(s->worker->limit_counters, listen ? listen->subscriber->allowance : NULL,
                          1, loop_now_ms(s->worker->loop));
    subscribe_item_explain(w, &why);
}

static bool has_steps(const struct subscribe_batch *s)
{
    const struct listen *listen = s->pending.listen;
    return !listen ||
           allowance_left(listen->subscriber->allowance, loop_now_ms(s->worker->loop)) > 0;
}

/* Takes the share of all subscriptions that a new one holds, or refuses. */
static void subscribe_item_take_share(const struct subscribe_batch *s, struct subscribe_item *w)
{
    const struct subscriber *subscriber = s->pending.listen->subscriber;
    const struct share_taker who = {subscriber->allowance, subscriber->principal,
                                    !subscriber->principal};
    char sentence[REFUSAL_SENTENCE];
    struct refusal why;
    if (!share_take(s->worker->limit_counters, LIMIT_ALL_SUBSCRIPTIONS,
                    s->worker->limits->max_all_subscriptions, 1, &who, &why)) {
        subscribe_item_refuse(w, TIDINGS_E_BUSY, "%s", refusal_sentence(&why, sentence));
        subscribe_item_explain(w, &why);
    }
}

bool subscribe_item_is_too_many(struct subscribe_batch *s, struct subscribe_item *w)
{
    const struct worker_limits *limits = s->worker->limits;
    const struct subscriber *subscriber = s->pending.listen->subscriber;
    if (subscriber->subscription_count >= limits->max_subscriptions) {
        subscribe_item_refuse(w, TIDINGS_E_LIMIT, "at most %zu subscriptions are allowed",
                              limits->max_subscriptions);
        subscribe_item_explain_limit(w, LIMIT_SUBSCRIPTIONS, limits->max_subscriptions);
        limit_hit(s->worker->limit_counters, LIMIT_SUBSCRIPTIONS);
    } else if (w->kind == PATTERN_REGEX && !has_steps(s)) {
        subscribe_item_refuse(
            w, TIDINGS_E_LIMIT,
            "the patterns of this client have used up what they may cost in a second; try "
            "again");
        explain_steps(s, w);
    } else {
        subscribe_item_take_share(s, w);
    }
    return w->refused;
}

struct subscription *subscribe_item_make_sub(struct subscribe_batch *s,
                                             const struct subscribe_item *w, uint64_t since,
                                             struct tidings_error *err)
{
    struct listen *listen = s->pending.listen;
    const struct match_regexes *regexes = &s->worker->delivery->match.regexes;
    uint64_t before = regexes->compiled;
    struct subscription *sub = subscription_create(listen, w->spelled, w->uri, w->kind, since, err);
    if (regexes->compiled != before) {
        allowance_spend(listen->subscriber->allowance, regexes->compiled - before,
                        loop_now_ms(s->worker->loop));
    }
    return sub;
}

void subscribe_batch_compile_filters(struct subscribe_batch *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct subscribe_item *w = &s->items[i];
        struct tidings_error err;
        if (!w->refused && w->options.filter &&
            filter_acquire(&s->worker->delivery->filters, w->options.filter,
                           s->pending.listen ? s->pending.listen->subscriber->allowance : NULL,
                           &w->filter, &err) < 0) {
            subscribe_item_refuse(w, err.code, "%s", err.text);
            if (err.code == TIDINGS_E_LIMIT && !has_steps(s)) {
                explain_steps(s, w);
            }
        }
    }
}

/* Those that will make room themselves: subscribing again replaces. */
static size_t replaced_broad(const struct subscribe_batch *s)
{
    const struct listen *listen = s->pending.listen;
    size_t n = 0;
    for (size_t i = 0; listen && i < s->count; i++) {
        const struct subscription *old = listen_find_sub(listen, s->items[i].spelled);
        n += s->items[i].broad && old && old->broad;
    }
    return n;
}

void subscribe_batch_count_broad(struct subscribe_batch *s)
{
    size_t most = s->worker->limits->max_broad + replaced_broad(s);
    for (size_t i = 0; s->client && i < s->count; i++) {
        struct subscribe_item *w = &s->items[i];
        if (w->refused || !w->broad) {
            continue;
        }
        if (allowance_take_within(s->client, ALLOWANCE_BROAD, most)) {
            w->counted = s->client;
            continue;
        }
        struct tidings_str name = allowance_name(s->client);
        limit_hit(s->worker->limit_counters, LIMIT_BREADTH);
        subscribe_item_refuse(
            w, TIDINGS_E_LIMIT,
            "this covers whole mounts; at most %zu such subscriptions are allowed for '%.*s' "
            "(--max-breadth), name something narrower",
            most, STR_ARG(name));
    }
}
