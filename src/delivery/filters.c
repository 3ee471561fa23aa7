/* SPDX-License-Identifier: MIT
 *
 * Filters, in the order of their cost. All of a worker's schemas are in one map by their text.
 */
#include "delivery/filters.h"

#include "access/allowance.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "delivery/subscriber.h"
#include "store/change.h"
#include "json/schema.h"
#include "json/write.h"

/* Enough for any filter a person writes; a judgement stays below half a millisecond. */
#define FILTER_MAX_STEPS 200000u
#define FILTER_MAX_SUBSCHEMAS 256u
#define FILTER_MAX_DEPTH 32u

struct filter {
    struct filters *all; /* NULL: they are gone */
    struct json_schema *schema;
    size_t refs;
    struct allowance *owner;     /* whose it counts for */
    uint64_t judged_seq;         /* the change it judged last … */
    enum schema_verdict verdict; /* … and how */
    size_t len;
    char text[];
};

void filters_init(struct filters *all)
{
    map_init(&all->by_text);
    all->judged = 0;
}

void filters_deinit(struct filters *all)
{
    size_t pos = 0;
    struct filter *f;
    while ((f = map_next(&all->by_text, &pos)) != NULL) {
        f->all = NULL;
    }
    map_deinit(&all->by_text);
}

/* The text by which a filter is known. */
static int write_text(struct json *schema, struct buf *text, struct tidings_error *err)
{
    struct jw w;
    buf_init(text, 8 * FILTER_MAX_BYTES); /* the writer takes room for the worst before it quotes */
    jw_init(&w, text);
    jw_value(&w, schema);
    if (text->failed == TIDINGS_E_LIMIT || text->len > FILTER_MAX_BYTES) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "option 'filter' may be at most %u bytes long",
                            FILTER_MAX_BYTES);
    }
    return text->failed ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory") : 0;
}

/* *ret_cost: in steps, also when it fails. */
static int compile(struct json *schema, struct json_schema **ret, uint64_t *ret_cost,
                   struct tidings_error *err)
{
    const struct schema_options options = {
        .max_depth = FILTER_MAX_DEPTH,
        .max_subschemas = FILTER_MAX_SUBSCHEMAS,
        .max_steps = FILTER_MAX_STEPS,
        .ret_cost = ret_cost,
    };
    int rc = schema_compile(schema, &options, ret, err);
    if (rc < 0) {
        /* A reference that leads nowhere is a mistake in the option, not a missing resource. */
        rc = rc == TIDINGS_E_NOMEM || rc == TIDINGS_E_LIMIT ? rc : TIDINGS_E_INVALID;
        return error_wrap(err, rc, "option 'filter'");
    }
    return 0;
}

static int create(struct filters *all, struct json *schema, struct tidings_str text,
                  uint64_t *ret_cost, struct filter **ret, struct tidings_error *err)
{
    struct filter *f = mem_zalloc(sizeof(*f) + text.len);
    if (!f) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    f->all = all;
    f->refs = 1;
    f->len = text.len;
    memcpy(f->text, text.ptr, text.len);
    int rc = compile(schema, &f->schema, ret_cost, err);
    if (rc == 0 && map_put(&all->by_text, tidings_strn(f->text, f->len), f, NULL) < 0) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc < 0) {
        schema_destroy(f->schema);
        mem_free(f);
        return rc;
    }
    *ret = f;
    return 0;
}

/* One more, at the expense of a client. */
static int create_for(struct filters *all, struct json *schema, struct tidings_str text,
                      struct allowance *client, struct filter **ret, struct tidings_error *err)
{
    uint64_t now = clock_monotonic_ms();
    if (all->by_text.count >= FILTERS_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "option 'filter': at most %u different filters are allowed, of all "
                            "clients together",
                            FILTERS_MAX);
    }
    if (allowance_left(client, now) == 0) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "option 'filter': the patterns of this client have used up what they "
                            "may cost in a second; try again");
    }
    if (!allowance_take(client, ALLOWANCE_FILTERS)) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "option 'filter': at most %u different filters of one client are "
                            "allowed",
                            ALLOWANCE_MAX_FILTERS);
    }
    uint64_t cost = 0;
    int rc = create(all, schema, text, &cost, ret, err);
    allowance_spend(client, cost, now);
    if (rc == 0) {
        (*ret)->owner = client;
    } else {
        allowance_give_back(client, ALLOWANCE_FILTERS);
    }
    return rc;
}

int filter_acquire(struct filters *all, struct json *schema, struct allowance *client,
                   struct filter **ret, struct tidings_error *err)
{
    struct buf text;
    int rc = write_text(schema, &text, err);
    struct filter *found = rc < 0 ? NULL : map_find(&all->by_text, buf_str(&text));
    if (found) {
        found->refs++;
        *ret = found;
    } else if (rc == 0) {
        rc = create_for(all, schema, buf_str(&text), client, ret, err);
    }
    buf_deinit(&text);
    return rc;
}

int filter_check(struct json *schema, struct tidings_error *err)
{
    struct buf text;
    struct json_schema *compiled = NULL;
    int rc = write_text(schema, &text, err);
    buf_deinit(&text);
    rc = rc == 0 ? compile(schema, &compiled, NULL, err) : rc;
    schema_destroy(compiled);
    return rc;
}

void filter_release(struct filter *f)
{
    if (f && --f->refs == 0) {
        if (f->all) {
            map_remove(&f->all->by_text, tidings_strn(f->text, f->len));
        }
        allowance_give_back(f->owner, ALLOWANCE_FILTERS);
        schema_destroy(f->schema);
        mem_free(f);
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

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
        limit_hit(worker->book, LIMIT_PATTERN_STEPS);
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
        subscriber_owe_suspended(sub->subscriber, sub);
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

bool subscription_is_own(const struct subscription *sub, const struct change *change)
{
    const struct subscription_extra *x = sub->extra;
    return x && x->origin.len > 0 &&
           (str_eq(x->origin, change->origin) ||
            str_eq(tidings_strn(x->origin.ptr, x->claimed), change->origin));
}

bool filters_pass(struct subscription *sub, const struct change *change, bool alone)
{
    const struct subscriber *subscriber = sub->subscriber;
    if (!access_hears(subscriber->who, change)) {
        return false;
    }
    const struct subscription_extra *x = sub->extra;
    if (!x || !alone) {
        return true;
    }
    if (subscription_is_own(sub, change)) {
        return false;
    }
    if (!access_shows_from(subscriber->who, change)) {
        return pass_without_from(sub, change);
    }
    if (x->condition_count > 0 && !all_hold(x, delivery_subject(subscriber->worker, change))) {
        return false;
    }
    if (x->schema && !satisfies(sub, change)) {
        return false;
    }
    return !x->filter || x->filter(x->filter_user, change->uri, change->metadata_json);
}
