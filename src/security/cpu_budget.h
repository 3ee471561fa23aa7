/* SPDX-License-Identifier: MIT
 *
 * The CPU allowance of a client, what its patterns may cost: steps for searching its regexes,
 * judging its filters and judging what it sends by schemas, and how many of the costly kinds there
 * may be because of it. A step is some 2 ns (formats/regex.h, formats/schema.h), so that a client
 * has 50 ms of CPU in a second, and 20 ms at once: no change costs more because of what one client
 * wrote, however many regexes and filters it has, and neither do its writes and calls, however many
 * they are.
 *
 * There is one allowance for a client in the whole server, whichever workers serve it: everybody
 * with the same name, or without one from the same address. Whoever has it uses it from any thread
 * without a lock. NULL is the program itself, which may do as it likes.
 *
 * One that nobody holds stays until it is as good as new, so that coming back gains nothing, and
 * makes room when another client comes. The table is bounded; those who find no room share one.
 */
#ifndef SECURITY_CPU_BUDGET_H
#define SECURITY_CPU_BUDGET_H

#include "security/limits.h"

#define ALLOWANCE_STEPS 20000000u /* in a second: 50 ms */
#define ALLOWANCE_BURST 8000000u  /* at once: 20 ms */
#define ALLOWANCE_CLIENTS 65536u
/* Of each request that schemas judge so many are free: 2.5 us, where reading and answering one
 * takes 20 and more. So whoever writes what is ordinary is bounded by other limits than this. */
#define ALLOWANCE_FREE 1000u

/* Of what has to be tried at every change, or kept, there may be so many because of one client. */
enum allowance_kind {
    ALLOWANCE_UNINDEXED_REGEXES, /* without text that could be looked for */
    ALLOWANCE_FILTERS,
    ALLOWANCE_FILTER_PAST, /* earlier changes that are remembered for its filters */
    ALLOWANCE_BROAD,       /* subscriptions that cover whole mounts: allowance_take_within */
    ALLOWANCE_KINDS,
};
#define ALLOWANCE_MAX_UNINDEXED_REGEXES 64u
#define ALLOWANCE_MAX_FILTERS 256u
#define ALLOWANCE_MAX_FILTER_PAST 4096u

struct allowance;
struct allowances;

struct allowances *allowances_create(void);      /* NULL: out of memory */
void allowances_destroy(struct allowances *all); /* nobody holds any; NULL is fine */

/* A reference to that client's, by how it was found out and its name: "token alice", "user
 * uid:1000", "address 192.0.2.1". There are no shares for "machine …", which is everybody without a
 * name on this machine, or the program itself (security/limits.h). NULL: out of memory. */
#define ALLOWANCE_NAME_MAX 320u /* with its NUL */
#define ALLOWANCE_MACHINE "machine 127.0.0.1"
struct allowance *allowances_find(struct allowances *all, struct tidings_str client,
                                  uint64_t now_ms);
struct allowance *allowance_ref(struct allowance *a);
void allowance_release(struct allowance *a); /* NULL is fine, here and below */
/* Whose it is, without how that was found out; valid while it is held. */
struct tidings_str allowance_name(const struct allowance *a);
/* Returns true if no share limits it. */
bool allowance_is_whole(const struct allowance *a);
/* Returns true for a user of a Unix socket. */
bool allowance_is_user(const struct allowance *a);
/* How much of a shared limit it holds; atomic. */
size_t *allowance_held(struct allowance *a, enum limit limit);

/* Steps it has left now; and take so many, perhaps more than there are. */
uint64_t allowance_left(const struct allowance *a, uint64_t now_ms);
void allowance_spend(struct allowance *a, uint64_t steps, uint64_t now_ms);
/* The same for judging a request by a schema, or compiling one that came with it. */
void allowance_pay(struct allowance *a, uint64_t steps, uint64_t now_ms);
/* Of what was spent, so many were not needed. */
void allowance_refund(struct allowance *a, uint64_t steps);

/* What somebody is told who has fewer than `needed` left: to come back when there will be so many
 * (at most ALLOWANCE_BURST). Counts it. */
struct refusal allowance_refusal(struct limit_counters *counters, const struct allowance *a,
                                 uint64_t needed, uint64_t now_ms);

/* One more of a kind, which holds the allowance until it is given back. false: it has all it may.
 */
bool allowance_take(struct allowance *a, enum allowance_kind kind);
/* The same where `most` says how many that are. */
bool allowance_take_within(struct allowance *a, enum allowance_kind kind, size_t most);
void allowance_give_back(struct allowance *a, enum allowance_kind kind);

#endif
