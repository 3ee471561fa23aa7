/* SPDX-License-Identifier: MIT
 *
 * Aliases: other spellings of what lies below a prefix. A client may write `/entity/User@1/ann` or
 * `https://example.org/u1/entity/User@1/ann` for `entity:///User@1/ann`. They are resolved here and
 * nowhere else, where a URI is made canonical: whatever compares, matches or judges URIs afterwards
 * knows one spelling.
 */
#ifndef URI_ALIAS_H
#define URI_ALIAS_H

#include "base/str.h"

/* `from` ends in '/': a path, compared as it is written, or a canonical URI, compared with the
 * canonical form of what is written. `to` is a canonical prefix. */
struct uri_alias {
    struct tidings_str from, to;
};

/* The alias that `in` begins with, byte by byte; NULL: none. */
const struct uri_alias *uri_alias_find(const struct uri_alias *aliases, size_t count,
                                       struct tidings_str in);

/* Append the canonical form of `in` (uri_canonical, or uri_canonical_pattern), with the prefix that
 * its alias stands for. `find` is uri_alias_find, wherever the aliases are. *ret_alias (may be
 * NULL): the alias it was written with; NULL: none. */
typedef const struct uri_alias *(*uri_alias_fn)(const void *user, struct tidings_str in);
int uri_alias_canonical(struct tidings_str in, bool is_pattern, uri_alias_fn find, const void *user,
                        struct buf *out, const struct uri_alias **ret_alias,
                        struct tidings_error *err);

#endif
