/* SPDX-License-Identifier: MIT
 *
 * Who may talk to an HTTP server at all: the Host and Origin of a request, compared exactly. A page
 * on some other site that has its name resolve to this machine (DNS rebinding) sends its own name
 * in both, and is refused.
 */
#ifndef TRANSPORT_GUARD_H
#define TRANSPORT_GUARD_H

#include <tidings/types.h>

struct guard {
    const char *const *hosts; /* names besides the loopback ones, without port */
    size_t host_count;
    const char *const *origins; /* "https://app.example:8443", exact */
    size_t origin_count;
    bool is_loopback; /* bound to loopback: only loopback hosts and the listed ones are right */
};

/* `host` as in the Host header: name or address, optional port. Listening beyond loopback without a
 * list of hosts, any well-formed host is right. */
bool guard_host(const struct guard *g, struct tidings_str host);
/* `origin` as in the Origin header. */
bool guard_origin(const struct guard *g, struct tidings_str origin);

#endif
