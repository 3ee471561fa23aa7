/* SPDX-License-Identifier: MIT
 *
 * Bearer tokens over HTTP, if configured: every request must have one (RFC 6750), which identifies
 * the client. Exceptions are preflights, the metadata, the page of the console, and /livez and
 * /readyz. The metadata (RFC 9728) names the issuers of tokens.
 *
 *     /.well-known/oauth-protected-resource        the document, there and at …
 *     /.well-known/oauth-protected-resource/mcp    … the path of the resource after it
 *     /.well-known/oauth-authorization-server      redirects to the first issuer's, for clients of
 *                                                  2025-03-26, which use no other place
 *
 * If a token cannot be verified immediately, its request waits: the connection reads nothing more,
 * and answers 503 after `header_timeout_ms` without a result.
 */
#ifndef TRANSPORT_HTTP_CHECK_H
#define TRANSPORT_HTTP_CHECK_H

#include "base/net/tls.h"
#include "base/str.h"
#include "security/auth.h"

#define AUTH_METADATA_PATH "/.well-known/oauth-protected-resource"
#define AUTH_SERVER_PATH "/.well-known/oauth-authorization-server"

/* Frozen while the server runs. Without an issuer there is no metadata: its strings are empty. */
struct http_auth {
    struct auth *auth;
    struct dpop *dpop;               /* checks proofs of keys; NULL: tokens are not bound to keys */
    struct tidings_str metadata;     /* the document, JSON */
    struct tidings_str metadata_url; /* where clients find it */
    struct tidings_str resource_path; /* the part after AUTH_METADATA_PATH: "/mcp" */
    struct tidings_str server_url;    /* the document of the authorization server */
    const struct tidings_str *scopes; /* a token must have all of them */
    size_t scope_count;
    struct tidings_str scope; /* the same, separated by blanks */
};

/* -------------------------------------------------------------------------------------------------
 * Which clients may use an HTTP server at all: the Host and Origin of a request, compared exactly.
 * A page on another site whose name resolves to this machine (DNS rebinding) sends its own name in
 * both, and is rejected.
 *
 * A server accepts the names of loopback (which an attacker cannot redirect, and through which
 * forwarded ports reach every listener), listed names, the address at which the connection arrived,
 * and the names in its certificate. So the check depends on the connection, not on other listeners.
 */

#define GUARD_ADDRESS_MAX 64u

struct origin_check {
    const char *const *hosts; /* listed names, with or without a port */
    size_t host_count;
    const char *const *origins; /* "https://app.example:8443", exact */
    size_t origin_count;
};

/* The local address of a connection. */
struct arrival {
    char address[GUARD_ADDRESS_MAX]; /* as in a Host: "192.0.2.1", "[2001:db8::1]"; "": none */
    bool is_local;                   /* an address of loopback, or a Unix socket */
};
void origin_check_arrival(int fd, struct arrival *ret);

/* `host` as in the Host header: name or address, optional port. Returns true if it is a name of
 * loopback, or listed. */
bool origin_check_knows_host(const struct origin_check *g, struct tidings_str host);
/* Returns true if it is the address where the connection arrived, or in a certificate (`tls` may be
 * NULL). */
bool origin_check_own_host(const struct arrival *at, const struct tls_session *tls,
                           struct tidings_str host);
/* `origin` as in the Origin header. Returns true if it is listed, or a page of this machine on a
 * connection that did not leave the machine. */
bool origin_check_allows(const struct origin_check *g, const struct arrival *at,
                         struct tidings_str origin);
/* Returns true for a page of this server itself; `host` is a name of the server. */
bool origin_check_is_own(struct tidings_str origin, struct tidings_str host, bool is_tls);

#endif
