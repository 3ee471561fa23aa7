/* SPDX-License-Identifier: MIT
 *
 * The store of published resources, shared by published_store.c (putting), published_keep.c
 * (putting by way of the keeper) and published.c (serving).
 */
#ifndef PROVIDER_PUBLISHED_PRIVATE_H
#define PROVIDER_PUBLISHED_PRIVATE_H

#include "base/list.h"
#include "base/shared_map.h"
#include "provider/published.h"

struct mime_table;

struct published {
    struct shared_map *shared; /* of struct published_item */
    struct mime_table *mime;
    const uint64_t *max_count, *max_bytes;
    uint64_t count,
        bytes; /* touched only inside shared_map_update, or on the keeper's thread alone */
    const struct published_shares *shares; /* NULL: owners do not count */
    struct keeper *keeper;                 /* NULL: nothing outlives the program */
    struct list pending; /* the keeper's: struct publishing that wait for their commit, in order */
};

/* One block: the description's texts and the content follow the struct. Immutable. */
struct published_item {
    struct shared_value value;
    struct tidings_resource about;
    struct tidings_str content;
    size_t memory; /* bytes that count */
    const struct published_shares *shares;
    void *owner; /* held */
    bool is_operators;
    bool is_text;
    bool is_reserved; /* registered by the program: not ours to serve */
    bool is_coming;   /* nothing yet: holds the place until the first commit */
    bool is_in_file;  /* something of that URI is there … */
    bool is_kept;     /* … and this is what */
    bool is_loaded;   /* … from where it came */
    bool is_damaged;  /* … and is not what was put there */
    char etag[PUBLISHED_ETAG_SIZE];
};

static inline struct published_item *published_item_of(const struct shared_value *value)
{
    return (struct published_item *)(uintptr_t)value; /* its first member */
}

/* Is there something to serve? */
static inline bool published_is_there(const struct published_item *item)
{
    return !item->is_reserved && !item->is_coming;
}

/* One change on its way: conditions, limits and what is told of it. */
struct published_step {
    struct published *store;
    struct tidings_provider *mount;
    struct published_item *fresh; /* NULL: remove */
    struct tidings_str uri, if_match, metadata, traceparent;
    bool if_absent, created;
    struct tidings_error *err;
};

/* May it be done over `old` (NULL: nothing)? 1: yes, and it makes a difference; 0: it does not. */
int published_check(const struct published_step *s, const struct published_item *old);
/* It counts from now on, or not any more after all. */
void published_count(struct published_step *s, const struct published_item *old, bool is_undone);
/* What is told of it, over something or nothing. */
struct tidings_change published_change(const struct published_step *s,
                                       const struct published_item *old);

/* NULL: out of memory. */
struct published_item *published_item_create(const struct published *store,
                                             const struct publication *p);
/* The same content with the same description? */
bool published_is_same(const struct published_item *a, const struct published_item *b);
/* published_keep.c: by way of the keeper. `done` NULL: wait, and return the outcome. Takes the
 * reference to `s->fresh`. */
int published_submit(const struct published_step *s, char etag[PUBLISHED_ETAG_SIZE],
                     published_done_fn done, void *user);
/* A place for `uri` without anything in it; one reference. NULL: out of memory. */
struct published_item *published_item_empty(struct tidings_str uri);

/* The last segment of a URI, or the whole when it has none. */
struct tidings_str published_name(struct tidings_str uri);

#endif
