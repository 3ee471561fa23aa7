/* SPDX-License-Identifier: MIT
 *
 * Many sends in one system call, by io_uring.
 *
 * A ring is a synchronous tool here: uring_send() hands the kernel a list of sends and comes back
 * with the result of each. Every send is non-blocking (MSG_DONTWAIT), and the kernel finishes such
 * a send inside the call or says EAGAIN; it neither waits for the socket nor passes the work to
 * another thread. So nothing is in flight between calls: buffers may be reused and descriptors
 * closed at once.
 *
 * Containers often forbid io_uring, and its library may not be installed; then uring_probe and
 * uring_create fail with a sentence that says why, and the caller writes by itself.
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
    int result; /* out: bytes taken, -errno, or URING_UNSENT: it was not tried */
    unsigned count;
    const struct iovec *iov; /* `count` of them, at least one; INT_MAX bytes at most */
};

struct uring;

/* Would the kernel let us have a ring? One cheap system call; loads and creates nothing.
 * TIDINGS_E_UNSUPPORTED, or TIDINGS_E_DENIED. */
int uring_probe(struct tidings_error *err);

/* Loads the library. `ret_uring` holds up to `max_sends` sends at a time. */
int uring_create(struct uring **ret_uring, unsigned max_sends, struct tidings_error *err);
void uring_destroy(struct uring *u); /* NULL is fine */

/* At most `max_sends`, at least one. Sets every `result`. Returns the number of system calls it
 * took (1, unless the kernel is short of memory), or the negative errno with which the kernel
 * refused; the sends it had not begun are URING_UNSENT then, and the ring is good for uring_destroy
 * only. */
int uring_send(struct uring *u, struct uring_send *sends, unsigned count);

#endif
