/* SPDX-License-Identifier: MIT
 *
 * Which ids of entities there may be: so that a store at the other end of a network is not asked
 * for what is certainly new. A set of hashes, 8 bytes each: it may say that an id exists when it
 * does not, never the reverse; before it was filled, when there are too many and without memory,
 * any id may exist.
 */
#ifndef STORE_ENTITY_IDS_H
#define STORE_ENTITY_IDS_H

#include <tidings/types.h>

#define ENTITY_IDS_MAX (1u << 20) /* then the table has 16 MiB */

/* All zero: nothing is known. */
struct entity_ids {
    uint64_t *slots;
    size_t room, count;
    bool is_complete; /* set it when all were added and there were not too many */
    bool is_too_many; /* or no memory: nothing is added any more */
};

void entity_ids_add(struct entity_ids *ids, struct tidings_str id);
/* false: there is none with that id. */
bool entity_ids_may_have(const struct entity_ids *ids, struct tidings_str id);
/* As at the beginning; memory is freed. */
void entity_ids_clear(struct entity_ids *ids);

#endif
