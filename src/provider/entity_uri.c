/* SPDX-License-Identifier: MIT
 *
 * Taking the URIs of entities apart and putting them together.
 *
 * Everything a component may hold is unreserved, so canonical URIs have it decoded: a percent sign
 * that is left stands for something that is not allowed, and slices need no memory.
 */
#include "provider/entity_uri.h"

#include "store/entities.h"

#define QUOTED_MAX 64 /* bytes of a stranger's text in a message */

static int parse_type(struct tidings_str text, struct entity_uri *ret, struct tidings_error *err)
{
    bool has_version = false;
    ret->type = str_cut(text, '@', &ret->version, &has_version);
    if (!has_version || !entity_type_name_is_valid(ret->type) ||
        !entity_type_version_is_valid(ret->version)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.*s' is no type of entities; write {type}@{version}, in letters, "
                            "digits, '-', '_' and, in the version, '.'",
                            STR_ARG_MAX(text, QUOTED_MAX));
    }
    ret->kind = ENTITY_URI_TYPE;
    return 0;
}

/* What follows the id: nothing, patch, patch/{time} or at/{time}. */
static int parse_suffix(struct tidings_str text, struct entity_uri *ret, struct tidings_error *err)
{
    struct tidings_str time;
    bool has_time = false;
    struct tidings_str word = str_cut(text, '/', &time, &has_time);
    bool is_patch = str_eq(word, STR("patch"));
    if (is_patch && !has_time) {
        ret->kind = ENTITY_URI_PATCH;
        return 0;
    }
    if (!is_patch && !str_eq(word, STR("at"))) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.*s' may not follow an entity; accepted: patch, patch/{baseline}, "
                            "at/{timestamp}%s",
                            STR_ARG_MAX(text, QUOTED_MAX),
                            ret->type.len == 0 ? "; before its id {type}@{version}" : "");
    }
    ret->kind = is_patch ? ENTITY_URI_PATCH_FROM : ENTITY_URI_AT;
    return timeline_parse(time, &ret->time, err);
}

static int parse_path(struct tidings_str path, struct entity_uri *ret, struct tidings_error *err)
{
    struct tidings_str rest;
    bool more = false;
    if (path.len == 0) {
        ret->kind = ENTITY_URI_ROOT;
        return 0;
    }
    if (str_eq(path, STR("types"))) {
        ret->kind = ENTITY_URI_TYPES;
        return 0;
    }
    struct tidings_str first = str_cut(path, '/', &rest, NULL);
    bool is_short = str_find(first, '@') < 0 && entity_id_is_valid(first);
    int rc = is_short ? 0 : parse_type(first, ret, err);
    if (rc < 0 || (!is_short && rest.len == 0)) {
        return rc;
    }
    rest = is_short ? path : rest;
    ret->id = str_cut(rest, '/', &rest, &more);
    if (!entity_id_is_valid(ret->id)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.*s' is no id of an entity; ids are letters, digits, '.', '-' and "
                            "'_', at most %u",
                            STR_ARG_MAX(ret->id, QUOTED_MAX), ENTITY_ID_MAX);
    }
    ret->kind = ENTITY_URI_CURRENT;
    return more ? parse_suffix(rest, ret, err) : 0;
}

static int parse_query(struct tidings_str query, struct entity_uri *ret, struct tidings_error *err)
{
    struct tidings_str key = str_cut(query, '=', &ret->parent, NULL);
    if (str_eq(key, STR("at")) || str_eq(key, STR("patchFrom"))) {
        return tidings_fail(
            err, TIDINGS_E_INVALID, "?%.*s is not accepted; write %s behind the id of the entity",
            STR_ARG(key), key.ptr[0] == 'a' ? "/at/{timestamp}" : "/patch/{baseline}");
    }
    bool is_container = ret->kind == ENTITY_URI_ROOT || ret->kind == ENTITY_URI_TYPE;
    if (!is_container || !str_eq(key, STR("parent"))) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'?%.*s' is not accepted; only ?parent={id} is, behind %s and "
                            "%s{type}@{version}/",
                            STR_ARG_MAX(query, QUOTED_MAX), ENTITY_URI_PREFIX, ENTITY_URI_PREFIX);
    }
    return entity_id_is_valid(ret->parent)
               ? 0
               : tidings_fail(err, TIDINGS_E_INVALID, "'%.*s' is no id of a parent",
                              STR_ARG_MAX(ret->parent, QUOTED_MAX));
}

int entity_uri_parse(struct tidings_str uri, struct entity_uri *ret, struct tidings_error *err)
{
    struct tidings_str query;
    bool has_query = false;
    memset(ret, 0, sizeof(*ret));
    if (!str_starts(uri, STR(ENTITY_URI_PREFIX))) {
        return tidings_fail(err, TIDINGS_E_INVALID, "URIs of entities begin with %s",
                            ENTITY_URI_PREFIX);
    }
    struct tidings_str path =
        str_cut(str_skip(uri, sizeof(ENTITY_URI_PREFIX) - 1), '?', &query, &has_query);
    int rc = parse_path(path, ret, err);
    return rc == 0 && has_query ? parse_query(query, ret, err) : rc;
}

bool entity_uri_is_short(struct tidings_str text)
{
    struct entity_uri uri;
    return entity_uri_parse(text, &uri, NULL) == 0 && uri.id.len > 0 && uri.type.len == 0;
}

int entity_uri_build(const struct entity_uri *uri, struct buf *out)
{
    char time[TIMELINE_TEXT];
    buf_puts(out, STR(ENTITY_URI_PREFIX));
    if (uri->kind == ENTITY_URI_TYPES) {
        buf_puts(out, STR("types"));
    } else if (uri->kind != ENTITY_URI_ROOT && uri->type.len > 0) {
        buf_puts(out, uri->type);
        buf_putc(out, '@');
        buf_puts(out, uri->version);
        buf_putc(out, '/');
    }
    buf_puts(out, uri->id);
    if (uri->kind >= ENTITY_URI_PATCH) {
        buf_puts(out, uri->kind == ENTITY_URI_AT ? STR("/at") : STR("/patch"));
    }
    if (uri->kind >= ENTITY_URI_PATCH_FROM) {
        buf_putc(out, '/');
        buf_puts(out, timeline_text(uri->time, time));
    }
    if (uri->parent.len > 0) {
        buf_puts(out, STR("?parent="));
        buf_puts(out, uri->parent);
    }
    return out->failed;
}
