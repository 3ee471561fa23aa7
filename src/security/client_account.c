/* SPDX-License-Identifier: MIT
 *
 * The CPU accounts of clients, in a shared map like quotas. An account stores the time at which it
 * will have CPU_BUDGET_BURST steps again; the unit is the time in which it regains one step.
 */
#include "security/client_account.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"

#define STEPS_PER_MS (CPU_BUDGET_STEPS / 1000u)
#define FORGET_STEPS 8 /* entries checked when a new client arrives */

struct client_account {
    struct shared_value value;
    uint64_t full_at;                     /* atomic */
    uint32_t taken[CLIENT_ACCOUNT_KINDS]; /* atomic */
    size_t held[LIMIT_SHARED_COUNT];      /* atomic */
    bool is_whole;
    size_t *count; /* atomic; number of accounts in the shared map; NULL: not in the map */
    char name[];
};

struct client_accounts {
    struct shared_map *shared;
    struct client_account *others; /* shared by clients that find no room */
    size_t count;                  /* atomic */
    struct shared_value *sweep_at; /* atomic; the last candidate for eviction */
};

static struct client_account *client_account_of_value(const struct shared_value *value)
{
    return (struct client_account *)((uintptr_t)value - offsetof(struct client_account, value));
}

static void client_account_destroy(struct shared_value *value)
{
    struct client_account *a = client_account_of_value(value);
    if (a->count) {
        __atomic_fetch_sub(a->count, 1, __ATOMIC_RELAXED);
    }
    mem_free(a);
}

static struct client_account *client_account_create(struct tidings_str name)
{
    struct client_account *a = mem_zalloc(sizeof(*a) + name.len);
    if (a) {
        if (name.len > 0) {
            memcpy(a->name, name.ptr, name.len);
        }
        a->value.key = tidings_strn(a->name, name.len);
        a->is_whole = str_starts(name, STR("machine "));
        a->value.destroy = client_account_destroy;
        a->value.refs = 1;
    }
    return a;
}

struct client_accounts *client_accounts_create(void)
{
    struct client_accounts *all = mem_zalloc(sizeof(*all));
    if (all) {
        all->shared = shared_map_create(NULL);
        all->others = client_account_create(STR_EMPTY);
    }
    if (all && (!all->shared || !all->others)) {
        client_accounts_destroy(all);
        all = NULL;
    }
    return all;
}

