/* SPDX-License-Identifier: MIT
 *
 * What the contents of one read must be (SEP-2093, multi-content semantics):
 *
 *   - A resource without children gives at least one element, all under the URI asked for. Several
 *     are the same content in different formats, each with a mimeType of its own.
 *   - A resource with children may give them too, under their own URIs, in any number or none.
 *
 * Whoever breaks a rule is the provider or handler, hence TIDINGS_E_INTERNAL with a sentence that
 * names the rule. Whether a resource has children may become known last, so a breach is kept until
 * the end.
 */
#ifndef CATALOG_READ_RULES_H
#define CATALOG_READ_RULES_H

#include <tidings/provider.h>

#define READ_ALTERNATIVES_MAX 16u
#define READ_ELEMENTS_MAX 4096u

struct read_rules {
    uint64_t formats[READ_ALTERNATIVES_MAX]; /* hashes of the mimeTypes of the resource itself */
    unsigned own, total;
    bool listable;               /* it has children */
    struct tidings_error breach; /* code 0: none; forgiven when it is listable */
};

/* One more element; `own`: it has the URI asked for. Fails at once when there are too many. */
int read_rules_add(struct read_rules *r, bool own, const struct tidings_resource *about,
                   struct tidings_error *err);
/* There are no more. */
int read_rules_end(const struct read_rules *r, struct tidings_error *err);

#endif
