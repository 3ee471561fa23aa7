/* SPDX-License-Identifier: MIT
 *
 * The user's command that `tidings watch --batch` runs once for all changes up to a quiet period.
 *
 *          a change              quiet for debounce_ms         the command ended
 *     idle ---------> gathering ----------------------> running -----------------> idle
 *                                                        |   ^
 *                                      changes meanwhile |   | its end: one more run,
 *                                                        v   | for all of them
 *                                                one list that waits
 *
 * At most one command runs and one list waits. The list merges new changes and is bounded. With
 * `restarts`, a waiting list that has been quiet stops the running command and takes over its
 * changes. If changes never pause, the command runs after BATCH_LATEST_MS, or after ten times
 * debounce_ms if that is longer.
 *
 * The command gets the lines of its list on standard input, and in the file named by TIDINGS_URIS,
 * which exists while the command runs.
 */
#ifndef CLI_WATCH_RUN_H
#define CLI_WATCH_RUN_H

#include <poll.h>
#include <stdio.h>
#include <sys/types.h>

#include <tidings/types.h>

/* -------------------------------------------------------------------------------------------------
 * The user's command that `tidings watch` runs for each change. Commands for one URI run one after
 * the other. Changes that arrive during a run are merged: the command runs once more, for the
 * latest change. Commands for different URIs run in parallel, up to the limit. At most
 * JOBS_WAITING_MAX URIs wait or run; adding another blocks until there is room.
 */

#define JOBS_WAITING_MAX 1000u
#define JOBS_PARALLEL_MAX 64u

struct jobs;

/* `command` is borrowed. NULL: no memory. */
struct jobs *jobs_create(const char *command, unsigned parallel);
/* Running commands continue: see jobs_finish. NULL is fine. */
void jobs_destroy(struct jobs *jobs);

/* Variables and input of one run. */
struct job_change {
    struct tidings_str uri; /* also the key that serializes runs */
    struct tidings_str change, subscribed_uri, version, cursor, time;
    struct tidings_str input; /* for its standard input */
    uint64_t turn;            /* a number that never decreases, see jobs_oldest */
};
/* Copies everything. TIDINGS_E_NOMEM; TIDINGS_E_INVALID: a string contains a NUL, which variables
 * cannot hold. Failures of the command are printed on standard error and counted. */
int jobs_add(struct jobs *jobs, const struct job_change *change);

/* Start waiting commands and reap finished ones. Returns the descriptors to poll until the next
 * turn, at most JOBS_PARALLEL_MAX, and the timeout (negative: none). */
size_t jobs_turn(struct jobs *jobs, struct pollfd *fds, int *ret_ms);
/* Blocks until no command runs or waits. When `*is_ending` becomes nonzero, waiting commands are
 * dropped and running ones get SIGTERM. */
void jobs_finish(struct jobs *jobs, const volatile int *is_ending);
/* The lowest `turn` of waiting and running commands; UINT64_MAX: none. */
uint64_t jobs_oldest(const struct jobs *jobs);
/* The number of failed runs. */
size_t jobs_failed(const struct jobs *jobs);

/* -------------------------------------------------------------------------------------------------
 * One run of the user's command, as `sh -c TEXT`, for `tidings watch --exec`. Data from the server
 * never becomes part of the command text: it is in variables and on standard input. The command
 * runs in its own process group, and stopping it stops the whole group.
 */

/* A command that ignores SIGTERM is killed after this time. */
#define SHELL_END_MS 5000u

/* Zeroed: nothing runs. */
struct shell {
    pid_t pid; /* 0: nothing runs */
    int pidfd;
    bool is_ending, has_ended;
    uint64_t kill_ms;
    int status; /* exit status, in the form of waitpid */
};

/* The environment of this process, with `ours` ("NAME=value", NULL at the end) replacing variables
 * of the same names. Free the array, not the strings. NULL: no memory. */
