/* SPDX-License-Identifier: MIT
 *
 * What the program registers, besides what the hub has: rules, routes, hooks, its own
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
    struct map runtime_rules; /* struct runtime_rule by prefix; whoever is or holds the hub */
    struct http_route *routes;
    size_t route_count;
    struct tidings_call_hooks call_hooks;
    struct inproc_subscriptions inproc; /* of the program itself */
};

/* Like tidings_server_add_tool, for those who may write `uri` by a rule of access or, where there
 * are no rules, come from this machine; to others there is no such tool. `uri` lives for ever. */
int server_tools_add_for(struct tidings_server *s, const struct tidings_tool *about,
                         tidings_call_fn handler, void *user, struct tidings_str uri,
                         struct tidings_error *err);

#endif
