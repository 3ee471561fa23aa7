/* SPDX-License-Identifier: MIT
 *
 * The one writer of resource objects: list rows, read contents, templates, links.
 */
#ifndef CORE_RESOURCE_H
#define CORE_RESOURCE_H

#include <tidings/provider.h>

#include "json/write.h"

/* The members of a resource object, without braces, so that a caller may add `text` or `blob`.
 * `uri_key` is "uri" or "uriTemplate". */
void resource_write_members(struct jw *w, struct tidings_str uri_key,
                            const struct tidings_resource *r);

/* A deep copy in one block (mem_free it), or NULL. */
struct tidings_resource *resource_dup(const struct tidings_resource *r);

#endif
