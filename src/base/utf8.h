/* SPDX-License-Identifier: MIT
 *
 * Is a text that comes in pieces UTF-8? Said as soon as it can be: at the first byte that no UTF-8
 * has there, wherever the pieces end. As strict as str_is_utf8.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <tidings/types.h>

/* Zeroed: nothing came yet. */
struct utf8_pieces {
    unsigned char missing;   /* bytes of the last character */
    unsigned char low, high; /* the next of them is between these */
};

/* Another piece. False: with it the text is not UTF-8, whatever follows; then there is no next. */
bool utf8_pieces_add(struct utf8_pieces *u, struct tidings_str piece);
/* No character is left unfinished. */
static inline bool utf8_pieces_end(const struct utf8_pieces *u)
{
    return u->missing == 0;
}

#endif
