/* SPDX-License-Identifier: MIT
 *
 * For hosts without pieces: none is fetched, and none is accounted.
 */
#include <tidings/provider.h>

void tidings_piece_done(struct tidings_piece *piece, int code, const struct tidings_error *err)
{
    (void)piece;
    (void)code;
    (void)err;
}

int tidings_read_reserve(struct tidings_read *read, size_t bytes, struct tidings_error *err)
{
    (void)read;
    (void)bytes;
    (void)err;
    return 0;
}
