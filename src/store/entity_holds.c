/* SPDX-License-Identifier: MIT
 *
 * Held versions of entities: an array for each entity, by time; most have one or two.
 */
#include "store/entity_holds.h"

#include "base/mem.h"
#include "base/str.h"
#include "store/timeline.h"

struct hold {
    int64_t from;
    size_t count;
};

struct holds {
    struct hold *at; /* ascending */
    size_t count, cap;
    int64_t offered; /* TIMELINE_NEVER: none */
    size_t id_len;
    char id[];
};

void entity_holds_init(struct entity_holds *h)
{
    map_init(&h->by_id);
}

static void holds_free(struct holds *x)
{
    mem_free(x->at);
    mem_free(x);
}

void entity_holds_deinit(struct entity_holds *h)
{
    size_t pos = 0;
    struct holds *x;
    while ((x = map_next(&h->by_id, &pos)) != NULL) {
        holds_free(x);
    }
    map_deinit(&h->by_id);
}

/* The first that does not begin before `from`. */
static size_t entity_holds_find(const struct holds *x, int64_t from)
{
    size_t low = 0, high = x->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (x->at[middle].from < from) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_at(const struct holds *x, size_t i, int64_t from)
{
    return i < x->count && x->at[i].from == from;
}

static struct holds *find_or_make(struct entity_holds *h, struct tidings_str id)
{
    struct holds *x = map_find(&h->by_id, id);
    if (x) {
        return x;
    }
    x = mem_zalloc(sizeof(*x) + id.len);
    if (!x) {
        return NULL;
    }
    memcpy(x->id, id.ptr, id.len);
    x->id_len = id.len;
    x->offered = TIMELINE_NEVER;
    if (map_put(&h->by_id, tidings_strn(x->id, x->id_len), x, NULL) < 0) {
        mem_free(x);
        return NULL;
    }
    return x;
}

static void entity_holds_drop_if_empty(struct entity_holds *h, struct holds *x)
{
    if (x->count == 0) {
        map_remove(&h->by_id, tidings_strn(x->id, x->id_len));
        holds_free(x);
    }
}

int entity_holds_add(struct entity_holds *h, struct tidings_str id, int64_t from)
{
    struct holds *x = find_or_make(h, id);
    if (!x) {
        return TIDINGS_E_NOMEM;
    }
    size_t i = entity_holds_find(x, from);
    if (is_at(x, i, from)) {
        x->at[i].count++;
        return 0;
    }
    if (x->count == x->cap) {
        size_t cap = x->cap ? 2 * x->cap : 2;
        struct hold *more = mem_realloc(x->at, cap * sizeof(*more));
        if (!more) {
            entity_holds_drop_if_empty(h, x);
            return TIDINGS_E_NOMEM;
        }
        x->at = more;
        x->cap = cap;
    }
    memmove(&x->at[i + 1], &x->at[i], (x->count - i) * sizeof(x->at[0]));
    x->at[i] = (struct hold){.from = from, .count = 1};
    x->count++;
    return 0;
}

void entity_holds_remove(struct entity_holds *h, struct tidings_str id, int64_t from)
{
    struct holds *x = map_find(&h->by_id, id);
    size_t i = x ? entity_holds_find(x, from) : 0;
    if (!x || !is_at(x, i, from) || --x->at[i].count > 0) {
        return;
    }
    x->count--;
    memmove(&x->at[i], &x->at[i + 1], (x->count - i) * sizeof(x->at[0]));
    entity_holds_drop_if_empty(h, x);
}

int64_t entity_holds_oldest(const struct entity_holds *h, struct tidings_str id)
{
    const struct holds *x = map_find(&h->by_id, id);
    return x ? x->at[0].from : TIMELINE_FOREVER;
}

void entity_holds_offer(struct entity_holds *h, struct tidings_str id, int64_t from)
{
    struct holds *x = map_find(&h->by_id, id);
    if (x) {
        x->offered = from;
    }
}

bool entity_holds_has(const struct entity_holds *h, struct tidings_str id, int64_t from)
{
    const struct holds *x = map_find(&h->by_id, id);
    return x && (x->offered == from || is_at(x, entity_holds_find(x, from), from));
}
