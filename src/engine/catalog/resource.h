/* SPDX-License-Identifier: MIT
 *
 * The one writer of resource objects: list rows, read contents, metadata, templates, and the links
 * and embedded resources in results of tools and prompts.
 */
#ifndef ENGINE_CATALOG_RESOURCE_H
#define ENGINE_CATALOG_RESOURCE_H

#include <tidings/provider.h>
#include <tidings/types.h>

#include "engine/catalog/catalog.h"
#include "formats/json_write.h"

/* The members of a resource object, without braces, so that a caller may add `text` or `blob`.
 * `uri_key` is "uri" or "uriTemplate". */
void resource_write_members(struct jw *w, struct tidings_str uri_key,
                            const struct tidings_resource *r);

/* The members of `_meta` beside the etag. */
struct resource_meta {
    bool is_part; /* dev.tidings/range: these bytes of `size` */
    int64_t from, to;
    bool has_formats; /* dev.tidings/formats: all media types a read may give */
};
/* The same members with further ones in `_meta`. */
void resource_write_with(struct jw *w, struct tidings_str uri_key, const struct tidings_resource *r,
                         const struct resource_meta *meta);
/* `text` or `blob`, after the members. */
void resource_write_content(struct jw *w, struct tidings_str bytes, bool is_text);

/* The members of content blocks of results, inside an object the caller began: "resource_link", and
 * "resource" with what it embeds. */
void resource_write_link(struct jw *w, const struct tidings_resource *r);
void resource_write_embedded(struct jw *w, const struct tidings_resource *r,
                             struct tidings_str bytes, bool is_text);
/* The members of an application's content block. Annotations beside an embedded resource are
 * accepted and written inside it, where SEP-2093 has them; those inside win. */
void resource_write_block(struct jw *w, struct json *block);

/* Checks a resource before it is registered. Strings that are written as JSON must be valid.
 * TIDINGS_E_INVALID. */
int resource_check(const struct tidings_resource *r, struct tidings_error *err);

/* Checks the fields that are sent when a resource is requested: only its `meta`. */
int resource_check_meta(const struct tidings_resource *r, struct tidings_error *err);

/* A deep copy in one block (mem_free it), or NULL. */
struct tidings_resource *resource_dup(const struct tidings_resource *r);

/* -------------------------------------------------------------------------------------------------
 * The content of tidings://self/semantics: for each scheme, what a subscription to a URI, a pattern
 * or a container covers, to be read by programs. It is made from the tables of the providers that
 * serve a scheme and, where they contain nothing, from the general rules, in the order in which the
 * server decides the meaning of a URI.
 */

/* One JSON object; its schema is docs/schema/semantics.json. It names schemes, never resources. If
 * changes of a scheme carry no metadata (TIDINGS_PROVIDER_BARE_CHANGES), and clients may not supply
 * any (`allow_write`), its only queries are those that its provider names. */
void semantics_write(struct jw *w, const struct catalog *catalog, bool allow_write);

/* -------------------------------------------------------------------------------------------------
 * The `_meta` of an application: any object without keys in the reserved prefixes of the protocol
 * and of tidings. A prefix is the part before '/', labels with dots between them. Reserved are
 * those whose second label is "mcp" or "modelcontextprotocol" (2025-11-25), and those where one of
 * the two is followed by another label (2025-06-18).
 */

#define META_MAX_BYTES 8192u /* of a resource */
#define META_MAX_DEPTH 16u

/* Empty, or such an object. TIDINGS_E_PARSE, TIDINGS_E_INVALID with the key, TIDINGS_E_LIMIT: more
 * bytes. */
int meta_check(struct tidings_str text, size_t max_bytes, unsigned max_depth,
               struct tidings_error *err);

#endif
