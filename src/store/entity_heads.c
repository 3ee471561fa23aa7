/* SPDX-License-Identifier: MIT
 *
 * The newest versions of entities in a table with one slot for each hash: whoever comes last has
 * it. Ids chosen to collide cost a look into the store, as before.
 */
#include "store/entity_heads.h"

#include "base/mem.h"
#include "base/str.h"
#include "store/timeline.h"

struct head {
    struct entity_version version;
    char text[];
};

static size_t heads_slot(struct tidings_str id)
{
    return (size_t)(str_hash(id, 0) & (HEADS_COUNT - 1));
}

const struct entity_version *heads_find(const struct heads *h, struct tidings_str id)
{
    const struct head *head = h->slots ? h->slots[heads_slot(id)] : NULL;
    return head && str_eq(head->version.id, id) ? &head->version : NULL;
}

static struct head *head_create(const struct entity_version *v)
{
    size_t bytes = v->id.len + v->type.len + v->type_version.len + v->parent.len + v->value.len +
                   v->changed_by.len + v->principal.len + v->previous.len;
    struct head *head = bytes <= HEADS_BYTES ? mem_alloc(sizeof(*head) + bytes) : NULL;
    if (head) {
        char *at = head->text;
        head->version = *v;
        head->version.id = str_place(&at, v->id);
        head->version.type = str_place(&at, v->type);
        head->version.type_version = str_place(&at, v->type_version);
        head->version.parent = str_place(&at, v->parent);
        head->version.value = str_place(&at, v->value);
        head->version.changed_by = str_place(&at, v->changed_by);
        head->version.principal = str_place(&at, v->principal);
        head->version.previous = str_place(&at, v->previous);
        head->version.was = STR_EMPTY;
        head->version.to = TIMELINE_FOREVER;
    }
    return head;
}

void heads_put(struct heads *h, const struct entity_version *v)
{
    if (!h->slots) {
        h->slots = mem_zalloc(HEADS_COUNT * sizeof(struct head *));
    }
    if (h->slots) {
        struct head **slot = &h->slots[heads_slot(v->id)];
        struct head *fresh = head_create(v); /* it may borrow from the one that goes */
        mem_free(*slot);
        *slot = fresh;
    }
}

void heads_drop(struct heads *h, struct tidings_str id)
{
    if (heads_find(h, id)) {
        struct head **slot = &h->slots[heads_slot(id)];
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
