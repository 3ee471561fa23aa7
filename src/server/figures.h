/* SPDX-License-Identifier: MIT
 *
 * What a server has counted, gathered from its workers: one letter to each, which copies its
 * numbers on its own thread. Nothing is locked, and nobody waits.
 */
#ifndef SERVER_FIGURES_H
#define SERVER_FIGURES_H

#include "access/failures.h"
#include "delivery/lag.h"
#include "handler/tool_counts.h"
#include "request/operations.h"
#include "worker/worker.h"

/* Of one worker. */
struct worker_figures {
    struct worker_stats stats;
    uint64_t failures;               /* requests that failed, … */
    struct failure_last last_failed; /* … and the newest of them */
    uint64_t bytes_out;
    size_t index_bytes; /* of what finds subscriptions */
    size_t behind;      /* clients whose streams did not take all that was flushed, … */
    size_t waiting;     /* … notifications that wait for them, … */
    uint64_t oldest_us; /* … and the age of the oldest of these */
    struct durations turns;
    struct lag_counts lag, recent; /* since the start; of the last ten to twenty seconds */
};

/* Failures of one kind, method and code. */
struct figures_failure {
    enum failure_kind kind;
    int code;
    const char *method; /* NULL: none there is */
    uint64_t count;
};
#define FIGURES_FAILURES 256u /* different ones; the rest is in one row without method and code */

struct figures {
    struct operations *operations; /* of all workers; NULL: not asked for */
    struct tool_counts *tools;     /* likewise */
    struct figures_failure *failures;
    size_t failure_count;
    size_t count;
    struct worker_figures all; /* sums; of oldest_us and changes, the most */
    struct worker_figures workers[];
};

/* On whichever thread the last answer came; `figures` is freed afterwards. NULL: out of memory. */
typedef void (*figures_fn)(void *user, const struct figures *figures);
/* Ask all of them; any thread. `fn` is called once, also at once when there are none. */
void figures_gather(struct worker *const *cores, size_t count, figures_fn fn, void *user);
/* The same with operations, calls of tools and failures. */
void figures_gather_all(struct worker *const *cores, size_t count, figures_fn fn, void *user);

#endif
