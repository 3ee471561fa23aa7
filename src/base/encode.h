/* SPDX-License-Identifier: MIT
 *
 * Text encodings of bytes: base64 and base64url.
 */
#ifndef BASE_ENCODE_H
#define BASE_ENCODE_H

#include "base/str.h"

/* Standard base64 (RFC 4648 §4) and its URL-safe form without padding (§5). */
int base64_put(struct buf *out, struct tidings_str in);
/* The same for memory with room for base64_len bytes; returns the end. */
static inline size_t base64_len(size_t bytes)
{
    return (bytes + 2) / 3 * 4;
}
char *base64_write(char *at, struct tidings_str in);
int base64url_put(struct buf *out, struct tidings_str in);
/* Strict decoding: canonical padding, no blanks, no stray bits. TIDINGS_E_PARSE otherwise. */
int base64_decode(struct buf *out, struct tidings_str in);
int base64url_decode(struct buf *out, struct tidings_str in);

#endif
