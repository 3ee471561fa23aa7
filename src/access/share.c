/* SPDX-License-Identifier: MIT
 *
 * Fair shares: one counter for the whole limit and one for each account. Both are raised first and
 * lowered again if either is too high, so that no interleaving admits too many.
 */
#include "access/share.h"

#include "access/access.h"
#include "access/allowance.h"

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

/* What the account may hold without the reserve. */
static uint64_t share_of_account(const struct limit_counters *counters, uint64_t most,
                                 const struct allowance *account)
{
    return !account || allowance_is_whole(account) ? most : share_part(counters, most);
}

static bool share_is_operator(const struct share_taker *who)
{
    return who->is_operator || (who->principal && access_is_operator(who->principal));
}

/* `own` and `all` are what the account and everybody hold, with what is being taken. */
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
    uint64_t own =
        who->account ? __atomic_load_n(allowance_held(who->account, limit), __ATOMIC_RELAXED) : 0;
    return most > 0 && !share_fits(counters, most, who, own, all);
}

void share_add(struct limit_counters *counters, enum limit limit, size_t n,
               struct allowance *account)
{
    __atomic_add_fetch(&counters->in_use[limit], n, __ATOMIC_RELAXED);
    if (account) {
        allowance_ref(account);
        __atomic_add_fetch(allowance_held(account, limit), n, __ATOMIC_RELAXED);
    }
}

void share_give(struct limit_counters *counters, enum limit limit, size_t n,
                struct allowance *account)
{
    __atomic_sub_fetch(&counters->in_use[limit], n, __ATOMIC_RELAXED);
    if (account) {
        __atomic_sub_fetch(allowance_held(account, limit), n, __ATOMIC_RELAXED);
        allowance_release(account);
    }
}

bool share_take(struct limit_counters *counters, enum limit limit, uint64_t most, size_t n,
                const struct share_taker *who, struct refusal *why)
{
    size_t *held = who->account ? allowance_held(who->account, limit) : NULL;
    uint64_t all = __atomic_add_fetch(&counters->in_use[limit], n, __ATOMIC_RELAXED);
    uint64_t own = held ? __atomic_add_fetch(held, n, __ATOMIC_RELAXED) : 0;
    if (most == 0 || share_fits(counters, most, who, own, all)) {
        allowance_ref(who->account);
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
