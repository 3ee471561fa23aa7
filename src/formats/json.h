/* SPDX-License-Identifier: MIT
 *
 * JSON values: parsing, and reading of the result.
 *
 * Parsing is strict, exactly RFC 8259 and narrower where it allows: UTF-8 without a byte order
 * mark, objects with unique keys that contain no U+0000, integers (a number without fraction and
 * exponent) of 64 bits, other numbers within the range of a double, every \u escape a character or
 * half of a complete pair, no text after the value, nesting at most `max_depth` (and 512). Strings
 * may hold U+0000 (as \u0000); accessors give length-counted slices.
 *
 * Output of other programs can be valid but not within these limits: json_parse_lenient accepts it
 * too.
 *
 * A document is a few blocks of memory that never change and are freed together (formats/json.h). A
 * `struct json` is borrowed from its document: valid until the last reference to any of its values
 * is released. Any thread may read it.
 */
#ifndef FORMATS_JSON_H
#define FORMATS_JSON_H

#include <stdatomic.h>

#include <tidings/types.h>

/* -------------------------------------------------------------------------------------------------
 * The types of JSON values, as the parser distinguishes them.
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

/* Parses one text. TIDINGS_E_PARSE with "line 1 column 8: …", counted in characters, which never
 * echoes the text; TIDINGS_E_LIMIT: too deep, or more than a gigabyte; TIDINGS_E_NOMEM. The root
 * has one reference. */
int jv_parse(struct tidings_str text, unsigned max_depth, struct json **ret_root,
             struct tidings_error *err);
/* The repairs of json_parse_lenient. */
struct jv_mended {
    unsigned halves;   /* \u escapes that are half of a surrogate pair: replaced by U+FFFD */
    unsigned repeated; /* duplicate keys: the last value counts */
};
/* Parses a peer's output, anything that RFC 8259 allows: in addition to jv_parse, halves of
 * surrogate pairs, duplicate keys or keys with U+0000, nesting of 512 levels, and any number. A
 * number that neither 64 bits nor a double represent exactly as written is a JV_REAL whose text
 * jv_written and the writer return unchanged. Fails like jv_parse; `ret_mended` may be NULL. */
int json_parse_lenient(struct tidings_str text, struct json **ret_root,
                       struct jv_mended *ret_mended, struct tidings_error *err);
/* A reference to any value keeps its whole document. NULL is fine for both. */
struct json *jv_ref(struct json *v);
void jv_unref(struct json *v);
/* The same for the root of a document without other references that contained a secret: wipes its
 * strings first. */
void jv_unref_secret(struct json *root);

enum jv_type jv_type(const struct json *v);          /* NULL pointer: JV_NULL */
bool jv_is(const struct json *v, enum jv_type type); /* false for a NULL pointer */
/* Member of an object: NULL if it is absent or if `v` is not an object (or NULL). */
struct json *jv_get_str(const struct json *v, struct tidings_str key);
static inline struct json *jv_get(const struct json *v, const char *key)
{
    return jv_get_str(v, tidings_str(key));
}
struct tidings_str jv_str(const struct json *v);     /* terminated; empty unless a string */
int64_t jv_int(const struct json *v);                /* 0 unless an integer */
double jv_real(const struct json *v);                /* any number, or the nearest double; else 0 */
struct tidings_str jv_written(const struct json *v); /* a number kept as text; else empty */
bool jv_is_true(const struct json *v);
bool jv_is_bool(const struct json *v);
bool jv_is_number(const struct json *v);
size_t jv_count(const struct json *v); /* elements or members; 0 otherwise */
struct json *jv_at(const struct json *v, size_t index);
/* Returns true if the values are equal; members in any order, 1 and 1.0 differ. */
bool jv_equal(const struct json *a, const struct json *b);
/* Iterates members in their order: start with NULL; returns an opaque position or NULL at the end.
 */
void *jv_next(struct json *object, void *position, struct tidings_str *ret_key,
              struct json **ret_value);

