/* SPDX-License-Identifier: MIT
 *
 * Turns rows of the store into changes as they are told: when the log is made again after a start,
 * and when another node wrote them.
 */
#include "provider/entity.h"
#include "server/server_private.h"
#include "store/kept.h"

struct tidings_change kept_row_change(const struct kept_change *k)
{
    return (struct tidings_change){
        .uri = k->uri,
        .kind = k->removed   ? TIDINGS_CHANGE_DELETED
                : k->created ? TIDINGS_CHANGE_CREATED
                             : TIDINGS_CHANGE_UPDATED,
        .etag = k->etag,
        .size = k->size,
        .modified_ms = k->modified_ms,
    };
}

static bool kept_describe_entity(const struct kept_change *k, kept_described_fn fn, void *user)
{
    struct entity_done done = {
        .version = k->version,
        .before_version = k->was,
        .changed = true,
        .created = k->created,
    };
    if (k->kind == KEPT_MOVED && k->version.type_version.len == 0) { /* it is not known for where */
        done.version.type_version = k->was;
        done.version.deleted = true;
    }
    return entity_describe_change(&done, STR_EMPTY, fn, user);
}

bool kept_describe(const struct kept_change *k, bool has_entities, kept_described_fn fn, void *user)
{
    struct tidings_change change = kept_row_change(k);
    switch (k->kind) {
    case KEPT_PUBLISHED:
        change.has_size = !k->removed;
        change.metadata = k->metadata;
        fn(user, &change);
        return true;
    case KEPT_ANNOUNCED:
        fn(user, k->announced);
        return true;
    case KEPT_TYPES:
        if (has_entities) {
            fn(user, &(struct tidings_change){.uri = STR(ENTITY_URI_PREFIX "types")});
        }
        return true;
    case KEPT_ENTITY:
    case KEPT_MOVED:
        return !has_entities || kept_describe_entity(k, fn, user);
    case KEPT_FILE: /* each node has its own */
    case KEPT_SESSION:
    case KEPT_RUN:
    case KEPT_BROKEN:
        break;
    }
    return true;
}
