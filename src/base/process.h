/* SPDX-License-Identifier: MIT
 *
 * Run a program as a process group of its own, with what it writes in pipes, and end all of it.
 *
 *     spawn_start        it runs; out, err and pidfd are ours to poll
 *     spawn_kill         every process of its group dies
 *     spawn_reap         once pidfd is readable: how it ended
 *     spawn_deinit       kills and reaps what is left; closes everything
 *
 * The process is noticed by its pidfd: no handler for SIGCHLD is installed, and children of the
 * host are not touched. A host that ignores SIGCHLD, or reaps every child itself, takes the exit
 * status away; the program then counts as ended without one.
 *
 * The program has no descriptors but 0 (/dev/null, unless asked otherwise), 1 and 2, default signal
 * dispositions with none blocked, and only the environment it is given. If the thread that started
 * it ends, also by a crash of the process, the kernel kills it (not what it started itself).
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <sys/types.h>

#include <tidings/types.h>

struct spawn {
    pid_t pid;       /* 0: none */
    int pidfd;       /* readable once it has ended; of a helper's child the socket that says how */
    int out;         /* its standard output, non-blocking */
    int err;         /* its standard error, non-blocking; 0: it is ours */
    int in;          /* its standard input, non-blocking; 0: it has none */
    bool is_helpers; /* a child of security/helper, which signals and reaps it for us */
};

struct spawn_options {
    const char *path;      /* the file to execute */
    char *const *argv;     /* NULL at the end */
    char *const *env;      /* "NAME=value", NULL at the end */
    const char *directory; /* to run in; NULL: that of this process */
    bool wants_input;      /* `in` leads to it */
    bool shares_stderr;    /* it writes to the standard error of this process */
};

enum spawn_ending {
    SPAWN_EXITED,  /* value: exit status */
    SPAWN_KILLED,  /* value: signal number */
    SPAWN_UNKNOWN, /* somebody else reaped it */
};

/* What the helper says on the socket of a program that it ran for us. */
struct spawn_end {
    int how; /* enum spawn_ending */
    int value;
};

/* Start it; `s` need not be initialised, and after a failure (no such program, not executable, no
 * more processes) nothing is left. Waits until the program is being executed, which is soon. */
int spawn_start(struct spawn *s, const struct spawn_options *o, struct tidings_error *err);
/* Of what the helper started for us: its standard output and standard error. Takes all of them. */
void spawn_adopt(struct spawn *s, pid_t pid, int socket, const int fds[2]);
/* It sees the end of its input. */
void spawn_close_input(struct spawn *s);
/* SIGTERM to the whole group, under the same condition as spawn_kill. */
void spawn_terminate(const struct spawn *s);
/* SIGKILL to the whole group. Only before spawn_reap succeeded: the group's name is ours till then.
 */
void spawn_kill(const struct spawn *s);
/* True once it has ended; then `s->pid` is 0. Does not wait. */
bool spawn_reap(struct spawn *s, enum spawn_ending *ret_how, int *ret_value);
/* Waits for the end of what it kills. All zero: fine. */
void spawn_deinit(struct spawn *s);

/* Where `name` is: itself when it holds a '/', else the first executable file of that name in the
 * folders of `path` ("/usr/bin:/bin"). TIDINGS_E_NOTFOUND. */
int spawn_find(const char *name, const char *path, char *out, size_t room,
               struct tidings_error *err);

#endif
