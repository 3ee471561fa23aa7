/* SPDX-License-Identifier: MIT
 *
 * Regular expressions that clients may write: is one found anywhere in a text? The time it takes
 * grows with the length of the text times the size of the regex and never faster, whatever either
 * says: there is no backtracking. So no search has to be given up, unless the caller allows it only
 * so many steps.
 *
 * What is known: the syntax that PCRE2 and ECMA-262 share, without what no such search can do:
 * backreferences, recursion, atomic groups and possessive quantifiers are refused by name.
 * Lookahead and lookbehind of any length are known. What a group captured, and whether a
 * quantifier is greedy, makes no difference to found or not found.
 *
 *     REGEX_BYTES      a text is bytes (canonical URIs); \p, \w, (?i) know ASCII (\p Latin-1)
 *     REGEX_CHARACTERS a text is UTF-8; \uHHHH, `[]` is nothing and `[^]` everything, as in
 *                      ECMA-262; \d \w \s \b and (?i) are ASCII, \p{…} knows general
 *                      categories and scripts
 *
 * `.` is everything but \n, `$` the very end of the text.
 *
 * A regex is immutable: any number of threads may search with one. A *table* remembers what
 * searches have found out and makes later ones quicker (a byte costs a look-up); it belongs to one
 * thread, never grows, and a search without it says the same.
 */
#ifndef FORMATS_REGEX_H
#define FORMATS_REGEX_H

#include <tidings/types.h>

#define REGEX_MAX_OPS 4096u  /* of the program: repetitions count as often as they may repeat */
#define REGEX_MAX_DEPTH 100u /* groups within groups */
#define REGEX_MAX_LOOKAROUNDS 16u /* lookaheads and lookbehinds */
#define REGEX_MAX_COLUMNS 255u    /* kinds of characters it tells apart */
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
 * the limits above; TIDINGS_E_NOMEM. Nothing is kept of `source`. */
int regex_create(struct tidings_str source, enum regex_units units, size_t max_bytes,
                 struct regex **ret, struct tidings_error *err);
/* … and adds what it took to *cost, in steps, also when it failed. */
int regex_create_counted(struct tidings_str source, enum regex_units units, size_t max_bytes,
                         uint64_t *cost, struct regex **ret, struct tidings_error *err);
void regex_destroy(struct regex *r); /* NULL is fine */
size_t regex_bytes(const struct regex *r);

/* Is it found? Takes what it costs from *steps: one for each op of the program tried, or,
 * where the table knows, for each byte. When *steps would fall below 0 it is 0, and the search was
 * given up. `table` may be NULL. */
enum regex_result regex_search(const struct regex *r, struct regex_table *table,
                               struct tidings_str text, uint64_t *steps);

/* NULL: out of memory, or of no use for this regex. */
struct regex_table *regex_table_create(const struct regex *r);
void regex_table_destroy(struct regex_table *table);       /* NULL is fine */
size_t regex_table_bytes(const struct regex_table *table); /* NULL: 0 */

#endif
