/* SPDX-License-Identifier: MIT
 *
 * JSON Web Tokens (RFC 7519) as access tokens, in the compact form of a signed one (RFC 7515),
 * following RFC 8725: the algorithm must be in our list, which has neither `none` nor shared
 * secrets; key locations in the header are ignored; critical extensions (`crit`) are rejected, and
 * so is a type other than `JWT` and `at+jwt` (RFC 9068).
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
    struct tidings_str bytes;  /* signed bytes: borrowed from the token */
    struct buf signature;
    struct json *header, *claims;
};

/* Returns true if the token has three parts with dots between them. */
bool jwt_is_likely(struct tidings_str token);

/* NULL: *ret is filled; nothing in it is verified yet. Otherwise a static error message, and
 * nothing to release. Borrows `token`. */
const char *jwt_parse(struct jwt *ret, struct tidings_str token);
/* The same for a token whose `typ` must be exactly `type`, instead of an access token. */
const char *jwt_parse_as(struct jwt *ret, struct tidings_str token, const char *type);
void jwt_deinit(struct jwt *t);

/* -------------------------------------------------------------------------------------------------
 * The claims of a token, from a JWT (RFC 7519, RFC 9068) or an introspection response (RFC 7662):
 * audience, validity, subject, scopes.
 */

struct claims_rules {
    char *const *audiences; /* `aud` must contain one of them */
    size_t audience_count;
    int64_t leeway_ms;
    bool needs_expiry;
};

struct claims {
    struct tidings_str name; /* borrowed, as the scopes are */
    struct scope_list scopes;
    int64_t expires_ms;      /* leeway included; 0: none */
    char key[DPOP_KEY_TEXT]; /* the key that it is bound to; "": none */
};

/* NULL: the claims are valid now, and *ret is filled. Otherwise a static error message
 * (auth_answer.description). */
const char *claims_check(const struct json *claims, const struct claims_rules *rules,
                         int64_t now_ms, struct claims *ret);

/* -------------------------------------------------------------------------------------------------
 * The public keys of one issuer: a JSON Web Key Set (RFC 7517), read strictly and then immutable.
 *
 * Only keys that can verify one of our algorithms are kept: RSA, EC on P-256, P-384 and P-521,
 * Ed25519. Others in the set (encryption, secrets, unsupported curves, too short) are ignored, as
 * the RFC requires; so are keys that contain their private part. A key that declares its purpose
 * (`alg`, `use`, `key_ops`) is used for nothing else.
 */

#define JWKS_MAX (256u << 10)  /* bytes of a key set */
#define JWKS_KEYS_MAX 64u      /* per key set; more are an error */
#define JWKS_KID_MAX 256u      /* bytes */
#define JWKS_PROOF_SPARE 3u    /* number of high bits of a proof that are 0 */
#define JWKS_CANDIDATES_MAX 8u /* keys tried for a token without a key id */

/* Creates one key, which the caller destroys. TIDINGS_E_INVALID: unusable, or not a signature key;
 * TIDINGS_E_NOMEM. */
struct json;
int jwks_read_public(const struct json *jwk, struct public_key **ret, struct tidings_error *err);

struct jwks; /* immutable, reference counted: a value of a shared map */

/* The value's key is `issuer`, copied. A set without keys is valid: then nothing can be verified.
 * TIDINGS_E_PARSE; TIDINGS_E_INVALID if none of its keys is usable, with the error of the first;
 * TIDINGS_E_LIMIT. */
int jwks_parse(struct jwks **ret, struct tidings_str issuer, struct tidings_str text,
               struct tidings_error *err);
int jwks_load(struct jwks **ret, struct tidings_str issuer, const char *path,
              struct tidings_error *err);
struct shared_value *jwks_value(struct jwks *set);
struct jwks *jwks_of(struct shared_value *value); /* NULL for NULL */
size_t jwks_count(const struct jwks *set);
/* Returns true if both were parsed from the same text. */
bool jwks_is_same(const struct jwks *a, const struct jwks *b);

enum jwks_result {
    JWKS_GOOD,
    JWKS_BAD,    /* there is a key, but the signature does not match */
    JWKS_UNFIT,  /* the key with that name is for another algorithm */
    JWKS_NO_KEY, /* no key with that name, or none for that algorithm */
};

/* `kid` with a NULL pointer: the token names no key. Keys without a name are tried for every token.
 * JWKS_GOOD: *proof identifies the key, a hash of issuer, name, purpose and numbers; never 0. */
enum jwks_result jwks_verify(const struct jwks *set, struct tidings_str kid,
                             enum signature_algorithm algorithm, struct tidings_str bytes,
                             struct tidings_str signature, uint64_t *proof);
/* Returns true if the key with that proof is in the set. */
bool jwks_has(const struct jwks *set, uint64_t proof);

#endif
