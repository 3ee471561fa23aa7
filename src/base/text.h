/* SPDX-License-Identifier: MIT
 *
 * Sizes and durations as text: "16m", "250ms". Formatted values parse to the same value.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <tidings/types.h>

#include "base/str.h"

/* Digits and a unit: none, k, m, g (1024 each) for bytes; ms, s, m, h for milliseconds, without a
 * unit: seconds. False: invalid, or too large for 64 bits. */
bool units_parse_size(struct tidings_str s, uint64_t *ret_bytes);
bool units_parse_duration(struct tidings_str s, uint64_t *ret_ms);

int units_put_size(struct buf *out, uint64_t bytes);
int units_put_duration(struct buf *out, uint64_t ms);

/* -------------------------------------------------------------------------------------------------
 * Levenshtein distance: the number of letters to insert, delete or replace to turn one word into
 * another, if it is small. For suggestions after a misspelt name.
 */

#define EDIT_DISTANCE_MAX 7u

/* Exact up to `most` (at most EDIT_DISTANCE_MAX); else `most` + 1. Takes time proportional to the
 * shorter word times `most`, and allocates nothing. */
unsigned edit_distance(struct tidings_str a, struct tidings_str b, unsigned most);

/* -------------------------------------------------------------------------------------------------
 * Version order: finds the newer of two versions in common notations. Pure functions, no
 * allocation.
 *
 *     2.1.0   v3   1.0-rc.2   7+build.5     numbers with dots, optionally after `v`
 *     2024-01-01   2024-01-01T10:00:00Z     dates and times
 *
 * Numbers are compared one by one, whatever their length; missing ones are 0 (2.1 is the same as
 * 2.1.0). A version with a hyphen suffix comes before the version without it, and suffixes are
 * compared piece by piece, digits as numbers (rc9 before rc10). A hyphen needs a dot or `v` before
 * it, so that no UUID is taken for a version. A suffix after a plus does not affect the order.
 * Times are compared as instants; without an offset they count as UTC, and a date is its whole day.
 *
 * Everything else has no order: hashes, words, a number and a date, two builds of one version, a
 * date and a time of that day. Among ordered versions, the order is transitive.
 */

#define VERSION_MAX 128u /* bytes; longer strings have no order */

enum version_order {
    VERSION_OLDER = -1,
    VERSION_SAME = 0,
    VERSION_NEWER = 1,
    VERSION_UNKNOWN = 2,
};

/* The order of `a` relative to `b`. */
enum version_order version_compare(struct tidings_str a, struct tidings_str b);

/* A total order of any strings, for lists: numbers in them compare as numbers (1.9 before 1.10),
 * and before words. <0, 0 (identical strings), >0. */
int version_sort(struct tidings_str a, struct tidings_str b);

#endif
