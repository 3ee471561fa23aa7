/* SPDX-License-Identifier: MIT
 *
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
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#include <tidings/types.h>

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
