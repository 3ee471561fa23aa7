/* SPDX-License-Identifier: MIT
 *
 * The user's command that `tidings watch` runs for each change. Those of one URI run one after the
 * other; what happens to it meanwhile is gathered: the command runs once more, for the latest.
 * Those of different URIs run beside each other, as many as allowed. At most JOBS_WAITING_MAX URIs
 * wait or run: whoever adds another waits until there is room.
 */
#ifndef BIN_JOBS_H
#define BIN_JOBS_H

#include <poll.h>

#include <tidings/types.h>

#define JOBS_WAITING_MAX 1000u
#define JOBS_PARALLEL_MAX 64u

struct jobs;

/* `command` is borrowed. NULL: no memory. */
struct jobs *jobs_create(const char *command, unsigned parallel);
/* What still runs is let alone: see jobs_finish. NULL is fine. */
void jobs_destroy(struct jobs *jobs);

/* Variables and input of one run. */
struct job_change {
    struct tidings_str uri; /* also says what it belongs to */
    struct tidings_str change, subscribed_uri, version, cursor, time;
    struct tidings_str input; /* for its standard input */
    uint64_t turn;            /* a number that never falls, see jobs_oldest */
};
/* Everything is copied. TIDINGS_E_NOMEM; TIDINGS_E_INVALID: a text holds a NUL, which no variable
 * can. Failures of the command itself are told on standard error and counted. */
int jobs_add(struct jobs *jobs, const struct job_change *change);

/* Start what waits and reap what ended; then the descriptors to wait for until the next turn, at
 * most JOBS_PARALLEL_MAX, and how long at most (negative: as long as it takes). */
size_t jobs_turn(struct jobs *jobs, struct pollfd *fds, int *ret_ms);
/* Until nothing runs or waits. Once `*is_ending` is not 0 what waits is dropped and what runs is
 * asked to end (SIGTERM). */
void jobs_finish(struct jobs *jobs, const volatile int *is_ending);
/* The lowest `turn` of what waits or runs; UINT64_MAX: nothing does. */
uint64_t jobs_oldest(const struct jobs *jobs);
/* How many runs failed so far. */
size_t jobs_failed(const struct jobs *jobs);

#endif
