/* SPDX-License-Identifier: MIT
 *
 * The paths that HTTP requests may name, each only where the configuration has it, and what is at
 * each of them.
 */
#include "transport/http_private.h"

#define ENDPOINT "/mcp"
#define SESSION_KEY "sessionId"

enum http_path path_find(const struct http_conn *conn, struct tidings_str path,
                         const struct http_route **route)
{
    const struct http_config *config = conn->hw->config;
    *route = route_find(config, path);
    if (*route) {
        return PATH_ROUTE;
    }
    if (resource_is_at(conn, path)) {
        return PATH_RESOURCE;
    }
    if (config->allow_write && str_eq(path, STR(NOTIFY_PATH))) {
        return PATH_NOTIFY;
    }
    if (config->legacy_sse && str_eq(path, STR("/sse"))) {
        return PATH_SSE;
    }
    if (config->legacy_sse && str_eq(path, STR("/messages"))) {
        return PATH_MESSAGES;
    }
    if (config->events && str_eq(path, STR("/events"))) {
        return PATH_EVENTS;
    }
    if (config->console_page.len > 0 && str_eq(path, STR(CONSOLE_PATH))) {
        return PATH_CONSOLE;
    }
    if (metadata_is_at(config->auth, path)) {
        return PATH_METADATA;
    }
    if (health_is_at(config, path)) {
        return PATH_HEALTH;
    }
    return str_eq(path, STR(ENDPOINT)) ? PATH_ENDPOINT : PATH_NOWHERE;
}

const char *path_name(enum http_path path)
{
    static const char *const names[] = {
        [PATH_ENDPOINT] = ENDPOINT,
        [PATH_ROUTE] = "page",
        [PATH_RESOURCE] = RESOURCE_PATH,
        [PATH_NOTIFY] = NOTIFY_PATH,
        [PATH_SSE] = "/sse",
        [PATH_MESSAGES] = "/messages",
        [PATH_EVENTS] = "/events",
        [PATH_METADATA] = "/.well-known",
        [PATH_CONSOLE] = CONSOLE_PATH,
        [PATH_HEALTH] = "health",
    };
    return names[path];
}

struct tidings_str path_allows(enum http_path path)
{
    switch (path) {
    case PATH_MESSAGES:
    case PATH_NOTIFY:
        return STR("POST, OPTIONS");
    case PATH_SSE:
    case PATH_EVENTS:
    case PATH_METADATA:
        return STR("GET, OPTIONS");
    case PATH_HEALTH:
    case PATH_CONSOLE:
        return STR("GET, HEAD, OPTIONS");
    case PATH_NOWHERE:
    case PATH_ENDPOINT:
    case PATH_ROUTE:
    case PATH_RESOURCE:
        break;
    }
    return STR("GET, POST, DELETE, OPTIONS");
}

bool path_takes(enum http_path path, const struct http_request *req)
{
    return path == PATH_ENDPOINT || req->method == HTTP_OPTIONS ||
           ((path == PATH_CONSOLE || path == PATH_HEALTH) && req->method == HTTP_HEAD) ||
           req->method == (path == PATH_MESSAGES || path == PATH_NOTIFY ? HTTP_POST : HTTP_GET);
}

struct tidings_str path_session(enum http_path path, const struct http_request *req)
{
    struct tidings_str query = req->query;
    while (query.len > 0 && (path == PATH_MESSAGES || path == PATH_EVENTS)) {
        struct tidings_str value;
        struct tidings_str pair = str_cut(query, '&', &query, NULL);
        if (str_eq(str_cut(pair, '=', &value, NULL), STR(SESSION_KEY))) {
            return value;
        }
    }
    return tidings_strn(NULL, 0);
}
