/* SPDX-License-Identifier: MIT
 *
 * The thread that owns what is kept: entities, and whatever else is written in the same batches.
 * Jobs come from any thread and run here one after the other; writes that arrive together share one
 * commit, and none is answered before the commit that holds it. Reads see everything that was
 * answered, and nothing that was not.
 */
#ifndef STORE_KEEPER_H
#define STORE_KEEPER_H

#include <tidings/provider.h>

#include "base/mailbox.h"
#include "store/entities.h"

struct keeper;

/* Embedded in what the caller keeps; lives until `done` was called. */
struct keeper_job {
    bool is_write;
    bool is_aside; /* neither reads nor writes rows: no batch ends for its sake */
    /* On the keeper's thread; writes: inside a batch. A failure with `is_lost` (the medium failed)
     * takes the whole batch with it; any other failure is this job's own and left no trace. */
    int (*run)(struct keeper_job *job, struct entities *entities);
    /* On the keeper's thread: what `run` returned, or why its batch was lost (then in `err`). The
     * job is the caller's again. Also when the keeper ends before it ran: TIDINGS_E_CLOSED. */
    void (*done)(struct keeper_job *job, int code);
    bool is_lost;
    struct tidings_error err; /* for `run` to fill */
    /* private */
    struct letter letter;
    struct mailbox *home; /* of who waits */
    void (*then)(struct keeper_job *job, int code);
    int code;
};

/* Takes `rows`, also on failure. */
int keeper_open(struct entity_rows *rows, struct keeper **ret, struct tidings_error *err);
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
typedef int (*keeper_tell_fn)(void *user, const struct tidings_change *change, uint64_t position);
void keeper_on_change(struct keeper *k, keeper_tell_fn tell, void *user);
/* From `done` of a job. `position` is that of the change, 0: nothing outlives the program. Moves
 * have two, this and the one before it. NULL: something changed that cannot be said for want of
 * memory. false: nobody listens here. */
bool keeper_tell(struct keeper *k, const struct tidings_change *change, uint64_t position);

#endif
