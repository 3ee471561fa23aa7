/* SPDX-License-Identifier: MIT
 *
 * What a server says of who may give tokens for it (RFC 9728), and what an authorization server
 * says of itself (RFC 8414, OpenID Connect Discovery). Everything is checked before it is believed:
 * a document that speaks for another resource or issuer, or of addresses where a secret must not
 * go, is refused.
 */
#ifndef OAUTH_METADATA_H
#define OAUTH_METADATA_H

#include "base/str.h"

struct resource_metadata {
    char *resource;   /* as it must be named in requests, to the letter */
    char *issuer;     /* the authorization server to ask */
    char *scopes;     /* with blanks between; NULL: not said */
    bool wants_proof; /* of the key that a token is bound to (DPoP, RFC 9449) */
};

/* Which of the issuers that a resource names. */
struct issuer_choice {
    const char *only;      /* this one; NULL: any */
    const char *preferred; /* this one if it is among them; NULL: the first */
};

/* `server`: the URL that was asked, which the resource must be or cover. TIDINGS_E_PARSE,
 * TIDINGS_E_DENIED: for another resource, an address that is not safe, or not of the issuer that is
 * wanted. */
int resource_metadata_read(struct tidings_str text, const char *server,
                           const struct issuer_choice *choice, struct resource_metadata *ret,
                           struct tidings_error *err);
void resource_metadata_deinit(struct resource_metadata *m); /* all zero: fine */

/* How a client shows who it is at the token endpoint, as bits. */
enum client_auth {
    CLIENT_AUTH_NONE = 1,
    CLIENT_AUTH_BASIC = 2, /* client_secret_basic */
    CLIENT_AUTH_POST = 4,  /* client_secret_post */
    CLIENT_AUTH_KEY = 8,   /* private_key_jwt */
};

struct server_metadata {
    char *issuer;
    char *authorization_endpoint, *token_endpoint; /* NULL: not said, as all below */
    char *registration_endpoint, *device_endpoint, *revocation_endpoint;
    char *scopes;
    unsigned auth_methods;  /* enum client_auth; 0: not said */
    bool has_s256;          /* PKCE with SHA-256 */
    bool sends_issuer;      /* in its answers at the redirect (RFC 9207) */
    bool takes_client_urls; /* a URL of a document as client id */
    bool takes_proofs;      /* DPoP with ES256 */
    bool lists_grants;      /* whether it says which grants it knows */
    bool has_client_grant, has_assertion_grant;
};

/* `issuer`: who was asked, which must be who answers, to the letter. */
int server_metadata_read(struct tidings_str text, const char *issuer, struct server_metadata *ret,
                         struct tidings_error *err);
/* Of one without a document (revision 2025-03-26): /authorize, /token and /register at its origin.
 */
int server_metadata_guess(struct tidings_str origin, struct server_metadata *ret,
                          struct tidings_error *err);
void server_metadata_deinit(struct server_metadata *m); /* all zero: fine */

#endif
