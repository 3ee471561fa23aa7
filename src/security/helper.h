/* SPDX-License-Identifier: MIT
 *
 * The helper: a small process, forked before this one confines itself. It keeps the rights that
 * this process gives up, and uses them only for what was decided at that time:
 *
 * - opening a configuration file, which may have been replaced since;
 * - opening the log file at its end, which may have been renamed since;
 * - opening files below a served root, which may have been removed and recreated;
 * - running a configured command.
 *
 * An attacker who takes over this process can thus use those files and commands, as before, but no
 * others. A process has at most one helper; without one, nothing here does anything
 * (helper_is_there), and callers open files and run commands themselves.
 *
 * Thread-safe: each request carries the socket for its answer, so no thread waits for another's.
 * The helper answers requests one at a time, immediately (it opens, it does not read). It ends when
 * this process ends, after killing all commands that still run.
 */
#ifndef SECURITY_HELPER_H
#define SECURITY_HELPER_H

#include <sys/types.h>

#include <tidings/types.h>

struct spawn;

struct helper_command {
    const char *name; /* name in requests */
    char *const *argv, *const *env;
    const char *path;      /* the PATH that is searched for argv[0] */
    const char *directory; /* NULL: that of this process */
};

struct helper_root {
    const char *path;
    unsigned owner; /* the user who must own the directory; another owner's is rejected */
};

/* All of it is borrowed for the call; the fork has a copy. */
struct helper_plan {
    const char *const *files; /* files that may be opened for reading */
    size_t file_count;
    const char *log_file;            /* to be created, or opened at its end; NULL: none */
    const char *access_log_file;     /* likewise */
    const struct helper_root *roots; /* roots below which anything may be opened for reading */
    size_t root_count;
    const struct helper_command *commands;
    size_t command_count;
    uint64_t rights; /* capabilities to keep, if the process has any (security/sandbox.h) */
};

/* Forks the helper. Call it once, before this process has other threads. */
int helper_start(const struct helper_plan *plan, struct tidings_error *err);
bool helper_is_there(void);
/* Returns a descriptor, or a negative errno; -EPERM: not in the plan. */
int helper_open(const char *path);
/* The same for the log file. Only its end can be written. */
int helper_open_log(const char *path);
/* The same for `path` below the directory `root`, which it cannot leave (`resolve` as for openat2);
 * -ESTALE: `root` is no longer the directory open as `root_fd`. `flags`: O_RDONLY, with O_DIRECTORY
 * or O_NOFOLLOW. */
int helper_open_below(const char *root, int root_fd, const char *path, int flags, uint64_t resolve);
/* Starts a command; then `s` is as after spawn_start. TIDINGS_E_LIMIT: it is already running. */
int helper_run(const char *name, struct spawn *s, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * The messages between the helper process and the process it helps: one datagram (SOCK_SEQPACKET)
 * with a request and the socket for its answer, one with the answer and descriptors. Both ends are
 * the same program, so structs are sent as they are in memory.
 */

#define HELPER_NAME_MAX 4096u /* of a path or a name, with its NUL */
#define HELPER_FDS_MAX 2u

enum helper_kind { HELPER_OPEN, HELPER_OPEN_LOG, HELPER_OPEN_BELOW, HELPER_RUN };

struct helper_request {
    enum helper_kind kind;
    int flags;
    uint64_t resolve, device, inode; /* identify the requested root */
    char name[HELPER_NAME_MAX];      /* file, root or command */
    char path[HELPER_NAME_MAX];      /* below the root */
};

struct helper_answer {
    int errnum; /* opening: 0, or an errno */
    int pid;
    struct tidings_error err; /* running; code 0: started */
};

/* Sends a datagram with descriptors. Returns the result of the system call. */
ssize_t helper_send(int socket, const void *bytes, size_t size, const int *fds, size_t fd_count);

#endif
