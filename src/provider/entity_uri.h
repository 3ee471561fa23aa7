/* SPDX-License-Identifier: MIT
 *
 * The URIs of entities, taken apart and put together.
 *
 *     entity:///                                     everything
 *     entity:///types                                the registry of types
 *     entity:///{type}@{version}/                    all of one type
 *     entity:///{type}@{version}/{id}                the current value of an entity
 *     entity:///{type}@{version}/{id}/patch          the same, for those who write and hear patches
 *     entity:///{type}@{version}/{id}/patch/{time}   from the version that begins then to what is
 *     entity:///{type}@{version}/{id}/at/{time}      what was at that instant
 *
 * `{type}@{version}/` before an id may be left out: whatever type it has (a short URI; an entity
 * that is called `types` has none). `?parent={id}` may follow the two that end in '/': only what
 * has that parent. No other query is known. Pure functions.
 */
#ifndef PROVIDER_ENTITY_URI_H
#define PROVIDER_ENTITY_URI_H

#include "base/str.h"

#define ENTITY_URI_PREFIX "entity:///"
#define ENTITY_URI_MAX 1024u /* no longer one is built */

enum entity_uri_kind {
    ENTITY_URI_ROOT,
    ENTITY_URI_TYPES,
    ENTITY_URI_TYPE,
    ENTITY_URI_CURRENT,
    ENTITY_URI_PATCH,
    ENTITY_URI_PATCH_FROM,
    ENTITY_URI_AT,
};

struct entity_uri {
    enum entity_uri_kind kind;
    struct tidings_str type, version, id; /* short: without type and version */
    struct tidings_str parent;            /* empty: it does not matter */
    int64_t time;                         /* Unix milliseconds: the baseline, or the instant */
};

/* Slices of `uri`, which is canonical. An instant may be any RFC 3339 text of the same moment. The
 * '/' at the end of a type may be missing. TIDINGS_E_INVALID with what was wrong and the form. */
int entity_uri_parse(struct tidings_str uri, struct entity_uri *ret, struct tidings_error *err);
/* Is it a short one? */
bool entity_uri_is_short(struct tidings_str uri);
/* Append the one canonical spelling: what was built is parsed to the same parts. */
int entity_uri_build(const struct entity_uri *uri, struct buf *out);

#endif
