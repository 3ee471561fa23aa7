/* SPDX-License-Identifier: MIT
 *
 * How often tokens were verified, remembered and refused. Each cache writes counters of its own,
 * without a lock; anybody may read them all. They stay until the auth they belong to closes, so
 * that sums never go back when a cache goes.
 */
#ifndef AUTH_COUNTERS_H
#define AUTH_COUNTERS_H

#include "auth/verdict.h"

#define COUNTERS_REASONS 48u /* there are fewer sentences; one more would not be counted */

struct auth_counts {
    uint64_t verified;   /* tokens looked at and found good */
    uint64_t remembered; /* known from before */
    uint64_t malformed, invalid, unavailable;
    uint64_t waiting; /* now */
};

struct counters {
    struct auth_counts counts;
    struct {
        const char *why; /* the static sentence itself; NULL: free from here on */
        uint64_t count;
    } refused[COUNTERS_REASONS];
    struct counters *next;
};

/* New ones in the list at `*head`. NULL: out of memory. */
struct counters *counters_create(struct counters **head);
void counters_destroy_all(struct counters *head);

/* By the cache they belong to. */
void counters_add(uint64_t *count, int64_t n);
void counters_refuse(struct counters *c, enum auth_outcome outcome, const char *why);

/* Any thread: of all in the list. */
void counters_sum(struct counters *const *head, struct auth_counts *ret);
/* Any thread: how often tokens were refused, for each reason (a description of an answer). */
typedef void (*auth_refusal_fn)(void *user, const char *why, uint64_t count);
void counters_each_refusal(struct counters *const *head, auth_refusal_fn fn, void *user);

#endif
