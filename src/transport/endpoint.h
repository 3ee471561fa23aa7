/* SPDX-License-Identifier: MIT
 *
 * A listening socket: made at a numeric address or a path, or passed to us. Addresses are never
 * shared: one that is in use is an error that says what to do.
 *
 * A path is taken over from a server that is gone (nobody answers there) and from nobody else. Its
 * file gets its permissions before anybody can connect, and goes when the endpoint is closed,
 * unless it is another's by then.
 */
#ifndef TRANSPORT_ENDPOINT_H
#define TRANSPORT_ENDPOINT_H

#include <sys/types.h>

#include <tidings/types.h>

#define ENDPOINT_PATH_MAX 107u /* bytes of a path, what the kernel takes */

struct endpoint_address {
    const char *option; /* for errors: what chooses it, "--http ADDR:PORT" */
    const char *host;   /* numeric; or … */
    const char *path;   /* … of a Unix socket; or … */
    int fd;             /* … a listening socket, of which it has a copy (both NULL) */
    uint16_t port;      /* 0: any free one */
    unsigned mode;      /* permissions of the path */
};

struct endpoint {
    int fd;
    bool is_unix;
    uint16_t port;
    char host[46];                    /* numeric; IPv6 without brackets */
    char path[ENDPOINT_PATH_MAX + 1]; /* of a Unix socket; empty: it has none */
    bool owns_path;
    dev_t device; /* of the path, to know it again */
    ino_t inode;
};

/* On failure nothing is left behind. TIDINGS_E_EXISTS: in use; TIDINGS_E_NOTFOUND,
 * TIDINGS_E_DENIED, TIDINGS_E_INVALID. */
int endpoint_open(struct endpoint *e, const struct endpoint_address *at, struct tidings_error *err);
/* Is it a stream socket that listens? Makes it fit for us: neither blocking nor inherited. */
int endpoint_check_passed(int fd, struct tidings_error *err);
void endpoint_close(struct endpoint *e); /* one that was never opened must have fd -1 */
/* Can only this machine reach it? */
bool endpoint_is_local(const struct endpoint *e);

#endif
