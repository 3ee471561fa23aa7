/* SPDX-License-Identifier: MIT
 *
 * A small process beside this one, forked before it confines itself, that keeps the rights this one
 * gives up and uses them for what was decided at that time, and for nothing else:
 *
 * - opening a file of the configuration, which may have been replaced since;
 * - opening the file of the log at its end, which may have been renamed since;
 * - opening what lies below a served root, which may have been removed and made again;
 * - running a command of the configuration.
 *
 * So whoever takes this process over can have those files and those commands, as before, but can
 * name no others. The process has one such helper at most, or none: then nothing here does anything
 * (helper_is_there), and callers open and run by themselves.
 *
 * Any thread may ask; each request carries the socket that its answer comes on, so none waits for
 * another's. The helper answers one after the other, at once (it opens, it does not read). It ends
 * when this process does, and ends all commands that are still running first.
 */
#ifndef SECURITY_HELPER_H
#define SECURITY_HELPER_H

#include <sys/types.h>

#include <tidings/types.h>

struct spawn;

struct helper_command {
    const char *name; /* by which it is asked for */
    char *const *argv, *const *env;
    const char *path;      /* the PATH in which argv[0] is looked for */
    const char *directory; /* NULL: that of this process */
};

struct helper_root {
    const char *path;
    unsigned owner; /* the user whose directory it is: what belongs to others is not it */
};

/* All of it is borrowed for the call; the helper has a copy, as it has of everything. */
struct helper_plan {
    const char *const *files; /* to be opened for reading */
    size_t file_count;
    const char *log_file;            /* to be made, or opened at its end; NULL: none */
    const char *access_log_file;     /* likewise */
    const struct helper_root *roots; /* below which anything may be opened for reading */
    size_t root_count;
    const struct helper_command *commands;
    size_t command_count;
    uint64_t rights; /* capabilities that it keeps, if there are any (security/sandbox.h) */
};

/* Fork it. Before this process has other threads; once. */
int helper_start(const struct helper_plan *plan, struct tidings_error *err);
bool helper_is_there(void);
/* A descriptor, or a negative errno; -EPERM: not in the plan. */
int helper_open(const char *path);
/* The same of the file of the log. Only its end can be written. */
int helper_open_log(const char *path);
/* The same of `path`, which leads nowhere else (and, with `resolve`, as openat2 has it), below the
 * directory `root`; -ESTALE: it is not the one that is open as `root_fd` any more. O_RDONLY, with
 * O_DIRECTORY or O_NOFOLLOW. */
int helper_open_below(const char *root, int root_fd, const char *path, int flags, uint64_t resolve);
/* Start that command; then `s` is as after spawn_start. TIDINGS_E_LIMIT: it runs already. */
int helper_run(const char *name, struct spawn *s, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * The messages between the helper process and the process it helps: one datagram (SOCK_SEQPACKET)
 * with a request and the socket for its answer, one with the answer and descriptors. Both ends are
 * the same program, so structs are sent as they lie in memory.
 */

#define HELPER_NAME_MAX 4096u /* of a path or a name, with its NUL */
#define HELPER_FDS_MAX 2u

enum helper_kind { HELPER_OPEN, HELPER_OPEN_LOG, HELPER_OPEN_BELOW, HELPER_RUN };

struct helper_request {
    enum helper_kind kind;
    int flags;
    uint64_t resolve, device, inode; /* of the root that is meant */
    char name[HELPER_NAME_MAX];      /* file, root or command */
    char path[HELPER_NAME_MAX];      /* below the root */
};

struct helper_answer {
    int errnum; /* opening: 0, or why not */
    int pid;
    struct tidings_error err; /* running; code 0: it runs */
};

/* A datagram with descriptors. Returns what the system call does. */
ssize_t helper_send(int socket, const void *bytes, size_t size, const int *fds, size_t fd_count);

#endif
