/* SPDX-License-Identifier: MIT
 *
 * Who may talk to an HTTP server at all: the Host and Origin of a request, compared exactly. A page
 * on some other site that has its name resolve to this machine (DNS rebinding) sends its own name
 * in both, and is refused.
 *
 * A server answers to the names of loopback (nobody can make those lead elsewhere, and forwarded
 * ports bring them to every listener), to those that are listed, to the address that the connection
 * arrived at, and to the names in its certificate. So it depends on the connection, not on what
 * other listeners there are.
 */
#ifndef TRANSPORT_ORIGIN_CHECK_H
#define TRANSPORT_ORIGIN_CHECK_H

#include "base/tls.h"

#define GUARD_ADDRESS_MAX 64u

struct origin_check {
    const char *const *hosts; /* listed names, with or without a port */
    size_t host_count;
    const char *const *origins; /* "https://app.example:8443", exact */
    size_t origin_count;
};

/* Where a connection arrived. */
struct arrival {
    char address[GUARD_ADDRESS_MAX]; /* as in a Host: "192.0.2.1", "[2001:db8::1]"; "": none */
    bool is_local;                   /* an address of loopback, or a Unix socket */
};
void origin_check_arrival(int fd, struct arrival *ret);

/* `host` as in the Host header: name or address, optional port. Is it a name of loopback, or
 * listed? */
bool origin_check_knows_host(const struct origin_check *g, struct tidings_str host);
/* Is it the address where the connection arrived, or named in a certificate (`tls` may be NULL)? */
bool origin_check_own_host(const struct arrival *at, const struct tls_session *tls,
                           struct tidings_str host);
/* `origin` as in the Origin header: listed; or a page of this machine on a connection that did not
 * leave it. */
bool origin_check_allows(const struct origin_check *g, const struct arrival *at,
                         struct tidings_str origin);
/* Is it a page of this server itself, `host` being a name of it? */
bool origin_check_is_own(struct tidings_str origin, struct tidings_str host, bool is_tls);

#endif
