/* SPDX-License-Identifier: MIT
 *
 * The tools that write entities: add-entity-type, upsert-entity, delete-entity, undelete-entity,
 * get-entity-history, transact.
 */
#ifndef SERVER_ENTITY_TOOLS_H
#define SERVER_ENTITY_TOOLS_H

#include <tidings/types.h>

struct tidings_provider;
struct tidings_server;

/* Offer all or none; they write what `entities` serves. TIDINGS_E_EXISTS: the program has a tool of
 * that name. */
int entity_tools_add(struct tidings_server *s, struct tidings_provider *entities,
                     struct tidings_error *err);
void entity_tools_remove(struct tidings_server *s);

#endif
