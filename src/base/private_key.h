/* SPDX-License-Identifier: MIT
 *
 * Private keys that we sign with, in the algorithms of JOSE (RFC 7518): ES256 with a key on P-256,
 * RS256 with one of RSA of at least 2048 bits. base/signature.h verifies what others signed.
 *
 * OpenSSL does the work, loaded with the first key (TIDINGS_E_UNSUPPORTED where it is missing).
 */
#ifndef BASE_PRIVATE_KEY_H
#define BASE_PRIVATE_KEY_H

#include "base/str.h"

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
