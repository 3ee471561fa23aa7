/* SPDX-License-Identifier: MIT
 *
 * Who watches a mount that several nodes have: one of them, the owner, by a lease,
 * looks at the outside world and announces what changed; the others only tell.
 * `struct owner` is what one node does about one such mount. It decides and does nothing.
 *
 *     OWNER_WAITING -given-> OWNER_STARTING -started-> OWNER_ENTERING -committed-> OWNER_OWNING
 *           ^                      |                        |                         |
 *           '----------- not given again, over by its own clock, given up ------------'
 *
 * What happened between two owners, or while there was none, nobody saw. So a new one first
 * watches (OWNER_STARTING), then says in the log that everybody has to look again (OWNER_ENTERING),
 * and only when that is committed announces changes. What it saw before that happened before it was
 * said, so need not be told.
 *
 * A change is announced in a batch that has the store's lock, and whether it may be is asked after
 * that was taken: if the lease is held then, no other node has said yet that it owns the mount, and
 * none can before the batch has ended. So in the log everything of one owner comes before anything
 * of the next, however long each of them was stopped. Who may not announce any more drops it: it
 * happened before the next one says that everybody has to look again.
 *
 * A lease that ended and came back to the same node begins anew: what it dropped meanwhile is
 * not known either. Who lost it does not take it away from who has it: the store does not give it.
 *
 * All times are of a clock that nobody sets, and that goes on while the machine is suspended.
 */
#ifndef CLUSTER_OWNED_MOUNTS_H
#define CLUSTER_OWNED_MOUNTS_H

#include <tidings/types.h>

/* -------------------------------------------------------------------------------------------------
 * Leases: something that one node of a cluster does at a time. Pure: when a lease may be given and
 * acted on; asking the store is the caller's.
 *
 * The store has for each lease who holds it and until when, by the store's own clock: those of
 * nodes do not matter. The holder counts by a clock of its own that nobody sets, from before it
 * asked, and stops a little earlier than it has to; so it has stopped before the store gives the
 * lease to another, however long the answer took. It asks at each act, just before it; a process
 * that is stopped in between acts late, so what is done under a lease must be harmless then.
 *
 * A server that took over for another may not know of a lease that was given there, and has another
 * clock. So after a data loss that lost durable changes (cluster/history.h) nobody is given any
 * lease, not even who has it, for as long as one lasts at most.
 */

#define LEASE_MAX_MS 15000

/* ---- in the store ---------------------------------------------------------------------------- */

/* May it be given for `for_ms`? All by the clock of the store: now, until when it is given, and
 * when the newest data loss that lost durable changes was written down (INT64_MIN: never). */
bool lease_may_be_given(bool is_holder, int64_t until_ms, int64_t broke_ms, int64_t for_ms,
                        int64_t now_ms);

/* ---- the holder ------------------------------------------------------------------------------ */

/* All zero: not held. Times of a monotonic clock. */
struct lease {
    uint64_t until_ms;
    uint64_t renew_ms; /* ask again then */
};

/* The answer to what was asked at `asked_ms`. No answer: nothing changes, it ends when it does. Not
 * given: it is not acted on any more. Who gives it back makes the struct all zero first. */
void lease_answered(struct lease *l, bool is_given, uint64_t asked_ms, int64_t for_ms);
/* May it be acted on? */
bool lease_is_held(const struct lease *l, uint64_t now_ms);

#define OWNER_LEASE_MS 6000
#define OWNER_ASK_MS 1000u       /* how often somebody who waits asks */
#define OWNER_GIVEN_UP_MS 10000u /* who could not watch leaves it to others for so long */

enum owner_stage { OWNER_WAITING, OWNER_STARTING, OWNER_ENTERING, OWNER_OWNING };

/* All zero: waits, and asks at once. */
struct owner {
    struct lease lease;
    enum owner_stage stage;
    uint64_t term;    /* rises each time it becomes the owner; what was begun in another is void */
    uint64_t ask_ms;  /* not before */
    uint64_t void_ms; /* answers to what was asked up to then do not count: it was given up */
};

/* Is it time to ask the store for the lease, to get it or to keep it? */
bool owner_must_ask(const struct owner *o, uint64_t now_ms);
/* The store's answer to what was asked at `asked_ms`; not given: another has it for `left_ms` yet.
 */
void owner_answered(struct owner *o, bool is_given, int64_t left_ms, uint64_t asked_ms,
                    uint64_t now_ms);
/* There was none: the store cannot be reached. */
void owner_unanswered(struct owner *o, uint64_t now_ms);
/* Time went on: notices that the lease is over. To be called before anything that looks at `stage`.
 */
void owner_check_lease(struct owner *o, uint64_t now_ms);

/* Everything is watched since, or: that everybody has to look again is committed. Nothing happens
 * in another term, or when the lease is over. */
void owner_started(struct owner *o, uint64_t term, uint64_t now_ms);
void owner_entered(struct owner *o, uint64_t term, uint64_t now_ms);
/* It cannot be watched here: others may try. Whoever calls this releases the lease then. */
void owner_give_up(struct owner *o, uint64_t term, uint64_t now_ms);

/* With the store's lock: may it say that everybody has to look again, or what changed? */
bool owner_may_enter(const struct owner *o, uint64_t term, uint64_t now_ms);
bool owner_may_announce(const struct owner *o, uint64_t now_ms);

/* -------------------------------------------------------------------------------------------------
 * The mounts of this node.
 */

struct cluster;

/* Everything is mounted: say of each mount who watches it, and begin with those that are owned. A
 * prefix that is named and not mounted, or kept in the store: TIDINGS_E_INVALID. */
int cluster_owned_open(struct cluster *c, struct tidings_error *err);
/* Is what lies there in a mount that several nodes have, also before everything is mounted? Any
 * thread; `uri` may say that changes were missed. */
bool cluster_owned_has(struct cluster *c, struct tidings_str uri);

#endif
