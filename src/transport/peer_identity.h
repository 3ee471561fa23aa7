/* SPDX-License-Identifier: MIT
 *
 * Who is at the other end of a socket, as far as it shows a certificate or the kernel can say:
 * whoever comes from the same address is one, on a Unix socket whoever has the same user id.
 */
#ifndef TRANSPORT_PEER_IDENTITY_H
#define TRANSPORT_PEER_IDENTITY_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/net/tls.h"
#include "engine/protocol/channel.h"
#include "security/limits.h"

/* The address of a socket, of whichever family it is: one type for what bind, accept, getsockname
 * and getpeername take and give. */
union socket_address {
    struct sockaddr any;
    struct sockaddr_storage storage;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local;
};

/* Does it lead to this machine alone? An IPv4 address that came as IPv6 is judged as what it is. */
bool socket_address_is_local(const union socket_address *a);

/* "192.0.2.1", "2001:db8::1", "uid:1000"; with a certificate that was checked its subject,
 * "CN=alice" (`tls` may be NULL). Untouched when it cannot be known. */
void peer_identity_name(int fd, const struct tls_session *tls, char out[PRINCIPAL_MAX]);
/* Give the channel the principal that the certificate or the kernel tells of, which expires with
 * the certificate: whoever comes over TCP without one is anonymous. Once it has one nothing happens
 * (who has put a token's there takes it away with channel_set_principal(channel, NULL)).
 * TIDINGS_E_NOMEM: nothing may be handled. */
int peer_identity_apply(struct channel *channel, int fd, const struct tls_session *tls);
/* What a connection counts as, before anything is known of it but where it comes from: "192.0.2.1",
 * "2001:db8:1:2::/64", "uid:1000". Returns whether that is this machine. */
bool peer_identity_quota_name(int fd, const union socket_address *from, char out[QUOTA_NAME_MAX]);
/* Keep where the channel leads, so that it can be said when its socket has failed. */
void peer_identity_remember(struct channel *channel, int fd);
/* What is known of a socket and of what was written to it. `is_http`: HTTP is spoken there. */
struct channel_facts;
struct sendq;
void peer_identity_facts(const struct channel *channel, const struct sendq *out, bool is_http,
                         struct channel_facts *ret);
/* … and what only the kernel knows: bytes that the client has not received, and for how long it
 * takes none of them. One or two system calls; for whoever asks for the state of one channel. */
void peer_identity_ask_kernel(int fd, struct channel_facts *facts);
/* Why a socket failed: because its client took nothing for so long (TCP_USER_TIMEOUT), which is
 * counted and logged as a cut, or `otherwise`. Asks once. */
const char *peer_identity_failure(struct channel *channel, const struct sendq *out,
                                  const char *otherwise);
/* Bytes that the kernel has received on a TCP connection, with TLS; 0: it does not say. */
uint64_t peer_identity_received(int fd);

#endif
