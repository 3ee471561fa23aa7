/* SPDX-License-Identifier: MIT
 *
 * Turns rows of the store into changes as they are told: when the log is made again after a start,
 * and when another node wrote them. Somebody else may have written them, too: what is no row of
 * ours is refused.
 */
#include "base/str.h"
#include "catalog/resource.h"
#include "provider/entity.h"
#include "server/server_private.h"
#include "store/change.h"
#include "store/entities.h"
#include "store/kept.h"
#include "uri/uri.h"

#define RESOURCE_TEXT_MAX (1u << 20) /* of a name, a description */
#define SHORT_TEXT_MAX 1024u         /* of an etag, a checksum, an origin */

/* ---- checking -------------------------------------------------------------------------------- */

static bool kept_is_uri(struct tidings_str uri)
{
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    bool is = uri_canonical(uri, &canonical, NULL) == 0 && str_eq(buf_str(&canonical), uri);
    buf_deinit(&canonical);
    return is;
}

static bool kept_is_text(struct tidings_str text)
{
    return text.len <= SHORT_TEXT_MAX && str_is_utf8(text);
}

bool kept_is_resource(const struct tidings_resource *about)
{
    const struct tidings_str texts[] = {about->etag, about->name, about->title, about->description,
                                        about->mime_type};
    bool is = kept_is_uri(about->uri) && resource_check(about, NULL) == 0;
    for (size_t i = 0; is && i < sizeof texts / sizeof *texts; i++) {
        is = texts[i].len <= RESOURCE_TEXT_MAX && str_is_utf8(texts[i]);
    }
    return is;
}

static int kept_check_announced(const struct tidings_change *c, struct tidings_error *err)
{
    bool is_known = (unsigned)c->kind <= TIDINGS_CHANGE_MOVED &&
                    (c->kind != TIDINGS_CHANGE_MOVED || c->from.len > 0);
    if (!is_known) {
        return tidings_fail(err, TIDINGS_E_INVALID, "there is no such kind of change");
    }
    if (!kept_is_uri(c->uri) || (c->from.len > 0 && !kept_is_uri(c->from)) ||
        (c->target.len > 0 && !kept_is_uri(c->target))) {
        return tidings_fail(err, TIDINGS_E_INVALID, "what it is of is no URI");
    }
    if (!kept_is_text(c->etag) || !kept_is_text(c->checksum) || !kept_is_text(c->origin)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a text of it is too long, or no UTF-8");
    }
    return change_check_metadata(c->metadata, err);
}

static int kept_check_entity(const struct kept_change *k, struct tidings_error *err)
{
    const struct entity_version *v = &k->version;
    bool is_whole =
        entity_id_is_valid(v->id) && entity_type_name_is_valid(v->type) &&
        (v->type_version.len == 0 || entity_type_version_is_valid(v->type_version)) &&
        (k->old_type_version.len == 0 || entity_type_version_is_valid(k->old_type_version)) &&
        (v->parent.len == 0 || entity_id_is_valid(v->parent));
    return is_whole
               ? 0
               : tidings_fail(err, TIDINGS_E_INVALID, "no entity has such an id or such a type");
}

int kept_check(const struct kept_change *k, struct tidings_error *err)
{
    switch (k->kind) {
    case KEPT_PUBLISHED: {
        struct tidings_change change = {.uri = k->uri, .etag = k->etag, .metadata = k->metadata};
        return kept_check_announced(&change, err);
    }
    case KEPT_ANNOUNCED:
        return kept_check_announced(k->announced, err);
    case KEPT_MOUNTED: {
        struct tidings_change change = *k->announced;
        change.uri = change_is_missed_uri(change.uri) ? str_skip(change.uri, 1) : change.uri;
        return kept_check_announced(&change, err);
    }
    case KEPT_ENTITY:
    case KEPT_MOVED:
        return kept_check_entity(k, err);
    case KEPT_TYPES:
    case KEPT_FILE:
    case KEPT_SESSION:
    case KEPT_RUN:
    case KEPT_BROKEN:
        break;
    }
    return 0;
}

/* ---- describing ------------------------------------------------------------------------------ */

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
        .not_subscribable = k->not_subscribable,
    };
}

static bool kept_describe_entity(const struct kept_change *k, kept_described_fn fn, void *user)
{
    struct entity_done done = {
        .version = k->version,
        .old_type_version = k->old_type_version,
        .changed = true,
        .created = k->created,
    };
    if (k->kind == KEPT_MOVED && k->version.type_version.len == 0) { /* it is not known for where */
        done.version.type_version = k->old_type_version;
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
    case KEPT_MOUNTED:
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
