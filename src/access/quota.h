/* SPDX-License-Identifier: MIT
 *
 * The quota of a client: how many connections and sessions it has and may have, and how often it
 * may ask. A client is what the transport can tell apart: an address (of IPv6 the first 64 bits,
 * since whoever has one has them all), the user of a Unix socket, or who a token says it is.
 *
 * There is one quota for a client in the whole server, whichever worker serves it, so that counts
 * and rates are exact. It is looked up when a connection comes; whoever has it uses it from any
 * thread without a lock. One that nobody holds any more and whose rates have recovered makes room
 * when another client comes. The table is bounded; when it is full of clients that count, those who
 * are not in it are sent away (LIMIT_CLIENTS).
 */
#ifndef ACCESS_QUOTA_H
#define ACCESS_QUOTA_H

#include "access/limit.h"
#include "base/token_bucket.h"

struct quota;
struct quotas;

#define QUOTA_NAME_MAX 64u /* bytes of a name, with its NUL */

/* What one client may; 0: whatever it likes. */
struct quota_rules {
    size_t max_connections, max_sessions;
    struct token_bucket_rule connections, requests, subscribes;
    struct token_bucket_rule refusals; /* it may run into; after these it is shut out … */
    uint64_t block_ms;                 /* … for so long */
};

struct quotas_options {
    struct quota_rules remote; /* clients of other machines */
    struct quota_rules local;  /* of this one: themselves, or a proxy that stands for many */
    size_t max_clients;
};

/* `counters` outlives them. NULL: out of memory. */
struct quotas *quotas_create(struct limit_counters *counters);
void quotas_destroy(struct quotas *quotas); /* nobody holds any; NULL is fine */
/* Before threads start. Without it nobody is limited. */
void quotas_set(struct quotas *quotas, const struct quotas_options *options);

/* A connection of that client comes. 0: it may, and *ret is to be left when it goes (NULL: nothing
 * limits this client). TIDINGS_E_LIMIT: sent away, `why` says for what reason. TIDINGS_E_NOMEM. */
int quotas_enter(struct quotas *quotas, struct tidings_str name, bool is_local, uint64_t now_ms,
                 struct quota **ret, struct refusal *why);
void quota_leave(struct quota *quota); /* NULL is fine, here and below */

/* The quota of somebody who has shown who it is, wherever it comes from (so the rules for other
 * machines hold); to be released. NULL: nothing limits it, or there is no room for it. */
struct quota *quotas_find(struct quotas *quotas, struct tidings_str name, uint64_t now_ms);
void quota_release(struct quota *quota);

/* May it do this now? If not, `why` says so. */
bool quota_take_request(struct quota *quota, uint64_t now_ms, struct refusal *why);
bool quota_take_subscribe(struct quota *quota, uint64_t now_ms, struct refusal *why);
/* A session begins, which holds the quota until it ends. */
bool quota_open_session(struct quota *quota, struct refusal *why);
void quota_close_session(struct quota *quota);

#endif
