/* SPDX-License-Identifier: MIT
 *
 * Cursors of the change log as text for one principal. A number counts the changes of everybody, so
 * who may not see everything gets it sealed (base/seal.h), anew in each turn of the loop: cursors
 * of two turns are never equal, whether something happened between them or not. Only who was given
 * one can use it: numbers are not accepted from those who are not shown any, else one could be
 * found by trying.
 *
 * The key is made for one run of the server, or with the store that several nodes share (`secret`
 * of store/shared.h). A cursor that was sealed with another key is not known, and whoever comes
 * back with it is told to read again.
 */
#ifndef DELIVERY_CURSOR_SEAL_H
#define DELIVERY_CURSOR_SEAL_H

#include "dialect/cursor.h"

struct worker;
struct principal;

/* What was sealed in this turn: whoever is told the same then gets the same, so that telling many
 * costs as little as telling one. Made when first needed, 48 KiB for a worker. */
struct cursor_seals;

void cursor_seal_free(struct cursor_seals *all);     /* NULL is fine, here … */
void cursor_seal_end_turn(struct cursor_seals *all); /* … and here */

/* As `principal` is told it: written to `out`, or sealed and valid until the next one is asked for.
 */
struct tidings_str cursor_seal_put(struct worker *worker, const struct principal *principal,
                                   const struct log_cursor *cursor, char out[CURSOR_TEXT]);
/* The seal alone; empty: `principal` may see the numbers. */
struct tidings_str cursor_seal_make(struct worker *worker, const struct principal *principal,
                                    const struct log_cursor *cursor);
/* What `principal` came back with. false: none that it was given. */
bool cursor_seal_open(struct worker *worker, const struct principal *principal,
                      struct tidings_str text, struct log_cursor *ret);

#endif
