/* SPDX-License-Identifier: MIT
 *
 * The public keys of one issuer: a JSON Web Key Set (RFC 7517), read strictly and then immutable.
 *
 * Only keys that can verify one of our algorithms are kept: RSA, EC on P-256, P-384 and P-521,
 * Ed25519. Others in the set (encryption, secrets, curves we do not have, too short) are passed
 * over, as the RFC wants it; so is one that holds its private part. A key that says what it is for
 * (`alg`, `use`, `key_ops`) is used for nothing else.
 */
#ifndef AUTH_JWKS_H
#define AUTH_JWKS_H

#include "base/shared_map.h"
#include "base/signature.h"
#include "base/str.h"

#define JWKS_MAX (256u << 10)  /* bytes of a set */
#define JWKS_KEYS_MAX 64u      /* in a set; more are an error */
#define JWKS_KID_MAX 256u      /* bytes */
#define JWKS_PROOF_SPARE 3u    /* high bits of a proof that are 0 */
#define JWKS_CANDIDATES_MAX 8u /* keys tried for a token that names none */

/* One key by itself, to be destroyed. TIDINGS_E_INVALID: it cannot be used, or is none for
 * signatures; TIDINGS_E_NOMEM. */
struct json;
int jwks_read_public(const struct json *jwk, struct public_key **ret, struct tidings_error *err);

struct jwks; /* immutable, counted: a value of a shared map */

/* The value's key is `issuer`, copied. A set without keys is one: then nothing can be verified.
 * TIDINGS_E_PARSE; TIDINGS_E_INVALID when none of the keys in it can be used, with what is the
 * matter with the first; TIDINGS_E_LIMIT. */
int jwks_parse(struct jwks **ret, struct tidings_str issuer, struct tidings_str text,
               struct tidings_error *err);
int jwks_load(struct jwks **ret, struct tidings_str issuer, const char *path,
              struct tidings_error *err);
struct shared_value *jwks_value(struct jwks *set);
struct jwks *jwks_of(struct shared_value *value); /* NULL for NULL */
size_t jwks_count(const struct jwks *set);
/* Made from the same text? */
bool jwks_is_same(const struct jwks *a, const struct jwks *b);

enum jwks_result {
    JWKS_GOOD,
    JWKS_BAD,    /* there is a key, and it is not its signature */
    JWKS_UNFIT,  /* there is a key of that name, but not for that algorithm */
    JWKS_NO_KEY, /* none of that name, or none for that algorithm */
};

/* `kid` with a NULL pointer: the token names no key. Keys without a name are tried for every token.
 * JWKS_GOOD: *proof is that of the key, a hash of issuer, name, purpose and numbers; never 0. */
enum jwks_result jwks_verify(const struct jwks *set, struct tidings_str kid,
                             enum signature_algorithm algorithm, struct tidings_str bytes,
                             struct tidings_str signature, uint64_t *proof);
/* Is the key of that proof in the set? */
bool jwks_has(const struct jwks *set, uint64_t proof);

#endif
