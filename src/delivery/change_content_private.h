/* SPDX-License-Identifier: MIT
 *
 * One content that was read, or is being read, for subscribers; and the table they stand in.
 */
#ifndef DELIVERY_CHANGE_CONTENT_PRIVATE_H
#define DELIVERY_CHANGE_CONTENT_PRIVATE_H

#include "base/arena.h"
#include "catalog/job_read.h"
#include "delivery/change_content.h"

/* Every byte of it counts. */
struct value_key {
    const struct change *change;
    const struct baseline *from;
    uintptr_t shape;                  /* enum value_shape */
    const struct access_class *class; /* who may see the same of it; NULL: everything */
};

enum value_shape {
    SHAPE_CONTENTS,
    SHAPE_PATCH,
    SHAPE_SAID, /* as dialect_rules.has_data says */
    SHAPE_SAID_PATCH,
};

struct value {
    struct list link;
    struct value_key key;
    struct worker *worker;
    const struct change *change;       /* a reference */
    const struct principal *principal; /* a reference to one of the class, or NULL */
    struct baseline *from, *to;        /* of a patch: references, or NULL */
    enum change_content_state state;
    bool is_too_large, is_whole; /* of a patch: it is; it was asked for without a baseline */
    struct tidings_str etag;     /* of what a patch leads to */
    struct arena arena;
    struct buf out;
    struct jw w;
    struct tidings_read read;
};

struct value *change_content_find(struct change_contents *v, struct value_key key);
/* An entry that is being read. NULL: out of memory. */
struct value *change_content_add(struct worker *worker, struct change_contents *v,
                                 const struct principal *principal, const struct change *change,
                                 struct value_key key);
/* It has been read, or cannot be. */
void change_content_conclude(struct change_contents *v, struct value *e, bool is_ready);
/* Forget the oldest, down to what may be kept. */
void change_content_trim(struct change_contents *v);

#endif
