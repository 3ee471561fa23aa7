/* SPDX-License-Identifier: MIT
 *
 * Reading JSON values: types, members, elements, equality, and the references to a document.
 */
#include "json/json.h"

#include "json/number.h"
#include "json/value.h"

struct json *jv_ref(struct json *v)
{
    if (v) {
        atomic_fetch_add_explicit(&value_document(v)->refs, 1, memory_order_relaxed);
    }
    return v;
}

void jv_unref(struct json *v)
{
    struct value_document *d = v ? value_document(v) : NULL;
    if (d && (atomic_load_explicit(&d->refs, memory_order_acquire) == 1 ||
              atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) == 1)) {
        value_free(d);
    }
}

static void jv_wipe(const struct json *v)
{
    size_t count = value_type(v) == JV_OBJECT  ? 2 * (size_t)v->len
                   : value_type(v) == JV_ARRAY ? v->len
                                               : 0;
    for (size_t i = 0; i < count; i++) { /* as deep as what was parsed */
        jv_wipe(&v->items[i]);
    }
    if (value_type(v) == JV_STRING) {
        explicit_bzero((char *)(uintptr_t)v->text, v->len);
    }
}

void jv_unref_secret(struct json *root)
{
    if (root) {
        jv_wipe(root);
        jv_unref(root);
    }
}

enum jv_type jv_type(const struct json *v)
{
    return v ? value_type(v) : JV_NULL;
}

bool jv_is(const struct json *v, enum jv_type type)
{
    return v && value_type(v) == type;
}

bool jv_is_number(const struct json *v)
{
    return jv_is(v, JV_INT) || jv_is(v, JV_REAL);
}

bool jv_is_bool(const struct json *v)
{
    return jv_is(v, JV_TRUE) || jv_is(v, JV_FALSE);
}

struct json *jv_get_str(const struct json *v, struct tidings_str key)
{
    return jv_is(v, JV_OBJECT) ? value_find(v, key) : NULL;
}

struct tidings_str jv_str(const struct json *v)
{
    return jv_is(v, JV_STRING) ? value_text(v) : tidings_strn("", 0);
}

int64_t jv_int(const struct json *v)
{
    return jv_is(v, JV_INT) ? v->whole : 0;
}

struct tidings_str jv_written(const struct json *v)
{
    return v && value_is_written(v) ? value_text(v) : tidings_strn("", 0);
}

double jv_real(const struct json *v)
{
    double real = 0;
    if (!jv_is(v, JV_REAL)) {
        return (double)jv_int(v);
    }
    if (!value_is_written(v)) {
        return v->real;
    }
    (void)number_to_real(value_text(v), &real);
    return real;
}

bool jv_is_true(const struct json *v)
{
    return jv_is(v, JV_TRUE);
}

size_t jv_count(const struct json *v)
{
    return jv_is(v, JV_ARRAY) || jv_is(v, JV_OBJECT) ? v->len : 0;
}

struct json *jv_at(const struct json *v, size_t index)
{
    return jv_is(v, JV_ARRAY) && index < v->len ? &v->items[index] : NULL;
}

static bool equal_members(const struct json *a, const struct json *b)
{
    for (size_t i = 0; i < a->len; i++) {
        const struct json *other = value_find(b, value_text(&a->items[2 * i]));
        if (!other || !jv_equal(&a->items[2 * i + 1], other)) {
            return false;
        }
    }
    return true;
}

static bool equal_elements(const struct json *a, const struct json *b)
{
    for (size_t i = 0; i < a->len; i++) {
        if (!jv_equal(&a->items[i], &b->items[i])) {
            return false;
        }
    }
    return true;
}

bool jv_equal(const struct json *a, const struct json *b)
{
    if (!a || !b || value_type(a) != value_type(b)) {
        return false;
    }
    switch (value_type(a)) {
    case JV_NULL:
    case JV_FALSE:
    case JV_TRUE:
        return true;
    case JV_INT:
        return a->whole == b->whole;
    case JV_REAL:
        return value_is_written(a) && value_is_written(b)
                   ? tidings_str_eq(value_text(a), value_text(b))
                   : jv_real(a) == jv_real(b);
    case JV_STRING:
        return tidings_str_eq(value_text(a), value_text(b));
    case JV_ARRAY:
        return a->len == b->len && equal_elements(a, b);
    case JV_OBJECT:
        return a->len == b->len && equal_members(a, b);
    }
    return false;
}

void *jv_next(struct json *object, void *position, struct tidings_str *ret_key,
              struct json **ret_value)
{
    if (!jv_is(object, JV_OBJECT)) {
        return NULL;
    }
    struct json *key = position ? (struct json *)position + 2 : object->items;
    if (key == object->items + 2 * (size_t)object->len) {
        return NULL;
    }
    *ret_key = value_text(key);
    *ret_value = key + 1;
    return key;
}
