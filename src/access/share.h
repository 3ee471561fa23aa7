/* SPDX-License-Identifier: MIT
 *
 * Fair shares of the limits that all clients have in common. Every such limit is divided in the
 * same way, for counts and for bytes, exactly and over all workers:
 *
 *   - A principal may hold its share, a part of the limit (limit_counters.fair_share), rounded up,
 *     but never all of it unless that part is 100 percent.
 *   - Clients without a name on this machine are one account, without a share of its own: they may
 *     hold everything except the reserve. So may the program itself.
 *   - The reserve, a 64th, is for operators, who may call end_peer (access_is_operator). An
 *     operator may hold its share and the reserve.
 *
 * A limit of 1 cannot be divided, and limits below SHARE_RESERVE_MIN have no reserve, which would
 * be more than a quarter of them.
 *
 *     struct share_taker who = channel_taker(channel);
 *     if (!share_take(counters, LIMIT_CALLS, max_calls, 1, &who, &why)) … refuse with `why`
 *     …
 *     share_give(counters, LIMIT_CALLS, 1, who.account);
 */
#ifndef ACCESS_SHARE_H
#define ACCESS_SHARE_H

#include "access/limit.h"

struct allowance;
struct principal;

#define SHARE_MIN 2u         /* smaller limits have no shares */
#define SHARE_RESERVE_MIN 4u /* smaller limits have no reserve */
#define SHARE_RESERVE 64u    /* the reserve is this part of a limit, at least 1 */

/* Who takes. */
struct share_taker {
    struct allowance *account; /* borrowed; NULL: only the total counts */
    const struct principal *principal;
    bool is_operator; /* whoever the principal is */
};

/* How much of a limit of `most` one principal may hold, and how much only operators may. */
uint64_t share_part(const struct limit_counters *counters, uint64_t most);
uint64_t share_reserve(uint64_t most);

/* Takes `n` more of a limit of `most` (0: unlimited), which holds the account until they are given
 * back. Returns false if the limit or the share is reached: counted, and `why` says which. Any
 * thread. */
bool share_take(struct limit_counters *counters, enum limit limit, uint64_t most, size_t n,
                const struct share_taker *who, struct refusal *why);
/* Takes `n` that cannot be refused, for example after a restart. */
void share_add(struct limit_counters *counters, enum limit limit, size_t n,
               struct allowance *account);
/* Returns true if `who` may take nothing more. */
bool share_is_over(const struct limit_counters *counters, enum limit limit, uint64_t most,
                   const struct share_taker *who);
void share_give(struct limit_counters *counters, enum limit limit, size_t n,
                struct allowance *account);

#endif
