/* SPDX-License-Identifier: MIT
 *
 * The filters of a worker: JSON Schemas compiled once per text, and reference-counted.
 */
#include "engine/delivery/filters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text.h"
#include "base/time.h"
#include "engine/delivery/catchup.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "formats/json_write.h"
#include "formats/schema.h"
#include "security/access.h"
#include "security/client_account.h"
#include "store/change.h"

/* -------------------------------------------------------------------------------------------------
 * Filters: compiling and evaluating them, the document they evaluate, and the earlier changes they
 * compare it with.
 */

struct worker;

/* Enough for any filter a person writes; an evaluation stays below half a millisecond. */
#define FILTER_MAX_STEPS 200000u
#define FILTER_MAX_SUBSCHEMAS 256u
#define FILTER_MAX_DEPTH 32u

struct filter {
    struct filters *all; /* NULL: the table is freed */
    struct json_schema *schema;
    size_t refs;
    struct client_account *owner; /* the account that pays for it */
    bool sees_time;               /* its document has `time` … */
    bool looks_back;              /* … `previous` and `change` */
    uint64_t decided_seq;         /* the last change it evaluated … */
    uint64_t decided_before;      /* … compared with this one; 0: none … */
    uint32_t decided_turn;        /* … in this turn of the loop, if it sees the time … */
    enum schema_verdict verdict;  /* … and the result */
    size_t len;
    char text[];
};

/* -------------------------------------------------------------------------------------------------
 * The JSON document that a filter evaluates when its schema uses more than URI and metadata: the
 * time, the metadata last sent, and the differences from it. A schema cannot compare two values, so
 * they are compared here.
 */

#define DOCUMENT_MEMBERS 64u /* of metadata that are compared */
#define MINUTE_MS INT64_C(60000)
#define DAY_MINUTES 1440

/* ---- the time -------------------------------------------------------------------------------- */

/* Unix milliseconds, as a number or a string. */
static bool document_time(const struct json *v, int64_t *ret_ms)
{
    struct instant i;
    if (jv_is(v, JV_INT)) {
        *ret_ms = jv_int(v);
        return true;
    }
    if (!jv_is(v, JV_STRING) || !instant_parse(jv_str(v), &i)) {
        return false;
    }
    *ret_ms = i.second * 1000 + i.nanosecond / 1000000;
    return true;
}

static void document_put_time(struct jw *w, const struct json *metadata)
{
    int64_t now = clock_wall_ms(), changed = 0, age = 0;
    int64_t minutes = now / MINUTE_MS, minute = minutes % DAY_MINUTES;
    bool is_known = document_time(jv_get(metadata, "updated_at"), &changed) &&
                    !__builtin_sub_overflow(now, changed, &age);
    jw_key(w, STR("time"));
    jw_begin_object(w);
    if (is_known) {
        jw_put_integer(w, STR("ageMs"), age > 0 ? age : 0); /* clocks may differ */
    }
    jw_put_integer(w, STR("hour"), minute / 60);
    jw_put_integer(w, STR("minuteOfDay"), minute);
    /* 1970 began on a Thursday. */
    jw_put_integer(w, STR("weekday"), (minutes / DAY_MINUTES + 3) % 7 + 1);
    jw_end_object(w);
}

/* ---- differences ----------------------------------------------------------------------------- */

/* Decimal arithmetic: 0.3 is 0.1 more than 0.2. Drops digits that the numbers did not have. */
static double document_round(double n, double of)
{
    char text[80];
    int decimals = 14; /* of a number with one digit before the point */
    for (of = fabs(of); of >= 10 && decimals > 0; of /= 10) {
        decimals--;
    }
    for (; of > 0 && of < 1 && decimals < 40; of *= 10) {
        decimals++;
    }
    if (of >= 10 || of < 1) {
        return n;
    }
    snprintf(text, sizeof(text), "%.*f", decimals, n);
    return strtod(text, NULL);
}

static double document_difference(double now, double before)
{
    return document_round(now - before, fabs(now) > fabs(before) ? now : before);
}

static void document_put_number(struct jw *w, struct tidings_str key, double n)
{
    if (isfinite(n)) {
        jw_key(w, key);
        jw_number(w, n);
    }
}

static void document_put_difference(struct jw *w, struct tidings_str key, double now, double before)
{
    document_put_number(w, key, document_difference(now, before));
}

/* If the earlier value was 0, there is no ratio unless it is still 0. */
static void document_put_ratio(struct jw *w, struct tidings_str key, double now, double before)
{
    double ratio = now == before ? 0 : fabs(document_difference(now, before)) / fabs(before);
    document_put_number(w, key, document_round(ratio, ratio));
}

