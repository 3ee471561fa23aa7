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

#endif
