/* SPDX-License-Identifier: MIT
 *
 * Rejections over a store whose commits fail, as cases over any store that outlives the program:
 * each batch has a write and a job that the commit thread rejects because of the write. If the
 * commit fails, both fail; the same batch later succeeds, with that rejection.
 */
#ifndef CONTRACT_REFUSALS_SUITE_H
#define CONTRACT_REFUSALS_SUITE_H

#include "store/store.h"

struct refusals_store {
    struct store *(*open)(void); /* a new, empty one */
    /* Makes later commits fail, or succeed again. The commit thread is idle. */
    void (*break_commits)(bool fails);
    bool follows; /* the commit thread follows other nodes, so batches may start without the lock */
};

/* Runs every case; returns the number that failed. */
int refusals_suite(const char *name, const struct refusals_store *store);

#endif
