/* SPDX-License-Identifier: MIT
 *
 * Signatures of others verified with their public keys, in the algorithms of JOSE (RFC 7518,
 * RFC 8037) that need no shared secret. Keys are made from numbers as they stand in a JWK, decoded
 * (big-endian). A key is immutable: any number of threads may verify with it at once.
 *
 * OpenSSL does the work, loaded when the first key is made; where it is not installed, making one
 * fails then (TIDINGS_E_UNSUPPORTED).
 */
#ifndef BASE_SIGNATURE_H
#define BASE_SIGNATURE_H

#include <tidings/types.h>

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

#endif
