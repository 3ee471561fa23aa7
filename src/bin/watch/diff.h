/* SPDX-License-Identifier: MIT
 *
 * What differs between two texts, line by line, in the form of `diff -u` without the names: hunks
 * with three lines of context.
 */
#ifndef BIN_DIFF_H
#define BIN_DIFF_H

#include <stdio.h>

#include <tidings/types.h>

/* Beyond these a difference is not told line by line: it would take too long, and be read by
 * nobody. */
#define DIFF_LINES_MAX 200000u /* of either text */
#define DIFF_EDITS_MAX 1000    /* lines taken away and put in, together */

/* 1: it is written; 0: the texts are the same; TIDINGS_E_LIMIT: beyond the limits;
 * TIDINGS_E_NOMEM. */
int diff_write(FILE *out, struct tidings_str before, struct tidings_str after);

#endif
