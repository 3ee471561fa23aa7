/* SPDX-License-Identifier: MIT
 *
 * Finding a member of a JSON object: one by one among a few, through a hash table among many.
 *
 * Keys are hashed with a seed that is drawn once for the process, so that nobody can choose some
 * that collide.
 */
#include "json/value.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

void value_free(struct value_document *d)
{
    struct value_block *next;
    for (struct value_block *block = &d->block; block; block = next) {
        next = block->next;
        mem_free(block);
    }
}

static uint64_t index_seed(void)
{
    static _Atomic uint64_t seed;
    uint64_t now = atomic_load_explicit(&seed, memory_order_relaxed), drawn = 0;
    if (now == 0) {
        if (random_bytes(&drawn, sizeof(drawn)) < 0) {
            drawn = clock_monotonic_ns() ^ (uint64_t)(uintptr_t)&seed << 20;
        }
        /* Who comes second takes the first one's. */
        now = drawn | 1;
        uint64_t none = 0;
        if (!atomic_compare_exchange_strong(&seed, &none, now)) {
            now = none;
        }
    }
    return now;
}

/* The number of the member with the key, from 1; or 0, and the slot where it belongs in *ret. */
static uint32_t value_probe(const struct value_index *index, const struct json *items,
                            struct tidings_str key, uint64_t hash, uint32_t *ret)
{
    uint32_t i = (uint32_t)(hash >> 32) & index->mask;
    for (; index->slots[i].member != 0; i = (i + 1) & index->mask) {
        if (index->slots[i].hash == (uint32_t)hash &&
            tidings_str_eq(value_text(&items[2 * (size_t)(index->slots[i].member - 1)]), key)) {
            return index->slots[i].member;
        }
    }
    *ret = i;
    return 0;
}

bool value_index_add(struct value_index *index, const struct json *items, size_t number)
{
    uint32_t slot = 0;
    struct tidings_str key = value_text(&items[2 * number]);
    uint64_t hash = str_hash(key, index->seed);
    uint32_t member = value_probe(index, items, key, hash, &slot);
    if (member == 0) {
        index->slots[slot].hash = (uint32_t)hash;
        index->slots[slot].member = (uint32_t)number + 1;
    }
    return member == 0;
}

struct value_index *value_index_create(const struct json *items, size_t count)
{
    size_t size = 4 * (size_t)VALUE_FEW;
    while (size < 2 * count) {
        size *= 2;
    }
    struct value_index *index = mem_zalloc(sizeof(*index) + size * sizeof(index->slots[0]));
    if (index) {
        index->seed = index_seed();
        index->mask = (uint32_t)size - 1;
        for (size_t i = 0; i < count; i++) {
            (void)value_index_add(index, items, i);
        }
    }
    return index;
}

size_t value_index_find(const struct value_index *index, const struct json *items,
                        struct tidings_str key)
{
    uint32_t slot;
    return value_probe(index, items, key, str_hash(key, index->seed), &slot);
}

struct json *value_find(const struct json *object, struct tidings_str key)
{
    struct json *items = object->items;
    if (object->len <= VALUE_FEW) {
        for (const struct json *end = items + 2 * (size_t)object->len; items < end; items += 2) {
            if (tidings_str_eq(value_text(items), key)) {
                return items + 1;
            }
        }
        return NULL;
    }
    size_t member = value_index_find(items[-1].index, items, key);
    return member ? &items[2 * (member - 1) + 1] : NULL;
}
