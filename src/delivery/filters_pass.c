/* SPDX-License-Identifier: MIT
 *
 * Whether one subscription hears of one change: access, origin, conditions, schema, the program's
 * own function, in this order.
 */
#include "access/access.h"
#include "access/allowance.h"
#include "access/owned_uri.h"
#include "base/str.h"
#include "delivery/delivery.h"
#include "delivery/filters_private.h"
#include "delivery/lookup.h"
#include "delivery/resync.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "store/change.h"
#include "json/schema.h"
#include "json/write.h"

bool filters_allow(const struct principal *principal, const struct change *change)
{
    return !change->is_mute && access_hears(principal, change->uri, change->target, change->seq);
}

bool filters_show_from(const struct principal *principal, const struct change *change)
{
    struct tidings_str other = change->to.len > 0 ? change->to : change->from;
    return change->from.len == 0 || access_shows_from(principal, other, change->seq);
}

static bool is_value(const struct json *value, struct tidings_str wanted)
{
    if (jv_is(value, JV_STRING)) {
        return str_eq(jv_str(value), wanted);
    }
    if (!value || jv_is(value, JV_OBJECT) || jv_is(value, JV_ARRAY)) {
        return false;
    }
    struct buf text;
    struct jw w;
    buf_init(&text, 64);
    jw_init(&w, &text);
    jw_value(&w, value);
    bool equal = str_eq(buf_str(&text), wanted);
    buf_deinit(&text);
    return equal;
}

/* Of several values one is enough. */
static bool filters_condition_holds(struct json *subject, const struct subscription_condition *c)
{
    struct json *value = jv_get_str(jv_get(subject, "metadata"), c->key);
    bool found = is_value(value, c->value);
    for (size_t i = 0; !found && jv_is(value, JV_ARRAY) && i < jv_count(value); i++) {
        found = is_value(jv_at(value, i), c->value);
    }
    return found;
}

/* What the filter of `sub` judges; a reference. *ret_cost: of making it, where it is not shared. */
static struct json *document_for(struct subscription *sub, const struct change *change,
                                 const struct change *before, bool hides_from, size_t *ret_cost)
{
    struct worker *worker = sub->subscriber->worker;
    const struct filter *f = sub->extra->schema;
    *ret_cost = 0;
    if (f->sees_time || f->looks_back) {
        return filters_document(f, worker, change, before, hides_from, ret_cost);
    }
    return hides_from ? delivery_make_subject(worker, change, true)
                      : jv_ref(delivery_subject(worker, change));
}

/* At the expense of its client. false: that has not enough left for a judgement, however long. */
static bool filters_judge(struct subscription *sub, const struct change *change,
                          const struct change *before, bool hides_from, enum schema_verdict *ret)
{
    struct worker *worker = sub->subscriber->worker;
    struct allowance *client = sub->subscriber->allowance;
    uint64_t now = loop_now_ms(worker->loop), steps = FILTER_MAX_STEPS;
    *ret = SCHEMA_VALID;
    if (allowance_left(client, now) < steps) {
        limit_hit(worker->limit_counters, LIMIT_PATTERN_STEPS);
        return false;
    }
    size_t cost;
    struct json *document = document_for(sub, change, before, hides_from, &cost);
    if (document) { /* without memory everything passes */
        *ret = schema_judge_within(sub->extra->schema->schema, document, NULL, &steps);
        worker->delivery->filters.judged++;
    }
    allowance_spend(client, FILTER_MAX_STEPS - steps + cost, now);
    jv_unref(document);
    return true;
}

static bool filters_satisfies(struct subscription *sub, const struct change *change)
{
    struct worker *worker = sub->subscriber->worker;
    struct filter *f = sub->extra->schema;
    const struct change *before = filters_previous(sub, change);
    uint64_t before_seq = before ? before->seq : 0;
    uint32_t turn = f->sees_time ? loop_turn_number(worker->loop) : 0;
    if (f->judged_seq != change->seq || f->judged_before != before_seq || f->judged_turn != turn) {
        f->judged_seq = 0;
        if (!filters_judge(sub, change, before, false, &f->verdict)) {
            return true; /* others may be able to pay */
        }
        f->judged_seq = change->seq;
        f->judged_before = before_seq;
        f->judged_turn = turn;
    }
    if (f->verdict == SCHEMA_GAVE_UP && ++sub->extra->gave_up == FILTER_GIVE_UPS) {
        resync_suspend(sub);
        return false;
    }
    return f->verdict != SCHEMA_NOT_VALID;
}

static bool all_hold(const struct subscription_extra *x, struct json *subject)
{
    bool all = true;
    for (size_t i = 0; all && i < x->condition_count; i++) {
        all = filters_condition_holds(subject, &x->conditions[i]);
    }
    return all;
}

/* By somebody who must not learn where it moved from: rare, so nothing is remembered. */
static bool pass_without_from(struct subscription *sub, const struct change *change)
{
    const struct subscription_extra *x = sub->extra;
    struct json *subject = delivery_make_subject(sub->subscriber->worker, change, true);
    enum schema_verdict verdict = SCHEMA_VALID;
    bool passes = !subject || all_hold(x, subject);
    jv_unref(subject);
    if (passes && x->schema) {
        passes = !filters_judge(sub, change, filters_previous(sub, change), true, &verdict) ||
                 verdict != SCHEMA_NOT_VALID;
    }
    return passes;
}

bool filters_is_own(const struct subscription *sub, const struct change *change)
{
    const struct subscription_extra *x = sub->extra;
    return x && x->origin.len > 0 &&
           (str_eq(x->origin, change->origin) ||
            str_eq(tidings_strn(x->origin.ptr, x->claimed), change->origin));
}

/* Of a move that subscribers are led along, who covers both ends is told by the first half. */
static bool is_told_of_first_half(struct subscription *sub, const struct change *change)
{
    return change->is_arrival && change->seq - 1 > sub->since &&
           filters_show_from(sub->subscriber->principal, change) &&
           lookup_ask(sub, change->from) == LOOKUP_YES;
}

/* Does it satisfy what the subscription asked for? */
static bool filters_want(struct subscription *sub, const struct change *change)
{
    const struct subscriber *subscriber = sub->subscriber;
    const struct subscription_extra *x = sub->extra;
    if (filters_is_own(sub, change)) {
        return false;
    }
    if (!filters_show_from(subscriber->principal, change)) {
        /* What says where it went is hidden from filters; that it went is not. */
        return change->to.len > 0 || pass_without_from(sub, change);
    }
    if (x->condition_count > 0 && !all_hold(x, delivery_subject(subscriber->worker, change))) {
        return false;
    }
    if (x->schema && !filters_satisfies(sub, change)) {
        return false;
    }
    struct tidings_str uri =
        change_names_destination(change, change->kind, false) ? change->to : change->uri;
    return !x->filter || x->filter(x->filter_user, uri, change_metadata_object(change));
}

bool filters_pass(struct subscription *sub, const struct change *change, bool alone)
{
    const struct subscription_extra *x = sub->extra;
    if (sub->kind != PATTERN_LITERAL && owned_uri_is(change->uri)) {
        return false; /* whoever hears of it must know it already */
    }
    if (!filters_allow(sub->subscriber->principal, change) || is_told_of_first_half(sub, change) ||
        (x && alone && !filters_want(sub, change))) {
        return false;
    }
    if (x && x->schema && x->schema->looks_back) {
        filters_remember(sub, change);
    }
    return true;
}
