/* SPDX-License-Identifier: MIT
 *
 * How many letters must be put in, taken out or replaced to make one word of another (Levenshtein),
 * as far as that is few. For suggestions to whoever wrote a name wrongly.
 */
#ifndef BASE_EDIT_DISTANCE_H
#define BASE_EDIT_DISTANCE_H

#include <tidings/types.h>

#define EDIT_DISTANCE_MAX 7u

/* `most` (at most EDIT_DISTANCE_MAX) and less exactly; else `most` + 1. Takes time in proportion to
 * the shorter word times `most`, and no memory. */
unsigned edit_distance(struct tidings_str a, struct tidings_str b, unsigned most);

#endif