char **shell_environment(char *const *ours);
/* An unnamed read-only file that holds `text`, as standard input: no thread has to feed a command
 * that does not read it. A descriptor, or -1 with errno. */
int shell_input(struct tidings_str text);

/* 0, or an errno: the command cannot run. */
int shell_start(struct shell *s, const char *command, int input, char *const *env);
/* Send SIGTERM to the command, if it runs. */
void shell_end(struct shell *s);
/* Returns true if the command has ended; if it was stopped, also every process of its group. Then
 * no process runs, and `status` is set. Kills processes that ignored SIGTERM for too long. */
bool shell_reap(struct shell *s);
/* The descriptor to poll until the next shell_reap, in `fd`; returns the timeout in ms (negative:
 * none). */
int shell_wait(const struct shell *s, struct pollfd *fd);
/* The shorter of two such timeouts. */
static inline int sooner(int a, int b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* -------------------------------------------------------------------------------------------------
 * The URIs that changed, each once, in the order of their first change, for one run of the command
 * of `tidings watch --batch`. Beyond URI_LIST_MAX URIs or URI_LIST_BYTES, a list is marked as cut
 * and takes no more.
 */

#define URI_LIST_MAX 10000u
#define URI_LIST_BYTES (64u << 20) /* of URIs and lines */
#define URI_LIST_BUCKETS 1024u
#define URI_LIST_CURSOR 512u

struct uri_item;

/* Start with a zeroed one. */
struct uri_list {
    struct uri_item *items;
    size_t count, room, bytes;
    uint32_t buckets[URI_LIST_BUCKETS];
    uint64_t changes;             /* changes that the list covers */
    bool is_cut;                  /* some changes are not in the list */
    uint64_t turn;                /* the caller's turn of the first item */
    char cursor[URI_LIST_CURSOR]; /* of the last item; "": none */
};

void uri_list_clear(struct uri_list *l);

/* `line` (copied) replaces the earlier line of the URI; NULL: the line is the URI itself, with
 * invalid characters (blanks, line feeds, NULs) escaped as %XX. TIDINGS_E_NOMEM: the list is marked
 * as cut. */
int uri_list_add(struct uri_list *l, struct tidings_str uri, const char *line);

struct pollfd;
struct batch;

/* The default; longer than the window of a tidings server. */
#define BATCH_LATEST_MS 10000u

struct batch_options {
    const char *command; /* borrowed */
    uint64_t debounce_ms;
    bool restarts;
    bool ends_with_nul; /* each line ends with a NUL instead of a line feed */
};
/* NULL: no memory. */
struct batch *batch_create(const struct batch_options *options);
/* A running command continues: see batch_finish. NULL is fine. */
void batch_destroy(struct batch *b);

/* A change; `line` as in a list of URIs, see above. `is_cut`: more changes may be missing. */
struct batch_change {
    struct tidings_str uri;
    const char *line;
    struct tidings_str cursor;
    bool is_cut;
    uint64_t turn; /* a number that never decreases, see batch_oldest */
};
int batch_add(struct batch *b, const struct batch_change *change);
/* Drop the waiting list. */
void batch_drop(struct batch *b);
/* Run the command now, even if nothing changed. */
void batch_start(struct batch *b);

/* Start the command if it is due, and reap it when it has ended. Returns the descriptor to poll
 * until the next turn, and the timeout (negative: none). */
void batch_turn(struct batch *b, struct pollfd *fd, int *ret_ms);
/* Blocks until no command runs or waits; a waiting list runs at once. When `*is_ending` becomes
 * nonzero, the waiting list is dropped and the running command is stopped. */
void batch_finish(struct batch *b, const volatile int *is_ending);

/* The number of finished runs for changes, and the number of failed runs. */
uint64_t batch_done(const struct batch *b);
size_t batch_failed(const struct batch *b);
/* The lowest `turn` of the waiting and the running list; UINT64_MAX: none. */
uint64_t batch_oldest(const struct batch *b);

#endif
