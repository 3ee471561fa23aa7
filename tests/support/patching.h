/* SPDX-License-Identifier: MIT
 *
 * Hunks of a unified diff applied to a text, strictly.
 */
#ifndef SUPPORT_PATCHING_H
#define SUPPORT_PATCHING_H

#include <tidings/types.h>

/* The new text, freed with free. NULL: the hunks do not fit, or are none. */
char *patching_apply(struct tidings_str before, struct tidings_str hunks);

#endif
