/* SPDX-License-Identifier: MIT
 *
 * Pages of the program itself, next to the MCP endpoint (tidings_server_add_route). Since 0.1.
 */
#ifndef TIDINGS_HTTP_H
#define TIDINGS_HTTP_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tidings_http_request {
    struct tidings_str method, path, query, content_type, body;
};
struct tidings_http_response;
/* Say what is answered; texts are copied. Once per request. */
TIDINGS_API void tidings_http_reply(struct tidings_http_response *response, int status,
                                    const char *content_type, struct tidings_str body);
/* Called on a worker thread, several at once; must not block. Without a reply: 204. */
typedef void (*tidings_route_fn)(void *user, const struct tidings_http_request *request,
                                 struct tidings_http_response *response);

#ifdef __cplusplus
}
#endif

#endif
