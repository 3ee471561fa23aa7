/* SPDX-License-Identifier: MIT
 *
 * Entities in a server (`--entities`): the mount that serves them, and the tools that write them.
 */
#include "base/error.h"
#include "catalog/provider.h"
#include "server/entity_call.h"
#include "server/entity_tools.h"
#include "server/server_private.h"
#include "uri/uri.h"

/* Their absolute URIs, for the mount and for those who are told such. */
static int set_authority(struct tidings_server *s, struct tidings_error *err)
{
    entity_authority_deinit(&s->authority);
    buf_deinit(&s->absolute);
    buf_init(&s->absolute, 6 * URI_MAX);
    s->identity.absolute_json = s->identity.absolute_of = STR_EMPTY;
    int rc = entity_authority_init(&s->authority, &s->config, err);
    if (rc < 0 || s->authority.count == 0) {
        return rc;
    }
    jw_quote(&s->absolute, s->authority.aliases[0].from);
    if (s->absolute.failed) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->identity.absolute_json = tidings_strn(s->absolute.ptr, s->absolute.len - 1);
    s->identity.absolute_of = s->authority.aliases[0].to;
    return 0;
}

int server_entities_mount(struct tidings_server *s, struct tidings_error *err)
{
    if (s->config.entities[0] == '\0') {
        return 0;
    }
    int rc = set_authority(s, err);
    rc = rc == 0 ? hub_mount(s->hub, &provider_entity_ops, STR(ENTITY_URI_PREFIX), STR_EMPTY,
                             &s->entities, err)
                 : rc;
    if (rc == 0) {
        entity_bind(s->entities, s->keeper);
        server_store_bind(s, s->entities);
        entity_set_writer(s->entities, entity_http_write);
        s->entities->is_short = entity_uri_is_short;
        for (size_t i = 0; i < s->authority.count; i++) {
            s->entities->aliases[s->entities->alias_count++] = s->authority.aliases[i];
        }
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
