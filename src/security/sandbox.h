/* SPDX-License-Identifier: MIT
 *
 * Landlock: the process permanently gives up files and ports that it will not need, for itself and
 * for its child processes. Needs no library, only three system calls.
 *
 *     struct landlock *l = landlock_create(LANDLOCK_NO_CONNECT, &err);
 *     landlock_allow(l, "/srv/docs", LANDLOCK_READ);
 *     landlock_enforce(l, &err);           this thread, and threads it creates later
 *     landlock_destroy(l);
 *
 * Open descriptors stay usable. A rule applies to the directory (or file) that has the path now,
 * not to the path: a later replacement is not allowed. Inspection (stat, O_PATH, readlink, inotify)
 * is never denied, nor are connections to Unix sockets that have a path. Nothing can be executed.
 *
 * Kernels differ in what they support. Unsupported rights are omitted (landlock_abi returns the
 * version); on kernels before 5.13, or without Landlock, landlock_create fails with
 * TIDINGS_E_UNSUPPORTED.
 */
#ifndef SECURITY_SANDBOX_H
#define SECURITY_SANDBOX_H

#include <tidings/types.h>

struct landlock;

enum landlock_access {
    LANDLOCK_READ = 1,     /* files and directories below it, or the file itself */
    LANDLOCK_WRITE = 2,    /* write, create and remove files directly or deeper below it */
    LANDLOCK_SOCKETS = 4,  /* create Unix sockets there, and remove them */
    LANDLOCK_OVERWRITE = 8 /* write to existing files */
};

enum landlock_flags {
    LANDLOCK_NO_CONNECT = 1, /* no outgoing TCP connections (from version 4 on) */
};

/* The version of the kernel; 0: none, and `err` gives the reason. */
int landlock_abi(struct tidings_error *err);
/* Everything is forbidden except what later calls allow. NULL: `err` gives the reason. */
struct landlock *landlock_create(unsigned flags, struct tidings_error *err);
/* A missing path is ignored. Otherwise -errno. */
int landlock_allow(struct landlock *l, const char *path, unsigned access);
/* Allows TCP sockets to bind to this port; 0: to one that the kernel chooses. */
int landlock_allow_bind(struct landlock *l, uint16_t port);
/* Needs no_new_privs. The process must not have other threads yet. */
int landlock_enforce(struct landlock *l, struct tidings_error *err);
void landlock_destroy(struct landlock *l);

/* -------------------------------------------------------------------------------------------------
 * A seccomp filter that allows the system calls a running server needs; all others fail permanently
 * once it is installed, in every present and future thread. Needs no library: the filter is a short
 * program for the kernel.
 *
 * Denied calls include: executing programs, new processes, tracing, mounting, module loading, keys,
 * calls of other architectures (these kill the process). A denied call returns EPERM; calls unknown
 * to this list, and those that libraries try before an older one, return ENOSYS.
 */

enum seccomp_flags {
    SECCOMP_CONNECTS = 1, /* the process creates and connects sockets */
};

/* 0, or the reason why the kernel cannot install it: TIDINGS_E_UNSUPPORTED. */
int seccomp_probe(struct tidings_error *err);
/* Needs no_new_privs. */
int seccomp_enforce(unsigned flags, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * The capabilities of a process that was started as root: keeps those it needs, and drops all
 * others permanently.
 */

#define CAPABILITY(number) (UINT64_C(1) << (number)) /* a CAP_… constant of the kernel */

/* The effective capabilities of this thread. */
uint64_t capabilities_get(void);
/* Keeps the permitted capabilities in `wanted`; drops the rest, and the bounding set, so that
 * executing a program restores none. Call it before other threads start: they would keep theirs. */
int capabilities_keep(uint64_t wanted, struct tidings_error *err);

#endif
