/* SPDX-License-Identifier: MIT
 *
 * Quotas in a shared map: whoever holds one has a reference, and one that only the map refers to
 * may be forgotten. All numbers inside a quota are atomic.
 */
#include "access/quota.h"

#include "access/share.h"
#include "base/mem.h"
#include "base/shared_map.h"
#include "base/str.h"

/* Looked at, and forgotten where possible, whenever somebody new comes: the table shrinks faster
 * than it grows, and nobody waits for it. */
#define FORGET_STEPS 8

struct quota {
    /* What every request touches: one cache line. */
    struct token_bucket requests, subscribes, connects, refusals;
    uint64_t blocked_until_ms; /* atomic */
    const struct quota_rules *rules;
    struct limit_counters *limit_counters;
    uint32_t connections, sessions;
    /* … and what it does not. */
    struct shared_value value;
    bool is_counted; /* it has a place in the shared map */
    char name[];
};

struct quotas {
    struct limit_counters *limit_counters;
    struct quotas_options options;
    bool limits_remote, limits_local;
    struct shared_map *shared;
    struct shared_value *sweep_at; /* atomic; the last that might have been forgotten; NULL: none,
                                      or somebody is looking */
};

static struct quota *quota_of_value(const struct shared_value *value)
{
    return (struct quota *)((uintptr_t)value - offsetof(struct quota, value));
}

static void quota_destroy(struct shared_value *value)
{
    struct quota *q = quota_of_value(value);
    if (q->is_counted) {
        limit_leave(q->limit_counters, LIMIT_CLIENTS);
    }
    mem_free(q);
}

struct quotas *quotas_create(struct limit_counters *counters)
{
    struct quotas *quotas = mem_zalloc(sizeof(*quotas));
    if (quotas) {
        quotas->limit_counters = counters;
        quotas->shared = shared_map_create(NULL);
    }
    if (quotas && !quotas->shared) {
        mem_free(quotas);
        quotas = NULL;
    }
    return quotas;
}

void quotas_destroy(struct quotas *quotas)
{
    if (quotas) {
        shared_value_unref(quotas->sweep_at);
        shared_map_destroy(quotas->shared);
        mem_free(quotas);
    }
}

static bool limits_anything(const struct quota_rules *r)
{
    return r->max_connections > 0 || r->max_sessions > 0 || r->connections.count > 0 ||
           r->requests.count > 0 || r->subscribes.count > 0;
}

void quotas_set(struct quotas *quotas, const struct quotas_options *options)
{
    quotas->options = *options;
    quotas->limits_remote = limits_anything(&options->remote);
    quotas->limits_local = limits_anything(&options->local);
}

/* ---- the table ------------------------------------------------------------------------------- */

static int quota_forget_idle(void *user, const struct shared_value *value)
{
    uint64_t now = *(const uint64_t *)user;
    const struct quota *q = value ? quota_of_value(value) : NULL;
    bool is_idle = q && __atomic_load_n(&value->refs, __ATOMIC_ACQUIRE) <= 2 && /* we have one */
                   __atomic_load_n(&q->blocked_until_ms, __ATOMIC_RELAXED) <= now &&
                   token_bucket_is_full(&q->connects, &q->rules->connections, now) &&
                   token_bucket_is_full(&q->requests, &q->rules->requests, now) &&
                   token_bucket_is_full(&q->subscribes, &q->rules->subscribes, now) &&
                   token_bucket_is_full(&q->refusals, &q->rules->refusals, now);
    return is_idle ? SHARED_MAP_REMOVE : SHARED_MAP_KEEP;
}

/* Some of them, in turn. */
static void quota_forget_some(struct quotas *quotas, uint64_t now)
{
    struct shared_value *at = __atomic_exchange_n(&quotas->sweep_at, NULL, __ATOMIC_ACQ_REL);
    for (int i = 0; i < FORGET_STEPS; i++) {
        struct shared_value *next = shared_map_next(quotas->shared, at ? at->key : STR_EMPTY);
        shared_value_unref(at);
        at = next;
        if (at) {
            (void)shared_map_update(quotas->shared, at->key, NULL, quota_forget_idle, &now);
        }
    }
    shared_value_unref(__atomic_exchange_n(&quotas->sweep_at, at, __ATOMIC_ACQ_REL));
}

static struct quota *quota_create(struct quotas *quotas, struct tidings_str name, bool is_local)
{
    struct quota *q = mem_zalloc(sizeof(*q) + name.len);
    if (q) {
        memcpy(q->name, name.ptr, name.len);
        q->limit_counters = quotas->limit_counters;
        q->rules = is_local ? &quotas->options.local : &quotas->options.remote;
        q->value.key = tidings_strn(q->name, name.len);
        q->value.destroy = quota_destroy;
        q->value.refs = 1;
    }
    return q;
}

static struct quota *quota_ref(struct quota *q)
{
    if (q) {
        shared_value_ref(&q->value);
    }
    return q;
}

struct quota_insert {
    struct quotas *quotas;
    struct quota *fresh;
    struct quota *found; /* a reference: somebody else was faster */
};

static int quota_insert_decide(void *user, const struct shared_value *old)
{
    struct quota_insert *p = user;
    if (old) {
        p->found = quota_ref(quota_of_value(old));
        return SHARED_MAP_KEEP;
    }
    uint64_t most = p->quotas->options.max_clients;
    bool is_user = str_starts(p->fresh->value.key, STR("uid:")); /* of a Unix socket */
    if (!limit_enter(p->quotas->limit_counters, LIMIT_CLIENTS,
                     is_user ? most : most - share_reserve(most))) {
        return TIDINGS_E_LIMIT;
    }
    p->fresh->is_counted = true;
    return SHARED_MAP_REPLACE;
}

