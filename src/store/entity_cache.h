/* SPDX-License-Identifier: MIT
 *
 * A cache of the newest versions of entities that were written lately: what is written again is
 * compared with them, and need not be looked up and read from the store each time.
 *
 * At most LATEST_COUNT of LATEST_BYTES each; what does not fit, or was overwritten by another, is
 * found in the store. Not thread-safe.
 */
#ifndef STORE_ENTITY_CACHE_H
#define STORE_ENTITY_CACHE_H

#include <tidings/types.h>

#include "base/list.h"
#include "base/map.h"
#include "store/store.h"

#define LATEST_COUNT 8192u
#define LATEST_BYTES 2048u /* of texts */

struct latest_versions {
    struct latest_version **slots; /* NULL until something is kept */
    unsigned next_way;             /* whose place is taken next */
};

/* NULL: not here. The slices live until the next latest_put or latest_clear. */
const struct entity_version *latest_find(const struct latest_versions *h, struct tidings_str id);
/* `v` is the newest of its entity; it is copied. Without memory it is forgotten, no more. */
void latest_put(struct latest_versions *h, const struct entity_version *v);
/* Somebody else wrote it: it is forgotten. */
void latest_drop(struct latest_versions *h, struct tidings_str id);
/* Nothing is certain any more. */
void latest_clear(struct latest_versions *h);

/* -------------------------------------------------------------------------------------------------
 * Which ids of entities there may be: so that a store at the other end of a network is not asked
 * for what is certainly new. A set of hashes, 8 bytes each: it may say that an id exists when it
 * does not, never the reverse; before it was filled, when there are too many and without memory,
 * any id may exist.
 */

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

/* -------------------------------------------------------------------------------------------------
 * A cache of current versions of entities that were read lately, whole and in memory: what can
 * still be read while a store that nodes share cannot be reached.
 *
 * At most `max_bytes` (0: none are kept); what was not read for longest goes first. Not
 * thread-safe.
 */

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

/* -------------------------------------------------------------------------------------------------
 * Versions of entities that another node wrote a moment ago and that came with the change: whoever
 * tells of them reads them here, on any thread, and need not ask the commit thread of the store.
 *
 * What is here is current, as far as this node has followed. The commit thread puts in what it
 * follows, and takes out what is written here before that is committed, and what a read in the
 * store found a newer version of: a read that begins after a write was answered, or another read,
 * never finds an older version.
 *
 * RECENT_COUNT versions of at most RECENT_BYTES; another with the same slot takes the place. Who
 * finds a version gets a reference to it, not a copy.
 */

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
