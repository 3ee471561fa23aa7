/* SPDX-License-Identifier: MIT
 *
 * Builds a JSON document value by value, in the order of its text. Private to this folder.
 *
 *     struct build b;
 *     if (build_init(&b, 0, 0) == 0) {
 *         build_begin(&b, JV_OBJECT);
 *         build_key(&b, key);
 *         build_copy(&b, value);
 *         build_end(&b);
 *     }
 *     struct json *root = build_finish(&b); // NULL: out of memory
 *
 * The values of open containers are on a stack; when a container ends, they move to contiguous
 * places in a block. The first failure sticks, and later calls do nothing.
 */
#ifndef FORMATS_JSON_BUILD_H
#define FORMATS_JSON_BUILD_H

#include "formats/json.h"

/* Maximum nesting depth: comparing and writing are recursive. */
#define BUILD_MAX_DEPTH 512u
#define BUILD_SMALL_STACK 128u
/* The initial size of a document if nothing else is known: a kilobyte. */
#define BUILD_FIRST_VALUES 32u
#define BUILD_FIRST_TEXT 448u

struct build_open {
    size_t base; /* index of its first value on the stack; the container is directly below */
    struct value_index *index;
};

struct build {
    struct value_document *document; /* NULL: failed */
    struct value_block *block;       /* the block that contains `slots` */
    struct json *slots, *slots_end;
    char *text, *text_end;
    struct json *stack;
    size_t top, cap;
    unsigned depth;
    /* duplicate keys of an object: the last value counts, in the place of the first */
    bool may_repeat;
    unsigned repeated; /* number of duplicate keys */
    struct build_open open[BUILD_MAX_DEPTH];
    struct json small[BUILD_SMALL_STACK];
};

/* Initial room for this many values and bytes. TIDINGS_E_NOMEM; build_finish must still be called.
 */
int build_init(struct build *b, size_t values, size_t text_bytes);
struct json *build_finish(struct build *b); /* the root, with its reference; NULL: failed */
void build_discard(struct build *b);        /* instead of build_finish */
struct json *build_grow(struct build *b);   /* build_push when the stack is full */

/* Pushes the next value, which the caller fills in. NULL: failed. */
static inline struct json *build_push(struct build *b)
{
    return b->top < b->cap ? &b->stack[b->top++] : build_grow(b);
}

bool build_begin(struct build *b, enum jv_type type); /* JV_ARRAY or JV_OBJECT */
bool build_end(struct build *b);
bool build_key(struct build *b, struct tidings_str key); /* the key must be new */
bool build_null(struct build *b);
bool build_copy(struct build *b, const struct json *v); /* including nested values */

/* For the innermost container, an object whose last value was pushed: checks that the last key is
 * new. */
int build_check_key(struct build *b); /* 1: new, 0: duplicate, TIDINGS_E_NOMEM */

#endif