/* Held once more; NULL: nothing limits that client, or there is no room or no memory for it. */
static struct quota *quota_find(struct quotas *quotas, struct tidings_str name, bool is_local,
                                uint64_t now, int *ret_code)
{
    *ret_code = 0;
    if (!(is_local ? quotas->limits_local : quotas->limits_remote)) {
        return NULL;
    }
    struct shared_value *value = shared_map_find(quotas->shared, name);
    if (value) {
        return quota_of_value(value);
    }
    quota_forget_some(quotas, now);
    struct quota_insert p = {.quotas = quotas, .fresh = quota_create(quotas, name, is_local)};
    int rc = p.fresh
                 ? shared_map_update(quotas->shared, name, &p.fresh->value, quota_insert_decide, &p)
                 : TIDINGS_E_NOMEM;
    if (rc == SHARED_MAP_REPLACE) {
        return p.fresh;
    }
    quota_release(p.fresh);
    *ret_code = rc < 0 ? rc : 0;
    return p.found;
}

struct quota *quotas_find(struct quotas *quotas, struct tidings_str name, uint64_t now)
{
    int code = 0;
    return quota_find(quotas, name, false, now, &code);
}

void quota_release(struct quota *q)
{
    if (q) {
        shared_value_unref(&q->value);
    }
}

/* ---- judging --------------------------------------------------------------------------------- */

/* It is refused something: once more than it may be, and it is shut out. */
static struct refusal quota_strike(struct quota *q, enum limit limit, uint64_t value, uint64_t now)
{
    limit_hit(q->limit_counters, limit);
    if (q->rules->refusals.count > 0 &&
        token_bucket_take(&q->refusals, &q->rules->refusals, now) > 0) {
        __atomic_store_n(&q->blocked_until_ms, now + q->rules->block_ms, __ATOMIC_RELAXED);
    }
    return limit_refusal(limit, value, true);
}

static bool is_blocked(struct quota *q, uint64_t now, struct refusal *why)
{
    uint64_t until = __atomic_load_n(&q->blocked_until_ms, __ATOMIC_RELAXED);
    if (until <= now) {
        return false;
    }
    limit_hit(q->limit_counters, LIMIT_BLOCKED);
    *why = limit_refusal(LIMIT_BLOCKED, q->rules->refusals.count, true);
    why->retry_ms = until - now;
    return true;
}

static bool quota_take(struct quota *q, struct token_bucket *bucket,
                       const struct token_bucket_rule *rule, uint64_t now, enum limit limit,
                       struct refusal *why)
{
    if (is_blocked(q, now, why)) {
        return false;
    }
    uint64_t wait = token_bucket_take(bucket, rule, now);
    if (wait == 0) {
        return true;
    }
    *why = quota_strike(q, limit, rule->count, now);
    why->retry_ms = wait;
    return false;
}

bool quota_take_request(struct quota *q, uint64_t now, struct refusal *why)
{
    return !q || quota_take(q, &q->requests, &q->rules->requests, now, LIMIT_REQUEST_RATE, why);
}

bool quota_take_subscribe(struct quota *q, uint64_t now, struct refusal *why)
{
    return !q ||
           quota_take(q, &q->subscribes, &q->rules->subscribes, now, LIMIT_SUBSCRIBE_RATE, why);
}

/* One more of what it may have `most` of; 0: any number. */
static bool count_up(uint32_t *count, size_t most)
{
    uint32_t before = __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
    if (most > 0 && before >= most) {
        __atomic_fetch_sub(count, 1, __ATOMIC_RELAXED);
        return false;
    }
    return true;
}

int quotas_enter(struct quotas *quotas, struct tidings_str name, bool is_local, uint64_t now,
                 struct quota **ret, struct refusal *why)
{
    int code = 0;
    struct quota *q = quota_find(quotas, name, is_local, now, &code);
    *ret = NULL;
    if (code == TIDINGS_E_LIMIT) { /* counted when it was tried */
        *why = limit_refusal(LIMIT_CLIENTS, quotas->options.max_clients, false);
    }
    if (!q) {
        return code;
    }
    if (!quota_take(q, &q->connects, &q->rules->connections, now, LIMIT_CONNECTION_RATE, why)) {
        quota_release(q);
        return TIDINGS_E_LIMIT;
    }
    if (!count_up(&q->connections, q->rules->max_connections)) {
        *why = quota_strike(q, LIMIT_CLIENT_CONNECTIONS, q->rules->max_connections, now);
        quota_release(q);
        return TIDINGS_E_LIMIT;
    }
    *ret = q;
    return 0;
}

void quota_leave(struct quota *q)
{
    if (q) {
        __atomic_fetch_sub(&q->connections, 1, __ATOMIC_RELAXED);
        quota_release(q);
    }
}

bool quota_open_session(struct quota *q, struct refusal *why)
{
    if (!q) {
        return true;
    }
    if (!count_up(&q->sessions, q->rules->max_sessions)) {
        limit_hit(q->limit_counters, LIMIT_CLIENT_SESSIONS);
        *why = limit_refusal(LIMIT_CLIENT_SESSIONS, q->rules->max_sessions, true);
        return false;
    }
    quota_ref(q);
    return true;
}

void quota_close_session(struct quota *q)
{
    if (q) {
        __atomic_fetch_sub(&q->sessions, 1, __ATOMIC_RELAXED);
        quota_release(q);
    }
}