/* For each member that is a number in both: the result of `put`. */
static void document_put_numbers(struct jw *w, struct json *now, const struct json *before,
                                 void (*put)(struct jw *w, struct tidings_str key, double now,
                                             double before))
{
    struct tidings_str key;
    struct json *value = NULL;
    unsigned n = 0;
    jw_begin_object(w);
    for (void *at = jv_next(now, NULL, &key, &value); at && n < DOCUMENT_MEMBERS;
         at = jv_next(now, at, &key, &value), n++) {
        const struct json *old = jv_get_str(before, key);
        if (jv_is_number(value) && jv_is_number(old)) {
            put(w, key, jv_real(value), jv_real(old));
        }
    }
    jw_end_object(w);
}

static void document_put_changed(struct jw *w, struct json *now, struct json *before)
{
    struct tidings_str key;
    struct json *value = NULL;
    unsigned n = 0;
    jw_begin_array(w);
    for (void *at = jv_next(now, NULL, &key, &value); at && n < DOCUMENT_MEMBERS;
         at = jv_next(now, at, &key, &value), n++) {
        const struct json *old = jv_get_str(before, key);
        if (!old || !jv_equal(value, old)) {
            jw_string(w, key);
        }
    }
    for (void *at = jv_next(before, NULL, &key, &value); at && n < 2 * DOCUMENT_MEMBERS;
         at = jv_next(before, at, &key, &value), n++) {
        if (!jv_get_str(now, key)) {
            jw_string(w, key);
        }
    }
    jw_end_array(w);
}

static void document_put_version(struct jw *w, const struct json *now, const struct json *before)
{
    static const char *const names[] = {"older", "same", "newer", "unknown"}; /* index: order + 1 */
    const struct json *a = jv_get(now, "version"), *b = jv_get(before, "version");
    if (jv_is(a, JV_STRING) && jv_is(b, JV_STRING)) {
        int order = version_compare(jv_str(a), jv_str(b));
        jw_put_string(w, STR("version"), tidings_str(names[order + 1]));
    }
}

static void document_put_change(struct jw *w, struct json *now, struct json *before)
{
    jw_key(w, STR("change"));
    jw_begin_object(w);
    jw_key(w, STR("changed"));
    document_put_changed(w, now, before);
    jw_key(w, STR("difference"));
    document_put_numbers(w, now, before, document_put_difference);
    jw_key(w, STR("ratio"));
    document_put_numbers(w, now, before, document_put_ratio);
    document_put_version(w, now, before);
    jw_end_object(w);
}

/* ---- the document ---------------------------------------------------------------------------- */

static struct json *filters_document(const struct filter *f, const struct worker *worker,
                                     const struct change *change, const struct change *before,
                                     bool hides_from, size_t *ret_bytes)
{
    struct json *now = delivery_make_subject(worker, change, hides_from), *document = NULL;
    /* The subscriber may not be allowed to see where that change moved from, so it is left out. */
    struct json *past =
        before && f->looks_back ? delivery_make_subject(worker, before, true) : NULL;
    struct json *metadata = jv_get(now, "metadata"), *previous = jv_get(past, "metadata");
    struct buf text;
    struct jw w;
    buf_init(&text, SIZE_MAX / 2);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_put_string(&w, STR("uri"), jv_str(jv_get(now, "uri")));
    jw_key(&w, STR("metadata"));
    jw_value(&w, metadata);
    if (f->sees_time) {
        document_put_time(&w, metadata);
    }
    if (previous) {
        jw_key(&w, STR("previous"));
        jw_value(&w, previous);
        document_put_change(&w, metadata, previous);
    }
    jw_end_object(&w);
    *ret_bytes = text.len;
    if (now && !text.failed) {
        (void)jv_parse(buf_str(&text), worker->limits->max_depth + 2, &document, NULL);
    }
    buf_deinit(&text);
    jv_unref(now);
    jv_unref(past);
    return document;
}

/* -------------------------------------------------------------------------------------------------
 * Remembers the change of each resource that the subscription last received, for filters that
 * compare a change with the previous one. It keeps a reference to the shared change. Limits apply
 * per subscription, client and worker; beyond them a change is not remembered, so that the next one
 * counts as the first.
 */

/* Including its place in the table. */
static size_t past_cost(const struct change *change)
{
    return change_bytes(change) + 4 * sizeof(void *);
}

static struct filters *filters_of(const struct subscription *sub)
{
    return &sub->subscriber->worker->delivery->filters;
}

/* Returns the previous change of that resource that the subscription received; NULL: none is
 * remembered. */
static const struct change *filters_previous(const struct subscription *sub,
                                             const struct change *change)
{
    return sub->extra->past ? map_find(sub->extra->past, change->uri) : NULL;
}

