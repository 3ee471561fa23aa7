/* SPDX-License-Identifier: MIT
 *
 * JSON values read from strangers. The only folder that names the parser library (jansson).
 *
 * Parsing is strict: UTF-8, no duplicate keys, no trailing text, integers within 64 bits, nesting
 * at most `max_depth`. Strings may hold U+0000 (as \u0000); accessors give length-counted slices.
 * Names begin with jv_ and, for writing (json/write.h), jw_: jansson owns json_.
 * A `struct json` is borrowed from its document: valid until jv_unref of the root.
 */
#ifndef JSON_JSON_H
#define JSON_JSON_H

#include <tidings/types.h>

struct json; /* a value inside a document, or a document's root */

#define JSON_MAX_DEPTH 64u

/* Parse one text. TIDINGS_E_PARSE with "line 1 column 8: …"; TIDINGS_E_LIMIT when too deep. The
 * root carries one reference. */
int jv_parse(struct tidings_str text, unsigned max_depth, struct json **ret_root,
             struct tidings_error *err);
struct json *jv_ref(struct json *v);
void jv_unref(struct json *v); /* NULL is fine */

enum jv_type {
    JV_NULL,
    JV_FALSE,
    JV_TRUE,
    JV_INT,
    JV_REAL,
    JV_STRING,
    JV_ARRAY,
    JV_OBJECT,
};

enum jv_type jv_type(const struct json *v);          /* NULL pointer: JV_NULL */
bool jv_is(const struct json *v, enum jv_type type); /* false for a NULL pointer */
/* Member of an object: NULL when absent or when `v` is not an object (or NULL). */
struct json *jv_get(const struct json *v, const char *key);
struct json *jv_get_str(const struct json *v, struct tidings_str key);
struct tidings_str jv_str(const struct json *v); /* empty unless a string */
int64_t jv_int(const struct json *v);            /* 0 unless an integer */
double jv_real(const struct json *v);            /* any number; else 0 */
bool jv_is_true(const struct json *v);
size_t jv_count(const struct json *v); /* elements or members; 0 otherwise */
struct json *jv_at(const struct json *v, size_t index);
/* The same value; members in any order, 1 and 1.0 are different. */
bool jv_equal(const struct json *a, const struct json *b);
/* Iterate members: start with NULL; returns an opaque position or NULL at the end. */
void *jv_next(struct json *object, void *position, struct tidings_str *ret_key,
              struct json **ret_value);

#endif
