/* SPDX-License-Identifier: MIT
 *
 * Processes: runs a program in its own process group, with its output in pipes, and ends the whole
 * group.
 *
 *     spawn_start        it runs; poll out, err and pidfd
 *     spawn_kill         kills every process of its group
 *     spawn_reap         once pidfd is readable: its exit status
 *     spawn_deinit       kills and reaps what is left; closes everything
 *
 * The pidfd reports the end of the process: no handler for SIGCHLD is installed, and other children
 * of the host are not affected. If the host ignores SIGCHLD, or reaps every child itself, the exit
 * status is lost; the program then counts as ended without one.
 *
 * The program has no descriptors but 0 (/dev/null by default), 1 and 2, default signal dispositions
 * with none blocked, and only the given environment. If the thread that started it ends, even by a
 * crash of the process, the kernel kills the program (but not its child processes).
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <sys/types.h>

#include <tidings/types.h>

struct spawn {
    pid_t pid; /* 0: none */
    /* readable once it has ended; for a helper's child, the socket with its status */
    int pidfd;
    int out;         /* its standard output, non-blocking */
    int err;         /* its standard error, non-blocking; 0: shared with this process */
    int in;          /* its standard input, non-blocking; 0: none */
    bool is_helpers; /* a child of security/helper, which signals and reaps it */
};

struct spawn_options {
    const char *path;      /* the file to execute */
    char *const *argv;     /* NULL at the end */
    char *const *env;      /* "NAME=value", NULL at the end */
    const char *directory; /* working directory; NULL: that of this process */
    bool wants_input;      /* connects `in` to its standard input */
    bool shares_stderr;    /* shares the standard error of this process */
};

enum spawn_ending {
    SPAWN_EXITED,  /* value: exit status */
    SPAWN_KILLED,  /* value: signal number */
    SPAWN_UNKNOWN, /* another part of the process reaped it */
};

/* The helper's message on the socket of a program that it ran. */
struct spawn_end {
    int how; /* enum spawn_ending */
    int value;
};

/* Starts a program; `s` need not be initialised, and after a failure (no such program, not
 * executable, no more processes) there is nothing to release. Waits until execve, which takes
 * little time. */
int spawn_start(struct spawn *s, const struct spawn_options *o, struct tidings_error *err);
/* Takes over a program that the helper started, with its standard output and standard error. Takes
 * ownership of all descriptors. */
void spawn_adopt(struct spawn *s, pid_t pid, int socket, const int fds[2]);
/* The program then sees the end of its input. */
void spawn_close_input(struct spawn *s);
/* Sends SIGTERM to the whole group, under the same condition as spawn_kill. */
void spawn_terminate(const struct spawn *s);
/* Sends SIGKILL to the whole group. Only before spawn_reap has succeeded: until then the group id
 * cannot be reused. */
void spawn_kill(const struct spawn *s);
/* Returns true once it has ended; then `s->pid` is 0. Does not block. */
bool spawn_reap(struct spawn *s, enum spawn_ending *ret_how, int *ret_value);
/* Kills what still runs and waits for its end. All zero: fine. */
void spawn_deinit(struct spawn *s);

/* Finds the file of `name`: itself if it contains a '/', else the first executable file with that
 * name in the directories of `path` ("/usr/bin:/bin"). TIDINGS_E_NOTFOUND. */
int spawn_find(const char *name, const char *path, char *out, size_t room,
               struct tidings_error *err);

#endif
