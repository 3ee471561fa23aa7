/* SPDX-License-Identifier: MIT
 *
 * Parsing JSON for a test itself, while the code under test has allocations that fail on purpose
 * (support/fail_alloc.h): this one's do not, and are not counted on the way to the n-th.
 */
#ifndef SUPPORT_PARSE_JSON_H
#define SUPPORT_PARSE_JSON_H

#include "formats/json.h"
#include "support/fail_alloc_hold.h"

static inline int parse_json(struct tidings_str text, struct json **ret_root,
                             struct tidings_error *err)
{
    __atomic_add_fetch(&fail_alloc_held, 1, __ATOMIC_RELAXED);
    int rc = jv_parse(text, JSON_MAX_DEPTH, ret_root, err);
    __atomic_sub_fetch(&fail_alloc_held, 1, __ATOMIC_RELAXED);
    return rc;
}

#endif
