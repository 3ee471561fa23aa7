/* SPDX-License-Identifier: MIT
 *
 * The newest versions of entities in a table with a few places for each hash: who comes last has
 * one of them. Ids chosen to collide cost a look into the store, as before.
 */
#include "store/entity_heads.h"

#include "base/mem.h"
#include "base/str.h"
#include "store/timeline.h"

#define HEADS_PLACES 8u

struct head {
    struct entity_version version;
    char text[];
};

/* The first of the places that an id may have. */
static struct head **heads_places(const struct heads *h, struct tidings_str id)
{
    return &h->slots[(str_hash(id, 0) & (HEADS_COUNT / HEADS_PLACES - 1)) * HEADS_PLACES];
}

/* Where it is, or NULL. */
static struct head **heads_place_of(const struct heads *h, struct tidings_str id)
{
    struct head **places = h->slots ? heads_places(h, id) : NULL;
    for (size_t i = 0; places && i < HEADS_PLACES; i++) {
        if (places[i] && str_eq(places[i]->version.id, id)) {
            return &places[i];
        }
    }
    return NULL;
}

const struct entity_version *heads_find(const struct heads *h, struct tidings_str id)
{
    struct head **place = heads_place_of(h, id);
    return place ? &(*place)->version : NULL;
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
    struct head *fresh = h->slots ? head_create(v) : NULL; /* it may borrow from the old one */
    struct head **place = heads_place_of(h, v->id);
    if (!place && fresh) {
        place = heads_places(h, v->id) + h->turn++ % HEADS_PLACES;
    }
    if (place) {
        mem_free(*place);
        *place = fresh;
    }
}

void heads_drop(struct heads *h, struct tidings_str id)
{
    struct head **place = heads_place_of(h, id);
    if (place) {
        mem_free(*place);
        *place = NULL;
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
