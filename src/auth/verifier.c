/* SPDX-License-Identifier: MIT
 *
 * Verifying a token: the file of tokens first, then as a JWT, else it takes an introspection.
 * Claims come before the signature: they cost less, both must be good, and a token that has expired
 * is no reason to fetch keys.
 */
#include "auth/verifier.h"

#include "auth/auth_files.h"
#include "auth/credentials.h"
#include "auth/jwks.h"
#include "auth/jwt.h"
#include "auth/token_file.h"

/* ---- what is in effect ----------------------------------------------------------------------- */

static int verifier_replace(void *user, const struct shared_value *old)
{
    (void)user;
    (void)old;
    return SHARED_MAP_REPLACE;
}

static int verifier_put(struct verifier *v, struct shared_value *value)
{
    int rc = shared_map_update(v->shared, value->key, value, verifier_replace, NULL);
    return rc < 0 ? rc : 0;
}

/* Caches forget what they remember before they are asked the next time. */
static void verifier_advance(struct verifier *v)
{
    __atomic_add_fetch(&v->generation, 1, __ATOMIC_RELEASE);
}

unsigned verifier_generation(const struct verifier *v)
{
    return __atomic_load_n(&v->generation, __ATOMIC_ACQUIRE);
}

int verifier_put_files(struct verifier *v, const struct auth_files *files)
{
    int rc = files->tokens ? verifier_put(v, token_file_value(files->tokens)) : 0;
    for (size_t i = 0; i < v->settings.issuer_count && rc == 0; i++) {
        rc = files->jwks[i] ? verifier_put(v, jwks_value(files->jwks[i])) : 0;
    }
    if (rc == 0 && files->credentials) {
        rc = verifier_put(v, credentials_value(files->credentials));
    }
    verifier_advance(v);
    return rc;
}

int verifier_put_keys(struct verifier *v, struct jwks *keys)
{
    int rc = verifier_put(v, jwks_value(keys));
    verifier_advance(v);
    return rc;
}

static int verifier_unset(void *user, const struct shared_value *old)
{
    (void)user;
    return old ? SHARED_MAP_REMOVE : SHARED_MAP_KEEP;
}

