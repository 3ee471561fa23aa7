/* SPDX-License-Identifier: MIT
 *
 * A cache of current versions of entities that were read lately, whole and in memory: what can
 * still be read while a store that nodes share cannot be reached.
 *
 * At most `max_bytes` (0: none are kept); what was not read for longest goes first. Not
 * thread-safe.
 */
#ifndef STORE_ENTITY_READ_CACHE_H
#define STORE_ENTITY_READ_CACHE_H

#include "base/list.h"
#include "base/map.h"
#include "store/entity_rows.h"

struct entity_read_cache {
    struct map by_id;
    struct list recent; /* the newest last */
    size_t bytes, max_bytes;
};

void entity_read_cache_init(struct entity_read_cache *k);
void entity_read_cache_clear(struct entity_read_cache *k);
/* NULL: not here. The slices live until the next change. */
const struct entity_version *entity_read_cache_find(struct entity_read_cache *k,
                                                    struct tidings_str id);
/* Copied. Without memory it is forgotten, no more. */
void entity_read_cache_put(struct entity_read_cache *k, const struct entity_version *v);
/* It changed. */
void entity_read_cache_drop(struct entity_read_cache *k, struct tidings_str id);

#endif
