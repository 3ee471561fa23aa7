/* SPDX-License-Identifier: MIT
 *
 * Sizes and durations as people write them: "16m", "250ms". What is written here is read back to
 * the same value.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <tidings/types.h>

#include "base/str.h"

/* Digits and a unit: nothing, k, m, g (1024 each) for bytes; ms, s, m, h for milliseconds, where
 * nothing means seconds. False: not of that form, or too large for 64 bits. */
bool units_parse_size(struct tidings_str s, uint64_t *ret_bytes);
bool units_parse_duration(struct tidings_str s, uint64_t *ret_ms);

int units_put_size(struct buf *out, uint64_t bytes);
int units_put_duration(struct buf *out, uint64_t ms);

/* -------------------------------------------------------------------------------------------------
 * Levenshtein distance: how many letters must be put in, taken out or replaced to make one word of
 * another, as long as these are few. For suggestions to whoever misspelt a name.
 */

#define EDIT_DISTANCE_MAX 7u

/* `most` (at most EDIT_DISTANCE_MAX) and less exactly; else `most` + 1. Takes time in proportion to
 * the shorter word times `most`, and no memory. */
unsigned edit_distance(struct tidings_str a, struct tidings_str b, unsigned most);

/* -------------------------------------------------------------------------------------------------
 * Which of two versions is the newer one, as people write them. Pure functions, no allocation.
 *
 *     2.1.0   v3   1.0-rc.2   7+build.5     numbers between dots, a `v` before them or not
 *     2024-01-01   2024-01-01T10:00:00Z     dates and times
 *
 * Numbers are compared one by one, whatever their length; those that are missing are 0 (2.1 is the
 * same as 2.1.0). What follows a hyphen comes before the version without it, and is compared piece
 * by piece, digits as numbers (rc9 before rc10). A hyphen needs a dot or `v` before it, so that no
 * UUID is taken for a version. What follows a plus says nothing of the order. Times are compared as
 * instants; without an offset they count as UTC, and a date is its whole day.
 *
 * Everything else has no order: hashes, words, a number and a date, two builds of one version, a
 * date and a time of that day. Among what has one, the order is transitive.
 */

#define VERSION_MAX 128u /* bytes; what is longer has no order */

enum version_order {
    VERSION_OLDER = -1,
    VERSION_SAME = 0,
    VERSION_NEWER = 1,
    VERSION_UNKNOWN = 2,
};

/* What `a` is, seen from `b`. */
enum version_order version_compare(struct tidings_str a, struct tidings_str b);

/* Any texts in an order that is total, for lists: numbers in them as numbers (1.9 before 1.10), and
 * before words. <0, 0 (they are the same text), >0. */
int version_sort(struct tidings_str a, struct tidings_str b);

#endif
