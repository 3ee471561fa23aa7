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
 * What another program wrote may be valid and still not that narrow: json_parse_lenient reads it
 * too.
 *
 * A document is a few blocks of memory that never change and are freed together (formats/json.h). A
 * `struct json` is borrowed from its document: valid until the last reference is given back, of
 * whichever of its values that is. Any thread may read it.
 */
#ifndef FORMATS_JSON_H
#define FORMATS_JSON_H

#include <stdatomic.h>

#include <tidings/types.h>

/* -------------------------------------------------------------------------------------------------
 * The types of JSON values, as a parser tells them apart.
 */

struct json; /* a value inside a document, or a document's root */

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

#define JSON_MAX_DEPTH 64u

/* Parse one text. TIDINGS_E_PARSE with "line 1 column 8: …", counted in characters, which never
 * echoes the text; TIDINGS_E_LIMIT when too deep, or of more than a gigabyte; TIDINGS_E_NOMEM. The
 * root carries one reference. */
int jv_parse(struct tidings_str text, unsigned max_depth, struct json **ret_root,
             struct tidings_error *err);
/* What json_parse_lenient put right. */
struct jv_mended {
    unsigned halves;   /* \u escapes that are half of a surrogate pair: U+FFFD stands there now */
    unsigned repeated; /* keys that an object had already: the last value counts */
};
/* Parse what a peer wrote, anything RFC 8259 allows: besides what jv_parse takes, halves of
 * surrogate pairs, keys twice or with U+0000, nesting of 512 levels, and any number. One that 64
 * bits or a double do not hold as it is written is a JV_REAL that jv_written and the writer give as
 * it was. Fails as jv_parse does; `ret_mended` may be NULL. */
int json_parse_lenient(struct tidings_str text, struct json **ret_root,
                       struct jv_mended *ret_mended, struct tidings_error *err);
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

/* -------------------------------------------------------------------------------------------------
 * How a JSON value lies in memory: sixteen bytes in a block that belongs to its document. Private
 * to this folder.
 *
 * A document is a few blocks that are made once, never changed and freed together; the root and
 * whatever lies below count as one reference each. A value finds its document by its distance from
 * the beginning of its block.
 *
 *     block ┌ document, next block ┬ root ┬ items of {…}: key value key value … ┬ … ┬ text
 *           └──────────────────────┴──────┴─────────────────────────────────────┴───┴─────
 */

/* An object of more members has an index, in front of its items. */
#define VALUE_FEW 16u

struct value_index;

struct json {
    union {
        int64_t whole;
        double real;
        const char *text;                /* terminated; of a number too, if it is as written */
        struct json *items;              /* elements, or the key and value of each member */
        const struct value_index *index; /* of the items behind it */
    };
    uint32_t len; /* bytes, elements or members; of a number in binary 0 */
    uint32_t tag; /* distance from the block's beginning in units of a value, and the type */
};

_Static_assert(sizeof(struct json) == 16, "values and blocks are counted in units of 16 bytes");

#define VALUE_TYPE_BITS 4u
#define VALUE_BLOCK_MAX ((size_t)1 << (32u - VALUE_TYPE_BITS)) /* values in a block */

struct value_block {
    struct value_document *document;
    struct value_block *next;
};

struct value_document {
    struct value_block block;
    struct json root;
    _Atomic unsigned refs;
    unsigned unused[3]; /* values follow */
};

_Static_assert(sizeof(struct value_document) == 48 && sizeof(struct value_block) == 16,
               "values lie at multiples of their size");

/* Open addressing over the hashes of the keys. */
struct value_index {
    struct value_block block;
    uint64_t seed;
    uint32_t mask;
    struct {
        uint32_t hash;
        uint32_t member; /* from 1; 0: free */
    } slots[];
};

static inline enum jv_type value_type(const struct json *v)
{
    return (enum jv_type)(v->tag & ((1u << VALUE_TYPE_BITS) - 1));
}

static inline struct value_document *value_document(const struct json *v)
{
    const struct json *block = v - (v->tag >> VALUE_TYPE_BITS);
    return ((const struct value_block *)(const void *)block)->document;
}

