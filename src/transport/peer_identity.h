/* SPDX-License-Identifier: MIT
 *
 * Identity of the client of a socket, from its certificate or the kernel: all clients from one
 * address count as one, on a Unix socket all with one user id.
 */
#ifndef TRANSPORT_PEER_IDENTITY_H
#define TRANSPORT_PEER_IDENTITY_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/net/tls.h"
#include "engine/protocol/channel.h"
#include "security/limits.h"

/* The address of a socket, of any family: one type for bind, accept, getsockname and
 * getpeername. */
union socket_address {
    struct sockaddr any;
    struct sockaddr_storage storage;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local;
};

/* Returns true if it leads only to this machine. An IPv4 address in IPv6 form is treated as
 * IPv4. */
bool socket_address_is_local(const union socket_address *a);

/* Writes "192.0.2.1", "2001:db8::1", "uid:1000"; with a verified certificate its subject,
 * "CN=alice" (`tls` may be NULL). Unchanged if unknown. */
void peer_identity_name(int fd, const struct tls_session *tls, char out[PRINCIPAL_MAX]);
/* Gives the channel the principal of the certificate or the kernel, which expires with the
 * certificate. Clients over TCP without a certificate are anonymous. Does nothing if the channel
 * has a principal (to remove one that came from a token, call channel_set_principal(channel,
 * NULL)). TIDINGS_E_NOMEM: no request may be handled. */
int peer_identity_apply(struct channel *channel, int fd, const struct tls_session *tls);
/* Writes the quota name of a connection of which only the address is known: "192.0.2.1",
 * "2001:db8:1:2::/64", "uid:1000". Returns whether that is this machine. */
bool peer_identity_quota_name(int fd, const union socket_address *from, char out[QUOTA_NAME_MAX]);
/* Remembers the address of the channel, for use after its socket has failed. */
void peer_identity_remember(struct channel *channel, int fd);
/* Describes a socket and its output. `is_http`: its protocol is HTTP. */
struct channel_facts;
struct sendq;
void peer_identity_facts(const struct channel *channel, const struct sendq *out, bool is_http,
                         struct channel_facts *ret);
/* … and the part that only the kernel knows: bytes that the client has not received, and for how
 * long it has taken none of them. One or two system calls; for queries of the state of one
 * channel. */
void peer_identity_ask_kernel(int fd, struct channel_facts *facts);
/* Returns why a socket failed: because its client took nothing for too long (TCP_USER_TIMEOUT),
 * which is counted and logged as a cut, or `otherwise`. Call it once. */
const char *peer_identity_failure(struct channel *channel, const struct sendq *out,
                                  const char *otherwise);
/* Returns the bytes that the kernel has received on a TCP connection, with TLS; 0: unknown. */
uint64_t peer_identity_received(int fd);

#endif
