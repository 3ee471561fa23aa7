/* SPDX-License-Identifier: MIT
 *
 * The CPU allowances of clients, in a shared map like quotas. How many steps are left is kept as
 * the moment at which there will be ALLOWANCE_BURST of them again; its unit is the time in which
 * one step comes back.
 */
#include "security/cpu_budget.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"

#define STEPS_PER_MS (ALLOWANCE_STEPS / 1000u)
#define FORGET_STEPS 8 /* looked at, whenever somebody new comes */

struct allowance {
    struct shared_value value;
    uint64_t full_at;                /* atomic */
    uint32_t taken[ALLOWANCE_KINDS]; /* atomic */
    size_t held[LIMIT_SHARED_COUNT]; /* atomic */
    bool is_whole;
    size_t *count; /* atomic; of all in the shared map; NULL: it is not on it */
    char name[];
};

struct allowances {
    struct shared_map *shared;
    struct allowance *others;      /* of those who find no room */
    size_t count;                  /* atomic */
    struct shared_value *sweep_at; /* atomic; the last that might have been forgotten */
};

static struct allowance *allowance_of_value(const struct shared_value *value)
{
    return (struct allowance *)((uintptr_t)value - offsetof(struct allowance, value));
}

static void allowance_destroy(struct shared_value *value)
{
    struct allowance *a = allowance_of_value(value);
    if (a->count) {
        __atomic_fetch_sub(a->count, 1, __ATOMIC_RELAXED);
    }
    mem_free(a);
}

static struct allowance *allowance_create(struct tidings_str name)
{
    struct allowance *a = mem_zalloc(sizeof(*a) + name.len);
    if (a) {
        if (name.len > 0) {
            memcpy(a->name, name.ptr, name.len);
        }
        a->value.key = tidings_strn(a->name, name.len);
        a->is_whole = str_starts(name, STR("machine "));
        a->value.destroy = allowance_destroy;
        a->value.refs = 1;
    }
    return a;
}

struct allowances *allowances_create(void)
{
    struct allowances *all = mem_zalloc(sizeof(*all));
    if (all) {
        all->shared = shared_map_create(NULL);
        all->others = allowance_create(STR_EMPTY);
    }
    if (all && (!all->shared || !all->others)) {
        allowances_destroy(all);
        all = NULL;
    }
    return all;
}

