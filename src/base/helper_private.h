/* SPDX-License-Identifier: MIT
 *
 * The messages between the helper process and the process it helps: one datagram (SOCK_SEQPACKET)
 * with a request and the socket for its answer, one with the answer and descriptors. Both ends are
 * the same program, so structs are sent as they lie in memory.
 */
#ifndef BASE_HELPER_PRIVATE_H
#define BASE_HELPER_PRIVATE_H

#include "base/helper.h"

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
/* *fd_count: room in `fds`, then how many came. */
ssize_t helper_receive(int socket, void *bytes, size_t size, int *fds, size_t *fd_count);

/* In the forked process: does not return. */
__attribute__((noreturn)) void helper_main(const struct helper_plan *plan, int socket);

#endif
