/* SPDX-License-Identifier: MIT
 *
 * Identifies the client of a socket by its certificate, or with the help of the kernel.
 */
#include "transport/peer_identity.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "base/net/sendq.h"
#include "engine/delivery/delivery.h"
#include "engine/worker.h"
#include "security/limits.h"

bool socket_address_is_local(const union socket_address *a)
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

/* Writes the user at the other end of a Unix socket. Returns false if the kernel does not know
 * it. */
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

/* Writes the identity to `out`, which is otherwise unchanged; an address does not identify a
 * client. */
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
        return principal_renew(channel->worker->principals, &channel->principal);
    }
    char name[PRINCIPAL_MAX] = "";
    struct principal_spec spec = {.kind = find_out(fd, tls, name)};
    spec.name = spec.kind == PRINCIPAL_ANONYMOUS ? STR_EMPTY : tidings_str(name);
    spec.expires_ms = spec.kind == PRINCIPAL_CERTIFICATE ? tls_session_expiry(tls) : 0;
    const struct principal *principal = NULL;
    int rc = principal_intern(channel->worker->principals, &spec, &principal, NULL);
    channel_set_principal(channel, principal);
    principal_unref(principal);
    return rc;
}

/* A client with an address of an IPv6 network has all 2^64 of them. */
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

/* Gets its address; for a failed socket, the remembered one. */
static bool peer_identity_from(const struct channel *channel, int fd, union socket_address *ret)
{
    socklen_t len = sizeof(*ret);
    if (getpeername(fd, &ret->any, &len) == 0) {
        return true;
    }
    if (channel->from_port == 0) {
        return false;
    }
    struct in6_addr address;
    memcpy(&address, channel->from, sizeof(address));
    *ret = (union socket_address){0};
    if (IN6_IS_ADDR_V4MAPPED(&address)) {
        ret->v4.sin_family = AF_INET;
        ret->v4.sin_port = htons(channel->from_port);
        memcpy(&ret->v4.sin_addr, &channel->from[12], sizeof(ret->v4.sin_addr));
    } else {
        ret->v6.sin6_family = AF_INET6;
        ret->v6.sin6_port = htons(channel->from_port);
        ret->v6.sin6_addr = address;
    }
    return true;
}

void peer_identity_remember(struct channel *channel, int fd)
{
    union socket_address from = {0};
    socklen_t len = sizeof(from);
    if (getpeername(fd, &from.any, &len) < 0) {
        return;
    }
    if (from.any.sa_family == AF_INET) {
        memset(channel->from, 0, 10);
        memset(channel->from + 10, 0xff, 2);
        memcpy(channel->from + 12, &from.v4.sin_addr, 4);
        channel->from_port = ntohs(from.v4.sin_port);
    } else if (from.any.sa_family == AF_INET6) {
        memcpy(channel->from, &from.v6.sin6_addr, 16);
        channel->from_port = ntohs(from.v6.sin6_port);
    }
}

/* Gets its address with the port, and whether that is this machine. */
static bool peer_identity_address(const struct channel *channel, int fd,
                                  char out[CHANNEL_ADDRESS_MAX], bool *ret_is_unix)
{
    union socket_address from = {0};
    char host[INET6_ADDRSTRLEN] = "", quota[QUOTA_NAME_MAX];
    if (!peer_identity_from(channel, fd, &from)) {
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

void peer_identity_facts(const struct channel *channel, const struct sendq *out, bool is_http,
                         struct channel_facts *ret)
{
    bool is_unix = false, is_tls = sendq_tls(out) != NULL;
    ret->is_local = peer_identity_address(channel, out->fd, ret->address, &is_unix);
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

#define WINDOW_CLOSED 4096u /* bytes; less is below a segment of loopback */

/* Returns true if its client takes none of the kernel's data. Data in flight, possibly
 * unacknowledged for a moment, does not count. *ret_ms: the duration. */
static bool peer_identity_is_stalled(const struct tcp_info *info, uint64_t *ret_ms)
{
    bool is_full = info->tcpi_notsent_bytes > 0; /* its window is closed, or the network is full */
    bool is_silent = info->tcpi_unacked > 0 && info->tcpi_retransmits > 0;
    *ret_ms = is_full ? info->tcpi_last_data_sent : 0;
    if (is_silent) {
        uint64_t rto_us = info->tcpi_rto; /* doubled each time, so all earlier ones took less */
        unsigned times = info->tcpi_retransmits < 16 ? info->tcpi_retransmits : 16;
        uint64_t silent_ms = (rto_us - (rto_us >> times)) / 1000;
        *ret_ms = silent_ms > *ret_ms ? silent_ms : *ret_ms;
    }
    return is_full || is_silent;
}

void peer_identity_ask_kernel(int fd, struct channel_facts *facts)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    int bytes = 0;
    uint64_t stalled_ms = 0;
    if (fd <= 0 || ioctl(fd, SIOCOUTQ, &bytes) < 0 || bytes <= 0) {
        return;
    }
    /* A Unix socket reports the memory of the data, not its bytes. */
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
        !peer_identity_is_stalled(&info, &stalled_ms)) {
        return;
    }
    facts->kernel_bytes = (uint64_t)bytes;
    facts->stalled_ms = stalled_ms > facts->stalled_ms ? stalled_ms : facts->stalled_ms;
}

static bool peer_identity_timed_out(const struct sendq *out)
{
    int error = 0;
    socklen_t size = sizeof(error);
    return out->error == ETIMEDOUT ||
           (getsockopt(out->fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == ETIMEDOUT);
}

const char *peer_identity_failure(struct channel *channel, const struct sendq *out,
                                  const char *otherwise)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    if (!peer_identity_timed_out(out)) {
        return otherwise;
    }
    channel->worker->stats.cut++;
    limit_hit(channel->worker->limit_counters, LIMIT_STALL);
    (void)getsockopt(out->fd, IPPROTO_TCP, TCP_INFO, &info, &len);
    delivery_log_cut(channel, out->pending, info.tcpi_last_data_sent,
                     "it takes nothing (--stall-timeout)");
    /* An open window: the client would take more, if packets reached it. Linux before 6.2 does not
     * report the window. */
    return info.tcpi_snd_wnd > WINDOW_CLOSED ? "stalled: the client does not answer"
                                             : "stalled: the client does not read";
}
