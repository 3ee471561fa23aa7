/* SPDX-License-Identifier: MIT
 *
 * The names, values and counters of limits, and the refusal of a client that reached one.
 */
#include "security/limits.h"

#include <stdio.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/http.h"
#include "formats/uri.h"
#include "security/access.h"
#include "security/client_account.h"

/* ---------------------------------------------------------------------------------------------- */

#define RETRY_MS 1000u

static const struct {
    const char *name, *text;
    uint64_t value;
} rows[LIMIT_COUNT] = {
#define LIMIT_ROW(symbol, name, value, text) [LIMIT_##symbol] = {name, text, value},
    LIMIT_MAP(LIMIT_ROW)
#undef LIMIT_ROW
};

/* Documented in the table, used here. */
#define LIMIT_VALUE(symbol, name, value, text) value_of_##symbol = (value),
enum { LIMIT_MAP(LIMIT_VALUE) };
#undef LIMIT_VALUE
_Static_assert(value_of_SESSION_STREAMS == LIMIT_MAX_STREAMS, "streams of a session");
_Static_assert(value_of_URI == URI_MAX, "bytes of a URI");
_Static_assert(value_of_HEAD == HTTP_MAX_HEAD, "bytes of a head");
_Static_assert(value_of_TARGET == HTTP_MAX_TARGET, "bytes of a target");

const char *limit_name(enum limit limit)
{
    return rows[limit].name;
}

const char *limit_text(enum limit limit)
{
    return rows[limit].text;
}

int limit_shared_at(enum limit limit)
{
    static const signed char place[LIMIT_COUNT] = {
#define LIMIT_SHARED_PLACE(symbol) [LIMIT_##symbol] = LIMIT_SHARED_##symbol + 1,
        LIMIT_SHARED_MAP(LIMIT_SHARED_PLACE)
#undef LIMIT_SHARED_PLACE
    };
    return place[limit] - 1;
}

void limit_counters_init(struct limit_counters *counters)
{
    *counters = (struct limit_counters){.fair_share = LIMIT_FAIR_SHARE};
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        counters->values[i] = rows[i].value;
    }
}

static void limit_leave(struct limit_counters *counters, enum limit limit);

/* Counts one more, unless there are `most` (0: unlimited); that counts as a hit. */
static bool limit_enter(struct limit_counters *counters, enum limit limit, uint64_t most)
{
    size_t before = __atomic_fetch_add(&counters->in_use[limit], 1, __ATOMIC_RELAXED);
    if (most > 0 && before >= most) {
        limit_leave(counters, limit);
        limit_hit(counters, limit);
        return false;
    }
    return true;
}

static void limit_leave(struct limit_counters *counters, enum limit limit)
{
    __atomic_fetch_sub(&counters->in_use[limit], 1, __ATOMIC_RELAXED);
}

struct refusal limit_refusal(enum limit limit, uint64_t value, bool is_own)
{
    return (struct refusal){.limit = limit, .value = value, .retry_ms = RETRY_MS, .is_own = is_own};
}

int refusal_status(const struct refusal *r)
{
    return r->is_own ? 429 : 503;
}

uint64_t refusal_seconds(const struct refusal *r)
{
    return (r->retry_ms + 999) / 1000;
}

const char *refusal_sentence(const struct refusal *r, char out[REFUSAL_SENTENCE])
{
    char share[48] = "";
    if (r->share > 0) {
        snprintf(share, sizeof(share), ", at most %llu of one client",
                 (unsigned long long)r->share);
    }
    int n = snprintf(out, REFUSAL_SENTENCE, "too many %s (--%s %llu%s)", rows[r->limit].text,
                     rows[r->limit].name, (unsigned long long)r->value, share);
    if (r->limit == LIMIT_BLOCKED) {
        n = snprintf(out, REFUSAL_SENTENCE, "blocked after too many refused requests (--%s %llu)",
                     rows[r->limit].name, (unsigned long long)r->value);
    }
    if (n > 0 && (size_t)n < REFUSAL_SENTENCE && r->retry_ms > 0) {
        snprintf(out + n, REFUSAL_SENTENCE - (size_t)n, "; try again in %llu s",
                 (unsigned long long)refusal_seconds(r));
    }
    return out;
}

struct tidings_str refusal_json(const struct refusal *r, char out[REFUSAL_JSON])
{
    int n = snprintf(out, REFUSAL_JSON, "{\"limit\":\"%s\",\"value\":%llu", rows[r->limit].name,
                     (unsigned long long)r->value);
    size_t len = n > 0 ? (size_t)n : 0;
    if (r->share > 0) {
        n = snprintf(out + len, REFUSAL_JSON - len, ",\"share\":%llu",
                     (unsigned long long)r->share);
        len += n > 0 ? (size_t)n : 0;
    }
    if (r->retry_ms > 0) {
        n = snprintf(out + len, REFUSAL_JSON - len, ",\"retryAfterMs\":%llu",
                     (unsigned long long)r->retry_ms);
        len += n > 0 ? (size_t)n : 0;
    }
    out[len++] = '}';
    return tidings_strn(out, len);
}

