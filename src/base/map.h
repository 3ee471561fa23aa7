/* SPDX-License-Identifier: MIT
 *
 * Hash table from a byte slice to a pointer. Open addressing, keys borrowed: the slice passed to
 * map_put must live as long as the entry (it usually lies inside the value). Seeded per table from
 * the system's random source, so that strangers cannot choose collisions. Shrinks as it empties.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <tidings/types.h>

struct map_slot {
    struct tidings_str key;
    void *value; /* NULL: free slot */
    uint64_t hash;
};

struct map {
    struct map_slot *slots;
    size_t count;
    size_t cap; /* power of two, 0 while empty */
    uint64_t seed;
};

void map_init(struct map *m);
void map_deinit(struct map *m); /* frees the table, not the values */
void *map_find(const struct map *m, struct tidings_str key);
/* Adds or replaces; `value` must not be NULL. *ret_old (may be NULL) gets the replaced value. On
 * replacement the stored key becomes the new slice. TIDINGS_E_NOMEM. */
int map_put(struct map *m, struct tidings_str key, void *value, void **ret_old);
void *map_remove(struct map *m, struct tidings_str key); /* the value, or NULL */
/* Iterate: start with *pos = 0; NULL at the end. No change of the table meanwhile, except that
 * map_deinit after the loop is fine. */
void *map_next(const struct map *m, size_t *pos);

/* -------------------------------------------------------------------------------------------------
 * Values by name that several threads share: what one of them puts here, all of them see at once.
 *
 * A value is immutable and reference-counted; whoever gets one may use it for as long as it likes,
 * also after another took its place. Changing the map is one step that nobody sees half of:
 * shared_map_update holds it while `decide` looks at what is there and says what shall be.
 *
 * Keys ascend by bytes. Looking up is a binary search; adding and removing move pointers, so a
 * map is for thousands of values, not for millions. How many there may be is its owner's to
 * decide.
 */

struct shared_map;

/* Embedded in what is kept. */
struct shared_value {
    struct tidings_str key; /* in the value's own memory */
    void (*destroy)(struct shared_value *value);
    unsigned refs; /* atomic; whoever makes it sets 1 */
};
struct shared_value *shared_value_ref(struct shared_value *value);
void shared_value_unref(struct shared_value *value); /* any thread; NULL is fine */

struct shared_map *shared_map_create(struct tidings_error *err);
void shared_map_destroy(struct shared_map *s); /* no thread uses it any more; NULL is fine */

/* A new reference, or NULL. */
struct shared_value *shared_map_find(struct shared_map *s, struct tidings_str key);
/* The same for the first key greater than `after`. */
struct shared_value *shared_map_next(struct shared_map *s, struct tidings_str after);

enum shared_map_decision {
    SHARED_MAP_KEEP = 0,
    SHARED_MAP_REPLACE = 1, /* `fresh` is there now */
    SHARED_MAP_REMOVE = 2,
};
/* Called with what is there (NULL: nothing) while nobody else can look or change. Must be short and
 * must not use the map. A negative code changes nothing. */
typedef int (*shared_map_decide_fn)(void *user, const struct shared_value *old);

/* Change what is at `key`, which is that of `fresh` (NULL when nothing may come there). The
 * caller's reference to `fresh` stays the caller's. Returns what `decide` did, or TIDINGS_E_NOMEM
 * without having asked; not when something is there already. */
int shared_map_update(struct shared_map *s, struct tidings_str key, struct shared_value *fresh,
                      shared_map_decide_fn decide, void *user);

#endif
