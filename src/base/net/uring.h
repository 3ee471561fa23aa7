/* SPDX-License-Identifier: MIT
 *
 * Rings: many sends in one system call, with io_uring.
 *
 * A ring is a synchronous tool here: uring_send() passes the kernel a list of sends and returns the
 * result of each. Every send is non-blocking (MSG_DONTWAIT), and the kernel completes such a send
 * inside the call or returns EAGAIN; it neither waits for the socket nor moves the work to another
 * thread. So nothing is in flight between calls: buffers can be reused and descriptors closed
 * immediately.
 *
 * Containers often forbid io_uring, and its library may not be installed; then uring_probe and
 * uring_create fail with the reason, and the caller uses plain writes.
 *
 * Not thread-safe: one thread at a time uses a ring.
 */
#ifndef BASE_NET_URING_H
#define BASE_NET_URING_H

#include <limits.h>
#include <sys/uio.h>

#include <tidings/types.h>

#define URING_UNSENT INT_MIN

struct uring_send {
    int fd;     /* a socket */
    int result; /* out: bytes taken, -errno, or URING_UNSENT: not attempted */
    unsigned count;
    const struct iovec *iov; /* `count` of them, at least one; INT_MAX bytes at most */
};

struct uring;

/* Checks whether the kernel allows rings. One cheap system call; loads and creates nothing.
 * TIDINGS_E_UNSUPPORTED, or TIDINGS_E_DENIED. */
int uring_probe(struct tidings_error *err);

/* Loads the library. `ret_uring` holds up to `max_sends` sends at a time. */
int uring_create(struct uring **ret_uring, unsigned max_sends, struct tidings_error *err);
void uring_destroy(struct uring *u); /* NULL is fine */

/* At least one send, at most `max_sends`. Sets every `result`. Returns the number of system calls
 * (1, unless the kernel is short of memory), or the kernel's negative errno; the sends not started
 * are then URING_UNSENT, and the ring can only be destroyed. */
int uring_send(struct uring *u, struct uring_send *sends, unsigned count);

#endif
