/* SPDX-License-Identifier: MIT
 *
 * Landlock, by which a process gives up files and ports that it will not need, for good and for
 * everything it starts. Without a library: three system calls.
 *
 *     struct landlock *l = landlock_create(LANDLOCK_NO_CONNECT, &err);
 *     landlock_allow(l, "/srv/docs", LANDLOCK_READ);
 *     landlock_enforce(l, &err);           this thread, and threads made by it from now on
 *     landlock_destroy(l);
 *
 * What is open already stays usable. A rule is about the directory (or file) that has the path now,
 * not about the path: one that is put in its place later is not allowed. Looking (stat, O_PATH,
 * readlink, inotify) is never refused, nor is connecting to Unix sockets that have a path. Nothing
 * may be executed at all.
 *
 * Kernels know more or less of it. What one does not know is left out (landlock_abi says which it
 * is); older than 5.13, or without it, landlock_create fails with TIDINGS_E_UNSUPPORTED.
 */
#ifndef SECURITY_SANDBOX_H
#define SECURITY_SANDBOX_H

#include <tidings/types.h>

struct landlock;

enum landlock_access {
    LANDLOCK_READ = 1,     /* files and directories below it, or the file itself */
    LANDLOCK_WRITE = 2,    /* write, make and remove files directly or deeper below it */
    LANDLOCK_SOCKETS = 4,  /* make Unix sockets there, and remove them */
    LANDLOCK_OVERWRITE = 8 /* write to what is there */
};

enum landlock_flags {
    LANDLOCK_NO_CONNECT = 1, /* no TCP connections to anybody (from version 4 on) */
};

/* The version that the kernel has; 0: none, and `err` says why. */
int landlock_abi(struct tidings_error *err);
/* Everything is forbidden but what is allowed from here on. NULL: `err` says why. */
struct landlock *landlock_create(unsigned flags, struct tidings_error *err);
/* What does not exist (any more) is passed over. -errno otherwise. */
int landlock_allow(struct landlock *l, const char *path, unsigned access);
/* TCP sockets may be bound to this port; 0: to one that the kernel chooses. */
int landlock_allow_bind(struct landlock *l, uint16_t port);
/* Needs no_new_privs. The process must have no other thread yet. */
int landlock_enforce(struct landlock *l, struct tidings_error *err);
void landlock_destroy(struct landlock *l);

/* -------------------------------------------------------------------------------------------------
 * A seccomp filter that allows the system calls a running server needs; all others fail once it is
 * installed, for every thread there is and will be, and for good. No library is needed: the filter
 * is a short program for the kernel.
 *
 * Among those that fail: executing anything, new processes, tracing, mounting, loading, keys, other
 * architectures' calls (these end the process). What is refused says EPERM; calls that this list
 * has never heard of, and those that libraries try before an older one, say ENOSYS.
 */

enum seccomp_flags {
    SECCOMP_CONNECTS = 1, /* it makes sockets and connects them */
};

/* 0, or why the kernel cannot: TIDINGS_E_UNSUPPORTED. */
int seccomp_probe(struct tidings_error *err);
/* Needs no_new_privs. */
int seccomp_enforce(unsigned flags, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * The capabilities of a process that was started as root: keeping those it needs, and giving up all
 * others for good.
 */

#define CAPABILITY(number) (UINT64_C(1) << (number)) /* CAP_… of the kernel */

/* The effective capabilities of this thread. */
uint64_t capabilities_get(void);
/* Keep the permitted ones of `wanted`; give up the rest, and the bounding set, so that executing a
 * program restores none. Call it before other threads start: they would keep theirs. */
int capabilities_keep(uint64_t wanted, struct tidings_error *err);

#endif
