/* SPDX-License-Identifier: MIT
 *
 * The tool `end_peer`: disconnects a client, or all clients of a principal. It is offered with
 * --self, to clients that may write tidings://self/peers by an access rule or, without rules,
 * connect from this machine; other clients do not see the tool.
 */
#ifndef SERVER_TOOLS_ADMIN_H
#define SERVER_TOOLS_ADMIN_H

#include <tidings/types.h>

struct tidings_server;

/* TIDINGS_E_EXISTS: the program has a tool of that name. */
int server_end_peer_add(struct tidings_server *s, struct tidings_error *err);
void server_end_peer_remove(struct tidings_server *s);

/* -------------------------------------------------------------------------------------------------
 * A call of the tool `my_subscriptions`: the client's own subscriptions
 * (engine/protocol/method_listen.h).
 */

struct tidings_call;

/* `user` is not used. */
void own_subscriptions_call(void *user, struct tidings_call *call);

/* The tools `publish` and `unpublish`; TIDINGS_E_EXISTS if the program has one of that name. */
int server_publish_add_tools(struct tidings_server *s, struct tidings_error *err);
void server_publish_remove_tools(struct tidings_server *s);

#endif
