/* SPDX-License-Identifier: MIT
 *
 * Token buckets, by the generic cell rate algorithm.
 */
#include "base/rate.h"

uint64_t token_bucket_take(struct token_bucket *bucket, const struct token_bucket_rule *rule,
                           uint64_t now_ms)
{
    if (rule->count == 0) {
        return 0;
    }
    uint64_t now = now_ms * rule->count, cost = rule->period_ms;
    uint64_t most =
        now + cost * rule->burst; /* time at which a bucket that is empty now is full again */
    uint64_t before = __atomic_load_n(&bucket->full_at, __ATOMIC_RELAXED), after;
    do {
        after = (before > now ? before : now) + cost;
        if (after > most) {
            return (after - most + rule->count - 1) / rule->count;
        }
    } while (!__atomic_compare_exchange_n(&bucket->full_at, &before, after, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return 0;
}

bool token_bucket_is_full(const struct token_bucket *bucket, const struct token_bucket_rule *rule,
                          uint64_t now_ms)
{
    return __atomic_load_n(&bucket->full_at, __ATOMIC_RELAXED) <= now_ms * rule->count;
}
