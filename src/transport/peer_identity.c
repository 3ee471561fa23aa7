/* SPDX-License-Identifier: MIT
 *
 * Asking the certificate, or the kernel, who connected.
 */
#include "transport/peer_identity.h"

#include <errno.h>
#include <linux/tcp.h> /* its struct tcp_info has more than that of libc */
#include <stdio.h>

#include "base/sendq.h"
#include "transport/socket_address.h"

/* The user at the other end of a Unix socket; false: the kernel does not say. */
static bool peer_identity_put_user(int fd, char *out, size_t size)
{
    struct ucred user;
    socklen_t len = sizeof(user);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &len) < 0) {
        return false;
    }
    snprintf(out, size, "uid:%lu", (unsigned long)user.uid);
    return true;
}

/* What is found into `out`, which is untouched otherwise; an address is nobody's name. */
static enum principal_kind find_out(int fd, const struct tls_session *tls, char out[PRINCIPAL_MAX])
{
    const char *subject = tls ? tls_session_peer(tls) : NULL;
    if (subject) {
        snprintf(out, PRINCIPAL_MAX, "%s", subject);
        return PRINCIPAL_CERTIFICATE;
    }
    union socket_address from = {0};
    socklen_t len = sizeof(from);
    if (getpeername(fd, &from.any, &len) < 0) {
        return PRINCIPAL_ANONYMOUS;
    }
    if (from.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &from.v4.sin_addr, out, PRINCIPAL_MAX);
    } else if (from.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &from.v6.sin6_addr, out, PRINCIPAL_MAX);
    } else if (from.any.sa_family == AF_UNIX && peer_identity_put_user(fd, out, PRINCIPAL_MAX)) {
        return PRINCIPAL_USER;
    }
    return PRINCIPAL_ANONYMOUS;
}

void peer_identity_name(int fd, const struct tls_session *tls, char out[PRINCIPAL_MAX])
{
    (void)find_out(fd, tls, out);
}

int peer_identity_apply(struct channel *channel, int fd, const struct tls_session *tls)
{
    if (channel->principal) {
        return principal_renew(channel->worker, &channel->principal);
    }
    char name[PRINCIPAL_MAX] = "";
    struct principal_spec spec = {.kind = find_out(fd, tls, name)};
    spec.name = spec.kind == PRINCIPAL_ANONYMOUS ? STR_EMPTY : tidings_str(name);
    spec.expires_ms = spec.kind == PRINCIPAL_CERTIFICATE ? tls_session_expiry(tls) : 0;
    const struct principal *principal = NULL;
    int rc = principal_intern(channel->worker, &spec, &principal, NULL);
    channel_set_principal(channel, principal);
    principal_unref(principal);
    return rc;
}

/* Whoever has an address of a network of IPv6 has all 2^64. */
static void put_v6_network(const struct in6_addr *a, char out[QUOTA_NAME_MAX])
{
    struct in6_addr network = *a;
    if (IN6_IS_ADDR_V4MAPPED(a)) {
        inet_ntop(AF_INET, &a->s6_addr[12], out, QUOTA_NAME_MAX);
        return;
    }
    memset(&network.s6_addr[8], 0, 8);
    inet_ntop(AF_INET6, &network, out, QUOTA_NAME_MAX);
    strncat(out, "/64", QUOTA_NAME_MAX - strlen(out) - 1);
}

bool peer_identity_quota_name(int fd, const union socket_address *from, char out[QUOTA_NAME_MAX])
{
    out[0] = '\0';
    if (from->any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &from->v4.sin_addr, out, QUOTA_NAME_MAX);
        return socket_address_is_local(from);
    }
    if (from->any.sa_family == AF_INET6) {
        put_v6_network(&from->v6.sin6_addr, out);
        return socket_address_is_local(from);
    }
    (void)peer_identity_put_user(fd, out, QUOTA_NAME_MAX);
    return true;
}

/* Where it comes from, with its port; whether that is this machine. */
static bool peer_identity_address(int fd, char out[CHANNEL_ADDRESS_MAX], bool *ret_is_unix)
{
    union socket_address from = {0};
    char host[INET6_ADDRSTRLEN] = "", quota[QUOTA_NAME_MAX];
    socklen_t len = sizeof(from);
    if (getpeername(fd, &from.any, &len) < 0) {
        return false;
    }
    bool is_local = peer_identity_quota_name(fd, &from, quota);
    *ret_is_unix = from.any.sa_family == AF_UNIX;
    if (from.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &from.v4.sin_addr, host, sizeof(host));
        snprintf(out, CHANNEL_ADDRESS_MAX, "%s:%u", host, ntohs(from.v4.sin_port));
    } else if (from.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &from.v6.sin6_addr, host, sizeof(host));
        snprintf(out, CHANNEL_ADDRESS_MAX, "[%s]:%u", host, ntohs(from.v6.sin6_port));
    } else {
        snprintf(out, CHANNEL_ADDRESS_MAX, "%.*s", (int)CHANNEL_ADDRESS_MAX - 1, quota);
    }
    return is_local;
}

void peer_identity_facts(const struct sendq *out, bool is_http, struct channel_facts *ret)
{
    bool is_unix = false, is_tls = sendq_tls(out) != NULL;
    ret->is_local = peer_identity_address(out->fd, ret->address, &is_unix);
    ret->listener = is_http   ? (is_tls ? "https" : "http")
                    : is_unix ? "unix"
                    : is_tls  ? "tls"
                              : "tcp";
    ret->bytes_out = out->written;
}

uint64_t peer_identity_received(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 ? info.tcpi_bytes_received : 0;
}

bool peer_identity_timed_out(int fd)
{
    int error = 0;
    socklen_t size = sizeof(error);
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == ETIMEDOUT;
}
