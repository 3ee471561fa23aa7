/* SPDX-License-Identifier: MIT
 *
 * Tools for hosts that cannot subscribe: `changes_since` and `wait_for_change`.
 */
#ifndef SERVER_CHANGE_TOOLS_H
#define SERVER_CHANGE_TOOLS_H

#include "server/server_private.h"

/* Offer them if the configuration says so; a program that has tools of these names keeps its own,
 * unless they were asked for (TIDINGS_E_EXISTS). */
int change_tools_add(struct tidings_server *s, struct tidings_error *err);
void change_tools_remove(struct tidings_server *s);

#endif
