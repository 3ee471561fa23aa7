/* SPDX-License-Identifier: MIT
 *
 * `--entity-authority https://example.org/u1`: the absolute spelling of the URIs of entities.
 * `https://example.org/u1/entity/…`, and the path of it, are aliases of `entity:///…`.
 */
#ifndef SERVER_PUBLISH_H
#define SERVER_PUBLISH_H

#include "formats/uri.h"
#include "server/config.h"

#define ENTITY_AUTHORITY_MAX 1024u

/* Check the setting: TIDINGS_E_INVALID with what is wrong and what is accepted. */
int entity_authority_check(const struct config *c, struct tidings_error *err);

/* The aliases that it makes, none without the setting. */
struct entity_authority {
    struct buf text;
    struct uri_alias aliases[2]; /* absolute, and its path unless that is what all servers have */
    size_t count;
};
/* Of a configuration that was checked. */
void entity_authority_deinit(struct entity_authority *a);

/* uri_canonical or uri_canonical_pattern of a URI in the configuration, which may be spelled so.
 * `c` NULL: it is not known yet. */
int entity_authority_canonical(const struct config *c, struct tidings_str in, bool is_pattern,
                               struct buf *out, struct tidings_error *err);

#endif