static inline struct tidings_str value_text(const struct json *v)
{
    return tidings_strn(v->text, v->len);
}

/* A number that neither 64 bits nor a double hold as it was written: its text is kept. */
static inline bool value_is_written(const struct json *v)
{
    return value_type(v) == JV_REAL && v->len > 0;
}

/* Elements of an array, members of an object; 0 for anything else. */
static inline size_t value_elements(const struct json *v)
{
    return v && value_type(v) == JV_ARRAY ? v->len : 0;
}

static inline size_t value_members(const struct json *v)
{
    return v && value_type(v) == JV_OBJECT ? v->len : 0;
}

/* Iterate the members of an object (anything else has none): each time the key, behind which is the
 * value; NULL at the end. */
static inline struct json *value_first(const struct json *v)
{
    return value_members(v) > 0 ? v->items : NULL;
}

static inline struct json *value_next(const struct json *object, struct json *key)
{
    return key + 2 < object->items + 2 * (size_t)object->len ? key + 2 : NULL;
}

void value_free(struct value_document *d);

/* The members that stand at `items`, the first `count` of which are in it (all their keys are
 * different), with room for as many again. NULL: out of memory; mem_free gives it back. */
struct value_index *value_index_create(const struct json *items, size_t count);
/* The member of this number, from 0; there must be room. False: its key is there already. */
bool value_index_add(struct value_index *index, const struct json *items, size_t number);
/* The number of the member with the key, from 1; 0: there is none. */
size_t value_index_find(const struct value_index *index, const struct json *items,
                        struct tidings_str key);

/* -------------------------------------------------------------------------------------------------
 * Numbers in JSON text (RFC 8259 §6): where one ends, and which double it is. Private to this
 * folder.
 */

/* The length of the number that `text` begins with, 0: there is none. `*ret_is_real`: it has a
 * fraction or an exponent. */
size_t number_length(struct tidings_str text, bool *ret_is_real);
/* The double that is nearest, whatever the program's locale. TIDINGS_E_LIMIT: it is beyond all of
 * them, *ret is the last; TIDINGS_E_NOMEM, *ret is 0. */
int number_to_real(struct tidings_str number, double *ret);

/* -------------------------------------------------------------------------------------------------
 * Looking for a member of an object in a text that could not be parsed, so that what it was an
 * answer to can be told. What is found is a guess, good for an error message and for nothing else.
 */

/* The value of the first member `key` of the object that `text` is, as it is written: a number or a
 * string, quotes included. Empty: there is none, or it is neither. Reads the text once, whatever is
 * wrong with it. */
struct tidings_str json_peek(struct tidings_str text, struct tidings_str key);

/* -------------------------------------------------------------------------------------------------
 * JSON pointers (RFC 6901): "/filter/0/a~1b".
 */

/* The value a pointer leads to below `root`; the empty pointer: `root` itself. NULL when there is
 * none, or when it is not a pointer. A member's name may be up to 1024 bytes long. */
struct json *jv_point(struct json *root, struct tidings_str pointer);

/* -------------------------------------------------------------------------------------------------
 * RFC 7396 merge patches, both ways: merge_apply(a, merge_diff(a, b)) equals b.
 *
 * What a merge patch cannot say: that a member of an object *is* null (null means "remove"). Where
 * `b` holds such a member, outside arrays, merge_diff says so and the caller sends `b` whole.
 *
 * Values are never changed: a result is a document of its own, with copies of the parts that stay
 * as they are. Recursion goes as deep as the values do, which the parser bounds.
 */

/* `target` NULL: there is nothing yet. A new reference, or NULL: out of memory. */
struct json *merge_apply(struct json *target, struct json *patch);

/* The smallest patch from `from` (NULL: nothing yet) to `to`; an empty object when they are equal.
 * 1: *ret_patch is a new reference. 0: no patch can say it, *ret_patch is untouched.
 * TIDINGS_E_NOMEM. */
int merge_diff(struct json *from, struct json *to, struct json **ret_patch);

#endif
