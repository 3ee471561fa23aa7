/* SPDX-License-Identifier: MIT
 *
 * The order in which a token is looked at. Claims come before the signature: they cost less, both
 * must be good, and a token that has expired is no reason to fetch keys.
 */
#include "auth/auth_private.h"
#include "auth/jwks.h"
#include "auth/jwt.h"
#include "auth/token_file.h"

static void find_in_file(struct auth *a, const unsigned char digest[SHA256_BYTES],
                         struct verdict *ret)
{
    struct token_file *f = token_file_of(shared_map_find(a->shared, TOKEN_FILE_KEY));
    if (!f) {
        return;
    }
    if (token_file_find(f, digest, &ret->identity) < 0) {
        *ret = (struct verdict){.outcome = AUTH_UNAVAILABLE, .why = "out of memory"};
    } else if (ret->identity) {
        *ret = (struct verdict){.outcome = AUTH_OK, .identity = ret->identity};
    }
    shared_value_unref(token_file_value(f));
}

/* ---- JWTs ------------------------------------------------------------------------------------ */

static void refuse(struct verdict *ret, const char *why)
{
    *ret = (struct verdict){.outcome = AUTH_INVALID, .why = why};
}

static const struct issuer *find_issuer(const struct auth *a, struct tidings_str name)
{
    for (size_t i = 0; i < a->issuer_count; i++) {
        if (str_eq(name, tidings_str(a->issuers[i].name))) {
            return &a->issuers[i];
        }
    }
    return NULL;
}

static void accept(const struct auth *a, const struct issuer *issuer, const struct claims *claims,
                   uint64_t proof, struct verdict *ret)
{
    struct tidings_str prefix = a->issuer_count > 1 ? tidings_str(issuer->name) : STR_EMPTY;
    if (!identity_fits(prefix, claims->name)) {
        refuse(ret, "the name in the token is too long");
        return;
    }
    struct identity *i =
        identity_create(prefix, claims->name, &claims->scopes, claims->expires_ms, AUTH_BY_JWT);
    if (i) {
        i->is.proof = auth_make_proof((size_t)(issuer - a->issuers), proof);
    }
    *ret = i ? (struct verdict){.outcome = AUTH_OK, .identity = i}
             : (struct verdict){.outcome = AUTH_UNAVAILABLE, .why = "out of memory"};
}

static void verify(struct auth *a, const struct issuer *issuer, const struct jwt *t,
                   const struct claims *claims, struct verdict *ret)
{
    enum verdict_need need = issuer->is_remote ? VERDICT_NEEDS_KEYS : VERDICT_FINAL;
    struct jwks *set = jwks_of(shared_map_find(a->shared, tidings_str(issuer->name)));
    if (!set) {
        *ret = (struct verdict){.outcome = AUTH_UNAVAILABLE,
                                .why = "the keys of the issuer cannot be had at the moment",
                                .need = need};
        ret->issuer = (size_t)(issuer - a->issuers);
        return;
    }
    uint64_t proof = 0;
    switch (jwks_verify(set, t->kid, t->algorithm, t->bytes, buf_str(&t->signature), &proof)) {
    case JWKS_GOOD:
        accept(a, issuer, claims, proof, ret);
        break;
    case JWKS_BAD:
        refuse(ret, "the signature of the token is wrong");
        break;
    case JWKS_UNFIT:
        refuse(ret, "the key of the token is not for its algorithm");
        break;
    case JWKS_NO_KEY:
        refuse(ret, "the key of the token is not known");
        ret->need = need;
        ret->issuer = (size_t)(issuer - a->issuers);
        break;
    }
    shared_value_unref(jwks_value(set));
}

static void find_jwt(struct auth *a, struct tidings_str token, int64_t now_ms, struct verdict *ret)
{
    struct jwt t;
    const char *why = jwt_parse(&t, token);
    if (why) {
        refuse(ret, why);
        return;
    }
    const struct issuer *issuer = find_issuer(a, t.issuer);
    struct claims_rules rules = auth_rules(a, true);
    struct claims claims;
    if (!issuer) {
        refuse(ret, "the issuer of the token is not trusted here");
    } else if ((why = claims_check(t.claims, &rules, now_ms, &claims)) != NULL) {
        refuse(ret, why);
    } else {
        verify(a, issuer, &t, &claims, ret);
    }
    jwt_deinit(&t);
}

void verdict_find(struct auth *a, struct tidings_str token,
                  const unsigned char digest[SHA256_BYTES], int64_t now_ms, struct verdict *ret)
{
    refuse(ret, "the token is not known here");
    find_in_file(a, digest, ret);
    if (ret->outcome != AUTH_INVALID) {
        return;
    }
    if (a->issuer_count > 0 && jwt_is_likely(token)) {
        find_jwt(a, token, now_ms, ret);
    } else if (a->introspection) {
        *ret = (struct verdict){.outcome = AUTH_UNAVAILABLE,
                                .why = "the authorization server cannot be asked at the moment",
                                .need = VERDICT_NEEDS_INTROSPECTION};
    }
}
