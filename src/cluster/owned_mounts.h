/* SPDX-License-Identifier: MIT
 *
 * Ownership of a mount that several nodes have. A lease selects one node, the owner, which watches
 * the external data and announces changes. The others only forward the announcements to clients.
 * `struct owner` holds the state of one node for one such mount. It only decides and performs no
 * I/O.
 *
 *     OWNER_WAITING -given-> OWNER_STARTING -started-> OWNER_ENTERING -committed-> OWNER_OWNING
 *           ^                      |                        |                         |
 *           '----------- not given again, over by its own clock, given up ------------'
 *
 * No node sees changes between two owners. So a new owner first watches (OWNER_STARTING), then
 * writes a resync of the mount into the log (OWNER_ENTERING), and announces changes only after that
 * is committed. Changes that it saw earlier happened before the resync, so they need no
 * announcement.
 *
 * A change is announced in a batch that has the store's lock, and ownership is checked after the
 * lock was taken. If the lease is held then, no other node has written that it owns the mount, and
 * none can before the batch has ended. So all log entries of one owner precede those of the next,
 * no matter how long each of them was stalled. A node that may no longer announce a change drops
 * it, because the change happened before the next owner's resync.
 *
 * If a node loses a lease and gets it again, it starts over, because it dropped changes in between.
 * A previous holder cannot take the lease from the current one: the store does not grant it.
 *
 * All times are of a monotonic clock that includes suspended time.
 */
#ifndef CLUSTER_OWNED_MOUNTS_H
#define CLUSTER_OWNED_MOUNTS_H

#include <tidings/types.h>

/* -------------------------------------------------------------------------------------------------
 * Leases: exclusive tasks of one node of a cluster at a time. Pure: rules for granting and using a
 * lease. The caller queries the store.
 *
 * The store records the holder and the end of each lease by its own clock; the clocks of nodes do
 * not matter. The holder measures with a monotonic clock from before its request, and stops
 * slightly early. So it has stopped before the store grants the lease to another node, however long
 * the answer took. The holder checks the lease just before each action. A process that is stopped
 * in between acts late, so late actions under a lease must be harmless.
 *
 * A server that takes over may not know the leases of its predecessor, and has another clock. After
 * a data loss that lost durable changes (cluster/history.h), no node gets a lease, not even its
 * holder, for the maximum duration of a lease.
 */

#define LEASE_MAX_MS 15000

/* ---- in the store ---------------------------------------------------------------------------- */

/* Returns true if the lease may be granted for `for_ms`. All times by the clock of the store: now,
 * the end of the lease, and when the newest data loss with lost durable changes was recorded
 * (INT64_MIN: never). */
bool lease_may_be_given(bool is_holder, int64_t until_ms, int64_t broke_ms, int64_t for_ms,
                        int64_t now_ms);

/* ---- the holder ------------------------------------------------------------------------------ */

/* All zero: not held. Times of a monotonic clock. */
struct lease {
    uint64_t until_ms;
    uint64_t renew_ms; /* time of the next request */
};

/* Handles the answer to the request of `asked_ms`. Without an answer, nothing changes and the lease
 * ends as before. A denied lease is no longer used. To release the lease, the caller zeroes the
 * struct first. */
void lease_answered(struct lease *l, bool is_given, uint64_t asked_ms, int64_t for_ms);
/* Returns true if the holder may act on it. */
bool lease_is_held(const struct lease *l, uint64_t now_ms);

#define OWNER_LEASE_MS 6000
#define OWNER_ASK_MS 1000u       /* between two requests of a waiting node */
#define OWNER_GIVEN_UP_MS 10000u /* pause of a node that could not watch */

enum owner_stage { OWNER_WAITING, OWNER_STARTING, OWNER_ENTERING, OWNER_OWNING };

/* All zero: waits, and asks immediately. */
struct owner {
    struct lease lease;
    enum owner_stage stage;
    uint64_t term;    /* increases with each acquisition; operations of other terms are void */
    uint64_t ask_ms;  /* earliest time of the next request */
    uint64_t void_ms; /* answers to requests up to this time are ignored: the node gave up */
};

/* Returns true if it is time to ask the store for the lease, to get it or to keep it. */
bool owner_must_ask(const struct owner *o, uint64_t now_ms);
/* Handles the store's answer to the request of `asked_ms`. Not granted: another node has it for the
 * next `left_ms`.
 */
void owner_answered(struct owner *o, bool is_given, int64_t left_ms, uint64_t asked_ms,
                    uint64_t now_ms);
/* Handles a missing answer: the store is unreachable. */
void owner_unanswered(struct owner *o, uint64_t now_ms);
/* Detects the end of the lease. Call it before each use of `stage`. */
void owner_check_lease(struct owner *o, uint64_t now_ms);

/* Everything is watched, or the resync is committed. Does nothing in another term, or after the end
 * of the lease. */
void owner_started(struct owner *o, uint64_t term, uint64_t now_ms);
void owner_entered(struct owner *o, uint64_t term, uint64_t now_ms);
/* It cannot be watched here: other nodes may try. The caller then releases the lease. */
void owner_give_up(struct owner *o, uint64_t term, uint64_t now_ms);

/* With the store's lock: returns true if it may write a resync, or announce changes. */
bool owner_may_enter(const struct owner *o, uint64_t term, uint64_t now_ms);
bool owner_may_announce(const struct owner *o, uint64_t now_ms);

/* -------------------------------------------------------------------------------------------------
 * The mounts of this node.
 */

struct cluster;

/* Everything is mounted: declares for each mount which nodes watch it, and starts the owned ones.
 * TIDINGS_E_INVALID: a prefix is not mounted, or is kept in the store. */
int cluster_owned_open(struct cluster *c, struct tidings_error *err);
/* Returns true if the URI is in a mount that several nodes have, even before everything is mounted.
 * Any thread; `uri` may report lost changes. */
bool cluster_owned_has(struct cluster *c, struct tidings_str uri);

#endif
