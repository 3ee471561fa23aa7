/* SPDX-License-Identifier: MIT
 *
 * Hash table with linear probing.
 *
 * Invariant: at most three quarters of the slots are in use, and there is no free slot between a
 * key's home slot (hash & (cap - 1)) and its actual slot. Removal moves later entries back instead
 * of leaving tombstones. The seed is drawn with the first entry, so an empty table costs nothing
 * but its struct.
 */
#include "base/map.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"

/* -------------------------------------------------------------------------------------------------
 * The shared map: a sorted array of pointers under a lock. The lock is held for a search and an
 * update, never while memory is freed; references are taken under it, so that a found value cannot
 * be freed in between.
 */

struct shared_map {
    pthread_mutex_t lock;
    struct shared_value **values; /* ascending by key */
    size_t count, cap;
};

struct shared_value *shared_value_ref(struct shared_value *value)
{
    __atomic_add_fetch(&value->refs, 1, __ATOMIC_RELAXED);
    return value;
}

void shared_value_unref(struct shared_value *value)
{
    if (value && __atomic_sub_fetch(&value->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        value->destroy(value);
    }
}

struct shared_map *shared_map_create(struct tidings_error *err)
{
    struct shared_map *s = mem_zalloc(sizeof(*s));
    if (!s) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    int errnum = pthread_mutex_init(&s->lock, NULL);
    if (errnum) {
        error_errno(err, errnum, "create lock");
        mem_free(s);
        return NULL;
    }
    return s;
}

void shared_map_destroy(struct shared_map *s)
{
    if (!s) {
        return;
    }
    for (size_t i = 0; i < s->count; i++) {
        shared_value_unref(s->values[i]);
    }
    pthread_mutex_destroy(&s->lock);
    mem_free(s->values);
    mem_free(s);
}

/* The first position whose key is not less than `key`. */
static size_t shared_map_position(const struct shared_map *s, struct tidings_str key, bool *found)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (str_cmp(s->values[middle]->key, key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *found = low < s->count && str_eq(s->values[low]->key, key);
    return low;
}

struct shared_value *shared_map_find(struct shared_map *s, struct tidings_str key)
{
    bool found = false;
    pthread_mutex_lock(&s->lock);
    size_t at = shared_map_position(s, key, &found);
    struct shared_value *value = found ? shared_value_ref(s->values[at]) : NULL;
    pthread_mutex_unlock(&s->lock);
    return value;
}

struct shared_value *shared_map_next(struct shared_map *s, struct tidings_str after)
{
    bool found = false;
    pthread_mutex_lock(&s->lock);
    size_t at = shared_map_position(s, after, &found) + (found ? 1 : 0);
    struct shared_value *value = at < s->count ? shared_value_ref(s->values[at]) : NULL;
    pthread_mutex_unlock(&s->lock);
    return value;
}

static int reserve_one(struct shared_map *s)
{
    if (s->count < s->cap) {
        return 0;
    }
    size_t cap = s->cap ? s->cap * 2 : 16;
    struct shared_value **values = mem_realloc(s->values, cap * sizeof(struct shared_value *));
    if (!values) {
        return TIDINGS_E_NOMEM;
    }
    s->values = values;
    s->cap = cap;
    return 0;
}

int shared_map_update(struct shared_map *s, struct tidings_str key, struct shared_value *fresh,
                      shared_map_decide_fn decide, void *user)
{
    bool found = false;
    struct shared_value *gone = NULL;
    pthread_mutex_lock(&s->lock);
    size_t at = shared_map_position(s, key, &found);
    int rc = fresh && !found ? reserve_one(s) : 0;
    if (rc == 0) {
        rc = decide(user, found ? s->values[at] : NULL);
    }
    if (found && (rc == SHARED_MAP_REPLACE || rc == SHARED_MAP_REMOVE)) {
        gone = s->values[at];
    }
    if (rc == SHARED_MAP_REPLACE) {
        if (!found) {
            memmove(s->values + at + 1, s->values + at, (s->count++ - at) * sizeof(*s->values));
        }
        s->values[at] = shared_value_ref(fresh);
    } else if (gone) {
        memmove(s->values + at, s->values + at + 1, (--s->count - at) * sizeof(*s->values));
    }
    pthread_mutex_unlock(&s->lock);
    shared_value_unref(gone);
    return rc;
}

/* ---------------------------------------------------------------------------------------------- */

#define MAP_MIN_CAP 8u

void map_init(struct map *m)
{
    *m = (struct map){0};
}

void map_deinit(struct map *m)
{
    mem_free(m->slots);
    *m = (struct map){0};
}

/* The slot of the key, or the free one where it belongs. The table has at least one free slot. */
static struct map_slot *map_probe(const struct map *m, struct tidings_str key, uint64_t hash)
{
    size_t mask = m->cap - 1;
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        struct map_slot *slot = &m->slots[i];
        if (!slot->value || (slot->hash == hash && str_eq(slot->key, key))) {
            return slot;
        }
    }
}

static int map_resize(struct map *m, size_t cap)
{
    if (cap > SIZE_MAX / sizeof(struct map_slot)) {
        return TIDINGS_E_NOMEM;
    }
    struct map_slot *slots = mem_zalloc(cap * sizeof *slots);
    if (!slots) {
        return TIDINGS_E_NOMEM;
    }
    for (size_t i = 0; i < m->cap; i++) {
        if (!m->slots[i].value) {
            continue;
        }
        size_t to = (size_t)m->slots[i].hash & (cap - 1);
        while (slots[to].value) {
            to = (to + 1) & (cap - 1);
        }
        slots[to] = m->slots[i];
    }
    mem_free(m->slots);
    m->slots = slots;
    m->cap = cap;
    return 0;
}

static void map_draw_seed(struct map *m)
{
    if (m->seed == 0 && random_bytes(&m->seed, sizeof m->seed) < 0) {
        /* Without a random source, at least a different seed for each table and run. */
        m->seed = clock_monotonic_ns() ^ (uint64_t)(uintptr_t)m << 20;
    }
    m->seed |= 1; /* never 0, which means "not drawn" */
}

void *map_find(const struct map *m, struct tidings_str key)
{
    return m->count ? map_probe(m, key, str_hash(key, m->seed))->value : NULL;
}

int map_put(struct map *m, struct tidings_str key, void *value, void **ret_old)
{
    assert(value);
    map_draw_seed(m);
    uint64_t hash = str_hash(key, m->seed);
    struct map_slot *slot = m->cap ? map_probe(m, key, hash) : NULL;
    bool is_new = !slot || !slot->value;
    if (!slot || (is_new && m->count + 1 > m->cap / 4 * 3)) {
        int rc = map_resize(m, m->cap ? m->cap * 2 : MAP_MIN_CAP);
        if (rc < 0) {
            return rc;
        }
        slot = map_probe(m, key, hash);
    }
    m->count += is_new;
    if (ret_old) {
        *ret_old = slot->value;
    }
    *slot = (struct map_slot){.key = key, .value = value, .hash = hash};
    return 0;
}

/* Closes the gap at `gap`: moves back every later entry of the run that may be there. */
static void map_close_gap(struct map *m, size_t gap)
{
    size_t mask = m->cap - 1;
    for (size_t i = (gap + 1) & mask; m->slots[i].value; i = (i + 1) & mask) {
        size_t home = (size_t)m->slots[i].hash & mask;
        if (((i - home) & mask) >= ((i - gap) & mask)) {
            m->slots[gap] = m->slots[i];
            gap = i;
        }
    }
    m->slots[gap] = (struct map_slot){0};
}

void *map_remove(struct map *m, struct tidings_str key)
{
    if (m->count == 0) {
        return NULL;
    }
    struct map_slot *slot = map_probe(m, key, str_hash(key, m->seed));
    void *value = slot->value;
    if (!value) {
        return NULL;
    }
    map_close_gap(m, (size_t)(slot - m->slots));
    m->count--;
    if (m->count == 0) {
        mem_free(m->slots);
        m->slots = NULL;
        m->cap = 0;
    } else if (m->cap > MAP_MIN_CAP && m->count < m->cap / 8) {
        (void)map_resize(m, m->cap / 2); /* failure is harmless: a larger table is valid */
    }
    return value;
}

void *map_next(const struct map *m, size_t *pos)
{
    while (*pos < m->cap) {
        void *value = m->slots[(*pos)++].value;
        if (value) {
            return value;
        }
    }
    return NULL;
}