/* -------------------------------------------------------------------------------------------------
 * Fair shares: one counter for the whole limit and one for each account. Both are incremented first
 * and decremented again if either is too high, so that no interleaving admits too many.
 */

uint64_t share_part(const struct limit_counters *counters, uint64_t most)
{
    uint64_t percent = counters->fair_share;
    if (most < SHARE_MIN || percent == 0 || percent >= 100) {
        return most;
    }
    uint64_t part = most / 100 * percent + (most % 100 * percent + 99) / 100;
    return part < most ? part : most - 1;
}

uint64_t share_reserve(uint64_t most)
{
    uint64_t part = most / SHARE_RESERVE;
    return most < SHARE_RESERVE_MIN ? 0 : part > 0 ? part : 1;
}

/* The amount that the account may hold without the reserve. */
static uint64_t share_of_account(const struct limit_counters *counters, uint64_t most,
                                 const struct client_account *account)
{
    return !account || client_account_is_whole(account) ? most : share_part(counters, most);
}

static bool share_is_operator(const struct share_taker *who)
{
    return who->is_operator || (who->principal && access_is_operator(who->principal));
}

/* `own` and `all`: amounts held by the account and by all clients, including the new amount. */
static bool share_fits(const struct limit_counters *counters, uint64_t most,
                       const struct share_taker *who, uint64_t own, uint64_t all)
{
    uint64_t share = share_of_account(counters, most, who->account);
    uint64_t reserve = share_reserve(most);
    if (own <= share && all <= most - reserve) {
        return true;
    }
    return reserve > 0 && all <= most && own <= share + reserve && share_is_operator(who);
}

bool share_is_over(const struct limit_counters *counters, enum limit limit, uint64_t most,
                   const struct share_taker *who)
{
    uint64_t all = __atomic_load_n(&counters->in_use[limit], __ATOMIC_RELAXED);
    uint64_t own = who->account
                       ? __atomic_load_n(client_account_used(who->account, limit), __ATOMIC_RELAXED)
                       : 0;
    return most > 0 && !share_fits(counters, most, who, own, all);
}

void share_add(struct limit_counters *counters, enum limit limit, size_t n,
               struct client_account *account)
{
    __atomic_add_fetch(&counters->in_use[limit], n, __ATOMIC_RELAXED);
    if (account) {
        client_account_ref(account);
        __atomic_add_fetch(client_account_used(account, limit), n, __ATOMIC_RELAXED);
    }
}

void share_give(struct limit_counters *counters, enum limit limit, size_t n,
                struct client_account *account)
{
    __atomic_sub_fetch(&counters->in_use[limit], n, __ATOMIC_RELAXED);
    if (account) {
        __atomic_sub_fetch(client_account_used(account, limit), n, __ATOMIC_RELAXED);
        client_account_release(account);
    }
}

bool share_take(struct limit_counters *counters, enum limit limit, uint64_t most, size_t n,
                const struct share_taker *who, struct refusal *why)
{
    size_t *held = who->account ? client_account_used(who->account, limit) : NULL;
    uint64_t all = __atomic_add_fetch(&counters->in_use[limit], n, __ATOMIC_RELAXED);
    uint64_t own = held ? __atomic_add_fetch(held, n, __ATOMIC_RELAXED) : 0;
    if (most == 0 || share_fits(counters, most, who, own, all)) {
        client_account_ref(who->account);
        return true;
    }
    __atomic_sub_fetch(&counters->in_use[limit], n, __ATOMIC_RELAXED);
    if (held) {
        __atomic_sub_fetch(held, n, __ATOMIC_RELAXED);
    }
    uint64_t share = share_of_account(counters, most, who->account);
    bool is_own = share < most && own > share;
    *why = limit_refusal(limit, most, is_own);
    why->share = is_own ? share : 0;
    limit_hit(counters, limit);
    if (is_own) {
        __atomic_fetch_add(&counters->share_hits[limit], 1, __ATOMIC_RELAXED);
    }
    return false;
}

/* -------------------------------------------------------------------------------------------------
 * Quotas in a shared map: each holder has a reference, and a quota that only the map refers to can
 * be evicted. All numbers inside a quota are atomic.
 */

/* Entries checked for eviction when a new client arrives: the table shrinks faster than it grows,
 * and no request waits for it. */
#define FORGET_STEPS 8

