/* SPDX-License-Identifier: MIT */
#include "server/entities.h"

#include "base/error.h"
#include "server/entity_call.h"
#include "json/write.h"

int entities_mount(struct tidings_server *s, struct tidings_error *err)
{
    const char *path = s->config.entities;
    struct buf text;
    struct jw w;
    if (!path || !path[0]) {
        return 0;
    }
    buf_init(&text, 2 * CONFIG_VALUE_MAX);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_put_string(&w, STR("path"), tidings_str(path));
    jw_end_object(&w);
    int rc = text.failed ? tidings_fail(err, text.failed, "out of memory")
                         : hub_mount(s->hub, &provider_entity_ops, STR(ENTITY_URI_PREFIX),
                                     buf_str(&text), &s->entities, err);
    buf_deinit(&text);
    if (rc == 0) {
        entity_set_writer(s->entities, entity_http_write);
        rc = entity_tools_add(s, err);
    }
    if (rc < 0) {
        s->entities = NULL; /* none of the tools is ours to withdraw */
    }
    return rc;
}

void entities_unmount(struct tidings_server *s)
{
    if (s->entities) {
        entity_tools_remove(s);
    }
    s->entities = NULL;
}
