/* SPDX-License-Identifier: MIT
 *
 * The cache of newest versions, set-associative: each hash has a few slots, which new versions
 * overwrite in turn. Ids chosen to collide cost a store lookup, as without the cache.
 */
#include "store/entity_cache.h"

#include "base/list.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/store.h"

/* -------------------------------------------------------------------------------------------------
 * The set of entity ids that may exist: hashes in a table with open addressing, at most half full;
 * 0 is an empty slot.
 */

#define FIRST_ROOM 1024u

static uint64_t ids_hash(struct tidings_str id)
{
    uint64_t hash = str_hash(id, 0);
    return hash == 0 ? 1 : hash;
}

/* The slot of the hash, or the empty slot where it belongs. */
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
        ids->is_too_many = true; /* or out of memory: not retried either */
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

/* -------------------------------------------------------------------------------------------------
 * The cache of entity versions: a map for lookups and a list in the order of last use.
 */

struct cached {
    struct list link;
    struct entity_version v;
    size_t bytes;
    char text[];
};

void entity_read_cache_init(struct entity_read_cache *k)
{
    map_init(&k->by_id);
    list_init(&k->recent);
}

static void cached_free(struct entity_read_cache *k, struct cached *one)
{
    map_remove(&k->by_id, one->v.id);
    list_remove(&one->link);
    k->bytes -= one->bytes;
    mem_free(one);
}

void entity_read_cache_clear(struct entity_read_cache *k)
{
    while (!list_empty(&k->recent)) {
        cached_free(k, list_entry(k->recent.next, struct cached, link));
    }
    map_deinit(&k->by_id);
}

void entity_read_cache_drop(struct entity_read_cache *k, struct tidings_str id)
{
    struct cached *one = map_find(&k->by_id, id);
    if (one) {
        cached_free(k, one);
    }
}

const struct entity_version *entity_read_cache_find(struct entity_read_cache *k,
                                                    struct tidings_str id)
{
    struct cached *one = map_find(&k->by_id, id);
    if (!one) {
        return NULL;
    }
    list_remove(&one->link);
    list_append(&k->recent, &one->link);
    return &one->v;
}

void entity_read_cache_put(struct entity_read_cache *k, const struct entity_version *v)
{
    struct entity_version copy = *v;
    struct tidings_str *texts[] = {&copy.id,        &copy.type,     &copy.type_version,
                                   &copy.parent,    &copy.value,    &copy.changed_by,
                                   &copy.principal, &copy.previous, &copy.old_type_version,
                                   &copy.old_parent};
    size_t bytes = sizeof(struct cached);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bytes += texts[i]->len;
    }
    entity_read_cache_drop(k, v->id);
    while (k->bytes + bytes > k->max_bytes && !list_empty(&k->recent)) {
        cached_free(k, list_entry(k->recent.next, struct cached, link));
    }
    struct cached *one = bytes <= k->max_bytes ? mem_zalloc(bytes) : NULL;
    if (!one) {
        return;
    }
    char *at = one->text;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = str_pack(&at, *texts[i]);
    }
    one->v = copy;
    one->bytes = bytes;
    if (map_put(&k->by_id, one->v.id, one, NULL) < 0) {
        mem_free(one);
        return;
    }
    list_append(&k->recent, &one->link);
    k->bytes += bytes;
}

/* -------------------------------------------------------------------------------------------------
 * Versions in a map shared by threads (base/map.h). One thread changes the map, and bounds it by a
 * table of its entries: a slot for each hash of ids.
 */

struct entity_recent {
    struct shared_map *map;
    struct recent_version *slots[RECENT_COUNT]; /* of the writing thread: references */
};

int entity_recent_create(struct entity_recent **ret, struct tidings_error *err)
{
    struct entity_recent *r = mem_zalloc(sizeof(*r));
    if (!r) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    r->map = shared_map_create(err);
    if (!r->map) {
        mem_free(r);
        return TIDINGS_E_NOMEM;
    }
    *ret = r;
    return 0;
}

void entity_recent_destroy(struct entity_recent *r)
{
    if (r) {
        entity_recent_clear(r);
        shared_map_destroy(r->map);
        mem_free(r);
    }
}

void recent_version_unref(const struct recent_version *one)
{
    shared_value_unref(one ? &((struct recent_version *)(uintptr_t)one)->base : NULL);
}

static void recent_free(struct shared_value *value)
{
    mem_free(list_entry(value, struct recent_version, base));
}

static struct recent_version *recent_copy(const struct entity_version *v)
{
    struct entity_version copy = *v;
    struct tidings_str *texts[] = {&copy.id,        &copy.type,     &copy.type_version,
                                   &copy.parent,    &copy.value,    &copy.changed_by,
                                   &copy.principal, &copy.previous, &copy.old_parent};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bytes += texts[i]->len;
    }
    struct recent_version *one = bytes <= RECENT_BYTES ? mem_alloc(sizeof(*one) + bytes) : NULL;
    if (!one) {
        return NULL;
    }
    char *at = one->text;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = str_pack(&at, *texts[i]);
    }
    copy.old_type_version = STR_EMPTY;
    one->v = copy;
    one->base = (struct shared_value){.key = copy.id, .destroy = recent_free, .refs = 1};
    return one;
}

