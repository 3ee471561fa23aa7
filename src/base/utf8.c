/* SPDX-License-Identifier: MIT
 *
 * UTF-8 in pieces (Unicode, table 3-7): the first byte says how many follow and between which the
 * second one is; the others are continuation bytes. ASCII is passed over eight bytes at a time.
 */
#include "base/utf8.h"

#include <string.h>

static bool utf8_begin(struct utf8_pieces *u, unsigned char c)
{
    u->low = 0x80;
    u->high = 0xBF;
    if (c >= 0xC2 && c <= 0xDF) {
        u->missing = 1;
    } else if ((c & 0xF0u) == 0xE0) {
        u->missing = 2;
        u->low = c == 0xE0 ? 0xA0 : 0x80;  /* overlong */
        u->high = c == 0xED ? 0x9F : 0xBF; /* surrogates */
    } else if (c >= 0xF0 && c <= 0xF4) {
        u->missing = 3;
        u->low = c == 0xF0 ? 0x90 : 0x80;  /* overlong */
        u->high = c == 0xF4 ? 0x8F : 0xBF; /* above U+10FFFF */
    } else {
        return c < 0x80;
    }
    return true;
}

bool utf8_pieces_add(struct utf8_pieces *u, struct tidings_str piece)
{
    const uint64_t high_bits = 0x8080808080808080u;
    for (size_t i = 0; i < piece.len; i++) {
        unsigned char c = (unsigned char)piece.ptr[i];
        uint64_t word = high_bits;
        if (u->missing > 0) {
            if (c < u->low || c > u->high) {
                return false;
            }
            u->missing--;
            u->low = 0x80;
            u->high = 0xBF;
            continue;
        }
        if (piece.len - i >= sizeof word) {
            memcpy(&word, piece.ptr + i, sizeof word);
        }
        if ((word & high_bits) == 0) {
            i += sizeof word - 1;
        } else if (!utf8_begin(u, c)) {
            return false;
        }
    }
    return true;
}
