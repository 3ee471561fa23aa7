/* SPDX-License-Identifier: MIT
 *
 * Making a JSON document value by value, in the order of its text. Private to this folder.
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
 * The values of containers that are open stand on a stack; they come to lie side by side in a block
 * when their container ends. The first failure sticks, whatever follows does nothing.
 */
#ifndef FORMATS_JSON_BUILD_H
#define FORMATS_JSON_BUILD_H

#include "formats/json.h"

/* Nothing is made that nests deeper: comparing and writing recur. */
#define BUILD_MAX_DEPTH 512u
#define BUILD_SMALL_STACK 128u
/* What one document begins with if nothing is known of it: a kilobyte. */
#define BUILD_FIRST_VALUES 32u
#define BUILD_FIRST_TEXT 448u

struct build_open {
    size_t base; /* of the container's values on the stack; the container is right below */
    struct value_index *index;
};

struct build {
    struct value_document *document; /* NULL: failed */
    struct value_block *block;       /* the one `slots` are in */
    struct json *slots, *slots_end;
    char *text, *text_end;
    struct json *stack;
    size_t top, cap;
    unsigned depth;
    bool may_repeat;   /* keys of an object: the last one counts, in the place of the first */
    unsigned repeated; /* such keys so far */
    struct build_open open[BUILD_MAX_DEPTH];
    struct json small[BUILD_SMALL_STACK];
};

/* Room for so many values and bytes at first. TIDINGS_E_NOMEM; build_finish is still due. */
int build_init(struct build *b, size_t values, size_t text_bytes);
struct json *build_finish(struct build *b); /* the root, with its reference; NULL: failed */
void build_discard(struct build *b);        /* instead of build_finish */
struct json *build_grow(struct build *b);   /* build_push when the stack is full */

/* The next value, to be filled in by the caller. NULL: failed. */
static inline struct json *build_push(struct build *b)
{
    return b->top < b->cap ? &b->stack[b->top++] : build_grow(b);
}

bool build_begin(struct build *b, enum jv_type type); /* JV_ARRAY or JV_OBJECT */
bool build_end(struct build *b);
bool build_key(struct build *b, struct tidings_str key); /* that is not there yet */
bool build_null(struct build *b);
bool build_copy(struct build *b, const struct json *v); /* with all that is in it */

/* Of the innermost container, an object: is the last key, whose value is pushed, a new one? */
int build_check_key(struct build *b); /* 1, 0: it is not, TIDINGS_E_NOMEM */

#endif