/* -------------------------------------------------------------------------------------------------
 * The memory layout of a JSON value: sixteen bytes in a block that belongs to its document. Private
 * to this folder.
 *
 * A document is a few blocks that are created once, never changed and freed together. All values
 * share the document's reference count. A value finds its document by its distance from the start
 * of its block.
 *
 *     block ┌ document, next block ┬ root ┬ items of {…}: key value key value … ┬ … ┬ text
 *           └──────────────────────┴──────┴─────────────────────────────────────┴───┴─────
 */

/* An object with more members has an index, before its items. */
#define VALUE_FEW 16u

struct value_index;

struct json {
    union {
        int64_t whole;
        double real;
        const char *text;                /* terminated; a number kept as written has it too */
        struct json *items;              /* elements, or the key and value of each member */
        const struct value_index *index; /* of the items after it */
    };
    uint32_t len; /* bytes, elements or members; 0 for a binary number */
    uint32_t tag; /* distance from the start of the block in units of a value, and the type */
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

/* Returns true for a number that neither 64 bits nor a double represent as written: its text is
 * kept. */
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

/* Iterates the members of an object (other values have none): returns each key, which its value
 * follows; NULL at the end. */
static inline struct json *value_first(const struct json *v)
{
    return value_members(v) > 0 ? v->items : NULL;
}

static inline struct json *value_next(const struct json *object, struct json *key)
{
    return key + 2 < object->items + 2 * (size_t)object->len ? key + 2 : NULL;
}

void value_free(struct value_document *d);

/* Creates an index of the members at `items`, the first `count` of which are added (their keys are
 * unique), with room for twice as many. NULL: out of memory; free it with mem_free. */
struct value_index *value_index_create(const struct json *items, size_t count);
/* Adds the member with this number, from 0; there must be room. False: its key exists already. */
bool value_index_add(struct value_index *index, const struct json *items, size_t number);
/* The number of the member with the key, from 1; 0: none. */
size_t value_index_find(const struct value_index *index, const struct json *items,
                        struct tidings_str key);

/* -------------------------------------------------------------------------------------------------
 * Numbers in JSON text (RFC 8259 §6): finds their end and value. Private to this folder.
 */

/* The length of the number at the start of `text`, 0: none. `*ret_is_real`: it has a fraction or an
 * exponent. */
size_t number_length(struct tidings_str text, bool *ret_is_real);
/* The nearest double, whatever the program's locale. TIDINGS_E_LIMIT: out of range, *ret is the
 * largest; TIDINGS_E_NOMEM, *ret is 0. */
int number_to_real(struct tidings_str number, double *ret);

/* -------------------------------------------------------------------------------------------------
 * Searches for a member of an object in text that could not be parsed, for example the id of a
 * request. The result is a guess, suitable only for an error message.
 */

/* The value of the first member `key` of the object `text`, as written: a number or a string,
 * quotes included. Empty: missing, or another type. Reads the text once, whatever its errors. */
struct tidings_str json_peek(struct tidings_str text, struct tidings_str key);

/* -------------------------------------------------------------------------------------------------
 * JSON pointers (RFC 6901): "/filter/0/a~1b".
 */

/* The value that a pointer refers to below `root`; the empty pointer: `root` itself. NULL if there
 * is none, or if it is not a pointer. A member name has at most 1024 bytes. */
struct json *jv_point(struct json *root, struct tidings_str pointer);

/* -------------------------------------------------------------------------------------------------
 * RFC 7396 merge patches, in both directions: merge_apply(a, merge_diff(a, b)) equals b.
 *
 * A merge patch cannot express that a member of an object *is* null (null means "remove"). If `b`
 * contains such a member, outside arrays, merge_diff returns 0 and the caller sends all of `b`.
 *
 * Values are never changed: a result is a separate document, with copies of the unchanged parts.
 * The parser's depth limit bounds the recursion.
 */

/* `target` NULL: no value yet. Returns a new reference, or NULL: out of memory. */
struct json *merge_apply(struct json *target, struct json *patch);

/* The smallest patch from `from` (NULL: no value yet) to `to`; an empty object if they are equal.
 * 1: *ret_patch is a new reference. 0: not expressible as a patch, *ret_patch is unchanged.
 * TIDINGS_E_NOMEM. */
int merge_diff(struct json *from, struct json *to, struct json **ret_patch);

#endif
