/* SPDX-License-Identifier: MIT
 *
 * Bearer tokens over HTTP, where they are configured: every request has to carry one (RFC 6750),
 * which says who it is from, but for preflights, the metadata, the page of the console and /livez
 * and /readyz. The metadata (RFC 9728) tells clients where tokens come from.
 *
 *     /.well-known/oauth-protected-resource        the document, there and at …
 *     /.well-known/oauth-protected-resource/mcp    … the path of the resource behind it
 *     /.well-known/oauth-authorization-server      led on to the first issuer's, for clients of
 *                                                  2025-03-26, who know no other place
 *
 * A request whose token cannot be judged at once waits: its connection reads nothing more, and is
 * answered with 503 when `header_timeout_ms` went by without news.
 */
#ifndef TRANSPORT_HTTP_CHECK_H
#define TRANSPORT_HTTP_CHECK_H

#include "base/net/tls.h"
#include "base/str.h"
#include "security/auth.h"

#define AUTH_METADATA_PATH "/.well-known/oauth-protected-resource"
#define AUTH_SERVER_PATH "/.well-known/oauth-authorization-server"

/* Frozen while the server runs. Without an issuer there is no metadata: its texts are empty. */
struct http_auth {
    struct auth *auth;
    struct dpop *dpop;                /* checks proofs of keys; NULL: no token is bound to one */
    struct tidings_str metadata;      /* the document, JSON */
    struct tidings_str metadata_url;  /* where clients find it */
    struct tidings_str resource_path; /* behind AUTH_METADATA_PATH: "/mcp" */
    struct tidings_str server_url;    /* the document of the authorization server */
    const struct tidings_str *scopes; /* a token must have all of them */
    size_t scope_count;
    struct tidings_str scope; /* the same, separated by blanks */
};

/* -------------------------------------------------------------------------------------------------
 * Who may talk to an HTTP server at all: the Host and Origin of a request, compared exactly. A page
 * on some other site that has its name resolve to this machine (DNS rebinding) sends its own name
 * in both, and is refused.
 *
 * A server answers to the names of loopback (nobody can make those lead elsewhere, and forwarded
 * ports bring them to every listener), to those that are listed, to the address that the connection
 * arrived at, and to the names in its certificate. So it depends on the connection, not on what
 * other listeners there are.
 */

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
