/* SPDX-License-Identifier: MIT
 *
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
#ifndef JSON_VALUE_H
#define JSON_VALUE_H

#include <stdatomic.h>

#include "json/type.h"

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
/* The value of a member, or NULL. */
struct json *value_find(const struct json *object, struct tidings_str key);

#endif
