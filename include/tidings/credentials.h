/* SPDX-License-Identifier: MIT
 *
 * Credentials of an HTTP client: an interface that supplies the header fields, often a bearer
 * token, which authenticate its requests. The implementation decides where tokens come from.
 * <tidings/oauth.h> implements the MCP specification. A program with other tokens implements its
 * own, often with two functions:
 *
 *     static int show(void *user, const struct tidings_credentials_request *request,
 *                     tidings_credentials_put_fn put, void *to)
 *     {
 *         return put(to, "Authorization: Bearer …");
 *     }
 *
 * The client calls `show` before each HTTP request. If the server rejects a request with 401 or
 * 403, the client calls `refused`, which may supply better credentials at once, later, or never.
 * Meanwhile the request waits, and no deadline of the client expires. Over WebSocket (ws:, wss:)
 * this applies to the request that opens a connection; its `url` has http or https instead of ws or
 * wss. Unix socket servers (http+unix:) have no address that credentials could belong to, so the
 * client does not call the functions.
 *
 * Client functions call the interface, on their thread; it must not call the client. Credentials
 * belong to one client at a time.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_CREDENTIALS_H
#define TIDINGS_CREDENTIALS_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An HTTP request that the client will send. Valid only during the call. */
struct tidings_credentials_request {
    const char *method; /* "POST" */
    const char *url;
    /* Address of the server if it differs from `url`: with HTTP+SSE (2024-11-05) messages go to
     * another address of the host, but the token belongs to the server. NULL: it is `url`. */
    const char *server;
};
/* Adds a header, "Name: value", to the request; at most 4 of at most 64 KiB. TIDINGS_E_INVALID: it
 * is not a header; TIDINGS_E_LIMIT. */
typedef int (*tidings_credentials_put_fn)(void *to, const char *line);

/* A rejected request. Valid only during the call. */
struct tidings_credentials_refusal {
    const char *url;
    long status;                  /* 401 or 403 */
    struct tidings_str challenge; /* WWW-Authenticate, joined by ", "; empty: none */
    struct tidings_str nonce;     /* DPoP-Nonce (RFC 9449); empty: none */
    struct tidings_str shown;     /* Authorization header of the request; empty: none */
    unsigned attempt;             /* number of earlier rejections of this request */
    const char *server;           /* as in struct tidings_credentials_request */
};
/* Reports that a request can be retried now (`why` NULL), or that no better credentials exist. */
typedef void (*tidings_credentials_done_fn)(void *to, const struct tidings_error *why);

struct tidings_credentials {
    void *user; /* passed to each function */
    /* Puts the header fields of a request, possibly none. If the result is not 0, the request fails
     * with it. */
    int (*show)(void *user, const struct tidings_credentials_request *request,
                tidings_credentials_put_fn put, void *to);
    /* Returns 0 to retry at once with the new result of `show`. Returns 1 to wait: a later `step`
     * calls `done` with `to`, exactly once. A negative code ends the request; `err` says why, and
     * what a person can do. NULL: always fails. The client gives up after 4 rejections of one
     * request. */
    int (*refused)(void *user, const struct tidings_credentials_refusal *refusal,
                   tidings_credentials_done_fn done, void *to, struct tidings_error *err);
    /* Cancels the wait of `to`: `done` must not be called for it. */
    void (*forget)(void *user, void *to);
    /* Returns a descriptor that is readable when `step` has work to do. It never changes. NULL:
     * there is never work. */
    int (*fd)(void *user);
    void (*step)(void *user);
    /* Called before a request. Returns 0 to send it now. Returns 1 while its credentials are being
     * renewed: the request waits until a later `step` calls `done` with `to`, exactly once. The
     * request is then sent with the result of `show`, whatever `done` reports. NULL: always 0. */
    int (*prepare)(void *user, const struct tidings_credentials_request *request,
                   tidings_credentials_done_fn done, void *to);
    /* Returns the number of renewals that no rejection caused. The client checks it after each
     * `step`. If it has increased, the client reopens streams with the new result of `show`, before
     * the server ends them because their credentials expire. NULL: never. */
    uint64_t (*renewals)(void *user);
    void *reserved[2]; /* zero */
};

#ifdef __cplusplus
}
#endif

#endif
