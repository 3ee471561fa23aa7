/* SPDX-License-Identifier: MIT
 *
 * The commit thread, which owns the store: entities, and whatever else is written in the same
 * batches. Jobs come from any thread and run here one after the other; writes that arrive together
 * share one commit, and none is answered before the commit that holds it. Reads see everything that
 * was answered, and nothing that was not.
 */
#ifndef STORE_COMMIT_THREAD_H
#define STORE_COMMIT_THREAD_H

#include <tidings/provider.h>

#include "base/thread.h"
#include "store/entities.h"

struct commit_thread;
struct log_entry;

/* Embedded in what the caller keeps; lives until `done` was called. */
struct store_job {
    bool is_write;
    bool is_aside; /* neither reads nor writes rows: no batch ends for its sake */
    /* On the commit thread; writes: inside a batch. A failure with `is_fatal` (the medium failed)
     * takes the whole batch with it; any other failure is this job's own and left no trace. */
    int (*run)(struct store_job *job, struct entities *entities);
    /* May be NULL. Of a store that others write to `run` may be called a second time: what it
     * decided does not count, and nothing of it was written. What else it left is taken back here,
     * later jobs first. Whether it had failed does not matter. */
    void (*undo)(struct store_job *job);
    /* On the commit thread: what `run` returned, or why its batch was lost (then in `err`). The
     * job is the caller's again. Also when the commit thread ends before it ran: TIDINGS_E_CLOSED.
     */
    void (*done)(struct store_job *job, int code);
    bool is_fatal;
    struct tidings_error err; /* for `run` to fill */
    /* private */
    struct thread_message message;
    struct mailbox *waiter; /* commit_thread_run: of the thread that waits */
    void (*then)(struct store_job *job, int code);
    int code;
};

/* Takes `store`, also on failure. */
int commit_thread_open(struct store *store, struct commit_thread **ret, struct tidings_error *err);
/* What was submitted before is done first. NULL is fine. */
void commit_thread_close(struct commit_thread *k);

/* Any thread. The number of jobs is bounded by what the callers own. */
void commit_thread_submit(struct commit_thread *k, struct store_job *job);
/* The same, and wait until `done` (may be NULL) has returned. Not on the commit thread itself. The
 * sentence of a failure is in `job->err`. */
int commit_thread_run(struct commit_thread *k, struct store_job *job);

/* Whoever numbers changes: hears of those that were committed, in the order of their positions.
 * `change` NULL: of one that cannot be said, so that everybody has to be told to look again. Set
 * before the first of them. */
typedef int (*commit_thread_announce_fn)(void *user, const struct tidings_change *change,
                                         uint64_t position);
void commit_thread_on_change(struct commit_thread *k, commit_thread_announce_fn announce,
                             void *user);
/* From `done` of a job. `position` is that of the change, 0: nothing outlives the program. Moves
 * have two, this and the one before it. NULL: something changed that cannot be said for want of
 * memory. false: nobody listens here. */
bool commit_thread_announce(struct commit_thread *k, const struct tidings_change *change,
                            uint64_t position);

/* ---- a store that others write to as well (store/store.h) -------------------------------------
 *
 * The commit thread follows them: right after the beginning of each batch, when the store wakes it,
 * and every COMMIT_THREAD_FOLLOW_MS. What they wrote is applied and told before anything of a later
 * position.
 */

#define COMMIT_THREAD_FOLLOW_MS 1000u

/* On the commit thread. Only `reread` may ask something of the store. */
struct commit_thread_follower {
    void *user;
    size_t max_cached; /* bytes of entities that can be read while the store cannot be reached */
    /* One change that another node committed. Types of entities were not read again yet, but are
     * before the next job runs. false: it could not be remembered, and all that is known of the
     * store has to be read again before anything else happens. */
    bool (*change)(void *user, const struct log_entry *change);
    /* The store lost what it had committed: what is known of it is read again. The one that asks.
     */
    int (*reread)(void *user, struct store *rows, struct tidings_error *err);
    /* Everything up to `position` was told, ours and theirs. */
    void (*applied)(void *user, uint64_t position);
    /* The store cannot be reached, or can again. */
    void (*unreachable)(void *user, bool is_unreachable);
};
/* From now on they are followed; who does not ask for it is told nothing of them. Of a store that
 * others write to. Any of the functions may be NULL. Not on the commit thread itself. */
int commit_thread_on_follow(struct commit_thread *k, const struct commit_thread_follower *follower,
                            struct tidings_error *err);
/* Clients are served from now on: errors of the store say what they may know, the log says all. */
void commit_thread_conceal(struct commit_thread *k);
/* Any thread: is it a store that others write to? */
bool commit_thread_is_shared(const struct commit_thread *k);
/* Any thread: how long commits took, and how many batches were lost. */
struct durations;
void commit_thread_get_commits(const struct commit_thread *k, struct durations *ret,
                               uint64_t *ret_lost);
/* Any thread: what another node wrote a moment ago, or NULL (entities_recent). */
const struct recent_version *commit_thread_recent(const struct commit_thread *k,
                                                  struct tidings_str id);
/* Any thread, of such a store: how what others wrote came here. */
struct notification_counts;
void commit_thread_get_notifications(const struct commit_thread *k,
                                     struct notification_counts *ret);
/* Any thread: was the last batch lost? */
bool commit_thread_is_failing(const struct commit_thread *k);
/* On the commit thread, outside of batches (a job that is no write): follow now. */
int commit_thread_follow_now(struct commit_thread *k, struct tidings_error *err);

#endif
