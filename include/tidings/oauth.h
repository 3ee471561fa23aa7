/* SPDX-License-Identifier: MIT
 *
 * OAuth 2.1 login, per the authorization part of the MCP specification. It implements credentials
 * (<tidings/credentials.h>): it finds the authorization server of an MCP server, obtains a token,
 * stores, renews and sends it.
 *
 *     struct tidings_oauth_options how = {.token_file = path, .on_open = open_browser};
 *     struct tidings_oauth *login = tidings_oauth_create(&how, &err);
 *     struct tidings_client_options options = {.credentials = tidings_oauth_credentials(login)};
 *     struct tidings_client *c = tidings_client_create(url, &options, &err);
 *     …
 *     tidings_client_destroy(c);
 *     tidings_oauth_destroy(login);
 *
 * Nothing happens until a server rejects a request. The server's metadata (RFC 9728) then names the
 * authorization server, whose metadata (RFC 8414, OpenID Connect Discovery) describes the login.
 * The client id comes from the options, is the URL of a document, or comes from registration (RFC
 * 7591). The user agrees in a browser; PKCE, state and issuer are verified (RFC 7636, RFC 9207). A
 * listener at 127.0.0.1 receives the response. Tokens are valid for one resource (RFC 8707), and
 * bound to a key if the server requires it (DPoP, RFC 9449). They are renewed before they expire
 * (30 seconds, or a tenth of their lifetime if that is less) or when the server rejects them. If a
 * server requires more scopes (403, insufficient_scope), the new token covers the old scopes too;
 * another process may already have obtained it.
 *
 * Neither server is trusted more than necessary. Addresses must be https, or http on this machine.
 * Redirects are not followed. Responses are limited to 256 KiB and 20 seconds. Documents for
 * another resource or issuer, and authorization servers without PKCE, are rejected. Error messages
 * show server text only as visible ASCII. Client ids and tokens go only to their issuer.
 *
 * Threads: the same as the client that uses the credentials. No threads are started.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_OAUTH_H
#define TIDINGS_OAUTH_H

#include <tidings/credentials.h>
#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tidings_oauth;

/* How tokens are obtained. */
enum tidings_oauth_grant {
    TIDINGS_OAUTH_CODE = 0,   /* a person agrees in a browser on this machine */
    TIDINGS_OAUTH_DEVICE = 1, /* a person agrees on any machine, with a code (RFC 8628) */
    TIDINGS_OAUTH_CLIENT = 2, /* client credentials: client_id, and client_secret or client_key */
    TIDINGS_OAUTH_ASSERTION = 3,  /* workload identity: client_id and `assertion` (RFC 7523) */
    TIDINGS_OAUTH_ENTERPRISE = 4, /* the person's `id_token` from `idp_endpoint`, exchanged there
                                     for an assertion (RFC 8693) */
};

/* Show a URL to a person, preferably in a browser. It is http or https and visible ASCII. A result
 * other than 0 means that it cannot be shown, and the login fails with that code. */
typedef int (*tidings_oauth_open_fn)(void *user, const char *url);
/* Show a person a URL and the code to enter there. Both are visible ASCII, and the URL is http or
 * https. A result other than 0 means that they cannot be shown, and the login fails with it. */
typedef int (*tidings_oauth_device_fn)(void *user, const char *url, const char *code);

