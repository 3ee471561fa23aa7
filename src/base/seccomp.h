/* SPDX-License-Identifier: MIT
 *
 * A seccomp filter that allows the system calls a running server needs; all others fail once it is
 * installed, for every thread there is and will be, and for good. No library is needed: the filter
 * is a short program for the kernel.
 *
 * Among those that fail: executing anything, new processes, tracing, mounting, loading, keys, other
 * architectures' calls (these end the process). What is refused says EPERM; calls that this list
 * has never heard of, and those that libraries try before an older one, say ENOSYS.
 */
#ifndef BASE_SECCOMP_H
#define BASE_SECCOMP_H

#include <tidings/types.h>

enum seccomp_flags {
    SECCOMP_CONNECTS = 1, /* it makes sockets and connects them */
};

/* 0, or why the kernel cannot: TIDINGS_E_UNSUPPORTED. */
int seccomp_probe(struct tidings_error *err);
/* Needs no_new_privs. */
int seccomp_enforce(unsigned flags, struct tidings_error *err);

#endif
