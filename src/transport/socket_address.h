/* SPDX-License-Identifier: MIT
 *
 * The address of a socket, of whichever family it is: one type for what bind, accept, getsockname
 * and getpeername take and give.
 */
#ifndef TRANSPORT_SOCKET_ADDRESS_H
#define TRANSPORT_SOCKET_ADDRESS_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

union socket_address {
    struct sockaddr any;
    struct sockaddr_storage storage;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local;
};

/* Does it lead to this machine alone? An IPv4 address that came as IPv6 is judged as what it is. */
static inline bool socket_address_is_local(const union socket_address *a)
{
    switch (a->any.sa_family) {
    case AF_INET:
        return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
    case AF_INET6:
        return IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr) ? a->v6.sin6_addr.s6_addr[12] == 127
                                                      : IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
    default:
        return a->any.sa_family == AF_UNIX;
    }
}

#endif
