/* SPDX-License-Identifier: MIT
 *
 * The keeper, the thread that owns the store: entities, and whatever else is written in the same
 * batches. Jobs come from any thread and run here one after the other; writes that arrive together
 * share one commit, and none is answered before the commit that holds it. Reads see everything that
 * was answered, and nothing that was not.
 */
#ifndef STORE_COMMIT_THREAD_H
#define STORE_COMMIT_THREAD_H

#include <tidings/provider.h>

#include "base/thread.h"
#include "store/entities.h"

struct keeper;
struct kept_change;

/* Embedded in what the caller keeps; lives until `done` was called. */
struct keeper_job {
    bool is_write;
    bool is_aside; /* neither reads nor writes rows: no batch ends for its sake */
    /* On the keeper's thread; writes: inside a batch. A failure with `is_lost` (the medium failed)
     * takes the whole batch with it; any other failure is this job's own and left no trace. */
    int (*run)(struct keeper_job *job, struct entities *entities);
    /* May be NULL. Of a store that others write to `run` may be called a second time: what it
     * decided does not count, and nothing of it was written. What else it left is taken back here,
     * later jobs first. Whether it had failed does not matter. */
    void (*undo)(struct keeper_job *job);
    /* On the keeper's thread: what `run` returned, or why its batch was lost (then in `err`). The
     * job is the caller's again. Also when the keeper ends before it ran: TIDINGS_E_CLOSED. */
    void (*done)(struct keeper_job *job, int code);
    bool is_lost;
    struct tidings_error err; /* for `run` to fill */
    /* private */
    struct letter letter;
    struct mailbox *waiter; /* keeper_run: of the thread that waits */
    void (*then)(struct keeper_job *job, int code);
    int code;
};

/* Takes `store`, also on failure. */
int keeper_open(struct store *store, struct keeper **ret, struct tidings_error *err);
/* What was submitted before is done first. NULL is fine. */
void keeper_close(struct keeper *k);

/* Any thread. The number of jobs is bounded by what the callers own. */
void keeper_submit(struct keeper *k, struct keeper_job *job);
/* The same, and wait until `done` (may be NULL) has returned. Not on the keeper's own thread. The
 * sentence of a failure is in `job->err`. */
int keeper_run(struct keeper *k, struct keeper_job *job);

/* Whoever numbers changes: hears of those that were committed, in the order of their positions.
 * `change` NULL: of one that cannot be said, so that everybody has to be told to look again. Set
 * before the first of them. */
typedef int (*keeper_announce_fn)(void *user, const struct tidings_change *change,
                                  uint64_t position);
void keeper_on_change(struct keeper *k, keeper_announce_fn announce, void *user);
/* From `done` of a job. `position` is that of the change, 0: nothing outlives the program. Moves
 * have two, this and the one before it. NULL: something changed that cannot be said for want of
 * memory. false: nobody listens here. */
bool keeper_announce(struct keeper *k, const struct tidings_change *change, uint64_t position);

/* ---- a store that others write to as well (store/store.h) -------------------------------------
 *
 * The keeper follows them: right after the beginning of each batch, when the store wakes it, and
 * every KEEPER_FOLLOW_MS. What they wrote is applied and told before anything of a later position.
 */

#define KEEPER_FOLLOW_MS 1000u

/* On the keeper's thread. Only `reread` may ask something of the store. */
struct keeper_follower {
    void *user;
    size_t max_cached; /* bytes of entities that can be read while the store cannot be reached */
    /* One change that another node committed. Types of entities were not read again yet, but are
     * before the next job runs. false: it could not be remembered, and all that is known of the
     * store has to be read again before anything else happens. */
    bool (*change)(void *user, const struct kept_change *change);
    /* The store lost what it had committed: what is known of it is read again. The one that asks.
     */
    int (*reread)(void *user, struct store *rows, struct tidings_error *err);
    /* Everything up to `position` was told, ours and theirs. */
    void (*reached)(void *user, uint64_t position);
    /* The store cannot be reached, or can again. */
    void (*unreachable)(void *user, bool is_unreachable);
};
/* From now on they are followed; who does not ask for it is told nothing of them. Of a store that
 * others write to. Any of the functions may be NULL. Not on the keeper's own thread. */
int keeper_on_follow(struct keeper *k, const struct keeper_follower *follower,
                     struct tidings_error *err);
/* Clients are served from now on: errors of the store say what they may know, the log says all. */
void keeper_conceal(struct keeper *k);
/* Any thread: is it a store that others write to? */
bool keeper_is_shared(const struct keeper *k);
/* Any thread: how long commits took, and how many batches were lost. */
struct durations;
void keeper_get_commits(const struct keeper *k, struct durations *ret, uint64_t *ret_lost);
/* Any thread: what another node wrote a moment ago, or NULL (entities_recent). */
const struct recent_version *keeper_recent(const struct keeper *k, struct tidings_str id);
/* Any thread, of such a store: how what others wrote came here. */
struct shared_heard;
void keeper_get_heard(const struct keeper *k, struct shared_heard *ret);
/* Any thread: was the last batch lost? */
bool keeper_is_failing(const struct keeper *k);
/* On the keeper's thread, outside of batches (a job that is no write): follow now. */
int keeper_follow_now(struct keeper *k, struct tidings_error *err);

#endif