struct quota {
    /* Fields that every request uses: one cache line. */
    struct token_bucket requests, subscribes, connects, refusals;
    uint64_t blocked_until_ms; /* atomic */
    const struct quota_rules *rules;
    struct limit_counters *limit_counters;
    uint32_t connections, sessions;
    /* Fields that requests do not use. */
    struct shared_value value;
    bool is_counted; /* counted as an entry of the shared map */
    char name[];
};

struct quotas {
    struct limit_counters *limit_counters;
    struct quotas_options options;
    bool limits_remote, limits_local;
    struct shared_map *shared;
    /* atomic; the last candidate for eviction; NULL: none, or another thread checks it */
    struct shared_value *sweep_at;
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
    /* the caller holds one */
    bool is_idle = q && __atomic_load_n(&value->refs, __ATOMIC_ACQUIRE) <= 2 &&
                   __atomic_load_n(&q->blocked_until_ms, __ATOMIC_RELAXED) <= now &&
                   token_bucket_is_full(&q->connects, &q->rules->connections, now) &&
                   token_bucket_is_full(&q->requests, &q->rules->requests, now) &&
                   token_bucket_is_full(&q->subscribes, &q->rules->subscribes, now) &&
                   token_bucket_is_full(&q->refusals, &q->rules->refusals, now);
    return is_idle ? SHARED_MAP_REMOVE : SHARED_MAP_KEEP;
}

/* Evicts a few idle quotas, in turn. */
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
    struct quota *found; /* a reference: another thread was faster */
};

static int quota_insert_decide(void *user, const struct shared_value *old)
{
    struct quota_insert *p = user;
    if (old) {
        p->found = quota_ref(quota_of_value(old));
        return SHARED_MAP_KEEP;
    }
    uint64_t most = p->quotas->options.max_clients;
    bool is_user = str_starts(p->fresh->value.key, STR("uid:")); /* user of a Unix socket */
    if (!limit_enter(p->quotas->limit_counters, LIMIT_CLIENTS,
                     is_user ? most : most - share_reserve(most))) {
        return TIDINGS_E_LIMIT;
    }
    p->fresh->is_counted = true;
    return SHARED_MAP_REPLACE;
}

/* Returns a reference; NULL: that client is not limited, or there is no room or no memory for it.
 */
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

/* Counts a refusal; after too many, the client is blocked. */
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

/* Counts one more, up to `most`; 0: unlimited. */
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
    if (code == TIDINGS_E_LIMIT) { /* counted by the attempt */
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

/* -------------------------------------------------------------------------------------------------
 * Bookings of responses as shares of LIMIT_OUTPUT.
 */

void output_init(struct output *output, struct limit_counters *counters, struct share_taker who)
{
    *output = (struct output){
        .limit_counters = counters,
        .account = who.account,
        .is_operator = who.is_operator || (who.principal && access_is_operator(who.principal)),
    };
}

bool output_book(struct output *output, size_t bytes, struct refusal *why)
{
    struct limit_counters *counters = output->limit_counters;
    const struct share_taker who = {.account = output->account, .is_operator = output->is_operator};
    if (!counters) {
        return true;
    }
    if (!share_take(counters, LIMIT_OUTPUT, counters->values[LIMIT_OUTPUT], bytes, &who, why)) {
        return false;
    }
    client_account_release(output->account); /* `output` holds one */
    __atomic_fetch_add(&output->bytes, bytes, __ATOMIC_RELAXED);
    return true;
}

bool output_book_text(struct output *output, size_t held, struct refusal *why)
{
    if (held > output->text) {
        if (!output_book(output, held - output->text, why)) {
            return false;
        }
        output->text = held;
    }
    return true;
}

void output_end(struct output *output)
{
    if (output->limit_counters) {
        share_give(output->limit_counters, LIMIT_OUTPUT, output_booked(output), output->account);
    }
    *output = (struct output){0};
}

void output_move(struct output *to, struct output *from)
{
    output_end(to);
    *to = *from;
    *from = (struct output){0};
}

void output_join(struct output *to, struct output *from)
{
    size_t bytes = output_booked(from);
    if (to->limit_counters && bytes > 0) {
        share_add(to->limit_counters, LIMIT_OUTPUT, bytes, to->account);
        client_account_release(to->account); /* `to` holds one */
        __atomic_fetch_add(&to->bytes, bytes, __ATOMIC_RELAXED);
    }
    output_end(from);
}

void output_count(struct limit_counters *counters, struct client_account *account, uint32_t *booked,
                  size_t held)
{
    held = held < UINT32_MAX ? held : UINT32_MAX;
    if (held != *booked) {
        share_add(counters, LIMIT_OUTPUT, held - *booked, account); /* modulo 2^64 */
        client_account_release(account);                            /* the caller holds one */
        *booked = (uint32_t)held;
    }
}