void verifier_remove_keys(struct verifier *v, const struct issuer *issuer)
{
    (void)shared_map_update(v->shared, tidings_str(issuer->name), NULL, verifier_unset, NULL);
    verifier_advance(v);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int open_files(struct verifier *v, struct tidings_error *err)
{
    struct auth_files *files;
    int rc = auth_files_load(&v->settings, &files, err);
    if (rc == 0) {
        rc = verifier_put_files(v, files);
        auth_files_destroy(files);
        if (rc < 0) {
            tidings_fail(err, rc, "out of memory");
        }
    }
    return rc;
}

int verifier_init(struct verifier *v, const struct auth_options *options, struct tidings_error *err)
{
    int rc = auth_settings_init(&v->settings, options, err);
    if (rc == 0 && v->settings.issuer_count > 0) {
        rc = signature_load(err);
    }
    if (rc == 0) {
        v->shared = shared_map_create(err);
        rc = v->shared ? open_files(v, err) : TIDINGS_E_NOMEM;
    }
    return rc;
}

void verifier_deinit(struct verifier *v)
{
    shared_map_destroy(v->shared);
    auth_settings_deinit(&v->settings);
}

/* ---- proofs ---------------------------------------------------------------------------------- */

_Static_assert(AUTH_ISSUERS_MAX <= 1u << JWKS_PROOF_SPARE, "the issuer fits into a proof");

/* Which key of which issuer. */
static uint64_t verifier_make_proof(size_t issuer, uint64_t key)
{
    return key << JWKS_PROOF_SPARE | issuer;
}

bool verifier_proof_is_valid(const struct verifier *v, uint64_t proof)
{
    const struct auth_settings *s = &v->settings;
    size_t issuer = proof & ((1u << JWKS_PROOF_SPARE) - 1);
    if (proof == 0 || issuer >= s->issuer_count) {
        return proof == 0;
    }
    struct jwks *set = jwks_of(shared_map_find(v->shared, tidings_str(s->issuers[issuer].name)));
    bool stands = !set || jwks_has(set, proof >> JWKS_PROOF_SPARE);
    shared_value_unref(set ? jwks_value(set) : NULL);
    return stands;
}

/* ---- the file of tokens ---------------------------------------------------------------------- */

static void find_in_file(struct verifier *v, const unsigned char digest[SHA256_BYTES],
                         struct verdict *ret)
{
    struct token_file *f = token_file_of(shared_map_find(v->shared, TOKEN_FILE_KEY));
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

static void verifier_refuse(struct verdict *ret, const char *why)
{
    *ret = (struct verdict){.outcome = AUTH_INVALID, .why = why};
}

static void verifier_accept(const struct verifier *v, const struct issuer *issuer,
                            const struct claims *claims, uint64_t proof, struct verdict *ret)
{
    struct tidings_str prefix =
        v->settings.issuer_count > 1 ? tidings_str(issuer->name) : STR_EMPTY;
    if (!identity_fits(prefix, claims->name)) {
        verifier_refuse(ret, "the name in the token is too long");
        return;
    }
    struct identity *i =
        identity_create(prefix, claims->name, &claims->scopes, claims->expires_ms, AUTH_BY_JWT);
    if (i) {
        memcpy(i->is.key, claims->key, sizeof(i->is.key));
        i->is.proof = verifier_make_proof((size_t)(issuer - v->settings.issuers), proof);
    }
    *ret = i ? (struct verdict){.outcome = AUTH_OK, .identity = i}
             : (struct verdict){.outcome = AUTH_UNAVAILABLE, .why = "out of memory"};
}

static void verifier_verify(struct verifier *v, const struct issuer *issuer, const struct jwt *t,
                            const struct claims *claims, struct verdict *ret)
{
    enum verdict_need need = issuer->is_remote ? VERDICT_NEEDS_KEYS : VERDICT_FINAL;
    struct jwks *set = jwks_of(shared_map_find(v->shared, tidings_str(issuer->name)));
    if (!set) {
        *ret = (struct verdict){.outcome = AUTH_UNAVAILABLE,
                                .why = "the keys of the issuer cannot be had at the moment",
                                .need = need};
        ret->issuer = (size_t)(issuer - v->settings.issuers);
        return;
    }
    uint64_t proof = 0;
    switch (jwks_verify(set, t->kid, t->algorithm, t->bytes, buf_str(&t->signature), &proof)) {
    case JWKS_GOOD:
        verifier_accept(v, issuer, claims, proof, ret);
        break;
    case JWKS_BAD:
        verifier_refuse(ret, "the signature of the token is wrong");
        break;
    case JWKS_UNFIT:
        verifier_refuse(ret, "the key of the token is not for its algorithm");
        break;
    case JWKS_NO_KEY:
        verifier_refuse(ret, "the key of the token is not known");
        ret->need = need;
        ret->issuer = (size_t)(issuer - v->settings.issuers);
        break;
    }
    shared_value_unref(jwks_value(set));
}

static void find_jwt(struct verifier *v, struct tidings_str token, int64_t now_ms,
                     struct verdict *ret)
{
    struct jwt t;
    const char *why = jwt_parse(&t, token);
    if (why) {
        verifier_refuse(ret, why);
        return;
    }
    const struct issuer *issuer = auth_settings_find_issuer(&v->settings, t.issuer);
    struct claims_rules rules = auth_settings_rules(&v->settings, true);
    struct claims claims;
    if (!issuer) {
        verifier_refuse(ret, "the issuer of the token is not trusted here");
    } else if ((why = claims_check(t.claims, &rules, now_ms, &claims)) != NULL) {
        verifier_refuse(ret, why);
    } else {
        verifier_verify(v, issuer, &t, &claims, ret);
    }
    jwt_deinit(&t);
}

void verifier_check(struct verifier *v, struct tidings_str token,
                    const unsigned char digest[SHA256_BYTES], int64_t now_ms, struct verdict *ret)
{
    verifier_refuse(ret, "the token is not known here");
    find_in_file(v, digest, ret);
    if (ret->outcome != AUTH_INVALID) {
        return;
    }
    if (v->settings.issuer_count > 0 && jwt_is_likely(token)) {
        find_jwt(v, token, now_ms, ret);
    } else if (v->settings.introspection) {
        *ret = (struct verdict){.outcome = AUTH_UNAVAILABLE,
                                .why = "the authorization server cannot be asked at the moment",
                                .need = VERDICT_NEEDS_INTROSPECTION};
    }
}
