/* SPDX-License-Identifier: MIT
 *
 * The CPU accounts of clients. An account limits the steps that a client's patterns and schemas may
 * use (searching regexes, evaluating filters, validating its requests) and the number of expensive
 * subscriptions. A step takes about 2 ns (formats/regex.h, formats/schema.h), so a client has 50 ms
 * of CPU per second, and 20 ms at once. A client thus cannot make every change more expensive,
 * whatever the number of its regexes and filters, its writes and its calls.
 *
 * A client has one account in the whole server, whichever workers serve it: all connections with
 * the same name, or without a name from the same address. Its holders use it from any thread
 * without a lock. NULL is the program itself, which is not limited.
 *
 * An account without holders is kept until it is full again, so that reconnecting gains nothing;
 * then it can be evicted when another client arrives. The table is bounded; clients that find no
 * room share one account.
 */
#ifndef SECURITY_CLIENT_ACCOUNT_H
#define SECURITY_CLIENT_ACCOUNT_H

#include "security/limits.h"

#define CPU_BUDGET_STEPS 20000000u /* per second: 50 ms */
#define CPU_BUDGET_BURST 8000000u  /* at once: 20 ms */
#define CLIENT_ACCOUNTS_MAX 65536u
/* Free steps for each request that a schema validates: 2.5 us; reading and answering a request
 * takes at least 20. So other limits than this bound ordinary requests. */
#define CPU_BUDGET_FREE 1000u

/* Things that cost CPU at every change, or memory; the number is limited per client. */
enum client_account_kind {
    CLIENT_ACCOUNT_UNINDEXED_REGEXES, /* without literal text to index */
    CLIENT_ACCOUNT_FILTERS,
    CLIENT_ACCOUNT_FILTER_PAST, /* earlier changes remembered for its filters */
    CLIENT_ACCOUNT_BROAD, /* subscriptions that span whole mounts: client_account_take_within */
    CLIENT_ACCOUNT_KINDS,
};
#define CLIENT_ACCOUNT_MAX_UNINDEXED_REGEXES 64u
#define CLIENT_ACCOUNT_MAX_FILTERS 256u
#define CLIENT_ACCOUNT_MAX_FILTER_PAST 4096u

struct client_account;
struct client_accounts;

struct client_accounts *client_accounts_create(void); /* NULL: out of memory */
/* no account may be held; NULL is fine */
void client_accounts_destroy(struct client_accounts *all);

/* Returns a reference to the account of a client, by how it was authenticated and its name: "token
 * alice", "user uid:1000", "address 192.0.2.1". Shares do not apply to "machine …", which is all
 * clients without a name on this machine, or the program itself (security/limits.h). NULL: out of
 * memory. */
#define CLIENT_ACCOUNT_NAME_MAX 320u /* including the NUL */
#define CLIENT_ACCOUNT_MACHINE "machine 127.0.0.1"
struct client_account *client_accounts_find(struct client_accounts *all, struct tidings_str client,
                                            uint64_t now_ms);
struct client_account *client_account_ref(struct client_account *a);
void client_account_release(struct client_account *a); /* NULL is fine, here and below */
/* The name without how it was authenticated; valid while the account is held. */
struct tidings_str client_account_name(const struct client_account *a);
/* Returns true if no share limits the client. */
bool client_account_is_whole(const struct client_account *a);
/* Returns true for a user of a Unix socket. */
bool client_account_is_user(const struct client_account *a);
/* The amount of a shared limit that it holds; atomic. */
size_t *client_account_used(struct client_account *a, enum limit limit);

/* Returns the steps left now; client_account_spend uses steps, possibly more than are left. */
uint64_t client_account_steps_left(const struct client_account *a, uint64_t now_ms);
void client_account_spend(struct client_account *a, uint64_t steps, uint64_t now_ms);
/* The same for validating a request by a schema, or compiling a schema in the request. */
void client_account_pay(struct client_account *a, uint64_t steps, uint64_t now_ms);
/* Returns unused steps. */
void client_account_refund(struct client_account *a, uint64_t steps);

/* The refusal for a client with fewer than `needed` steps left; it names the time at which there
 * will be enough (at most CPU_BUDGET_BURST). Counts it. */
struct refusal client_account_refusal(struct limit_counters *counters,
                                      const struct client_account *a, uint64_t needed,
                                      uint64_t now_ms);

/* Takes one more of a kind, which holds the account until it is given back. false: the limit is
 * reached. */
bool client_account_take(struct client_account *a, enum client_account_kind kind);
/* The same, with `most` as the limit. */
bool client_account_take_within(struct client_account *a, enum client_account_kind kind,
                                size_t most);
void client_account_give_back(struct client_account *a, enum client_account_kind kind);

#endif