static void past_drop(struct subscription *sub, struct change *old)
{
    if (old) {
        filters_of(sub)->past_bytes -= past_cost(old);
        client_account_give_back(sub->subscriber->account, CLIENT_ACCOUNT_FILTER_PAST);
        change_unref(old);
    }
}

/* Returns the table of a subscription with room for one more; NULL: no room. */
static struct map *past_room(struct subscription *sub)
{
    struct subscription_extra *x = sub->extra;
    if (!x->past) {
        x->past = mem_alloc(sizeof(*x->past));
        if (!x->past) {
            return NULL;
        }
        map_init(x->past);
    }
    return x->past->count < FILTER_PAST_URIS ? x->past : NULL;
}

/* The change passes: the next one is compared with it. */
static void filters_remember(struct subscription *sub, const struct change *change)
{
    struct filters *all = filters_of(sub);
    struct client_account *client = sub->subscriber->account;
    /* First drops the previous one and gives back its share. */
    past_drop(sub, sub->extra->past ? map_remove(sub->extra->past, change->uri) : NULL);
    if (change->kind == TIDINGS_CHANGE_DELETED ||
        change->metadata_json.len > FILTER_PAST_METADATA ||
        all->past_bytes + past_cost(change) > FILTERS_PAST_BYTES) {
        return;
    }
    struct map *past = past_room(sub);
    if (!past || !client_account_take(client, CLIENT_ACCOUNT_FILTER_PAST)) {
        return;
    }
    struct change *kept = change_ref(change);
    if (map_put(past, kept->uri, kept, NULL) < 0) {
        client_account_give_back(client, CLIENT_ACCOUNT_FILTER_PAST);
        change_unref(kept);
        return;
    }
    all->past_bytes += past_cost(kept);
}

void filters_forget(struct subscription *sub)
{
    struct map *past = sub->extra->past;
    struct change *c;
    for (size_t pos = 0; past && (c = map_next(past, &pos)) != NULL;) {
        past_drop(sub, c);
    }
    if (past) {
        map_deinit(past);
        mem_free(past);
        sub->extra->past = NULL;
    }
}

/* -------------------------------------------------------------------------------------------------
 * Decides whether a subscription receives a change: access, origin, conditions, schema, the
 * program's own function, in this order.
 */

