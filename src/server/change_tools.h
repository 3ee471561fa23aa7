/* SPDX-License-Identifier: MIT
 *
 * Tools for hosts that cannot subscribe: `changes_since` and `wait_for_change`.
 */
#ifndef SERVER_CHANGE_TOOLS_H
#define SERVER_CHANGE_TOOLS_H

#include <tidings/types.h>

struct tidings_server;

/* Offer both or none. TIDINGS_E_EXISTS: the program has a tool of that name. */
int change_tools_add(struct tidings_server *s, struct tidings_error *err);
void change_tools_remove(struct tidings_server *s);

#endif
