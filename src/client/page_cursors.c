/* SPDX-License-Identifier: MIT
 *
 * Finds lists whose pages go in a circle, by Brent's algorithm: each cursor is compared with one
 * that is kept, and after 1, 2, 4, 8 … of them the newest is kept instead.
 */
#include "client/page_cursors.h"

int page_cursors_next(struct page_cursors *c, struct tidings_str cursor)
{
    unsigned char digest[SHA256_BYTES];
    struct sha256 hash;
    if (cursor.len > PAGE_CURSOR_MAX) {
        return TIDINGS_E_LIMIT;
    }
    sha256_init(&hash);
    sha256_put(&hash, cursor.ptr, cursor.len);
    sha256_end(&hash, digest);
    if (c->count > 0 && memcmp(digest, c->mark, sizeof(digest)) == 0) {
        return TIDINGS_E_PARSE;
    }
    c->count++;
    if ((c->count & (c->count - 1)) == 0) {
        memcpy(c->mark, digest, sizeof(digest));
    }
    return 0;
}
