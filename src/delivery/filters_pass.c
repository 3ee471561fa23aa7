/* SPDX-License-Identifier: MIT
 *
 * Whether one subscription hears of one change: access, origin, conditions, schema, the program's
 * own function, in this order.
 */
#include "access/access.h"
#include "access/allowance.h"
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
static bool holds(struct json *subject, const struct subscription_condition *c)
{
    struct json *value = jv_get_str(jv_get(subject, "metadata"), c->key);
    bool found = is_value(value, c->value);
    for (size_t i = 0; !found && jv_is(value, JV_ARRAY) && i < jv_count(value); i++) {
        found = is_value(jv_at(value, i), c->value);
    }
    return found;
}

/* At the expense of its client. false: that has not enough left for a judgement, however long. */
static bool judge(struct subscription *sub, struct json *subject, enum schema_verdict *ret)
{
    struct worker *worker = sub->subscriber->worker;
    struct allowance *client = sub->subscriber->allowance;
    uint64_t now = loop_now_ms(worker->loop), steps = FILTER_MAX_STEPS;
    if (allowance_left(client, now) < steps) {
        limit_hit(worker->limit_counters, LIMIT_PATTERN_STEPS);
        return false;
    }
    *ret = schema_judge_within(sub->extra->schema->schema, subject, NULL, &steps);
    allowance_spend(client, FILTER_MAX_STEPS - steps, now);
    worker->delivery->filters.judged++;
    return true;
}

static bool satisfies(struct subscription *sub, const struct change *change)
{
    struct worker *worker = sub->subscriber->worker;
    struct filter *f = sub->extra->schema;
    if (f->judged_seq != change->seq) {
        struct json *subject = delivery_subject(worker, change);
        f->verdict = SCHEMA_VALID;
        if (subject && !judge(sub, subject, &f->verdict)) {
            return true; /* others may be able to pay */
        }
        f->judged_seq = change->seq;
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
        all = holds(subject, &x->conditions[i]);
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
    if (subject && passes && x->schema) {
        passes = !judge(sub, subject, &verdict) || verdict != SCHEMA_NOT_VALID;
    }
    jv_unref(subject);
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
static bool is_told_already(struct subscription *sub, const struct change *change)
{
    return change->is_led && change->seq - 1 > sub->since &&
           access_shows_from(sub->subscriber->principal, change) &&
           lookup_ask(sub, change->from) == LOOKUP_YES;
}

bool filters_pass(struct subscription *sub, const struct change *change, bool alone)
{
    const struct subscriber *subscriber = sub->subscriber;
    if (!access_hears(subscriber->principal, change) || is_told_already(sub, change)) {
        return false;
    }
    const struct subscription_extra *x = sub->extra;
    if (!x || !alone) {
        return true;
    }
    if (filters_is_own(sub, change)) {
        return false;
    }
    if (!access_shows_from(subscriber->principal, change)) {
        /* What says where it went is hidden from filters; that it went is not. */
        return change->to.len > 0 || pass_without_from(sub, change);
    }
    if (x->condition_count > 0 && !all_hold(x, delivery_subject(subscriber->worker, change))) {
        return false;
    }
    if (x->schema && !satisfies(sub, change)) {
        return false;
    }
    struct tidings_str uri = change_leads(change, change->kind, false) ? change->to : change->uri;
    return !x->filter || x->filter(x->filter_user, uri, change_metadata_object(change));
}
