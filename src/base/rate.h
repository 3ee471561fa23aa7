/* SPDX-License-Identifier: MIT
 *
 * A token bucket in one 64-bit word: a number of tokens per period, plus a burst. Any number of
 * threads take from the same bucket without a lock, and get exactly as many tokens as the rule
 * allows.
 *
 * The word is the time at which the bucket will be full again, in units of 1/count of a
 * millisecond: so a token costs a whole number of units whatever the rate, and nothing is rounded.
 * An unused bucket (all zero) is full.
 */
#ifndef BASE_RATE_H
#define BASE_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define BUCKET_COUNT_MAX 1000000u /* maximum count and burst of a rule */

struct token_bucket {
    uint64_t full_at; /* atomic */
};

struct token_bucket_rule {
    uint32_t count;     /* per period; 0: unlimited */
    uint32_t burst;     /* capacity of a full bucket; at least 1 */
    uint32_t period_ms; /* at least 1 */
};

/* Takes one token. `now_ms` is a monotonic time of less than half a century. 0: taken; otherwise
 * nothing was taken, and the next token will be available after this many milliseconds. */
uint64_t token_bucket_take(struct token_bucket *bucket, const struct token_bucket_rule *rule,
                           uint64_t now_ms);
/* Returns true if the bucket is full, like an unused one. */
bool token_bucket_is_full(const struct token_bucket *bucket, const struct token_bucket_rule *rule,
                          uint64_t now_ms);

#endif
