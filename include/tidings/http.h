/* SPDX-License-Identifier: MIT
 *
 * Pages of the program itself, next to the MCP endpoint, on the same address.
 *
 *     static void on_health(void *user, const struct tidings_http_request *request,
 *                           struct tidings_http_response *response)
 *     {
 *         tidings_http_reply(response, 200, "text/plain", tidings_str("fine"));
 *     }
 *     tidings_server_add_route(server, "/health", on_health, NULL, &err);     // <tidings/server.h>
 *
 * A request reaches the function after the checks every request passes: Host, Origin, a token where
 * tokens are configured, sizes, a body of at most `--max-body`. Any method does. The answer is
 * given before the function returns.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_HTTP_H
#define TIDINGS_HTTP_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What was asked, borrowed for the call. */
struct tidings_http_request {
    struct tidings_str method;       /* "POST" */
    struct tidings_str path;         /* "/publish", as the route was registered */
    struct tidings_str query;        /* what follows '?', encoded as it came; or empty */
    struct tidings_str content_type; /* of the body; empty: not said */
    struct tidings_str body;
    /* Who asks: what its token, its certificate or the kernel says; empty: that was not asked. */
    struct tidings_str principal;
};

/* The answer in the making. */
struct tidings_http_response;

/* Answer a request for a page of the program. Once per request, inside the function of the route.
 * Texts are copied. */
TIDINGS_API void tidings_http_reply(struct tidings_http_response *response, int status,
                                    const char *content_type, struct tidings_str body);

/* The function of a route. Called on a worker thread, several at once; must not block. Without a
 * reply: 204, no content. */
typedef void (*tidings_route_fn)(void *user, const struct tidings_http_request *request,
                                 struct tidings_http_response *response);

#ifdef __cplusplus
}
#endif

#endif
