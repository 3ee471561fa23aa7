/* SPDX-License-Identifier: MIT
 *
 * Regexes: regular expressions that untrusted clients can write. A search finds whether one matches
 * anywhere in the text. Its time is at most proportional to the length of the text times the size
 * of the regex, because there is no backtracking. So no search has to be aborted, unless the caller
 * limits its steps.
 *
 * Supported is the common syntax of PCRE2 and ECMA-262, except for features that need backtracking:
 * backreferences, recursion, atomic groups and possessive quantifiers are rejected by name.
 * Lookahead and lookbehind can have any length. Captures and greediness have no effect on whether a
 * regex matches.
 *
 *     REGEX_BYTES      texts are bytes (canonical URIs); \p, \w, (?i) are ASCII (\p Latin-1)
 *     REGEX_CHARACTERS texts are UTF-8; \uHHHH, `[]` is nothing and `[^]` everything, as in
 *                      ECMA-262; \d \w \s \b and (?i) are ASCII, \p{…} has general
 *                      categories and scripts
 *
 * `.` is everything but \n, `$` the very end of the text.
 *
 * A regex is immutable: any number of threads may search with one. A *table* caches states of
 * searches and makes later ones faster (one lookup per byte); it belongs to one thread, never
 * grows, and does not change results.
 */
#ifndef FORMATS_REGEX_H
#define FORMATS_REGEX_H

#include <tidings/types.h>

#define REGEX_MAX_OPS 4096u  /* of the program: repetitions count as often as they can repeat */
#define REGEX_MAX_DEPTH 100u /* nesting of groups */
#define REGEX_MAX_LOOKAROUNDS 16u /* lookaheads and lookbehinds */
#define REGEX_MAX_COLUMNS 255u    /* classes of characters that it distinguishes */
#define REGEX_MAX_CELLS 131072u   /* … times different sets of them */

struct regex;
struct regex_table;

enum regex_units {
    REGEX_BYTES,
    REGEX_CHARACTERS,
};

enum regex_result {
    REGEX_ABSENT,
    REGEX_FOUND,
    REGEX_OUT_OF_STEPS,
    REGEX_NOMEM, /* only with lookaround */
};

/* TIDINGS_E_INVALID with reason and byte; TIDINGS_E_LIMIT: longer than max_bytes, or beyond one of
 * the limits above; TIDINGS_E_NOMEM. `source` is not kept. */
int regex_create(struct tidings_str source, enum regex_units units, size_t max_bytes,
                 struct regex **ret, struct tidings_error *err);
/* … and adds its cost to *cost, in steps, even on failure. */
int regex_create_counted(struct tidings_str source, enum regex_units units, size_t max_bytes,
                         uint64_t *cost, struct regex **ret, struct tidings_error *err);
void regex_destroy(struct regex *r); /* NULL is fine */
size_t regex_bytes(const struct regex *r);

/* Searches for a match. Subtracts its cost from *steps: one for each op tried, or, if the table has
 * the state, for each byte. If *steps would fall below 0, it becomes 0 and the search is aborted.
 * `table` may be NULL. */
enum regex_result regex_search(const struct regex *r, struct regex_table *table,
                               struct tidings_str text, uint64_t *steps);

/* NULL: out of memory, or not possible for this regex. */
struct regex_table *regex_table_create(const struct regex *r);
void regex_table_destroy(struct regex_table *table);       /* NULL is fine */
size_t regex_table_bytes(const struct regex_table *table); /* NULL: 0 */

#endif
