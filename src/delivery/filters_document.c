/* SPDX-License-Identifier: MIT
 *
 * The JSON document that a filter judges when its schema names more than URI and metadata: the
 * time, the metadata that was told before, and what differs from it. A schema cannot compare two
 * values, so they are compared here.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/instant.h"
#include "base/str.h"
#include "base/version.h"
#include "delivery/delivery.h"
#include "delivery/filters_private.h"
#include "store/change.h"
#include "json/write.h"

#define DOCUMENT_MEMBERS 64u /* of metadata that are compared */
#define MINUTE_MS INT64_C(60000)
#define DAY_MINUTES 1440

/* ---- the time -------------------------------------------------------------------------------- */

/* Unix milliseconds, as a number or as a text. */
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
        jw_put_integer(w, STR("ageMs"), age > 0 ? age : 0); /* the clocks may differ */
    }
    jw_put_integer(w, STR("hour"), minute / 60);
    jw_put_integer(w, STR("minuteOfDay"), minute);
    /* 1970 began on a Thursday. */
    jw_put_integer(w, STR("weekday"), (minutes / DAY_MINUTES + 3) % 7 + 1);
    jw_end_object(w);
}

/* ---- what differs ---------------------------------------------------------------------------- */

/* As people reckon, 0.3 is 0.1 more than 0.2: digits that the numbers did not have are dropped. */
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

/* Of what was 0 there is none, unless it still is. */
static void document_put_ratio(struct jw *w, struct tidings_str key, double now, double before)
{
    double ratio = now == before ? 0 : fabs(document_difference(now, before)) / fabs(before);
    document_put_number(w, key, document_round(ratio, ratio));
}

/* For each member that is a number then and now: what `put` makes of both. */
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
    static const char *const names[] = {"older", "same", "newer", "unknown"}; /* from -1 on */
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

/* ---- together -------------------------------------------------------------------------------- */

struct json *filters_document(const struct filter *f, const struct worker *worker,
                              const struct change *change, const struct change *before,
                              bool hides_from, size_t *ret_bytes)
{
    struct json *now = delivery_make_subject(worker, change, hides_from), *document = NULL;
    /* The subscriber may not have been shown where that one came from, so it is not told here. */
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
