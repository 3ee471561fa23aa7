/* SPDX-License-Identifier: MIT
 *
 * The registrations of the program beyond those in the hub: rules, routes, hooks, local
 * subscriptions.
 */
#ifndef SERVER_REGISTRY_H
#define SERVER_REGISTRY_H

#include <tidings/server.h>
#include <tidings/tool.h>

#include "base/map.h"
#include "server/local_subscription.h"

struct http_route;

struct server_registry {
    struct map runtime_rules; /* struct runtime_rule by prefix; for the thread that holds the hub */
    struct http_route *routes;
    size_t route_count;
    struct tidings_call_hooks call_hooks;
    struct inproc_subscriptions inproc; /* of the program itself */
};

/* Like tidings_server_add_tool, but only for clients that may write `uri` by an access rule or,
 * without rules, connect from this machine; other clients do not see the tool. `uri` is never
 * freed. */
int server_tools_add_for(struct tidings_server *s, const struct tidings_tool *about,
                         tidings_call_fn handler, void *user, struct tidings_str uri,
                         struct tidings_error *err);

#endif
