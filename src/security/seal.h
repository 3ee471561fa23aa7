/* SPDX-License-Identifier: MIT
 *
 * Sealed texts: encrypted and authenticated, so that a client can keep them for us but can neither
 * read nor change them, nor give back one for another purpose. AES-256-GCM by OpenSSL, which is
 * loaded with the first seal (base/net/openssl.h).
 *
 * A seal is base64url of salt (8 bytes), nonce (12), ciphertext, tag (16). What encrypts is
 * HMAC-SHA-256 of the salt under the secret of the key; the purpose is authenticated with the text.
 * Nonces are random, so that they tell nothing of how much is sealed for others. Each sealer has a
 * salt of its own and takes another after SEALS_PER_SALT seals: among so many nonces of 96 bits two
 * are equal with a probability below 2^-32.
 */
#ifndef SECURITY_SEAL_H
#define SECURITY_SEAL_H

#include "base/str.h"

#define SEAL_SALT 8u
#define SEAL_NONCE 12u
#define SEAL_TAG 16u
#define SEALS_PER_SALT (UINT64_C(1) << 32)

/* Shared by all threads; who owns it wipes it. */
struct seal_key {
    unsigned char secret[32];
};

int seal_key_init(struct seal_key *key) TIDINGS_MUST_CHECK; /* random; TIDINGS_E_IO */

/* Can anything be sealed? Loads what it takes, from any thread; better before the process confines
 * itself. TIDINGS_E_UNSUPPORTED with what is missing. */
int seal_load(struct tidings_error *err);

struct evp_cipher_ctx_st;

/* What one thread seals and opens with: contexts that are used again and again. */
struct sealer {
    const struct seal_key *key;
    struct evp_cipher_ctx_st *put, *open; /* NULL: not used yet */
    uint64_t left;                        /* how many may be sealed with this salt */
    unsigned char salt[SEAL_SALT];
    unsigned char opened[SEAL_SALT]; /* whose key is in `open` */
    unsigned nonces_left;
    unsigned char nonces[21 * SEAL_NONCE]; /* drawn together: asking costs more than sealing */
};

void sealer_init(struct sealer *s, const struct seal_key *key); /* makes nothing yet */
void sealer_deinit(struct sealer *s);

/* Append `text` sealed to `out`. `purpose` must be the same to open it. Allocates nothing but what
 * `out` needs when the text is short. Fails like buf_put, when there is no randomness, and with
 * TIDINGS_E_UNSUPPORTED. */
int seal_put(struct sealer *s, struct buf *out, struct tidings_str purpose,
             struct tidings_str text);
/* Append what was sealed. TIDINGS_E_INVALID: not one of ours, changed, or for another purpose. */
int seal_open(struct sealer *s, struct buf *out, struct tidings_str purpose,
              struct tidings_str sealed);

#endif
