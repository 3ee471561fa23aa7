/* SPDX-License-Identifier: MIT
 *
 * HTTP pages of the program, next to the MCP endpoint and on the same address.
 *
 *     static void on_health(void *user, const struct tidings_http_request *request,
 *                           struct tidings_http_response *response)
 *     {
 *         tidings_http_reply(response, 200, "text/plain", tidings_str("fine"));
 *     }
 *     tidings_server_add_route(server, "/health", on_health, NULL, &err);     // <tidings/server.h>
 *
 * The server checks every request before the function runs: Host, Origin, the token if tokens are
 * configured, sizes, and a body of at most `--max-body`. All methods are accepted. The function
 * answers before it returns.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_HTTP_H
#define TIDINGS_HTTP_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A request. Valid only during the call. */
struct tidings_http_request {
    struct tidings_str method;       /* "POST" */
    struct tidings_str path;         /* "/publish", as registered */
    struct tidings_str query;        /* the part after '?', still encoded; or empty */
    struct tidings_str content_type; /* of the body; empty: unknown */
    struct tidings_str body;
    /* Authenticated name of the client, from its token, its certificate or the kernel; empty
     * without authentication. */
    struct tidings_str principal;
};

/* An unfinished response. */
struct tidings_http_response;

/* Answer a request for a page of the program. Call this once per request, inside the function of
 * the route. Strings are copied. */
TIDINGS_API void tidings_http_reply(struct tidings_http_response *response, int status,
                                    const char *content_type, struct tidings_str body);

/* Answers the requests of a route. Called on worker threads, several at once; must not block.
 * Without a reply, the status is 204 (no content). */
typedef void (*tidings_route_fn)(void *user, const struct tidings_http_request *request,
                                 struct tidings_http_response *response);

#ifdef __cplusplus
}
#endif

#endif