/* Options of the login. Zero selects the default in parentheses. Everything is copied. */
struct tidings_oauth_options {
    enum tidings_oauth_grant grant;
    const char *client_name;   /* name at registration ("tidings") */
    const char *client_id;     /* from the operator of the authorization server (none) */
    const char *client_secret; /* from the same operator (none) */
    const char *client_key;    /* instead of a secret: a private key in PEM, P-256 or RSA (none) */
    const char *client_url;    /* URL of a client id metadata document, used as client id if the
                                  authorization server accepts it (none) */
    const char *issuer; /* The only authorization server to use, of those that the server names; the
                           client id belongs to it. No other one is contacted. (issuer of the
                           previous token, else the first) */
    const char *scope;  /* scopes to request, separated by spaces (what the server says) */
    const char *token_file; /* file for tokens, mode 0600, in an existing directory (tokens stay in
                               memory) */
    const char *ca_file;    /* PEM: CAs that verify certificates (the system's) */
    const char *assertion;  /* a JWT for TIDINGS_OAUTH_ASSERTION */
    const char *id_token, *idp_endpoint, *idp_client_id; /* for TIDINGS_OAUTH_ENTERPRISE */
    uint16_t redirect_port;                              /* of the listener (any free port) */
    uint32_t login_ms;                 /* time for the person to log in (300000) */
    tidings_oauth_open_fn on_open;     /* NULL: TIDINGS_OAUTH_CODE fails */
    tidings_oauth_device_fn on_device; /* NULL: TIDINGS_OAUTH_DEVICE fails */
    void *user;
    void *reserved[4]; /* zero */
};

/* Create credentials for OAuth. `options` may be NULL.
 *
 * Returns the credentials, which the caller releases with tidings_oauth_destroy, or NULL on
 * failure. TIDINGS_E_INVALID: an option that the grant needs is missing, or the key is invalid.
 * TIDINGS_E_DENIED: other users can read or write the token file. TIDINGS_E_PARSE: the file is not
 * a token file. TIDINGS_E_UNSUPPORTED: libcurl or OpenSSL cannot be loaded. */
TIDINGS_API TIDINGS_MUST_CHECK struct tidings_oauth *
tidings_oauth_create(const struct tidings_oauth_options *options, struct tidings_error *err);
/* Destroy credentials, after the client that uses them. Pending logins are cancelled. If a token
 * request is under way, the function waits up to 5 seconds for it and stores the token, because its
 * code or refresh token can be used only once. Tokens in the file stay. `oauth` may be NULL. */
TIDINGS_API void tidings_oauth_destroy(struct tidings_oauth *oauth);

/* Return the credentials as an interface, for tidings_client_options. It is valid as long as
 * `oauth`. */
TIDINGS_API const struct tidings_credentials *
tidings_oauth_credentials(struct tidings_oauth *oauth);

/* Get a token for a server before the first request. The function waits until it has the token or
 * fails. A new token replaces an existing one.
 *
 * TIDINGS_E_DENIED: a person or server refused, or one of the two servers cannot be trusted.
 * TIDINGS_E_TIMEOUT: the person did not agree in time. TIDINGS_E_UNSUPPORTED: the authorization
 * server does not offer a required feature. */
TIDINGS_API int tidings_oauth_login(struct tidings_oauth *oauth, const char *server,
                                    struct tidings_error *err);
/* Revoke and delete the token of a server. If the authorization server offers no revocation, the
 * function only deletes it. If the revocation fails, the function still deletes the tokens and
 * returns 0; `err` then has code 0 and a warning.
 *
 * TIDINGS_E_NOTFOUND: there is no token. TIDINGS_E_BUSY: a login is under way, here or in another
 * process. */
TIDINGS_API int tidings_oauth_logout(struct tidings_oauth *oauth, const char *server,
                                     struct tidings_error *err);

/* A stored token. All members are valid only during the call and contain no secret. */
struct tidings_oauth_token {
    const char *resource;  /* the server, or a URL that covers it */
    const char *issuer;    /* the authorization server */
    const char *client_id; /* client id at the issuer */
    const char *scope;     /* "": unknown */
    int64_t expires_ms;    /* Unix time; 0: unknown */
    bool is_renewable;     /* there is a refresh token */
    bool is_bound;         /* to a key (DPoP) */
};
typedef void (*tidings_oauth_token_fn)(void *user, const struct tidings_oauth_token *token);
/* List the stored tokens. `fn` may be NULL.
 *
 * Returns the number of tokens, or a negative code if the file cannot be read. */
TIDINGS_API int tidings_oauth_tokens(struct tidings_oauth *oauth, tidings_oauth_token_fn fn,
                                     void *user, struct tidings_error *err);

#ifdef __cplusplus
}
#endif

#endif
