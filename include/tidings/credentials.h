/* SPDX-License-Identifier: MIT
 *
 * Credentials of a client over HTTP, as an interface: the header fields, often a bearer token, by
 * which a server lets its requests in. Who implements it decides where tokens come from.
 * <tidings/oauth.h> is the implementation that the specification of
 * MCP asks for; a program with tokens of its own kind writes another, often of two functions:
 *
 *     static int show(void *user, const struct tidings_credentials_request *request,
 *                     tidings_credentials_put_fn put, void *to)
 *     {
 *         return put(to, "Authorization: Bearer …");
 *     }
 *
 * The client asks `show` before each HTTP request, and when the server refuses one with 401 or 403
 * it tells `refused`, which may have something better at once, later, or never. While it is waited
 * for, the request waits too, and no deadline of the client runs out. Over WebSocket (ws:, wss:)
 * the same holds for the request that begins a connection; its `url` is the one with http or https
 * in place of ws or wss. Servers at a socket file (http+unix:) have no address that anything was
 * given for: nothing is asked for them.
 *
 * Everything is called by the functions of the client, on their thread, and must not call the
 * client. Credentials belong to one client at a time.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_CREDENTIALS_H
#define TIDINGS_CREDENTIALS_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An HTTP request that is about to go out. Borrowed for the call. */
struct tidings_credentials_request {
    const char *method; /* "POST" */
    const char *url;
    /* The address of the server where that is not `url`: with HTTP+SSE (2024-11-05) messages go to
     * another one of its host, and a token is for the server. NULL: it is `url`. */
    const char *server;
};
/* Add a header, "Name: value", to the request; at most 4 of at most 64 KiB. TIDINGS_E_INVALID: it
 * cannot be one; TIDINGS_E_LIMIT. */
typedef int (*tidings_credentials_put_fn)(void *to, const char *line);

/* A request that was refused. Borrowed for the call. */
struct tidings_credentials_refusal {
    const char *url;
    long status;                  /* 401 or 403 */
    struct tidings_str challenge; /* WWW-Authenticate, several joined by ", "; empty: none */
    struct tidings_str nonce;     /* DPoP-Nonce (RFC 9449); empty: none */
    struct tidings_str shown;     /* the Authorization header it carried; empty: none */
    unsigned attempt;             /* how often this very request was refused before */
    const char *server;           /* as in struct tidings_credentials_request */
};
/* It may be tried again now (`why` NULL), or there is nothing better to be had. */
typedef void (*tidings_credentials_done_fn)(void *to, const struct tidings_error *why);

struct tidings_credentials {
    void *user; /* given to each function */
    /* Put what this request shall carry; nothing is fine. Not 0: the request fails with that. */
    int (*show)(void *user, const struct tidings_credentials_request *request,
                tidings_credentials_put_fn put, void *to);
    /* 0: try again at once, with what `show` says now. 1: wait, `done` is called with `to` by a
     * later `step`, exactly once. Negative: that was all, `err` says why, and what a person can do
     * about it. NULL: always so. The client itself gives up after 4 refusals of one request. */
    int (*refused)(void *user, const struct tidings_credentials_refusal *refusal,
                   tidings_credentials_done_fn done, void *to, struct tidings_error *err);
    /* Whoever waits with that `to` does not any more: `done` must not be called for it. */
    void (*forget)(void *user, void *to);
    /* A descriptor that is readable when `step` has something to do, always the same; NULL: it
     * never has. */
    int (*fd)(void *user);
    void (*step)(void *user);
    /* Before a request: 0: it may go out now. 1: what it shall carry is being renewed; the request
     * waits, and `done` is called with `to` by a later `step`, exactly once. Whatever that says,
     * the request goes out then with what `show` puts. NULL: always 0. */
    int (*prepare)(void *user, const struct tidings_credentials_request *request,
                   tidings_credentials_done_fn done, void *to);
    /* How often something was renewed that nobody had refused; the client asks after each `step`.
     * When it is more, streams are begun anew with what `show` puts now, before the server ends
     * them with what they were begun with. NULL: never. */
    uint64_t (*renewals)(void *user);
    void *reserved[2]; /* zero */
};

#ifdef __cplusplus
}
#endif

#endif
