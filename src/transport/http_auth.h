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
#ifndef TRANSPORT_HTTP_AUTH_H
#define TRANSPORT_HTTP_AUTH_H

#include "auth/auth.h"
#include "base/str.h"

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

#endif
