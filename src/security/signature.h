/* SPDX-License-Identifier: MIT
 *
 * Signatures of others verified with their public keys, in the algorithms of JOSE (RFC 7518,
 * RFC 8037) that need no shared secret. Keys are made from numbers as they stand in a JWK, decoded
 * (big-endian). A key is immutable: any number of threads may verify with it at once.
 *
 * OpenSSL does the work, loaded when the first key is made; where it is not installed, making one
 * fails then (TIDINGS_E_UNSUPPORTED).
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

/* By its name in JOSE, exactly; false: none of these. */
bool signature_find_algorithm(struct tidings_str name, enum signature_algorithm *ret);

/* Can OpenSSL be had? TIDINGS_E_UNSUPPORTED. */
int signature_load(struct tidings_error *err);

struct public_key;

/* All: TIDINGS_E_INVALID with a sentence for what is no such key. RSA has 2048 to 8192 bits, and
 * is none of those that can be factored (CVE-2017-15361); coordinates have exactly the length of
 * their curve, and the point must lie on it. */
int public_key_rsa(struct public_key **ret, struct tidings_str n, struct tidings_str e,
                   struct tidings_error *err);
/* `curve`: "P-256", "P-384" or "P-521". */
int public_key_ec(struct public_key **ret, struct tidings_str curve, struct tidings_str x,
                  struct tidings_str y, struct tidings_error *err);
int public_key_ed25519(struct public_key **ret, struct tidings_str x, struct tidings_error *err);
void public_key_destroy(struct public_key *key); /* NULL is fine */

/* Is this the kind of key, and the curve, that the algorithm is for? */
bool public_key_fits(const struct public_key *key, enum signature_algorithm algorithm);

/* Is it the signature of these bytes? Of ES256, ES384 and ES512: r and s one behind the other, as
 * JWS has them. False too for a key that does not fit, and without memory. */
bool signature_is_good(const struct public_key *key, enum signature_algorithm algorithm,
                       struct tidings_str bytes, struct tidings_str signature);

/* -------------------------------------------------------------------------------------------------
 * Private keys that we sign with, in the algorithms of JOSE (RFC 7518): ES256 with a key on P-256,
 * RS256 with one of RSA of at least 2048 bits. security/signature.h verifies what others signed.
 *
 * OpenSSL does the work, loaded with the first key (TIDINGS_E_UNSUPPORTED where it is missing).
 */

struct private_key;

/* From PEM without a password (PKCS #8, or the older forms of EC and RSA keys).
 * TIDINGS_E_INVALID. */
int private_key_read(struct private_key **ret, struct tidings_str pem, struct tidings_error *err);
/* A new one on P-256. */
int private_key_generate(struct private_key **ret, struct tidings_error *err);
void private_key_destroy(struct private_key *key); /* NULL is fine */

/* "ES256" or "RS256". */
const char *private_key_algorithm(const struct private_key *key);
/* As PKCS #8 in PEM. */
int private_key_put_pem(const struct private_key *key, struct buf *out);
/* The public half of a key on P-256 as a JWK, its members in the order of RFC 7638. */
int private_key_put_jwk(const struct private_key *key, struct buf *out);
/* Append the signature of these bytes, as JWS has it. */
int private_key_sign(const struct private_key *key, struct tidings_str bytes, struct buf *out);

#endif
