/* SPDX-License-Identifier: MIT
 *
 * Receiving from a socket, through a TLS session or without one.
 */
#include "base/tls.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

static ssize_t recv_plain(int fd, void *out, size_t size, bool *ended)
{
    ssize_t n;
    do {
        n = recv(fd, out, size, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n == 0) {
        *ended = true;
    }
    return n >= 0 ? n : errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
}

ssize_t tls_recv(struct tls_session *s, int fd, void *out, size_t size, bool *ended)
{
    if (!s) {
        return recv_plain(fd, out, size, ended);
    }
    assert(size >= TLS_ROOM);
    char wire[TLS_WIRE];
    ssize_t n = recv_plain(fd, wire, sizeof wire, ended);
    return n <= 0 ? n : tls_open(s, tidings_strn(wire, (size_t)n), out, ended);
}