void client_accounts_destroy(struct client_accounts *all)
{
    if (all) {
        shared_value_unref(all->sweep_at);
        shared_map_destroy(all->shared);
        client_account_release(all->others);
        mem_free(all);
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

static int client_account_forget_idle(void *user, const struct shared_value *value)
{
    uint64_t now = *(const uint64_t *)user;
    const struct client_account *a = value ? client_account_of_value(value) : NULL;
    /* the caller holds one */
    bool is_idle = a && __atomic_load_n(&value->refs, __ATOMIC_ACQUIRE) <= 2 &&
                   client_account_steps_left(a, now) == CPU_BUDGET_BURST;
    return is_idle ? SHARED_MAP_REMOVE : SHARED_MAP_KEEP;
}

/* Evicts a few idle accounts, in turn. */
static void client_account_forget_some(struct client_accounts *all, uint64_t now)
{
    struct shared_value *at = __atomic_exchange_n(&all->sweep_at, NULL, __ATOMIC_ACQ_REL);
    for (int i = 0; i < FORGET_STEPS; i++) {
        struct shared_value *next = shared_map_next(all->shared, at ? at->key : STR_EMPTY);
        shared_value_unref(at);
        at = next;
        if (at) {
            (void)shared_map_update(all->shared, at->key, NULL, client_account_forget_idle, &now);
        }
    }
    shared_value_unref(__atomic_exchange_n(&all->sweep_at, at, __ATOMIC_ACQ_REL));
}

struct client_account_insert {
    struct client_accounts *all;
    struct client_account *fresh;
    struct client_account *found; /* a reference: another thread was faster */
};

static int client_account_insert_decide(void *user, const struct shared_value *old)
{
    struct client_account_insert *p = user;
    if (old) {
        p->found = client_account_of_value(old);
        shared_value_ref(&p->found->value);
        return SHARED_MAP_KEEP;
    }
    if (__atomic_load_n(&p->all->count, __ATOMIC_RELAXED) >= CLIENT_ACCOUNTS_MAX) {
        return TIDINGS_E_LIMIT;
    }
    p->fresh->count = &p->all->count;
    __atomic_fetch_add(&p->all->count, 1, __ATOMIC_RELAXED);
    return SHARED_MAP_REPLACE;
}

struct client_account *client_accounts_find(struct client_accounts *all, struct tidings_str client,
                                            uint64_t now)
{
    struct shared_value *value = shared_map_find(all->shared, client);
    if (value) {
        return client_account_of_value(value);
    }
    client_account_forget_some(all, now);
    struct client_account_insert p = {.all = all, .fresh = client_account_create(client)};
    int rc = p.fresh ? shared_map_update(all->shared, client, &p.fresh->value,
                                         client_account_insert_decide, &p)
                     : TIDINGS_E_NOMEM;
    if (rc == SHARED_MAP_REPLACE) {
        return p.fresh;
    }
    client_account_release(p.fresh);
    if (rc == TIDINGS_E_LIMIT) {
        shared_value_ref(&all->others->value);
        return all->others;
    }
    return p.found;
}

struct client_account *client_account_ref(struct client_account *a)
{
    if (a) {
        shared_value_ref(&a->value);
    }
    return a;
}

void client_account_release(struct client_account *a)
{
    if (a) {
        shared_value_unref(&a->value);
    }
}

struct tidings_str client_account_name(const struct client_account *a)
{
    const char *blank = memchr(a->name, ' ', a->value.key.len);
    size_t skip = blank ? (size_t)(blank - a->name) + 1 : 0;
    return tidings_strn(a->name + skip, a->value.key.len - skip);
}

bool client_account_is_whole(const struct client_account *a)
{
    return a->is_whole;
}

bool client_account_is_user(const struct client_account *a)
{
    return str_starts(a->value.key, STR("user "));
}

size_t *client_account_used(struct client_account *a, enum limit limit)
{
    return &a->held[limit_shared_at(limit)];
}

/* ---- spending -------------------------------------------------------------------------------- */

/* Steps until it is full; more than CPU_BUDGET_BURST if in debt. */
static uint64_t client_account_missing(const struct client_account *a, uint64_t now)
{
    uint64_t full_at = a ? __atomic_load_n(&a->full_at, __ATOMIC_RELAXED) : 0;
    return full_at > now * STEPS_PER_MS ? full_at - now * STEPS_PER_MS : 0;
}

uint64_t client_account_steps_left(const struct client_account *a, uint64_t now)
{
    if (!a) {
        return UINT64_MAX;
    }
    uint64_t missing = client_account_missing(a, now);
    return missing < CPU_BUDGET_BURST ? CPU_BUDGET_BURST - missing : 0;
}

void client_account_spend(struct client_account *a, uint64_t steps, uint64_t now)
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

void client_account_pay(struct client_account *a, uint64_t steps, uint64_t now)
{
    if (steps > CPU_BUDGET_FREE) {
        client_account_spend(a, steps - CPU_BUDGET_FREE, now);
    }
}

void client_account_refund(struct client_account *a, uint64_t steps)
{
    if (a) {
        __atomic_fetch_sub(&a->full_at, steps, __ATOMIC_RELAXED);
    }
}

struct refusal client_account_refusal(struct limit_counters *counters,
                                      const struct client_account *a, uint64_t needed, uint64_t now)
{
    uint64_t missing = client_account_missing(a, now);
    uint64_t spare = CPU_BUDGET_BURST - (needed < CPU_BUDGET_BURST ? needed : CPU_BUDGET_BURST);
    struct refusal why = limit_refusal(LIMIT_PATTERN_STEPS, CPU_BUDGET_STEPS, true);
    limit_hit(counters, LIMIT_PATTERN_STEPS);
    why.retry_ms = missing > spare ? (missing - spare + STEPS_PER_MS - 1) / STEPS_PER_MS : 1;
    return why;
}

bool client_account_take_within(struct client_account *a, enum client_account_kind kind,
                                size_t most)
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

bool client_account_take(struct client_account *a, enum client_account_kind kind)
{
    static const size_t most[] = {
        [CLIENT_ACCOUNT_UNINDEXED_REGEXES] = CLIENT_ACCOUNT_MAX_UNINDEXED_REGEXES,
        [CLIENT_ACCOUNT_FILTERS] = CLIENT_ACCOUNT_MAX_FILTERS,
        [CLIENT_ACCOUNT_FILTER_PAST] = CLIENT_ACCOUNT_MAX_FILTER_PAST,
    };
    return client_account_take_within(a, kind, most[kind]);
}

void client_account_give_back(struct client_account *a, enum client_account_kind kind)
{
    if (a) {
        __atomic_fetch_sub(&a->taken[kind], 1, __ATOMIC_RELAXED);
        client_account_release(a);
    }
}
