/* SPDX-License-Identifier: MIT
 *
 * JSON values: parsing a text, and reading what came out.
 *
 * Parsing is strict, RFC 8259 to the letter and narrower where it leaves room: UTF-8 without a byte
 * order mark, objects whose keys are all different and hold no U+0000, integers (a number without
 * fraction and exponent) of 64 bits, other numbers within the range of a double, every \u escape a
 * character or half of a pair that is complete, no text after the value, nesting at most
 * `max_depth` (and 512). Strings may hold U+0000 (as \u0000); accessors give length-counted slices.
 *
 * What another program wrote may be valid and still not that narrow: jv_parse_peer reads it too.
 *
 * A document is a few blocks of memory that never change and are freed together (json/value.h). A
 * `struct json` is borrowed from its document: valid until the last reference is given back, of
 * whichever of its values that is. Any thread may read it.
 */
#ifndef JSON_JSON_H
#define JSON_JSON_H

#include "json/type.h"

#define JSON_MAX_DEPTH 64u

/* Parse one text. TIDINGS_E_PARSE with "line 1 column 8: …", counted in characters, which never
 * echoes the text; TIDINGS_E_LIMIT when too deep, or of more than a gigabyte; TIDINGS_E_NOMEM. The
 * root carries one reference. */
int jv_parse(struct tidings_str text, unsigned max_depth, struct json **ret_root,
             struct tidings_error *err);
/* What jv_parse_peer put right. */
struct jv_mended {
    unsigned halves;   /* \u escapes that are half of a surrogate pair: U+FFFD stands there now */
    unsigned repeated; /* keys that an object had already: the last value counts */
};
/* Parse what a peer wrote, anything RFC 8259 allows: besides what jv_parse takes, halves of
 * surrogate pairs, keys twice or with U+0000, nesting of 512 levels, and any number. One that 64
 * bits or a double do not hold as it is written is a JV_REAL that jv_written and the writer give as
 * it was. Fails as jv_parse does; `ret_mended` may be NULL. */
int jv_parse_peer(struct tidings_str text, struct json **ret_root, struct jv_mended *ret_mended,
                  struct tidings_error *err);
/* A reference to any value keeps its whole document. NULL is fine for both. */
struct json *jv_ref(struct json *v);
void jv_unref(struct json *v);
/* The same for the root of a document that nobody else has, and that held a secret: its texts are
 * wiped first. */
void jv_unref_secret(struct json *root);

enum jv_type jv_type(const struct json *v);          /* NULL pointer: JV_NULL */
bool jv_is(const struct json *v, enum jv_type type); /* false for a NULL pointer */
/* Member of an object: NULL when absent or when `v` is not an object (or NULL). */
struct json *jv_get_str(const struct json *v, struct tidings_str key);
static inline struct json *jv_get(const struct json *v, const char *key)
{
    return jv_get_str(v, tidings_str(key));
}
struct tidings_str jv_str(const struct json *v);     /* terminated; empty unless a string */
int64_t jv_int(const struct json *v);                /* 0 unless an integer */
double jv_real(const struct json *v);                /* any number, or the nearest; else 0 */
struct tidings_str jv_written(const struct json *v); /* a number kept as text; else empty */
bool jv_is_true(const struct json *v);
bool jv_is_bool(const struct json *v);
bool jv_is_number(const struct json *v);
size_t jv_count(const struct json *v); /* elements or members; 0 otherwise */
struct json *jv_at(const struct json *v, size_t index);
/* The same value; members in any order, 1 and 1.0 are different. */
bool jv_equal(const struct json *a, const struct json *b);
/* Iterate members in their order: start with NULL; returns an opaque position or NULL at the end.
 */
void *jv_next(struct json *object, void *position, struct tidings_str *ret_key,
              struct json **ret_value);

#endif
