/* SPDX-License-Identifier: MIT
 *
 * Versions of entities that another node wrote a moment ago and that came with the change: whoever
 * tells of them reads them here, on any thread, and need not ask the keeper of the store.
 *
 * What is here is current, as far as this node has followed. The keeper's thread puts in what it
 * follows, and takes out what is written here before that is committed, and what a read in the
 * store found a newer version of: a read that begins after a write was answered, or another read,
 * never finds an older version.
 *
 * RECENT_COUNT versions of at most RECENT_BYTES; another with the same slot takes the place. Who
 * finds a version gets a reference to it, not a copy.
 */
#ifndef STORE_ENTITY_RECENT_H
#define STORE_ENTITY_RECENT_H

#include "base/shared_map.h"
#include "store/entity_rows.h"

#define RECENT_COUNT 256u
#define RECENT_BYTES 8192u /* of texts: more than comes with a notification */

struct recent_version {
    struct shared_value base; /* by its id */
    struct entity_version v;  /* immutable; texts in the memory that follows */
    char text[];
};

struct entity_recent;

/* In all of the rest NULL is one that has nothing and keeps nothing. */
int entity_recent_create(struct entity_recent **ret, struct tidings_error *err);
void entity_recent_destroy(struct entity_recent *r);
/* Copied. It is the newest of its entity; too large, or without memory: none of it is here. */
void entity_recent_put(struct entity_recent *r, const struct entity_version *v);
/* What is here of that entity and began before `from`: another version is current, or will be. */
void entity_recent_drop(struct entity_recent *r, struct tidings_str id, int64_t from);
void entity_recent_clear(struct entity_recent *r);
/* Any thread. A reference, or NULL. */
const struct recent_version *entity_recent_find(struct entity_recent *r, struct tidings_str id);
void recent_version_unref(const struct recent_version *one); /* NULL is fine */

#endif
