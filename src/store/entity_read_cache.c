/* SPDX-License-Identifier: MIT
 *
 * The cache of entity versions: a map for finding them and a list in the order of their last use.
 */
#include "store/entity_read_cache.h"

#include "base/mem.h"
#include "base/str.h"

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
                                   &copy.principal, &copy.previous, &copy.old_type_version};
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
