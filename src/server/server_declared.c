/* SPDX-License-Identifier: MIT
 *
 * What nodes say of the mounts that several of them have, `shared` or `owned`, in their rows. All
 * should say the same of a mount; where one does not, it is found here by whoever reads the rows.
 */
#include "server/server_private.h"

#include "base/str.h"
#include "catalog/catalog.h"
#include "json/write.h"

#define DECLARED_MAX 1024u /* bytes of prefixes in a node's row: those beyond are not compared */

static const enum mount_nodes declared_kinds[] = {MOUNT_OWNED, MOUNT_SHARED};

static const struct catalog *declared_mounts(struct tidings_server *s)
{
    return __atomic_load_n(&s->mounted, __ATOMIC_ACQUIRE);
}

static void declared_write(const struct catalog *c, enum mount_nodes kind, size_t *bytes,
                           struct jw *w)
{
    bool is_begun = false;
    for (size_t i = 0; i < c->mount_count; i++) {
        const struct tidings_provider *p = c->mounts[i];
        if (provider_nodes(p) != kind || *bytes + p->prefix.len > DECLARED_MAX) {
            continue;
        }
        if (!is_begun) {
            is_begun = true;
            jw_key(w, tidings_str(mount_nodes_name(kind)));
            jw_begin_array(w);
        }
        *bytes += p->prefix.len;
        jw_string(w, p->prefix);
    }
    if (is_begun) {
        jw_end_array(w);
    }
}

void server_declared_write(struct tidings_server *s, struct jw *w)
{
    const struct catalog *c = declared_mounts(s);
    size_t bytes = 0;
    for (size_t k = 0; c && k < sizeof declared_kinds / sizeof *declared_kinds; k++) {
        declared_write(c, declared_kinds[k], &bytes, w);
    }
}

bool server_declared_differs(struct tidings_server *s, struct tidings_str state,
                             struct mount_difference *ret)
{
    const struct catalog *c = declared_mounts(s);
    struct json *said = NULL;
    bool differs = false;
    if (!c || c->mount_count == 0 || jv_parse(state, 8, &said, NULL) < 0) {
        return false;
    }
    for (size_t k = 0; k < sizeof declared_kinds / sizeof *declared_kinds; k++) {
        const struct json *prefixes = jv_get(said, mount_nodes_name(declared_kinds[k]));
        for (size_t i = 0; !differs && i < jv_count(prefixes); i++) {
            struct tidings_str prefix = jv_str(jv_at(prefixes, i));
            const struct tidings_provider *p = catalog_mount(c, prefix);
            differs = p && str_eq(p->prefix, prefix) && provider_nodes(p) != declared_kinds[k];
            if (differs) {
                *ret = (struct mount_difference){p->prefix, provider_nodes(p), declared_kinds[k]};
            }
        }
    }
    jv_unref(said);
    return differs;
}