static struct recent_version **recent_slot(struct entity_recent *r, struct tidings_str id)
{
    return &r->slots[str_hash(id, 0) % RECENT_COUNT];
}

static int recent_removes(void *user, const struct shared_value *old)
{
    (void)user;
    (void)old;
    return SHARED_MAP_REMOVE;
}

static int recent_replaces(void *user, const struct shared_value *old)
{
    (void)user;
    (void)old;
    return SHARED_MAP_REPLACE;
}

static void recent_empty(struct entity_recent *r, struct recent_version **slot)
{
    if (*slot) {
        (void)shared_map_update(r->map, (*slot)->v.id, NULL, recent_removes, NULL);
        recent_version_unref(*slot);
        *slot = NULL;
    }
}

void entity_recent_put(struct entity_recent *r, const struct entity_version *v)
{
    if (!r) {
        return;
    }
    struct recent_version **slot = recent_slot(r, v->id), *one = recent_copy(v);
    bool is_same = *slot && str_eq((*slot)->v.id, v->id);
    if (!one || !is_same) {
        recent_empty(r, slot);
    }
    if (one && shared_map_update(r->map, v->id, &one->base, recent_replaces, NULL) < 0) {
        recent_empty(r, slot);
        recent_version_unref(one);
        return;
    }
    recent_version_unref(*slot);
    *slot = one;
}

void entity_recent_drop(struct entity_recent *r, struct tidings_str id, int64_t from)
{
    struct recent_version **slot = r ? recent_slot(r, id) : NULL;
    if (r && *slot && (*slot)->v.from < from && str_eq((*slot)->v.id, id)) {
        recent_empty(r, slot);
    }
}

void entity_recent_clear(struct entity_recent *r)
{
    for (size_t i = 0; r && i < RECENT_COUNT; i++) {
        recent_empty(r, &r->slots[i]);
    }
}

const struct recent_version *entity_recent_find(struct entity_recent *r, struct tidings_str id)
{
    struct shared_value *found = r ? shared_map_find(r->map, id) : NULL;
    return found ? list_entry(found, struct recent_version, base) : NULL;
}

/* ---------------------------------------------------------------------------------------------- */

#define LATEST_WAYS 8u

struct latest_version {
    struct entity_version version;
    char text[];
};

/* The slots for an id: the first of LATEST_WAYS. */
static struct latest_version **latest_set(const struct latest_versions *h, struct tidings_str id)
{
    return &h->slots[(str_hash(id, 0) & (LATEST_COUNT / LATEST_WAYS - 1)) * LATEST_WAYS];
}

/* Its slot, or NULL. */
static struct latest_version **latest_slot(const struct latest_versions *h, struct tidings_str id)
{
    struct latest_version **set = h->slots ? latest_set(h, id) : NULL;
    for (size_t i = 0; set && i < LATEST_WAYS; i++) {
        if (set[i] && str_eq(set[i]->version.id, id)) {
            return &set[i];
        }
    }
    return NULL;
}

const struct entity_version *latest_find(const struct latest_versions *h, struct tidings_str id)
{
    struct latest_version **slot = latest_slot(h, id);
    return slot ? &(*slot)->version : NULL;
}

static struct latest_version *latest_create(const struct entity_version *v)
{
    size_t bytes = v->id.len + v->type.len + v->type_version.len + v->parent.len + v->value.len +
                   v->changed_by.len + v->principal.len + v->previous.len + v->old_parent.len;
    struct latest_version *latest =
        bytes <= LATEST_BYTES ? mem_alloc(sizeof(*latest) + bytes) : NULL;
    if (latest) {
        char *at = latest->text;
        latest->version = *v;
        latest->version.id = str_pack(&at, v->id);
        latest->version.type = str_pack(&at, v->type);
        latest->version.type_version = str_pack(&at, v->type_version);
        latest->version.parent = str_pack(&at, v->parent);
        latest->version.value = str_pack(&at, v->value);
        latest->version.changed_by = str_pack(&at, v->changed_by);
        latest->version.principal = str_pack(&at, v->principal);
        latest->version.previous = str_pack(&at, v->previous);
        latest->version.old_parent = str_pack(&at, v->old_parent);
        latest->version.old_type_version = STR_EMPTY;
        latest->version.to = TIMELINE_FOREVER;
    }
    return latest;
}

void latest_put(struct latest_versions *h, const struct entity_version *v)
{
    if (!h->slots) {
        h->slots = mem_zalloc(LATEST_COUNT * sizeof(struct latest_version *));
    }
    struct latest_version *fresh =
        h->slots ? latest_create(v) : NULL; /* it can borrow strings from the old one */
    struct latest_version **slot = latest_slot(h, v->id);
    if (!slot && fresh) {
        slot = latest_set(h, v->id) + h->next_way++ % LATEST_WAYS;
    }
    if (slot) {
        mem_free(*slot);
        *slot = fresh;
    }
}

void latest_drop(struct latest_versions *h, struct tidings_str id)
{
    struct latest_version **slot = latest_slot(h, id);
    if (slot) {
        mem_free(*slot);
        *slot = NULL;
    }
}

void latest_clear(struct latest_versions *h)
{
    for (size_t i = 0; h->slots && i < LATEST_COUNT; i++) {
        mem_free(h->slots[i]);
    }
    mem_free(h->slots);
    h->slots = NULL;
}
