/* SPDX-License-Identifier: MIT
 *
 * Versions of entities that subscribers hold and that patches will be made from. Compaction keeps
 * the oldest one of an entity that is held, and everything after it. In memory: who needs a version
 * has to say so again after a restart.
 */
#ifndef STORE_ENTITY_HOLDS_H
#define STORE_ENTITY_HOLDS_H

#include "base/map.h"

struct entity_holds {
    struct map by_id;
};

void entity_holds_init(struct entity_holds *h);
void entity_holds_deinit(struct entity_holds *h);

/* The version of `id` that begins at `from`, counted. TIDINGS_E_NOMEM. */
int entity_holds_add(struct entity_holds *h, struct tidings_str id, int64_t from);
void entity_holds_remove(struct entity_holds *h, struct tidings_str id, int64_t from);
/* Where the oldest held version of `id` begins; TIMELINE_FOREVER: none is. */
int64_t entity_holds_oldest(const struct entity_holds *h, struct tidings_str id);
/* A patch to that version is on its way to somebody, who will hold it before letting go of what the
 * patch begins at: of entities of which something is held, the last such version counts as held. */
void entity_holds_offer(struct entity_holds *h, struct tidings_str id, int64_t from);
bool entity_holds_has(const struct entity_holds *h, struct tidings_str id, int64_t from);

#endif
