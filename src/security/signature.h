/* SPDX-License-Identifier: MIT
 *
 * Signatures: verifies them with public keys, in the JOSE algorithms (RFC 7518, RFC 8037) that need
 * no shared secret. Keys are created from the numbers in a JWK, decoded (big-endian). A key is
 * immutable: any number of threads can verify with it at once.
 *
 * OpenSSL does the work, and is loaded with the first key; if it is not installed, creating a key
 * fails (TIDINGS_E_UNSUPPORTED).
 */
#ifndef SECURITY_SIGNATURE_H
#define SECURITY_SIGNATURE_H

#include <tidings/types.h>

#include "base/str.h"

enum signature_algorithm {
    SIGNATURE_RS256,
    SIGNATURE_RS384,
    SIGNATURE_RS512,
    SIGNATURE_PS256,
    SIGNATURE_PS384,
    SIGNATURE_PS512,
    SIGNATURE_ES256,
    SIGNATURE_ES384,
    SIGNATURE_ES512,
    SIGNATURE_EDDSA, /* with Ed25519 */
};

/* Finds an algorithm by its exact JOSE name; false: not supported. */
bool signature_find_algorithm(struct tidings_str name, enum signature_algorithm *ret);

/* Loads OpenSSL. TIDINGS_E_UNSUPPORTED. */
int signature_load(struct tidings_error *err);

struct public_key;

/* All of these: TIDINGS_E_INVALID with an error message for an invalid key. An RSA key has 2048 to
 * 8192 bits, and must not be factorable (CVE-2017-15361); coordinates have exactly the length of
 * their curve, and the point must be on it. */
int public_key_rsa(struct public_key **ret, struct tidings_str n, struct tidings_str e,
                   struct tidings_error *err);
/* `curve`: "P-256", "P-384" or "P-521". */
int public_key_ec(struct public_key **ret, struct tidings_str curve, struct tidings_str x,
                  struct tidings_str y, struct tidings_error *err);
int public_key_ed25519(struct public_key **ret, struct tidings_str x, struct tidings_error *err);
void public_key_destroy(struct public_key *key); /* NULL is fine */

/* Returns true if the kind and curve of the key match the algorithm. */
bool public_key_fits(const struct public_key *key, enum signature_algorithm algorithm);

/* Returns true if `signature` is the signature of `bytes`. For ES256, ES384 and ES512: the
 * concatenation of r and s, as in JWS. False too for a key that does not fit, and without memory.
 */
bool signature_is_good(const struct public_key *key, enum signature_algorithm algorithm,
                       struct tidings_str bytes, struct tidings_str signature);

/* -------------------------------------------------------------------------------------------------
 * Private keys for signing in the JOSE algorithms (RFC 7518): ES256 with a key on P-256, RS256 with
 * an RSA key of at least 2048 bits.
 *
 * OpenSSL does the work, and is loaded with the first key (TIDINGS_E_UNSUPPORTED if it is missing).
 */

struct private_key;

/* From PEM without a password (PKCS #8, or the older forms of EC and RSA keys).
 * TIDINGS_E_INVALID. */
int private_key_read(struct private_key **ret, struct tidings_str pem, struct tidings_error *err);
/* Generates a key on P-256. */
int private_key_generate(struct private_key **ret, struct tidings_error *err);
void private_key_destroy(struct private_key *key); /* NULL is fine */

/* "ES256" or "RS256". */
const char *private_key_algorithm(const struct private_key *key);
/* Appends the key as PKCS #8 in PEM. */
int private_key_put_pem(const struct private_key *key, struct buf *out);
/* Appends the public half of a key on P-256 as a JWK, its members in the order of RFC 7638. */
int private_key_put_jwk(const struct private_key *key, struct buf *out);
/* Appends the signature of these bytes in the form of JWS. */
int private_key_sign(const struct private_key *key, struct tidings_str bytes, struct buf *out);

#endif
