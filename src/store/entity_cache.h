/* SPDX-License-Identifier: MIT
 *
 * A cache of the newest versions of recently written entities: a new write is compared with them,
 * without a lookup and read in the store.
 *
 * At most LATEST_COUNT versions of LATEST_BYTES each; larger or overwritten ones are read from the
 * store. Not thread-safe.
 */
#ifndef STORE_ENTITY_CACHE_H
#define STORE_ENTITY_CACHE_H

#include <tidings/types.h>

#include "base/list.h"
#include "base/map.h"
#include "store/store.h"

#define LATEST_COUNT 8192u
#define LATEST_BYTES 2048u /* of strings */

struct latest_versions {
    struct latest_version **slots; /* NULL until a version is kept */
    unsigned next_way;             /* slot that is overwritten next */
};

/* NULL: not cached. The slices live until the next latest_put or latest_clear. */
const struct entity_version *latest_find(const struct latest_versions *h, struct tidings_str id);
/* `v` is the newest version of its entity; it is copied. Without memory it is not cached. */
void latest_put(struct latest_versions *h, const struct entity_version *v);
/* Another node wrote the entity: removes it. */
void latest_drop(struct latest_versions *h, struct tidings_str id);
/* Removes all, because any could be stale. */
void latest_clear(struct latest_versions *h);

/* -------------------------------------------------------------------------------------------------
 * The set of entity ids that may exist, which saves queries to a remote store for ids that are
 * certainly new. A set of hashes, 8 bytes each. It can report an id that does not exist, but never
 * misses one that does; any id may exist until it was filled, when there are too many and without
 * memory.
 */

#define ENTITY_IDS_MAX (1u << 20) /* the table then has 16 MiB */

/* All zero: incomplete, any id may exist. */
struct entity_ids {
    uint64_t *slots;
    size_t room, count;
    bool is_complete; /* set by the caller when all were added and there were not too many */
    bool is_too_many; /* or out of memory: no more are added */
};

void entity_ids_add(struct entity_ids *ids, struct tidings_str id);
/* Returns false if there is certainly no entity with that id. */
bool entity_ids_may_have(const struct entity_ids *ids, struct tidings_str id);
/* Resets to the initial state and frees the memory. */
void entity_ids_clear(struct entity_ids *ids);

/* -------------------------------------------------------------------------------------------------
 * A cache of complete current versions of recently read entities: they stay readable while a shared
 * store is unreachable.
 *
 * At most `max_bytes` (0: none are kept); evicts the least recently read one first. Not
 * thread-safe.
 */

struct entity_read_cache {
    struct map by_id;
    struct list recent; /* the most recent last */
    size_t bytes, max_bytes;
};

void entity_read_cache_init(struct entity_read_cache *k);
void entity_read_cache_clear(struct entity_read_cache *k);
/* NULL: not cached. The slices live until the next change. */
const struct entity_version *entity_read_cache_find(struct entity_read_cache *k,
                                                    struct tidings_str id);
/* Copies the version. Without memory it is not cached. */
void entity_read_cache_put(struct entity_read_cache *k, const struct entity_version *v);
/* Removes an entity that changed. */
void entity_read_cache_drop(struct entity_read_cache *k, struct tidings_str id);

/* -------------------------------------------------------------------------------------------------
 * Recent versions that other nodes wrote and that arrived with the change: any thread that
 * announces them reads them here, without a request to the commit thread.
 *
 * All versions here are current, as far as this node has followed. The commit thread adds versions
 * as it follows them. It removes a version before this node commits a newer one, and when a read
 * finds a newer one in the store. So a read that begins after a write was answered, or after
 * another read, never finds an older version.
 *
 * RECENT_COUNT versions of at most RECENT_BYTES; a new version replaces another one in the same
 * slot. Lookups return a reference, not a copy.
 */

#define RECENT_COUNT 256u
#define RECENT_BYTES 8192u /* of strings: more than a notification contains */

struct recent_version {
    struct shared_value base; /* the key is the id */
    struct entity_version v;  /* immutable; strings follow in memory */
    char text[];
};

struct entity_recent;

/* All functions below accept NULL, which is always empty. */
int entity_recent_create(struct entity_recent **ret, struct tidings_error *err);
void entity_recent_destroy(struct entity_recent *r);
/* Copies the version, the newest of its entity. It is not cached if it is too large, or without
 * memory. */
void entity_recent_put(struct entity_recent *r, const struct entity_version *v);
/* Removes the version of that entity if it began before `from`: another version is current, or will
 * be. */
void entity_recent_drop(struct entity_recent *r, struct tidings_str id, int64_t from);
void entity_recent_clear(struct entity_recent *r);
/* Any thread. Returns a reference, or NULL. */
const struct recent_version *entity_recent_find(struct entity_recent *r, struct tidings_str id);
void recent_version_unref(const struct recent_version *one); /* NULL is fine */

#endif
