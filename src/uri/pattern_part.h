/* SPDX-License-Identifier: MIT
 *
 * A *part*: one segment of a pattern that holds wildcards, as a string of bytes in which wildcards
 * are control characters, which no canonical URI contains. Every other byte stands for itself.
 */
#ifndef URI_PATTERN_PART_H
#define URI_PATTERN_PART_H

#include "base/str.h"

enum {
    PART_STAR = 1,      /* any characters, maybe none */
    PART_VALUE = 2,     /* one or more characters, no '?' */
    PART_PARAMETER = 3, /* one or more characters, no '?' and no '&' */
    PART_ANY = 4,       /* one character */
    PART_CLASS = 5,     /* one character of the class up to PART_CLASS_END */
    PART_CLASS_END = 6,
    PART_LOOP = 7, /* in a plan only: any number of segments */
    PART_REST = 8, /* in a plan only: whatever follows */
    PART_MAX_MARK = 8,
};

static inline bool part_is_mark(char c)
{
    return c > 0 && c <= PART_MAX_MARK;
}

/* Does the whole of `segment`, a piece of a canonical URI without '/', match? At most
 * part × segment steps. */
bool part_matches(struct tidings_str part, struct tidings_str segment);
/* Bytes of the literal a part begins with, and of the one it ends with. */
size_t part_head(struct tidings_str part);
size_t part_tail(struct tidings_str part);
/* The longest literal between two wildcards; empty when there is none. */
struct tidings_str part_inner(struct tidings_str part);

#endif
