/* SPDX-License-Identifier: MIT
 *
 * One entry of the table of contents that are read for subscribers: the content behind one change,
 * read or being read.
 */
#ifndef DELIVERY_CHANGE_CONTENT_PRIVATE_H
#define DELIVERY_CHANGE_CONTENT_PRIVATE_H

#include "base/arena.h"
#include "catalog/job_read.h"
#include "delivery/change_content.h"

/* What an entry is found by. Compared as bytes, so it has no padding. */
struct change_content_key {
    const struct change *change;
    const struct baseline *from;
    uintptr_t shape;                  /* enum change_content_shape */
    const struct access_class *class; /* who may see the same of it; NULL: everything */
};

enum change_content_shape {
    SHAPE_CONTENTS,   /* an array of content elements, as resources/read gives them */
    SHAPE_PATCH,      /* delivery/patches.h */
    SHAPE_DATA,       /* the contents as members `title` and `data` (dialect_rules.has_data) … */
    SHAPE_DATA_PATCH, /* … and a patch likewise */
    SHAPE_TASK,       /* an object, as it is read: of a task */
};

struct change_content {
    struct list link;
    struct change_content_key key;
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

struct change_content *change_content_find(struct change_contents *v,
                                           struct change_content_key key);
/* An entry that is being read. NULL: out of memory. */
struct change_content *change_content_add(struct worker *worker, struct change_contents *v,
                                          const struct principal *principal,
                                          const struct change *change,
                                          struct change_content_key key);
/* It has been read, or cannot be. */
void change_content_conclude(struct change_contents *v, struct change_content *e, bool is_ready);
/* Forget the oldest, down to what may be kept. */
void change_content_trim(struct change_contents *v);

#endif
