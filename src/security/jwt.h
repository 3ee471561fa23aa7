/* SPDX-License-Identifier: MIT
 *
 * JSON Web Tokens (RFC 7519) as access tokens, in the compact form of a signed one (RFC 7515), with
 * the advice of RFC 8725: the algorithm is one of our list and never `none` or one with a shared
 * secret, what the header says about where keys are is not looked at, extensions that must be
 * understood (`crit`) are refused, and so is a type other than `JWT` and `at+jwt` (RFC 9068).
 */
#ifndef SECURITY_JWT_H
#define SECURITY_JWT_H

#include "base/map.h"
#include "base/str.h"
#include "formats/json.h"
#include "security/dpop.h"
#include "security/principal.h"
#include "security/signature.h"

struct jwt {
    enum signature_algorithm algorithm;
    struct tidings_str kid;    /* NULL pointer: none; in `header` */
    struct tidings_str issuer; /* as claimed; in `claims` */
    struct tidings_str bytes;  /* what is signed: borrowed from the token */
    struct buf signature;
    struct json *header, *claims;
};

/* Three parts with dots between them? */
bool jwt_is_likely(struct tidings_str token);

/* NULL: *ret is filled; nothing in it is verified yet. Otherwise a static sentence, and nothing to
 * release. Borrows `token`. */
const char *jwt_parse(struct jwt *ret, struct tidings_str token);
/* The same for one of another type than an access token: that is its `typ`, exactly. */
const char *jwt_parse_as(struct jwt *ret, struct tidings_str token, const char *type);
void jwt_deinit(struct jwt *t);

/* -------------------------------------------------------------------------------------------------
 * The claims of a token, whether they stand in a JWT (RFC 7519, RFC 9068) or in the answer to an
 * introspection (RFC 7662): audience, validity, subject, scopes.
 */

struct claims_rules {
    char *const *audiences; /* `aud` must hold one of them */
    size_t audience_count;
    int64_t leeway_ms;
    bool needs_expiry;
};

struct claims {
    struct tidings_str name; /* borrowed, as the scopes are */
    struct scope_list scopes;
    int64_t expires_ms;      /* leeway included; 0: none */
    char key[DPOP_KEY_TEXT]; /* that it is bound to; "": none */
};

/* NULL: they are good now, and *ret is filled. Otherwise a static sentence that says what is not
 * (auth_answer.description). */
const char *claims_check(const struct json *claims, const struct claims_rules *rules,
                         int64_t now_ms, struct claims *ret);

/* -------------------------------------------------------------------------------------------------
 * The public keys of one issuer: a JSON Web Key Set (RFC 7517), read strictly and then immutable.
 *
 * Only keys that can verify one of our algorithms are kept: RSA, EC on P-256, P-384 and P-521,
 * Ed25519. Others in the set (encryption, secrets, curves we do not have, too short) are passed
 * over, as the RFC wants it; so is one that holds its private part. A key that says what it is for
 * (`alg`, `use`, `key_ops`) is used for nothing else.
 */

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
