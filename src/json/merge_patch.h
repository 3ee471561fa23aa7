/* SPDX-License-Identifier: MIT
 *
 * RFC 7396 merge patches, both ways: merge_apply(a, merge_diff(a, b)) equals b.
 *
 * What a merge patch cannot say: that a member of an object *is* null (null means "remove"). Where
 * `b` holds such a member, outside arrays, merge_diff says so and the caller sends `b` whole.
 *
 * Values are never changed: a result is a document of its own, with copies of the parts that stay
 * as they are. Recursion goes as deep as the values do, which the parser bounds.
 */
#ifndef JSON_MERGE_PATCH_H
#define JSON_MERGE_PATCH_H

#include "json/json.h"

/* `target` NULL: there is nothing yet. A new reference, or NULL: out of memory. */
struct json *merge_apply(struct json *target, struct json *patch);

/* The smallest patch from `from` (NULL: nothing yet) to `to`; an empty object when they are equal.
 * 1: *ret_patch is a new reference. 0: no patch can say it, *ret_patch is untouched.
 * TIDINGS_E_NOMEM. */
int merge_diff(struct json *from, struct json *to, struct json **ret_patch);

#endif
