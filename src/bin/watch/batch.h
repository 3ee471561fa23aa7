/* SPDX-License-Identifier: MIT
 *
 * The user's command that `tidings watch --batch` runs once for all that changed until it was
 * quiet.
 *
 *          a change              quiet for debounce_ms         the command ended
 *     idle ---------> gathering ----------------------> running -----------------> idle
 *                                                        |   ^
 *                                      changes meanwhile |   | its end: one more run,
 *                                                        v   | for all of them
 *                                                one list that waits
 *
 * At most one command runs and one list waits, which merges what comes and is bounded (uri_list.h).
 * With `restarts` a list that waits, and has been quiet, ends the command that runs, and what that
 * one was for is in the next one's list. Changes that never end are run for after BATCH_LATEST_MS,
 * or ten times debounce_ms if that is longer.
 *
 * The command has the lines of its list on standard input, and in the file that TIDINGS_URIS names
 * as long as it runs.
 */
#ifndef BIN_BATCH_H
#define BIN_BATCH_H

#include "bin/watch/uri_list.h"

struct pollfd;
struct batch;

/* Unless said otherwise: longer than the window of a server of ours. */
#define BATCH_LATEST_MS 10000u

struct batch_options {
    const char *command; /* borrowed */
    uint64_t debounce_ms;
    bool restarts;
    bool ends_with_nul; /* each line, instead of a line feed */
};
/* NULL: no memory. */
struct batch *batch_create(const struct batch_options *options);
/* What still runs is let alone: see batch_finish. NULL is fine. */
void batch_destroy(struct batch *b);

/* Something changed; `line` as uri_list.h has it. `is_cut`: there may be more that is not told. */
struct batch_change {
    struct tidings_str uri;
    const char *line;
    struct tidings_str cursor;
    bool is_cut;
    uint64_t turn; /* a number that never falls, see batch_oldest */
};
int batch_add(struct batch *b, const struct batch_change *change);
/* Forget what waits. */
void batch_drop(struct batch *b);
/* Run it now, whatever has changed. */
void batch_start(struct batch *b);

/* Start what is due and reap what ended; then the descriptor to wait for until the next turn, and
 * how long at most (negative: as long as it takes). */
void batch_turn(struct batch *b, struct pollfd *fd, int *ret_ms);
/* Until nothing runs or waits; what waits is run for at once. Once `*is_ending` is not 0 what waits
 * is dropped and what runs is asked to end. */
void batch_finish(struct batch *b, const volatile int *is_ending);

/* Runs for changes that came to their end, and how many of all failed. */
uint64_t batch_done(const struct batch *b);
size_t batch_failed(const struct batch *b);
/* The lowest `turn` of what waits or is run for; UINT64_MAX: nothing does. */
uint64_t batch_oldest(const struct batch *b);

#endif
