/* SPDX-License-Identifier: MIT
 *
 * Levenshtein distance: how many letters must be put in, taken out or replaced to make one word of
 * another, as long as these are few. For suggestions to whoever misspelt a name.
 */
#ifndef BASE_EDIT_DISTANCE_H
#define BASE_EDIT_DISTANCE_H

#include <tidings/types.h>

#define EDIT_DISTANCE_MAX 7u

/* `most` (at most EDIT_DISTANCE_MAX) and less exactly; else `most` + 1. Takes time in proportion to
 * the shorter word times `most`, and no memory. */
unsigned edit_distance(struct tidings_str a, struct tidings_str b, unsigned most);

#endif
