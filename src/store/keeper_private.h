/* SPDX-License-Identifier: MIT
 *
 * What the files of store/keeper.h share: jobs and their batches (store/keeper.c), and following
 * what others write (store/keeper_follow.c).
 */
#ifndef STORE_KEEPER_PRIVATE_H
#define STORE_KEEPER_PRIVATE_H

#include "base/actor.h"
#include "base/durations.h"
#include "store/keeper.h"

struct keeper {
    struct actor actor;
    struct loop_hook before_wait;
    struct loop_timer *idle;
    struct entities *entities;
    struct list batch;
    struct list again; /* of the batch, what has yet to be run a second time */
    unsigned count;
    unsigned last_count; /* of the batch before */
    bool is_open;
    bool is_unlocked; /* the batch began without the lock: all that ran is in it, also what was
                       * refused */
    bool is_in_doubt; /* it may have been committed before it was run again */
    struct durations commits; /* atomic: how long those took that went well */
    uint64_t lost;            /* atomic: batches */
    bool is_failing;          /* atomic: the last batch was lost, and it was logged */
    keeper_announce_fn announce;
    void *announce_user;
    /* Of a store that others write to as well: */
    const struct shared_ops *shared; /* NULL: nobody else does */
    struct keeper_follower follower; /* zero: none yet … */
    bool is_following;               /* … and nobody is followed */
    struct loop_timer *follow_timer; /* when nobody wakes us */
    int woken_fd;                    /* that of the store; -1: none is watched */
    int watched_fd;                  /* a duplicate of it, ours to close; -1: none */
    struct loop_poll *woken;         /* of the duplicate */
    uint64_t reached;                /* what `follower` was last told */
    uint64_t broken_at;              /* everything has: the store lost changes; 0: it did not */
    uint64_t say_ms;                 /* not before then, that it failed */
    bool has_new_types;              /* they have yet to be read again */
    bool is_unreachable;             /* atomic: the store cannot be reached, and it was logged */
};

/* keeper_follow.c: nothing of it happens without `shared`. */

/* Before the thread runs. */
int keeper_follow_open(struct keeper *k, struct tidings_error *err);
void keeper_follow_close(struct keeper *k);
/* Everything that others committed is applied and told. Outside of batches, and right after
 * `begin`: then a failure leaves nothing but rollback. */
int keeper_follow(struct keeper *k, struct tidings_error *err);
/* Nothing is known that has yet to be followed or read again. */
bool keeper_follow_is_level(const struct keeper *k);
/* Own changes were told as well: how far that is. */
void keeper_follow_reached(struct keeper *k);
/* Whether an operation could reach the store: `rc` is what it returned. */
void keeper_follow_note(struct keeper *k, int rc, const struct tidings_error *err);
/* The loop is about to wait. */
void keeper_follow_before_wait(struct keeper *k);
/* The text of an error of the store for the log, with all details. */
const char *keeper_follow_explain(const struct keeper *k, const struct tidings_error *err);

#endif