void allowances_destroy(struct allowances *all)
{
    if (all) {
        shared_value_unref(all->sweep_at);
        shared_map_destroy(all->shared);
        allowance_release(all->others);
        mem_free(all);
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

static int allowance_forget_idle(void *user, const struct shared_value *value)
{
    uint64_t now = *(const uint64_t *)user;
    const struct allowance *a = value ? allowance_of_value(value) : NULL;
    bool is_idle = a && __atomic_load_n(&value->refs, __ATOMIC_ACQUIRE) <= 2 && /* we have one */
                   allowance_left(a, now) == ALLOWANCE_BURST;
    return is_idle ? SHARED_MAP_REMOVE : SHARED_MAP_KEEP;
}

/* Some of them, in turn. */
static void allowance_forget_some(struct allowances *all, uint64_t now)
{
    struct shared_value *at = __atomic_exchange_n(&all->sweep_at, NULL, __ATOMIC_ACQ_REL);
    for (int i = 0; i < FORGET_STEPS; i++) {
        struct shared_value *next = shared_map_next(all->shared, at ? at->key : STR_EMPTY);
        shared_value_unref(at);
        at = next;
        if (at) {
            (void)shared_map_update(all->shared, at->key, NULL, allowance_forget_idle, &now);
        }
    }
    shared_value_unref(__atomic_exchange_n(&all->sweep_at, at, __ATOMIC_ACQ_REL));
}

struct allowance_insert {
    struct allowances *all;
    struct allowance *fresh;
    struct allowance *found; /* a reference: somebody else was faster */
};

static int allowance_insert_decide(void *user, const struct shared_value *old)
{
    struct allowance_insert *p = user;
    if (old) {
        p->found = allowance_of_value(old);
        shared_value_ref(&p->found->value);
        return SHARED_MAP_KEEP;
    }
    if (__atomic_load_n(&p->all->count, __ATOMIC_RELAXED) >= ALLOWANCE_CLIENTS) {
        return TIDINGS_E_LIMIT;
    }
    p->fresh->count = &p->all->count;
    __atomic_fetch_add(&p->all->count, 1, __ATOMIC_RELAXED);
    return SHARED_MAP_REPLACE;
}

struct allowance *allowances_find(struct allowances *all, struct tidings_str client, uint64_t now)
{
    struct shared_value *value = shared_map_find(all->shared, client);
    if (value) {
        return allowance_of_value(value);
    }
    allowance_forget_some(all, now);
    struct allowance_insert p = {.all = all, .fresh = allowance_create(client)};
    int rc = p.fresh ? shared_map_update(all->shared, client, &p.fresh->value,
                                         allowance_insert_decide, &p)
                     : TIDINGS_E_NOMEM;
    if (rc == SHARED_MAP_REPLACE) {
        return p.fresh;
    }
    allowance_release(p.fresh);
    if (rc == TIDINGS_E_LIMIT) {
        shared_value_ref(&all->others->value);
        return all->others;
    }
    return p.found;
}

struct allowance *allowance_ref(struct allowance *a)
{
    if (a) {
        shared_value_ref(&a->value);
    }
    return a;
}

void allowance_release(struct allowance *a)
{
    if (a) {
        shared_value_unref(&a->value);
    }
}

struct tidings_str allowance_name(const struct allowance *a)
{
    const char *blank = memchr(a->name, ' ', a->value.key.len);
    size_t skip = blank ? (size_t)(blank - a->name) + 1 : 0;
    return tidings_strn(a->name + skip, a->value.key.len - skip);
}

bool allowance_is_whole(const struct allowance *a)
{
    return a->is_whole;
}

bool allowance_is_user(const struct allowance *a)
{
    return str_starts(a->value.key, STR("user "));
}

size_t *allowance_held(struct allowance *a, enum limit limit)
{
    return &a->held[limit_shared_at(limit)];
}

/* ---- spending -------------------------------------------------------------------------------- */

/* Steps until it is full; with a debt, more than ALLOWANCE_BURST. */
static uint64_t allowance_missing(const struct allowance *a, uint64_t now)
{
    uint64_t full_at = a ? __atomic_load_n(&a->full_at, __ATOMIC_RELAXED) : 0;
    return full_at > now * STEPS_PER_MS ? full_at - now * STEPS_PER_MS : 0;
}

uint64_t allowance_left(const struct allowance *a, uint64_t now)
{
    if (!a) {
        return UINT64_MAX;
    }
    uint64_t missing = allowance_missing(a, now);
    return missing < ALLOWANCE_BURST ? ALLOWANCE_BURST - missing : 0;
}

void allowance_spend(struct allowance *a, uint64_t steps, uint64_t now)
{
    if (!a) {
        return;
    }
    uint64_t before = __atomic_load_n(&a->full_at, __ATOMIC_RELAXED), after;
    do {
        uint64_t base = before > now * STEPS_PER_MS ? before : now * STEPS_PER_MS;
        after = base + steps;
    } while (!__atomic_compare_exchange_n(&a->full_at, &before, after, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
}

void allowance_pay(struct allowance *a, uint64_t steps, uint64_t now)
{
    if (steps > ALLOWANCE_FREE) {
        allowance_spend(a, steps - ALLOWANCE_FREE, now);
    }
}

void allowance_refund(struct allowance *a, uint64_t steps)
{
    if (a) {
        __atomic_fetch_sub(&a->full_at, steps, __ATOMIC_RELAXED);
    }
}

struct refusal allowance_refusal(struct limit_counters *counters, const struct allowance *a,
                                 uint64_t needed, uint64_t now)
{
    uint64_t missing = allowance_missing(a, now);
    uint64_t spare = ALLOWANCE_BURST - (needed < ALLOWANCE_BURST ? needed : ALLOWANCE_BURST);
    struct refusal why = limit_refusal(LIMIT_PATTERN_STEPS, ALLOWANCE_STEPS, true);
    limit_hit(counters, LIMIT_PATTERN_STEPS);
    why.retry_ms = missing > spare ? (missing - spare + STEPS_PER_MS - 1) / STEPS_PER_MS : 1;
    return why;
}

bool allowance_take_within(struct allowance *a, enum allowance_kind kind, size_t most)
{
    if (!a) {
        return true;
    }
    if (__atomic_fetch_add(&a->taken[kind], 1, __ATOMIC_RELAXED) >= most) {
        __atomic_fetch_sub(&a->taken[kind], 1, __ATOMIC_RELAXED);
        return false;
    }
    shared_value_ref(&a->value);
    return true;
}

bool allowance_take(struct allowance *a, enum allowance_kind kind)
{
    static const size_t most[] = {
        [ALLOWANCE_UNINDEXED_REGEXES] = ALLOWANCE_MAX_UNINDEXED_REGEXES,
        [ALLOWANCE_FILTERS] = ALLOWANCE_MAX_FILTERS,
        [ALLOWANCE_FILTER_PAST] = ALLOWANCE_MAX_FILTER_PAST,
    };
    return allowance_take_within(a, kind, most[kind]);
}

void allowance_give_back(struct allowance *a, enum allowance_kind kind)
{
    if (a) {
        __atomic_fetch_sub(&a->taken[kind], 1, __ATOMIC_RELAXED);
        allowance_release(a);
    }
}
