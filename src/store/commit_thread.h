/* SPDX-License-Identifier: MIT
 *
 * The commit thread, which owns the store: entities, and other data written in the same batches.
 * Jobs come from any thread and run here one after the other; writes that arrive together share one
 * commit, and none is answered before its commit. Reads see everything that was answered, and
 * nothing else.
 */
#ifndef STORE_COMMIT_THREAD_H
#define STORE_COMMIT_THREAD_H

#include <tidings/provider.h>

#include "base/thread.h"
#include "store/entities.h"

struct commit_thread;
struct log_entry;

/* Embedded in the caller's data; must live until `done` was called. */
struct store_job {
    bool is_write;
    bool is_aside; /* neither reads nor writes rows, so it does not end a batch */
    /* Called on the commit thread; for writes, inside a batch. A failure with `is_fatal` (the
     * medium failed) fails the whole batch; any other failure affects only this job and must leave
     * no trace. */
    int (*run)(struct store_job *job, struct entities *entities);
    /* May be NULL. On a shared store, `run` can be called a second time: its first result is
     * discarded, and none of its writes are kept. `undo` reverts its other effects, later jobs
     * first. It is called whether the job had failed or not. */
    void (*undo)(struct store_job *job);
    /* Called on the commit thread with the result of `run`, or with the reason why its batch was
     * lost (then in `err`). The caller owns the job again. If the commit thread ends before the job
     * ran: TIDINGS_E_CLOSED. */
    void (*done)(struct store_job *job, int code);
    bool is_fatal;
    struct tidings_error err; /* set by `run` */
    /* private */
    struct thread_message message;
    struct mailbox *waiter; /* commit_thread_run: the waiting thread's */
    void (*then)(struct store_job *job, int code);
    int code;
};

/* Takes ownership of `store`, even on failure. */
int commit_thread_open(struct store *store, struct commit_thread **ret, struct tidings_error *err);
/* Runs all submitted jobs first. NULL is fine. */
void commit_thread_close(struct commit_thread *k);

/* Any thread. The callers bound the number of jobs. */
void commit_thread_submit(struct commit_thread *k, struct store_job *job);
/* The same, but waits until `done` (may be NULL) has returned. Do not call it on the commit thread.
 * After a failure, `job->err` has the error message. */
int commit_thread_run(struct commit_thread *k, struct store_job *job);

/* Sets the function that numbers changes. It receives committed changes in the order of their
 * positions. `change` NULL: an unknown change, so all subscriptions need a resync. Call it before
 * the first change. */
typedef int (*commit_thread_announce_fn)(void *user, const struct tidings_change *change,
                                         uint64_t position);
void commit_thread_on_change(struct commit_thread *k, commit_thread_announce_fn announce,
                             void *user);
/* Call it from `done` of a job. `position` is that of the change; 0: nothing survives a restart.
 * Moves have two positions, this and the one before it. `change` NULL: a change could not be
 * described because there was no memory. false: no function is set. */
bool commit_thread_announce(struct commit_thread *k, const struct tidings_change *change,
                            uint64_t position);

/* ---- shared stores (store/store.h) ------------------------------------------------------------
 *
 * The commit thread follows the other nodes: right after the beginning of each batch, when the
 * store notifies it, and every COMMIT_THREAD_FOLLOW_MS. Their changes are applied and announced
 * before anything with a later position.
 */

#define COMMIT_THREAD_FOLLOW_MS 1000u

/* Called on the commit thread. Only `reread` may access the store. */
struct commit_thread_follower {
    void *user;
    size_t max_cached; /* bytes of entities that stay readable while the store is unreachable */
    /* A change that another node committed. New entity types are not loaded yet, but will be before
     * the next job runs. false: the change could not be recorded, so all cached data must be read
     * again before anything else happens. */
    bool (*change)(void *user, const struct log_entry *change);
    /* The store lost committed data: read all cached data again. Only this function accesses the
     * store. */
    int (*reread)(void *user, struct store *rows, struct tidings_error *err);
    /* Everything up to `position` was announced, from all nodes. */
    void (*applied)(void *user, uint64_t position);
    /* The store became unreachable, or reachable again. */
    void (*unreachable)(void *user, bool is_unreachable);
};
/* Starts following the other nodes of a shared store; without this call nothing is followed. Each
 * function may be NULL. Do not call it on the commit thread. */
int commit_thread_on_follow(struct commit_thread *k, const struct commit_thread_follower *follower,
                            struct tidings_error *err);
/* Call it before clients are served: store errors then tell clients only what they may know; the
 * log has the details. */
void commit_thread_conceal(struct commit_thread *k);
/* Any thread. Returns true for a shared store. */
bool commit_thread_is_shared(const struct commit_thread *k);
/* Any thread. The durations of commits, and the number of lost batches. */
struct durations;
void commit_thread_get_commits(const struct commit_thread *k, struct durations *ret,
                               uint64_t *ret_lost);
/* Any thread. A version that another node wrote recently, or NULL (entities_recent). */
const struct recent_version *commit_thread_recent(const struct commit_thread *k,
                                                  struct tidings_str id);
/* Any thread, shared stores only. How the changes of other nodes arrived. */
struct notification_counts;
void commit_thread_get_notifications(const struct commit_thread *k,
                                     struct notification_counts *ret);
/* Any thread. Returns true if the last batch was lost. */
bool commit_thread_is_failing(const struct commit_thread *k);
/* Follows now. Call it on the commit thread, outside of batches (in a job that is not a write). */
int commit_thread_follow_now(struct commit_thread *k, struct tidings_error *err);

#endif
