/* SPDX-License-Identifier: MIT
 *
 * Applies the hunks of a unified diff to a string, strictly.
 */
#ifndef SUPPORT_PATCHING_H
#define SUPPORT_PATCHING_H

#include <tidings/types.h>

/* The new text, freed with free. NULL: the hunks do not fit or are invalid. */
char *patching_apply(struct tidings_str before, struct tidings_str hunks);

#endif
