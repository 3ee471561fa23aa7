/* SPDX-License-Identifier: MIT
 *
 * What an application may say in `_meta`: any object whose keys leave the prefixes alone that the
 * protocol keeps for itself, and ours. A prefix is what stands before '/', labels with dots between
 * them. Reserved are those whose second label is "mcp" or "modelcontextprotocol" (2025-11-25), and
 * those where one of the two is followed by another label (2025-06-18).
 */
#ifndef CATALOG_META_KEYS_H
#define CATALOG_META_KEYS_H

#include <tidings/types.h>

#define META_MAX_BYTES 8192u /* of a resource */
#define META_MAX_DEPTH 16u

/* Empty, or such an object. TIDINGS_E_PARSE, TIDINGS_E_INVALID with the key, TIDINGS_E_LIMIT: more
 * bytes. */
int meta_check(struct tidings_str text, size_t max_bytes, unsigned max_depth,
               struct tidings_error *err);

#endif
