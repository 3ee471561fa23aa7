/* SPDX-License-Identifier: MIT
 *
 * The CPU accounts of clients, what its patterns may cost: steps for searching its regexes,
 * judging its filters and judging what it sends by schemas, and how many of the costly kinds there
 * may be because of it. A step is some 2 ns (formats/regex.h, formats/schema.h), so that a client
 * has 50 ms of CPU in a second, and 20 ms at once: no change costs more because of what one client
 * wrote, however many regexes and filters it has, and neither do its writes and calls, however many
 * they are.
 *
 * There is one account for a client in the whole server, whichever workers serve it: everybody
 * with the same name, or without one from the same address. Whoever has it uses it from any thread
 * without a lock. NULL is the program itself, which may do as it likes.
 *
 * One that nobody holds stays until it is as good as new, so that coming back gains nothing, and
 * makes room when another client comes. The table is bounded; those who find no room share one.
 */
#ifndef SECURITY_CLIENT_ACCOUNT_H
#define SECURITY_CLIENT_ACCOUNT_H

#include "security/limits.h"

#define CPU_BUDGET_STEPS 20000000u /* in a second: 50 ms */
#define CPU_BUDGET_BURST 8000000u  /* at once: 20 ms */
#define CLIENT_ACCOUNTS_MAX 65536u
/* Of each request that schemas judge so many are free: 2.5 us, where reading and answering one
 * takes 20 and more. So whoever writes what is ordinary is bounded by other limits than this. */
#define CPU_BUDGET_FREE 1000u

/* Of what has to be tried at every change, or kept, there may be so many because of one client. */
enum client_account_kind {
    CLIENT_ACCOUNT_UNINDEXED_REGEXES, /* without text that could be looked for */
    CLIENT_ACCOUNT_FILTERS,
    CLIENT_ACCOUNT_FILTER_PAST, /* earlier changes that are remembered for its filters */
    CLIENT_ACCOUNT_BROAD, /* subscriptions that cover whole mounts: client_account_take_within */
    CLIENT_ACCOUNT_KINDS,
};
#define CLIENT_ACCOUNT_MAX_UNINDEXED_REGEXES 64u
#define CLIENT_ACCOUNT_MAX_FILTERS 256u
#define CLIENT_ACCOUNT_MAX_FILTER_PAST 4096u

struct client_account;
struct client_accounts;

struct client_accounts *client_accounts_create(void);      /* NULL: out of memory */
void client_accounts_destroy(struct client_accounts *all); /* nobody holds any; NULL is fine */

/* A reference to that client's, by how it was found out and its name: "token alice", "user
 * uid:1000", "address 192.0.2.1". There are no shares for "machine …", which is everybody without a
 * name on this machine, or the program itself (security/limits.h). NULL: out of memory. */
#define CLIENT_ACCOUNT_NAME_MAX 320u /* with its NUL */
#define CLIENT_ACCOUNT_MACHINE "machine 127.0.0.1"
struct client_account *client_accounts_find(struct client_accounts *all, struct tidings_str client,
                                            uint64_t now_ms);
struct client_account *client_account_ref(struct client_account *a);
void client_account_release(struct client_account *a); /* NULL is fine, here and below */
/* Whose it is, without how that was found out; valid while it is held. */
struct tidings_str client_account_name(const struct client_account *a);
/* Returns true if no share limits it. */
bool client_account_is_whole(const struct client_account *a);
/* Returns true for a user of a Unix socket. */
bool client_account_is_user(const struct client_account *a);
/* How much of a shared limit it holds; atomic. */
size_t *client_account_used(struct client_account *a, enum limit limit);

/* Steps it has left now; and take so many, perhaps more than there are. */
uint64_t client_account_steps_left(const struct client_account *a, uint64_t now_ms);
void client_account_spend(struct client_account *a, uint64_t steps, uint64_t now_ms);
/* The same for judging a request by a schema, or compiling one that came with it. */
void client_account_pay(struct client_account *a, uint64_t steps, uint64_t now_ms);
/* Of what was spent, so many were not needed. */
void client_account_refund(struct client_account *a, uint64_t steps);

/* What somebody is told who has fewer than `needed` left: to come back when there will be so many
 * (at most CPU_BUDGET_BURST). Counts it. */
struct refusal client_account_refusal(struct limit_counters *counters,
                                      const struct client_account *a, uint64_t needed,
                                      uint64_t now_ms);

/* One more of a kind, which holds the account until it is given back. false: it has all it may.
 */
bool client_account_take(struct client_account *a, enum client_account_kind kind);
/* The same where `most` says how many that are. */
bool client_account_take_within(struct client_account *a, enum client_account_kind kind,
                                size_t most);
void client_account_give_back(struct client_account *a, enum client_account_kind kind);

#endif
