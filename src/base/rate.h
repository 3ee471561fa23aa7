/* SPDX-License-Identifier: MIT
 *
 * A token bucket in one 64-bit word: so many things in a period, and a burst on top of what was
 * saved up. Any number of threads take from the same bucket without a lock, and exactly as many get
 * something as the rule allows.
 *
 * What is kept is the moment at which the bucket will be full again, in units of 1/count of a
 * millisecond: then a thing costs a whole number of units whatever the rate, and nothing is ever
 * rounded. A bucket that was never touched (all zero) is full.
 */
#ifndef BASE_RATE_H
#define BASE_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define BUCKET_COUNT_MAX 1000000u /* in a rule, of things and of the burst */

struct token_bucket {
    uint64_t full_at; /* atomic */
};

struct token_bucket_rule {
    uint32_t count;     /* in a period; 0: there is no limit */
    uint32_t burst;     /* at once, when nothing was taken for long; at least 1 */
    uint32_t period_ms; /* at least 1 */
};

/* Take one. `now_ms` is a monotonic time of less than half a century. 0: taken; otherwise nothing
 * was taken, and there will be one for whoever asks first after so many milliseconds. */
uint64_t token_bucket_take(struct token_bucket *bucket, const struct token_bucket_rule *rule,
                           uint64_t now_ms);
/* Is it as good as one that was never touched? */
bool token_bucket_is_full(const struct token_bucket *bucket, const struct token_bucket_rule *rule,
                          uint64_t now_ms);

#endif
