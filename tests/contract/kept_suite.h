/* SPDX-License-Identifier: MIT
 *
 * The contract of store/kept.h as cases over any store that outlives the program: what is kept is
 * found again in the order it happened, and cursors go on after a start.
 */
#ifndef CONTRACT_KEPT_SUITE_H
#define CONTRACT_KEPT_SUITE_H

#include "store/kept.h"

/* Open the store; `is_fresh`: a new, empty one, else the one that was opened last. */
typedef struct entity_rows *(*kept_open_fn)(bool is_fresh);

/* Runs every case; returns the number that failed. */
int kept_suite(const char *name, kept_open_fn open);

#endif
