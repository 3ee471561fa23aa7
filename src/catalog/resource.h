/* SPDX-License-Identifier: MIT
 *
 * The one writer of resource objects: list rows, read contents, metadata, templates, and the links
 * and embedded resources in results of tools and prompts.
 */
#ifndef CATALOG_RESOURCE_H
#define CATALOG_RESOURCE_H

#include <tidings/provider.h>

#include "json/write.h"

/* The members of a resource object, without braces, so that a caller may add `text` or `blob`.
 * `uri_key` is "uri" or "uriTemplate". */
void resource_write_members(struct jw *w, struct tidings_str uri_key,
                            const struct tidings_resource *r);

/* What is said beside the etag in `_meta`. */
struct resource_meta {
    bool is_part; /* dev.tidings/range: these bytes of `size` */
    int64_t from, to;
    bool has_formats; /* dev.tidings/formats: all media types a read may give */
};
/* The same members with more in `_meta`. */
void resource_write_with(struct jw *w, struct tidings_str uri_key, const struct tidings_resource *r,
                         const struct resource_meta *meta);
/* `text` or `blob`, behind the members. */
void resource_write_content(struct jw *w, struct tidings_str bytes, bool is_text);

/* The members of content blocks of results, inside an object the caller began: "resource_link", and
 * "resource" with what it embeds. */
void resource_write_link(struct jw *w, const struct tidings_resource *r);
void resource_write_embedded(struct jw *w, const struct tidings_resource *r,
                             struct tidings_str bytes, bool is_text);
/* Those of a block as an application wrote it. Annotations beside an embedded resource are accepted
 * and written inside it, where SEP-2093 has them; those inside win. */
void resource_write_block(struct jw *w, struct json *block);

/* May it be registered? Texts that are written as JSON must be what they claim to be.
 * TIDINGS_E_INVALID. */
int resource_check(const struct tidings_resource *r, struct tidings_error *err);

/* Of what is told of a resource when it is asked for: its `meta` alone. */
int resource_check_meta(const struct tidings_resource *r, struct tidings_error *err);

/* A deep copy in one block (mem_free it), or NULL. */
struct tidings_resource *resource_dup(const struct tidings_resource *r);

#endif
