/* SPDX-License-Identifier: MIT
 *
 * Pages that the program adds beside the endpoint of its HTTP server (tidings_server_add_route):
 * same checks, same limits, answered at once.
 */
#include "transport/http_private.h"

struct tidings_http_response {
    struct http_conn *conn;
    bool replied;
};

const struct http_route *route_find(const struct http_config *config, struct tidings_str path)
{
    for (size_t i = 0; i < config->route_count; i++) {
        if (str_eq(tidings_str(config->routes[i].path), path)) {
            return &config->routes[i];
        }
    }
    return NULL;
}

void tidings_http_reply(struct tidings_http_response *response, int status,
                        const char *content_type, struct tidings_str body)
{
    static const struct response_headers none;
    if (response->replied) {
        return;
    }
    response->replied = true;
    struct buf text;
    buf_init(&text, body.len + 1);
    buf_puts(&text, body);
    conn_answer(response->conn, text.failed ? 500 : status, &none, tidings_str(content_type),
                &text);
    buf_deinit(&text);
}

void conn_run_route(struct http_conn *conn, const struct http_request *req)
{
    struct tidings_http_request request = {
        .method = req->method_name,
        .path = req->path,
        .query = req->query,
        .content_type = http_header(req, "content-type", NULL),
        .body = {conn->r->in.ptr + conn->r->head_len, conn->r->body_len},
        .principal = conn->channel.principal ? conn->channel.principal->name : STR_EMPTY,
    };
    struct tidings_http_response response = {.conn = conn};
    conn->r->route->fn(conn->r->route->user, &request, &response);
    tidings_http_reply(&response, 204, "text/plain", STR_EMPTY);
}
