/* SPDX-License-Identifier: MIT
 *
 * The options of a read, in `_meta` of resources/read:
 *
 *     "dev.tidings/range": {"unit": "bytes", "from": 0, "to": 65536}     a part: [from, to)
 *     "dev.tidings/range": {"unit": "lines", "last": 100}                … or the last so many
 *     "dev.tidings/ifNoneMatch": "etag"      or an array: nothing is sent when all of it is held
 *     "dev.tidings/accept": "text/html"      or an array, the best first: one format of several
 *     "dev.tidings/atLeast": "cursor"        wait until everything up to there is known here
 *
 * Strings are borrowed from the message. An error for an ill-formed option contains its name and
 * the accepted values.
 */
#ifndef ENGINE_CATALOG_READ_OPTIONS_H
#define ENGINE_CATALOG_READ_OPTIONS_H

#include <tidings/provider.h>

#include "formats/json.h"

#define READ_ETAGS_MAX 128u /* more than the elements of a directory */
#define READ_FORMATS_MAX 8u
#define READ_CURSOR_MAX 512u

struct read_options {
    struct tidings_range range;
    bool has_range;
    struct tidings_str etags[READ_ETAGS_MAX]; /* of the contents that the client holds */
    size_t etag_count;
    struct tidings_str formats[READ_FORMATS_MAX]; /* "text/html", "text/" + star; the best first */
    size_t format_count;
    struct tidings_str at_least; /* a cursor; empty: none */
};

/* `meta` may be NULL: no options. TIDINGS_E_INVALID. */
int read_options_parse(struct read_options *o, const struct json *meta, struct tidings_error *err);

/* Returns true if the client holds content with this etag. A weak etag ("W/…") may stay the same
 * across a change and never counts. *ret (may be NULL) is the client's own copy. */
bool read_options_holds(const struct read_options *o, struct tidings_str etag,
                        struct tidings_str *ret);
/* The rank of a format: 0 is best, and the rank of all formats if the client named none;
 * `format_count` and above: not acceptable. Parameters ("; charset=…") do not count. */
size_t read_options_rank(const struct read_options *o, struct tidings_str mime_type);

/* -------------------------------------------------------------------------------------------------
 * The rules for the contents of one read (SEP-2093, multi-content semantics):
 *
 *   - A resource without children gives at least one element, all under the URI asked for. Several
 *     are the same content in different formats, each with a mimeType of its own.
 *   - A resource with children may give them too, under their own URIs, in any number or none.
 *
 * The provider or handler causes a breach, hence TIDINGS_E_INTERNAL with a message that names the
 * rule. The read may learn only at the end that a resource has children, so a breach is kept until
 * then.
 */

#define READ_ALTERNATIVES_MAX 16u
#define READ_ELEMENTS_MAX 4096u

struct read_rules {
    uint64_t formats[READ_ALTERNATIVES_MAX]; /* hashes of the mimeTypes of the resource itself */
    unsigned own, total;
    bool listable;               /* it has children */
    struct tidings_error breach; /* code 0: none; forgiven when it is listable */
};

/* Adds one element; `own`: it has the requested URI. Fails at once when there are too many. */
int read_rules_add(struct read_rules *r, bool own, const struct tidings_resource *about,
                   struct tidings_error *err);
/* The contents are complete. */
int read_rules_end(const struct read_rules *r, struct tidings_error *err);

#endif
