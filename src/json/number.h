/* SPDX-License-Identifier: MIT
 *
 * Numbers in JSON text (RFC 8259 §6): where one ends, and which double it is. Private to this
 * folder.
 */
#ifndef JSON_NUMBER_H
#define JSON_NUMBER_H

#include <tidings/types.h>

/* The length of the number that `text` begins with, 0: there is none. `*ret_is_real`: it has a
 * fraction or an exponent. */
size_t number_length(struct tidings_str text, bool *ret_is_real);
/* The double that is nearest, whatever the program's locale. TIDINGS_E_LIMIT: it is beyond all of
 * them, *ret is the last; TIDINGS_E_NOMEM, *ret is 0. */
int number_to_real(struct tidings_str number, double *ret);

#endif
