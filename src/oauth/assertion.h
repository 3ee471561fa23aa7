/* SPDX-License-Identifier: MIT
 *
 * What a client signs: assertions that show who it is (private_key_jwt, RFC 7523), and proofs that
 * it has the key a token is bound to (DPoP, RFC 9449). Also the random texts of OAuth: states and
 * the verifiers of PKCE (RFC 7636).
 */
#ifndef OAUTH_ASSERTION_H
#define OAUTH_ASSERTION_H

#include "base/private_key.h"

#define RANDOM_TEXT_MAX 44u /* 32 bytes in base64url, and a NUL */

/* A JWT that says that this client is this client; good for a minute. */
int assertion_put(struct buf *out, const struct private_key *key, const char *client_id,
                  const char *audience);

struct proof {
    const char *method, *url; /* of the request that it goes along with */
    const char *token;        /* shown in it; NULL: none */
    const char *nonce;        /* that the server asked for; NULL or "": none */
};
int proof_put(struct buf *out, const struct private_key *key, const struct proof *proof);

/* 256 random bits. TIDINGS_E_IO. */
int random_text(char out[RANDOM_TEXT_MAX]);
/* The challenge of a verifier, by S256. */
int pkce_put_challenge(struct buf *out, const char *verifier);

#endif
