/* SPDX-License-Identifier: MIT
 *
 * JSON values over jansson: a `struct json *` is a jansson value under another name.
 *
 * jansson keeps the values; the text is read by json/parse.c. The values' allocations are jansson's
 * (its allocator is global to the process) and are not counted among ours.
 */
#include "json/json.h"

#include <jansson.h>

#include "json/parse.h"

static json_t *unwrap(const struct json *v)
{
    /* jansson takes non-const pointers even to read; nothing here writes through them. */
    return (json_t *)(uintptr_t)v;
}

static struct json *wrap(json_t *v)
{
    return (struct json *)(void *)v;
}

int jv_parse(struct tidings_str text, unsigned max_depth, struct json **ret_root,
             struct tidings_error *err)
{
    json_t *root = NULL;
    int rc = parse_text(text, max_depth, &root, err);
    if (rc == 0) {
        *ret_root = wrap(root);
    }
    return rc;
}

struct json *jv_ref(struct json *v)
{
    return wrap(json_incref(unwrap(v)));
}

void jv_unref(struct json *v)
{
    json_decref(unwrap(v));
}

enum jv_type jv_type(const struct json *v)
{
    static const enum jv_type types[] = {
        [JSON_OBJECT] = JV_OBJECT, [JSON_ARRAY] = JV_ARRAY, [JSON_STRING] = JV_STRING,
        [JSON_INTEGER] = JV_INT,   [JSON_REAL] = JV_REAL,   [JSON_TRUE] = JV_TRUE,
        [JSON_FALSE] = JV_FALSE,   [JSON_NULL] = JV_NULL,
    };
    return v ? types[json_typeof(unwrap(v))] : JV_NULL;
}

bool jv_is(const struct json *v, enum jv_type type)
{
    return v && jv_type(v) == type;
}

struct json *jv_get(const struct json *v, const char *key)
{
    return wrap(json_object_get(unwrap(v), key));
}

struct json *jv_get_str(const struct json *v, struct tidings_str key)
{
    if (!jv_is(v, JV_OBJECT)) {
        return NULL;
    }
    return (struct json *)json_object_getn((const json_t *)v, key.ptr, key.len);
}

struct tidings_str jv_str(const struct json *v)
{
    if (!jv_is(v, JV_STRING)) {
        return tidings_strn("", 0);
    }
    return tidings_strn(json_string_value(unwrap(v)), json_string_length(unwrap(v)));
}

int64_t jv_int(const struct json *v)
{
    return json_integer_value(unwrap(v));
}

double jv_real(const struct json *v)
{
    return json_number_value(unwrap(v));
}

bool jv_is_true(const struct json *v)
{
    return jv_is(v, JV_TRUE);
}

size_t jv_count(const struct json *v)
{
    return jv_is(v, JV_OBJECT) ? json_object_size(unwrap(v)) : json_array_size(unwrap(v));
}

struct json *jv_at(const struct json *v, size_t index)
{
    return wrap(json_array_get(unwrap(v), index));
}

bool jv_equal(const struct json *a, const struct json *b)
{
    return json_equal(unwrap(a), unwrap(b)) == 1;
}

void *jv_next(struct json *object, void *position, struct tidings_str *ret_key,
              struct json **ret_value)
{
    json_t *o = unwrap(object);
    void *next = position ? json_object_iter_next(o, position) : json_object_iter(o);
    if (next) {
        *ret_key = tidings_strn(json_object_iter_key(next), json_object_iter_key_len(next));
        *ret_value = wrap(json_object_iter_value(next));
    }
    return next;
}
