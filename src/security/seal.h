/* SPDX-License-Identifier: MIT
 *
 * Seals: encrypted and authenticated data that a client keeps for the server, but can neither read
 * nor change, nor return for another purpose. AES-256-GCM by OpenSSL, which is loaded with the
 * first seal (base/net/openssl.h).
 *
 * A seal is base64url of salt (8 bytes), nonce (12), ciphertext, tag (16). The encryption key is
 * HMAC-SHA-256 of the salt under the secret of the seal key; the purpose is authenticated with the
 * plaintext. Nonces are random, so they do not reveal how much is sealed for other clients. Each
 * sealer has its own salt and replaces it after SEALS_PER_SALT seals: with so many nonces of 96
 * bits the probability that two are equal is below 2^-32.
 */
#ifndef SECURITY_SEAL_H
#define SECURITY_SEAL_H

#include "base/str.h"

#define SEAL_SALT 8u
#define SEAL_NONCE 12u
#define SEAL_TAG 16u
#define SEALS_PER_SALT (UINT64_C(1) << 32)

/* Shared by all threads; the owner wipes it. */
struct seal_key {
    unsigned char secret[32];
};

int seal_key_init(struct seal_key *key) TIDINGS_MUST_CHECK; /* random; TIDINGS_E_IO */

/* Loads OpenSSL. Thread-safe; call it before the process confines itself. TIDINGS_E_UNSUPPORTED
 * with the reason. */
int seal_load(struct tidings_error *err);

struct evp_cipher_ctx_st;

/* A thread's state for sealing and opening: cipher contexts that are reused. */
struct sealer {
    const struct seal_key *key;
    struct evp_cipher_ctx_st *put, *open; /* NULL: not used yet */
    uint64_t left;                        /* seals left for this salt */
    unsigned char salt[SEAL_SALT];
    unsigned char opened[SEAL_SALT]; /* the salt whose key is in `open` */
    unsigned nonces_left;
    /* generated together: the system call costs more than sealing */
    unsigned char nonces[21 * SEAL_NONCE];
};

void sealer_init(struct sealer *s, const struct seal_key *key); /* creates no context yet */
void sealer_deinit(struct sealer *s);

/* Appends `text`, sealed, to `out`. Opening needs the same `purpose`. For a short text, only `out`
 * allocates memory. Fails like buf_put, without randomness, and with TIDINGS_E_UNSUPPORTED. */
int seal_put(struct sealer *s, struct buf *out, struct tidings_str purpose,
             struct tidings_str text);
/* Appends the sealed text. TIDINGS_E_INVALID: not sealed by this key, changed, or for another
 * purpose. */
int seal_open(struct sealer *s, struct buf *out, struct tidings_str purpose,
              struct tidings_str sealed);

#endif
