/* SPDX-License-Identifier: MIT
 *
 * Tools of the server itself that are not for everybody.
 */
#ifndef SERVER_REGISTRY_H
#define SERVER_REGISTRY_H

#include <tidings/tool.h>

/* Like tidings_server_add_tool, for those who may write `uri` by a rule of access or, where there
 * are no rules, come from this machine; to others there is no such tool. `uri` lives for ever. */
int server_tools_add_for(struct tidings_server *s, const struct tidings_tool *about,
                         tidings_call_fn handler, void *user, struct tidings_str uri,
                         struct tidings_error *err);

#endif
