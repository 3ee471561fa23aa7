/* SPDX-License-Identifier: MIT
 *
 * One run of the user's command, as `sh -c TEXT`, for `tidings watch --exec`. What a server said
 * never becomes part of the text: it is in variables and on standard input. It has a process group
 * of its own, and is ended with all that is in it.
 */
#ifndef BIN_SHELL_H
#define BIN_SHELL_H

#include <poll.h>
#include <sys/types.h>

#include <tidings/types.h>

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

/* "ended with status 3", or NULL: it did as it should. */
const char *shell_failure(const struct shell *s, char out[48]);

#endif
