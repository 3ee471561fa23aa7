/* SPDX-License-Identifier: MIT
 *
 * Logging in to servers by OAuth 2.1, as the authorization part of the specification of MCP wants
 * it: credentials (<tidings/credentials.h>) that find out who gives tokens for a server, get one,
 * keep it, renew it and show it.
 *
 *     struct tidings_oauth_options how = {.token_file = path, .on_open = open_browser};
 *     struct tidings_oauth *login = tidings_oauth_create(&how, &err);
 *     struct tidings_client_options options = {.credentials = tidings_oauth_credentials(login)};
 *     struct tidings_client *c = tidings_client_create(url, &options, &err);
 *     …
 *     tidings_client_destroy(c);
 *     tidings_oauth_destroy(login);
 *
 * Nothing happens until a server refuses a request. Then its metadata (RFC 9728) says which
 * authorization server to ask, and the metadata of that (RFC 8414, OpenID Connect Discovery) how. A
 * client id is the one given, the URL of a document, or made by registration (RFC 7591). A person
 * agrees in a browser, with PKCE, a state and the issuer checked (RFC 7636, RFC 9207); the answer
 * comes to a listener at 127.0.0.1. Tokens are asked for one resource (RFC 8707), renewed before
 * they end (30 seconds, or a tenth of their life if that is less) or when the server refuses them,
 * and bound to a key where the server demands it (DPoP, RFC 9449). A server that wants more (403,
 * insufficient_scope) is given a token for what was asked before and that, which another process
 * may have got meanwhile.
 *
 * Neither server is believed further than it has to be: addresses are https, or http on this very
 * machine; redirects are not followed; answers are bounded (256 KiB, 20 seconds); documents that
 * speak for another resource or issuer, and authorization servers without PKCE, are refused. What
 * they say in errors is shown as visible ASCII. Client ids and tokens go to the issuer they came
 * from and to nobody else.
 *
 * Threads: as the client that it belongs to. No threads are started.
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
    TIDINGS_OAUTH_CODE = 0,      /* a person agrees in a browser on this machine */
    TIDINGS_OAUTH_DEVICE = 1,    /* … on any machine, with a code (RFC 8628) */
    TIDINGS_OAUTH_CLIENT = 2,    /* the client itself: client_id, and client_secret or client_key */
    TIDINGS_OAUTH_ASSERTION = 3, /* a workload: client_id and `assertion` (RFC 7523) */
    TIDINGS_OAUTH_ENTERPRISE = 4, /* the person's `id_token` of the provider at `idp_endpoint`, for
                                   * which that gives an assertion (RFC 8693) */
};

/* Show a person this address, in a browser best. It is http or https, of visible ASCII. Not 0: it
 * cannot be shown, and the login fails with that. */
typedef int (*tidings_oauth_open_fn)(void *user, const char *url);
/* Show a person where to enter which code. The same holds for both. */
typedef int (*tidings_oauth_device_fn)(void *user, const char *url, const char *code);

/* Zeroed fields mean the default in parentheses. Everything is copied. */
struct tidings_oauth_options {
    enum tidings_oauth_grant grant;
    const char *client_name;   /* at a registration ("tidings") */
    const char *client_id;     /* given by whoever runs the authorization server (none) */
    const char *client_secret; /* … with it (none) */
    const char *client_key;    /* … or a private key in PEM: P-256 or RSA (none) */
    const char *client_url;    /* of a client id metadata document: the client id where the server
                                * takes such (none) */
    const char *issuer;     /* the one authorization server to use, of those that the server names,
                             * and that the client id is meant for; with another nothing is asked
                             * (the one of the token before, else the first) */
    const char *scope;      /* to ask for, with blanks between (what the server says) */
    const char *token_file; /* keep tokens here, mode 0600, its directory must be there (they are
                             * kept in memory) */
    const char *ca_file;    /* PEM: CAs that certificates may come from (the system's) */
    const char *assertion;  /* a JWT for TIDINGS_OAUTH_ASSERTION */
    const char *id_token, *idp_endpoint, *idp_client_id; /* for TIDINGS_OAUTH_ENTERPRISE */
    uint16_t redirect_port;                              /* of the listener (any that is free) */
    uint32_t login_ms;                                   /* how long a person may take (300000) */
    tidings_oauth_open_fn on_open;     /* NULL: nobody can be asked, TIDINGS_OAUTH_CODE fails */
    tidings_oauth_device_fn on_device; /* the same for TIDINGS_OAUTH_DEVICE */
    void *user;
    void *reserved[4]; /* zero */
};

/* Create credentials by OAuth. `options` may be NULL. NULL on failure: TIDINGS_E_INVALID: something
 * is missing for the grant, or no key; TIDINGS_E_DENIED: the token file can be read or written by
 * others; TIDINGS_E_PARSE: it is none; TIDINGS_E_UNSUPPORTED: libcurl or OpenSSL cannot be loaded.
 */
TIDINGS_API TIDINGS_MUST_CHECK struct tidings_oauth *
tidings_oauth_create(const struct tidings_oauth_options *options, struct tidings_error *err);
/* Destroy credentials, after the client that uses them. Breaks off what is under way, but for a
 * token that is just being given, since what it was asked for with is used up: that is waited for,
 * 5 seconds at most, and kept. Tokens of the file stay. NULL is fine. */
TIDINGS_API void tidings_oauth_destroy(struct tidings_oauth *oauth);

/* Return the credentials as an interface, for tidings_client_options. Valid as long as `oauth`. */
TIDINGS_API const struct tidings_credentials *
tidings_oauth_credentials(struct tidings_oauth *oauth);

/* Get a token for a server before anything is asked of it. Waits until it is there, or has failed.
 * A token that is there already is replaced. TIDINGS_E_DENIED: somebody said no, or one of the two
 * servers is not to be trusted; TIDINGS_E_TIMEOUT: nobody agreed in time; TIDINGS_E_UNSUPPORTED:
 * the authorization server does not offer what is needed. */
TIDINGS_API int tidings_oauth_login(struct tidings_oauth *oauth, const char *server,
                                    struct tidings_error *err);
/* Give up the token of a server: it is revoked where that can be asked for, and forgotten.
 * TIDINGS_E_NOTFOUND: there is none; TIDINGS_E_BUSY: a token is being obtained just now, here or by
 * another process. A revocation that fails is no failure: the tokens are forgotten, and `err` says
 * so with code 0. */
TIDINGS_API int tidings_oauth_logout(struct tidings_oauth *oauth, const char *server,
                                     struct tidings_error *err);

/* A token that is kept. Borrowed for the call; no secret is in it. */
struct tidings_oauth_token {
    const char *resource;  /* the server, or what covers it */
    const char *issuer;    /* the authorization server */
    const char *client_id; /* at it */
    const char *scope;     /* "": not said */
    int64_t expires_ms;    /* Unix time; 0: not said */
    bool is_renewable;     /* there is a refresh token */
    bool is_bound;         /* to a key (DPoP) */
};
typedef void (*tidings_oauth_token_fn)(void *user, const struct tidings_oauth_token *token);
/* List the tokens that are kept. Returns how many, or a failure to read the file; `fn` may be NULL.
 */
TIDINGS_API int tidings_oauth_tokens(struct tidings_oauth *oauth, tidings_oauth_token_fn fn,
                                     void *user, struct tidings_error *err);

#ifdef __cplusplus
}
#endif

#endif
