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
 * At most one command runs and one list waits, which merges what comes and is bounded.
 * With `restarts` a list that waits, and has been quiet, ends the command that runs, and what that
 * one was for is in the next one's list. Changes that never end are run for after BATCH_LATEST_MS,
 * or ten times debounce_ms if that is longer.
 *
 * The command has the lines of its list on standard input, and in the file that TIDINGS_URIS names
 * as long as it runs.
 */
#ifndef CLI_WATCH_RUN_H
#define CLI_WATCH_RUN_H

#include <poll.h>
#include <stdio.h>
#include <sys/types.h>

#include <tidings/types.h>

/* -------------------------------------------------------------------------------------------------
 * The user's command that `tidings watch` runs for each change. Those of one URI run one after the
 * other; what happens to it meanwhile is gathered: the command runs once more, for the latest.
 * Those of different URIs run beside each other, as many as allowed. At most JOBS_WAITING_MAX URIs
 * wait or run: whoever adds another waits until there is room.
 */

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

/* -------------------------------------------------------------------------------------------------
 * One run of the user's command, as `sh -c TEXT`, for `tidings watch --exec`. What a server said
 * never becomes part of the text: it is in variables and on standard input. It has a process group
 * of its own, and is ended with all that is in it.
 */

/* One that was asked to end and does not is killed after this long. */
#define SHELL_END_MS 5000u

/* Zeroed: nothing runs. */
struct shell {
    pid_t pid; /* 0: nothing runs */
    int pidfd;
    bool is_ending, has_ended;
    uint64_t kill_ms;
    int status; /* of its end, as waitpid has it */
};

/* The environment of this process with `ours` ("NAME=value", NULL at the end) in place of those of
 * the same names. Free the array, not the texts. NULL: no memory. */
char **shell_environment(char *const *ours);
/* A file without a name that holds `text`, for an input: nobody has to feed a command that does not
 * read it. It cannot be written to. A descriptor, or -1 with errno. */
int shell_input(struct tidings_str text);

/* 0, or an errno: it cannot be run. */
int shell_start(struct shell *s, const char *command, int input, char *const *env);
/* Ask it to end (SIGTERM), if it runs. */
void shell_end(struct shell *s);
/* Has it ended, and what runs in the group of one that was asked to? Nothing runs then, and
 * `status` says how. Kills what is late. */
bool shell_reap(struct shell *s);
/* What to wait for until shell_reap is worth while: `fd`, and at most so many ms (negative: as long
 * as it takes). */
int shell_wait(const struct shell *s, struct pollfd *fd);
/* The shorter of two such times. */
static inline int sooner(int a, int b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* -------------------------------------------------------------------------------------------------
 * The URIs that changed, each once, in the order of their first change, for one run of the command
 * of `tidings watch --batch`. Beyond URI_LIST_MAX of them, or URI_LIST_BYTES, a list says that it
 * is cut, and takes no more.
 */

#define URI_LIST_MAX 10000u
#define URI_LIST_BYTES (64u << 20) /* of URIs and lines */
#define URI_LIST_BUCKETS 1024u
#define URI_LIST_CURSOR 512u

struct uri_item;

/* Begin with a zeroed one. */
struct uri_list {
    struct uri_item *items;
    size_t count, room, bytes;
    uint32_t buckets[URI_LIST_BUCKETS];
    uint64_t changes;             /* that it stands for */
    bool is_cut;                  /* not everything that changed is in it */
    uint64_t turn;                /* of the first one added: the count of whoever adds */
    char cursor[URI_LIST_CURSOR]; /* of the last one added; "": none */
};

void uri_list_clear(struct uri_list *l);

/* `line` (it is copied) takes the place of what was said of the URI before; NULL: the URI itself is
 * the line, with %XX for what no URI has: blanks, line feeds, NULs. TIDINGS_E_NOMEM: the list says
 * that it is cut. */
int uri_list_add(struct uri_list *l, struct tidings_str uri, const char *line);

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

/* Something changed; `line` as in a list of URIs, see above. `is_cut`: there may be more that is
 * not told. */
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
