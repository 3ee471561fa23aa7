/* SPDX-License-Identifier: MIT
 *
 * What a wish may cost and how many there may be: refusals by limits, with which limit it was, and
 * compiling filters and regexes at the expense of their client.
 */
#include "access/allowance.h"
#include "base/str.h"
#include "delivery/subscribe_batch.h"

void wish_explain_limit(struct wish *w, enum limit limit, uint64_t value)
{
    char data[REFUSAL_JSON];
    struct refusal why = {.limit = limit, .value = value};
    w->stat.base.details = str_dup(refusal_json(&why, data));
}

/* A refusal by what the patterns of a client may cost. */
static void explain_steps(struct subscribing *s, struct wish *w)
{
    char data[REFUSAL_JSON];
    struct refusal why = allowance_refusal(s->core->book);
    w->stat.base.details = str_dup(refusal_json(&why, data));
}

static bool has_steps(const struct subscribing *s)
{
    const struct listen *listen = s->pending.listen;
    return !listen || allowance_left(listen->peer->allowance, loop_now_ms(s->core->loop)) > 0;
}

bool wish_is_too_many(struct subscribing *s, struct wish *w)
{
    const struct core_limits *limits = s->core->limits;
    const struct peer *peer = s->pending.listen->peer;
    if (peer->sub_count >= limits->max_subscriptions) {
        wish_refuse(w, TIDINGS_E_LIMIT, "at most %zu subscriptions are allowed",
                    limits->max_subscriptions);
        wish_explain_limit(w, LIMIT_SUBSCRIPTIONS, limits->max_subscriptions);
        limit_hit(s->core->book, LIMIT_SUBSCRIPTIONS);
    } else if (w->kind == MATCH_REGEX && !has_steps(s)) {
        wish_refuse(w, TIDINGS_E_LIMIT,
                    "the patterns of this client have used up what they may cost in a second; try "
                    "again");
        explain_steps(s, w);
    }
    return w->refused;
}

struct sub *wish_make_sub(struct subscribing *s, const struct wish *w, uint64_t since,
                          struct tidings_error *err)
{
    struct listen *listen = s->pending.listen;
    const struct match_regexes *regexes = &s->core->match.regexes;
    uint64_t before = regexes->compiled;
    struct sub *sub = sub_create(listen, w->spelled, w->uri, w->kind, since, err);
    if (regexes->compiled != before) {
        allowance_spend(listen->peer->allowance, regexes->compiled - before,
                        loop_now_ms(s->core->loop));
    }
    return sub;
}

void subscribing_compile_filters(struct subscribing *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct wish *w = &s->wishes[i];
        struct tidings_error err;
        if (!w->refused && w->options.filter &&
            filter_acquire(&s->core->filters, w->options.filter,
                           s->pending.listen ? s->pending.listen->peer->allowance : NULL,
                           &w->filter, &err) < 0) {
            wish_refuse(w, err.code, "%s", err.text);
            if (err.code == TIDINGS_E_LIMIT && !has_steps(s)) {
                explain_steps(s, w);
            }
        }
    }
}
