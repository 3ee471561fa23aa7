/* SPDX-License-Identifier: MIT
 *
 * Hash table from a byte slice to a pointer. Open addressing, keys borrowed: the slice passed to
 * map_put must live as long as the entry (it is usually part of the value). Seeded per table from
 * the system's random source, so that attackers cannot choose collisions. Shrinks as it empties.
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
    size_t cap; /* power of two; 0: empty */
    uint64_t seed;
};

void map_init(struct map *m);
void map_deinit(struct map *m); /* frees the table, not the values */
void *map_find(const struct map *m, struct tidings_str key);
/* Adds or replaces; `value` must not be NULL. *ret_old (may be NULL) gets the replaced value. On
 * replacement the stored key becomes the new slice. TIDINGS_E_NOMEM. */
int map_put(struct map *m, struct tidings_str key, void *value, void **ret_old);
void *map_remove(struct map *m, struct tidings_str key); /* the value, or NULL */
/* Iterates: start with *pos = 0; NULL at the end. The table must not change during the loop, but
 * map_deinit after it is fine. */
void *map_next(const struct map *m, size_t *pos);

/* -------------------------------------------------------------------------------------------------
 * Values by name that several threads share: each thread sees changes of the others immediately.
 *
 * A value is immutable and reference counted; a thread can use it as long as it holds a reference,
 * even after the value was replaced. Updates are atomic: shared_map_update locks the map while
 * `decide` checks the current value and returns the action.
 *
 * Keys are in ascending byte order. Lookups are binary searches; insertions and removals move
 * pointers, so a map is for thousands of values, not for millions. The owner limits their number.
 */

struct shared_map;

/* Embedded in the value. */
struct shared_value {
    struct tidings_str key; /* in the value's own memory */
    void (*destroy)(struct shared_value *value);
    unsigned refs; /* atomic; the creator sets 1 */
};
struct shared_value *shared_value_ref(struct shared_value *value);
void shared_value_unref(struct shared_value *value); /* any thread; NULL is fine */

struct shared_map *shared_map_create(struct tidings_error *err);
void shared_map_destroy(struct shared_map *s); /* no thread may use it any longer; NULL is fine */

/* A new reference, or NULL. */
struct shared_value *shared_map_find(struct shared_map *s, struct tidings_str key);
/* The same for the first key greater than `after`. */
struct shared_value *shared_map_next(struct shared_map *s, struct tidings_str after);

enum shared_map_decision {
    SHARED_MAP_KEEP = 0,
    SHARED_MAP_REPLACE = 1, /* `fresh` is now in the map */
    SHARED_MAP_REMOVE = 2,
};
/* Called with the current value (NULL: none) while the map is locked. Must be short and must not
 * use the map. With a negative code, nothing changes. */
typedef int (*shared_map_decide_fn)(void *user, const struct shared_value *old);

/* Changes the value at `key`, which is the key of `fresh` (NULL if nothing may be added). The
 * caller keeps its reference to `fresh`. Returns the result of `decide`, or TIDINGS_E_NOMEM without
 * calling it; never if the key exists already. */
int shared_map_update(struct shared_map *s, struct tidings_str key, struct shared_value *fresh,
                      shared_map_decide_fn decide, void *user);

#endif
