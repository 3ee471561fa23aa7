/* SPDX-License-Identifier: MIT
 *
 * "Did you mean": the word of a list that is nearest to one that was mistyped.
 */
#ifndef BIN_SUGGEST_H
#define BIN_SUGGEST_H

/* The candidate (NULL-terminated list) at most two edits away from `word`, fewer than it has
 * letters, the nearest; or NULL. */
const char *suggest(const char *word, const char *const *candidates);

#endif
