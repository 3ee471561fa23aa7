/* SPDX-License-Identifier: MIT
 *
 * Texts that a stranger keeps for us: he can neither read nor change them, nor give back one for
 * another purpose. Encrypt-then-MAC with HMAC-SHA-256 as the only primitive: the key stream is the
 * MAC of a counter under one key, the tag covers everything under another.
 *
 * A seal is base64url of nonce (16 bytes), ciphertext, tag (32 bytes).
 */
#ifndef BASE_SEAL_H
#define BASE_SEAL_H

#include "base/str.h"

struct seal_key {
    unsigned char encrypt[32], authenticate[32];
};

int seal_key_init(struct seal_key *key) TIDINGS_MUST_CHECK; /* random; TIDINGS_E_IO */

/* Append `text` sealed to `out`. `purpose` must be the same to open it. Fails like buf_put, or when
 * there is no randomness. */
int seal_put(struct buf *out, const struct seal_key *key, struct tidings_str purpose,
             struct tidings_str text);
/* Append what was sealed. TIDINGS_E_INVALID: not one of ours, changed, or for another purpose. */
int seal_open(struct buf *out, const struct seal_key *key, struct tidings_str purpose,
              struct tidings_str sealed);

#endif
