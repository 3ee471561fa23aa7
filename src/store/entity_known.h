/* SPDX-License-Identifier: MIT
 *
 * Current versions of entities that were read lately, whole and in memory: what can still be told
 * of them while a store that nodes share cannot be reached.
 *
 * At most `max_bytes` (0: none are kept); what was not read for longest goes first. Not
 * thread-safe.
 */
#ifndef STORE_ENTITY_KNOWN_H
#define STORE_ENTITY_KNOWN_H

#include "base/list.h"
#include "base/map.h"
#include "store/entity_rows.h"

struct entity_known {
    struct map by_id;
    struct list recent; /* the newest last */
    size_t bytes, max_bytes;
};

void entity_known_init(struct entity_known *k);
void entity_known_clear(struct entity_known *k);
/* NULL: not here. The slices live until the next change. */
const struct entity_version *entity_known_find(struct entity_known *k, struct tidings_str id);
/* Copied. Without memory it is forgotten, no more. */
void entity_known_put(struct entity_known *k, const struct entity_version *v);
/* It changed. */
void entity_known_drop(struct entity_known *k, struct tidings_str id);

#endif
