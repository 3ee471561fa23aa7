/* SPDX-License-Identifier: MIT
 *
 * Entities in a server (`--entities`): the mount that serves them, and the tools that write them.
 */
#include "server/entity_call.h"
#include "server/entity_tools.h"
#include "server/server_private.h"

int server_entities_mount(struct tidings_server *s, struct tidings_error *err)
{
    if (s->config.entities[0] == '\0') {
        return 0;
    }
    int rc = hub_mount(s->hub, &provider_entity_ops, STR(ENTITY_URI_PREFIX), STR_EMPTY,
                       &s->entities, err);
    if (rc == 0) {
        entity_bind(s->entities, s->keeper);
        server_store_bind(s, s->entities);
        entity_set_writer(s->entities, entity_http_write);
        rc = entity_tools_add(s, s->entities, err);
    }
    if (rc < 0) {
        s->entities = NULL; /* none of the tools is ours to withdraw */
    }
    return rc;
}

void server_entities_unmount(struct tidings_server *s)
{
    if (s->entities) {
        entity_tools_remove(s);
    }
    s->entities = NULL;
}
