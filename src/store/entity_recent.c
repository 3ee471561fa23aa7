/* SPDX-License-Identifier: MIT
 *
 * Versions in a map that threads share (base/shared_map.h). One thread changes it, and bounds it by
 * a table of what is there: a slot for each hash of ids.
 */
#include "store/entity_recent.h"

#include "base/list.h"
#include "base/mem.h"
#include "base/str.h"

struct entity_recent {
    struct shared_map *map;
    struct recent_version *slots[RECENT_COUNT]; /* of the thread that changes it: references */
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
    struct tidings_str *texts[] = {&copy.id,        &copy.type,    &copy.type_version,
                                   &copy.parent,    &copy.value,   &copy.changed_by,
                                   &copy.principal, &copy.previous};
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
