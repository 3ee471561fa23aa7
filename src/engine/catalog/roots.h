/* SPDX-License-Identifier: MIT
 *
 * Roots: the mounts that a principal may list, as strings for models and error messages. The
 * server's own resources (tidings:) are not a root.
 *
 * Models know the paths of files, not URIs. A path has no scheme and does not begin with an alias
 * of a provider.
 */
#ifndef ENGINE_CATALOG_ROOTS_H
#define ENGINE_CATALOG_ROOTS_H

#include "engine/catalog/catalog.h"

#define ROOTS_FILES "file" /* the scheme of directories */

/* Appends the roots of `principal`, separated by ", ", as many as fit into `max_bytes`, then
 * "and more" if there are others. `scheme` NULL: of all schemes. Returns how many there are. */
size_t roots_put(const struct catalog *c, const struct principal *principal, const char *scheme,
                 size_t max_bytes, struct buf *out);
/* Returns the first root of that scheme, and the number of them in *ret_count. */
struct tidings_str roots_first(const struct catalog *c, const struct principal *principal,
                               const char *scheme, size_t *ret_count);

/* Converts the path `given` to a URI, appends it and returns 1; returns 0 if it is not a path.
 * Wildcards keep their meaning. TIDINGS_E_INVALID: too long, or a relative path while there is not
 * exactly one directory. TIDINGS_E_NOTFOUND: an absolute path outside all roots. The messages name
 * the roots. */
int roots_resolve(const struct catalog *c, const struct principal *principal,
                  struct tidings_str given, struct buf *out, struct tidings_error *err);
/* Appends the roots of `principal` to the message of `err`, as far as they fit. */
void roots_explain(const struct catalog *c, const struct principal *principal,
                   struct tidings_error *err);

#endif
