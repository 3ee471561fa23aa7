/* SPDX-License-Identifier: MIT
 *
 * The shared map: a sorted array of pointers under a lock. The lock is held for a search and a
 * step, never while memory is freed; references are taken under it, so that a value found cannot go
 * in between.
 */
#include "base/shared_map.h"

#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"

struct shared_map {
    pthread_mutex_t lock;
    struct shared_value **values; /* by key, ascending */
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

/* The first place whose key is not less than `key`. */
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