bool filters_allow(const struct principal *principal, const struct change *change)
{
    return !change->is_mute &&
           access_may_notify(principal, change->uri, change->target, change->seq);
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

/* If the member has several values, one match is enough. */
static bool filters_condition_holds(struct json *subject, const struct subscription_condition *c)
{
    struct json *value = jv_get_str(jv_get(subject, "metadata"), c->key);
    bool found = is_value(value, c->value);
    for (size_t i = 0; !found && jv_is(value, JV_ARRAY) && i < jv_count(value); i++) {
        found = is_value(jv_at(value, i), c->value);
    }
    return found;
}

/* Returns the document for the filter of `sub`; a reference. *ret_cost: of making it, if it is not
 * shared. */
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

/* Evaluates the filter; its client pays. Returns false if the client has less than the maximum cost
 * of an evaluation left. */
static bool filters_decide(struct subscription *sub, const struct change *change,
                           const struct change *before, bool hides_from, enum schema_verdict *ret)
{
    struct worker *worker = sub->subscriber->worker;
    struct client_account *client = sub->subscriber->account;
    uint64_t now = loop_now_ms(worker->loop), steps = FILTER_MAX_STEPS;
    *ret = SCHEMA_VALID;
    if (client_account_steps_left(client, now) < steps) {
        limit_hit(worker->limit_counters, LIMIT_PATTERN_STEPS);
        return false;
    }
    size_t cost;
    struct json *document = document_for(sub, change, before, hides_from, &cost);
    if (document) { /* without memory every change passes */
        *ret = schema_check_within(sub->extra->schema->schema, document, NULL, &steps);
        worker->delivery->filters.decided++;
    }
    client_account_spend(client, FILTER_MAX_STEPS - steps + cost, now);
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
    if (f->decided_seq != change->seq || f->decided_before != before_seq ||
        f->decided_turn != turn) {
        f->decided_seq = 0;
        if (!filters_decide(sub, change, before, false, &f->verdict)) {
            return true; /* other clients may be able to pay */
        }
        f->decided_seq = change->seq;
        f->decided_before = before_seq;
        f->decided_turn = turn;
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

/* For a subscriber that may not see where it moved from: rare, so no result is cached. */
static bool pass_without_from(struct subscription *sub, const struct change *change)
{
    const struct subscription_extra *x = sub->extra;
    struct json *subject = delivery_make_subject(sub->subscriber->worker, change, true);
    enum schema_verdict verdict = SCHEMA_VALID;
    bool passes = !subject || all_hold(x, subject);
    jv_unref(subject);
    if (passes && x->schema) {
        passes = !filters_decide(sub, change, filters_previous(sub, change), true, &verdict) ||
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

/* Returns true if `sub` covers both ends of a move that subscribers follow: it is notified of the
 * first half. */
static bool is_notified_of_first_half(struct subscription *sub, const struct change *change)
{
    return change->is_arrival && change->seq - 1 > sub->since &&
           filters_show_from(sub->subscriber->principal, change) &&
           lookup_ask(sub, change->from) == LOOKUP_YES;
}

/* Returns true if it satisfies the subscription's options. */
static bool filters_want(struct subscription *sub, const struct change *change)
{
    const struct subscriber *subscriber = sub->subscriber;
    const struct subscription_extra *x = sub->extra;
    if (filters_is_own(sub, change)) {
        return false;
    }
    if (!filters_show_from(subscriber->principal, change)) {
        /* The new URI of a move is hidden from filters; the departure is not. */
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
        return false; /* a principal that may see it must know its URI already */
    }
    if (!filters_allow(sub->subscriber->principal, change) ||
        is_notified_of_first_half(sub, change) || (x && alone && !filters_want(sub, change))) {
        return false;
    }
    if (x && x->schema && x->schema->looks_back) {
        filters_remember(sub, change);
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------- */

void filters_init(struct filters *all)
{
    map_init(&all->by_text);
    all->decided = 0;
    all->past_bytes = 0;
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

/* Writes the text that identifies a filter. */
static int write_text(struct json *schema, struct buf *text, struct tidings_error *err)
{
    struct jw w;
    buf_init(text, 8 * FILTER_MAX_BYTES); /* the writer reserves for the worst case */
    jw_init(&w, text);
    jw_value(&w, schema);
    if (text->failed == TIDINGS_E_LIMIT || text->len > FILTER_MAX_BYTES) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "option 'filter' may be at most %u bytes long",
                            FILTER_MAX_BYTES);
    }
    return text->failed ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory") : 0;
}

/* *ret_cost: in steps, even on failure. */
static int filters_compile(struct json *schema, struct json_schema **ret, uint64_t *ret_cost,
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
        /* A reference that cannot be resolved is an error in the option, not a missing resource. */
        rc = rc == TIDINGS_E_NOMEM || rc == TIDINGS_E_LIMIT ? rc : TIDINGS_E_INVALID;
        return error_wrap(err, rc, "option 'filter'");
    }
    return 0;
}

/* Returns true if the schema contains this keyword, as a key or elsewhere: a false positive costs
 * little. */
static bool filters_names(struct tidings_str text, const char *quoted)
{
    return memmem(text.ptr, text.len, quoted, strlen(quoted)) != NULL;
}

static int filters_create(struct filters *all, struct json *schema, struct tidings_str text,
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
    f->sees_time = filters_names(text, "\"time\"");
    f->looks_back = filters_names(text, "\"previous\"") || filters_names(text, "\"change\"");
    int rc = filters_compile(schema, &f->schema, ret_cost, err);
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

/* Creates one more; a client pays. */
static int create_for(struct filters *all, struct json *schema, struct tidings_str text,
                      struct client_account *client, struct filter **ret, struct tidings_error *err)
{
    uint64_t now = clock_monotonic_ms();
    if (all->by_text.count >= FILTERS_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "option 'filter': at most %u different filters are allowed, of all "
                            "clients together",
                            FILTERS_MAX);
    }
    if (client_account_steps_left(client, now) == 0) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "option 'filter': the patterns of this client have used up what they "
                            "may cost in a second; try again");
    }
    if (!client_account_take(client, CLIENT_ACCOUNT_FILTERS)) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "option 'filter': at most %u different filters of one client are "
                            "allowed",
                            CLIENT_ACCOUNT_MAX_FILTERS);
    }
    uint64_t cost = 0;
    int rc = filters_create(all, schema, text, &cost, ret, err);
    client_account_spend(client, cost, now);
    if (rc == 0) {
        (*ret)->owner = client;
    } else {
        client_account_give_back(client, CLIENT_ACCOUNT_FILTERS);
    }
    return rc;
}

int filter_acquire(struct filters *all, struct json *schema, struct client_account *client,
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
    rc = rc == 0 ? filters_compile(schema, &compiled, NULL, err) : rc;
    schema_destroy(compiled);
    return rc;
}

struct tidings_str filter_text(const struct filter *f)
{
    return tidings_strn(f->text, f->len);
}

void filter_release(struct filter *f)
{
    if (f && --f->refs == 0) {
        if (f->all) {
            map_remove(&f->all->by_text, tidings_strn(f->text, f->len));
        }
        client_account_give_back(f->owner, CLIENT_ACCOUNT_FILTERS);
        schema_destroy(f->schema);
        mem_free(f);
    }
}
