/* SPDX-License-Identifier: MIT
 *
 * The other side of tokens, for tests: keys made when they run, key sets, and signed tokens, with
 * OpenSSL only.
 *
 *     struct jose_key *key = jose_key_create("ES256");
 *     struct buf set, token;
 *     jose_put_jwk(&set, key, "\"kid\":\"1\"");
 *     jose_put_token(&token, key, "{\"alg\":\"ES256\"}", "{\"sub\":\"alice\"}");
 */
#ifndef SUPPORT_JOSE_H
#define SUPPORT_JOSE_H

#include "base/str.h"

struct jose_key;

/* For RS256 … EdDSA; "RS256/1024": so many bits. */
struct jose_key *jose_key_create(const char *algorithm);
void jose_key_destroy(struct jose_key *key);

/* {"kty": …, `more`}; `more` may be "". */
void jose_put_jwk(struct buf *out, const struct jose_key *key, const char *more);
/* {"keys":[…]} with that one. */
void jose_put_set(struct buf *out, const struct jose_key *key, const char *more);
/* The compact form: the algorithm of the key, whatever the header says. */
void jose_put_token(struct buf *out, const struct jose_key *key, const char *header,
                    const char *claims);
/* Only the signature. */
void jose_sign(struct buf *out, const struct jose_key *key, struct tidings_str bytes);
/* The bare operations of RSA with 2048 bits: the block under a signature, and the signature that a
 * block makes; false: it is larger than the modulus. */
void jose_rsa_public(const struct jose_key *key, struct tidings_str signature,
                     unsigned char block[256]);
bool jose_rsa_private(const struct jose_key *key, const unsigned char block[256], struct buf *out);
void jose_put_rsa(struct buf *n, struct buf *e, const struct jose_key *key);
void jose_put_point(struct buf *x, struct buf *y,
                    const struct jose_key *key); /* y: Ed25519 has none */

#endif
