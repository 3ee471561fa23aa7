/* SPDX-License-Identifier: MIT
 *
 * The cache of newest versions, set-associative: there are a few slots for each hash, and what is
 * new overwrites one of them, in turn. Ids chosen to collide cost a look-up in the store, as
 * without the cache.
 */
#include "store/entity_heads.h"

#include "base/mem.h"
#include "base/str.h"
#include "store/timeline.h"

#define HEADS_WAYS 8u

struct head {
    struct entity_version version;
    char text[];
};

/* The slots that an id may be in: the first of HEADS_WAYS. */
static struct head **heads_set(const struct heads *h, struct tidings_str id)
{
    return &h->slots[(str_hash(id, 0) & (HEADS_COUNT / HEADS_WAYS - 1)) * HEADS_WAYS];
}

/* Where it is, or NULL. */
static struct head **heads_slot(const struct heads *h, struct tidings_str id)
{
    struct head **set = h->slots ? heads_set(h, id) : NULL;
    for (size_t i = 0; set && i < HEADS_WAYS; i++) {
        if (set[i] && str_eq(set[i]->version.id, id)) {
            return &set[i];
        }
    }
    return NULL;
}

const struct entity_version *heads_find(const struct heads *h, struct tidings_str id)
{
    struct head **slot = heads_slot(h, id);
    return slot ? &(*slot)->version : NULL;
}

static struct head *head_create(const struct entity_version *v)
{
    size_t bytes = v->id.len + v->type.len + v->type_version.len + v->parent.len + v->value.len +
                   v->changed_by.len + v->principal.len + v->previous.len;
    struct head *head = bytes <= HEADS_BYTES ? mem_alloc(sizeof(*head) + bytes) : NULL;
    if (head) {
        char *at = head->text;
        head->version = *v;
        head->version.id = str_pack(&at, v->id);
        head->version.type = str_pack(&at, v->type);
        head->version.type_version = str_pack(&at, v->type_version);
        head->version.parent = str_pack(&at, v->parent);
        head->version.value = str_pack(&at, v->value);
        head->version.changed_by = str_pack(&at, v->changed_by);
        head->version.principal = str_pack(&at, v->principal);
        head->version.previous = str_pack(&at, v->previous);
        head->version.old_type_version = STR_EMPTY;
        head->version.to = TIMELINE_FOREVER;
    }
    return head;
}

void heads_put(struct heads *h, const struct entity_version *v)
{
    if (!h->slots) {
        h->slots = mem_zalloc(HEADS_COUNT * sizeof(struct head *));
    }
    struct head *fresh = h->slots ? head_create(v) : NULL; /* it may borrow from the old one */
    struct head **slot = heads_slot(h, v->id);
    if (!slot && fresh) {
        slot = heads_set(h, v->id) + h->next_way++ % HEADS_WAYS;
    }
    if (slot) {
        mem_free(*slot);
        *slot = fresh;
    }
}

void heads_drop(struct heads *h, struct tidings_str id)
{
    struct head **slot = heads_slot(h, id);
    if (slot) {
        mem_free(*slot);
        *slot = NULL;
    }
}

void heads_clear(struct heads *h)
{
    for (size_t i = 0; h->slots && i < HEADS_COUNT; i++) {
        mem_free(h->slots[i]);
    }
    mem_free(h->slots);
    h->slots = NULL;
}
