/* SPDX-License-Identifier: MIT
 *
 * Entities in a server (`--entities`): the mount that serves them, and the tools that write them.
 */
#ifndef SERVER_ENTITIES_H
#define SERVER_ENTITIES_H

#include "server/server_private.h"

/* Mount the store that the configuration names and offer its tools; nothing when it names none. */
int entities_mount(struct tidings_server *s, struct tidings_error *err);
/* The mount is about to go, because the server does not start after all. */
void entities_unmount(struct tidings_server *s);

/* add-entity-type, upsert-entity, delete-entity, undelete-entity, get-entity-history, transact. */
int entity_tools_add(struct tidings_server *s, struct tidings_error *err);
void entity_tools_remove(struct tidings_server *s);

#endif
