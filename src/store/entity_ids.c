/* SPDX-License-Identifier: MIT
 *
 * The set of entity ids that may exist: hashes in a table with open addressing, at most half full;
 * 0 is an empty slot.
 */
#include "store/entity_ids.h"

#include "base/mem.h"
#include "base/str.h"

#define FIRST_ROOM 1024u

static uint64_t ids_hash(struct tidings_str id)
{
    uint64_t hash = str_hash(id, 0);
    return hash == 0 ? 1 : hash;
}

/* Where the hash is, or the empty slot where it would be. */
static uint64_t *ids_slot(uint64_t *slots, size_t room, uint64_t hash)
{
    size_t at = (size_t)hash & (room - 1);
    while (slots[at] != 0 && slots[at] != hash) {
        at = (at + 1) & (room - 1);
    }
    return &slots[at];
}

static bool ids_grow(struct entity_ids *ids)
{
    size_t room = ids->room > 0 ? 2 * ids->room : FIRST_ROOM;
    uint64_t *slots = ids->count < ENTITY_IDS_MAX ? mem_zalloc(room * sizeof(*slots)) : NULL;
    if (!slots) {
        return false;
    }
    for (size_t i = 0; i < ids->room; i++) {
        if (ids->slots[i] != 0) {
            *ids_slot(slots, room, ids->slots[i]) = ids->slots[i];
        }
    }
    mem_free(ids->slots);
    ids->slots = slots;
    ids->room = room;
    return true;
}

void entity_ids_add(struct entity_ids *ids, struct tidings_str id)
{
    if (ids->is_too_many) {
        return;
    }
    if (2 * (ids->count + 1) > ids->room && !ids_grow(ids)) {
        entity_ids_clear(ids);
        ids->is_too_many = true; /* or there is no memory: not tried again either */
        return;
    }
    uint64_t hash = ids_hash(id), *slot = ids_slot(ids->slots, ids->room, hash);
    ids->count += *slot == 0;
    *slot = hash;
}

bool entity_ids_may_have(const struct entity_ids *ids, struct tidings_str id)
{
    return !ids->is_complete ||
           (ids->room > 0 && *ids_slot(ids->slots, ids->room, ids_hash(id)) != 0);
}

void entity_ids_clear(struct entity_ids *ids)
{
    mem_free(ids->slots);
    *ids = (struct entity_ids){0};
}
