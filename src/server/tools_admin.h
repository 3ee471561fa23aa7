/* SPDX-License-Identifier: MIT
 *
 * The tool `end_peer`: ends a client that is there, or all of one principal. It is offered with
 * --self, to those who may write tidings://self/peers by a rule of access or, where there are no
 * rules, come from this machine; to all others there is no such tool.
 */
#ifndef SERVER_TOOLS_ADMIN_H
#define SERVER_TOOLS_ADMIN_H

#include <tidings/types.h>

struct tidings_server;

/* TIDINGS_E_EXISTS: the program has a tool of that name. */
int server_end_peer_add(struct tidings_server *s, struct tidings_error *err);
void server_end_peer_remove(struct tidings_server *s);

/* -------------------------------------------------------------------------------------------------
 * A call of the tool `my_subscriptions`: what its client is subscribed to
 * (engine/protocol/method_listen.h).
 */

struct tidings_call;

/* `user` is not used. */
void own_subscriptions_call(void *user, struct tidings_call *call);

/* The tools `publish` and `unpublish`; TIDINGS_E_EXISTS when the program has one of that name. */
int server_publish_add_tools(struct tidings_server *s, struct tidings_error *err);
void server_publish_remove_tools(struct tidings_server *s);

#endif
