/* SPDX-License-Identifier: MIT
 *
 * Splits a JWT into its parts. Base64url and JSON are parsed strictly (one spelling, no duplicate
 * members), so that no other party can read a different token from the same bytes.
 */
#include "security/jwt.h"

#include "base/encode.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/json.h"
#include "security/principal.h"

/* -------------------------------------------------------------------------------------------------
 * Checks the claims of a token one by one. A claim of the wrong type is rejected, not ignored: a
 * claim that cannot be understood cannot be enforced.
 */

#define SECONDS_MAX (1LL << 43) /* leaves room for milliseconds and a leeway */
#define AUDIENCES_MAX 64u       /* per token */

/* RFC 7519 §2 NumericDate: seconds, with an optional fraction. False: invalid. */
static bool read_date(const struct json *v, int64_t *ret_ms)
{
    if (jv_is(v, JV_INT)) {
        int64_t seconds = jv_int(v);
        if (seconds < 0 || seconds > SECONDS_MAX) {
            return false;
        }
        *ret_ms = seconds * 1000;
        return true;
    }
    double seconds = jv_is(v, JV_REAL) ? jv_real(v) : -1;
    if (!(seconds >= 0 && seconds <= (double)SECONDS_MAX)) {
        return false;
    }
    *ret_ms = (int64_t)(seconds * 1000);
    return true;
}

static const char *check_time(const struct json *claims, const struct claims_rules *rules,
                              int64_t now_ms, int64_t *ret_expires_ms)
{
    const struct json *exp = jv_get(claims, "exp"), *nbf = jv_get(claims, "nbf");
    const struct json *iat = jv_get(claims, "iat");
    int64_t at = 0;
    if (!exp && rules->needs_expiry) {
        return "the token has no expiry";
    }
    *ret_expires_ms = 0;
    if (exp) {
        if (!read_date(exp, &at)) {
            return "the token's expiry is not a date";
        }
        *ret_expires_ms = at + rules->leeway_ms;
        if (*ret_expires_ms <= now_ms) {
            return "the token has expired";
        }
    }
    if (nbf && (!read_date(nbf, &at) || at > now_ms + rules->leeway_ms)) {
        return "the token is not valid yet";
    }
    if (iat && (!read_date(iat, &at) || at > now_ms + rules->leeway_ms)) {
        return "the token was issued in the future";
    }
    return NULL;
}

_Static_assert(AUTH_KEY_TEXT == DPOP_KEY_TEXT, "an identity has room for the name of a key");

static bool claims_is_ours(const struct json *audience, const struct claims_rules *rules)
{
    for (size_t i = 0; jv_is(audience, JV_STRING) && i < rules->audience_count; i++) {
        if (str_eq(jv_str(audience), tidings_str(rules->audiences[i]))) {
            return true;
        }
    }
    return false;
}

static const char *check_audience(const struct json *claims, const struct claims_rules *rules)
{
    const struct json *aud = jv_get(claims, "aud");
    bool found = claims_is_ours(aud, rules);
    if (jv_is(aud, JV_ARRAY) && jv_count(aud) <= AUDIENCES_MAX) {
        for (size_t i = 0; i < jv_count(aud) && !found; i++) {
            found = claims_is_ours(jv_at(aud, i), rules);
        }
    }
    return found ? NULL : "the token is for another audience";
}

/* A string with blanks (RFC 8693 §4.2, RFC 7662), or an array of strings as some servers send it.
 */
static bool claims_gather_scopes(const struct json *v, struct scope_list *scopes)
{
    if (!v || jv_is(v, JV_STRING)) {
        return scope_list_add_all(scopes, jv_str(v));
    }
    bool ok = jv_is(v, JV_ARRAY);
    for (size_t i = 0; i < jv_count(v) && ok; i++) {
        ok = scope_list_add(scopes, jv_str(jv_at(v, i)));
    }
    return ok;
}

const char *claims_check(const struct json *claims, const struct claims_rules *rules,
                         int64_t now_ms, struct claims *ret)
{
    const struct json *subject = jv_get(claims, "sub");
    *ret = (struct claims){.expires_ms = 0};
    const char *why = check_time(claims, rules, now_ms, &ret->expires_ms);
    if (!why) {
        why = check_audience(claims, rules);
    }
    if (why) {
        return why;
    }
    if ((why = dpop_read_binding(claims, ret->key)) != NULL) {
        return why;
    }
    ret->name = jv_str(subject ? subject : jv_get(claims, "client_id"));
    if (!identity_is_name(ret->name, AUTH_NAME_MAX)) {
        return "the token has no subject";
    }
    if (!claims_gather_scopes(jv_get(claims, "scope"), &ret->scopes) ||
        !claims_gather_scopes(jv_get(claims, "scp"), &ret->scopes)) {
        return "the scopes of the token are malformed or too many";
    }
    return NULL;
}

/* -------------------------------------------------------------------------------------------------
 * Parses a set of public keys, and finds the keys that may have signed a token.
 */

#define DEPTH_MAX 8u
#define MEMBER_MAX 2048u /* bytes of a number, decoded */

struct jwk {
    struct public_key *key;
    char *kid; /* NULL: none */
    size_t kid_len;
    bool has_algorithm;
    enum signature_algorithm algorithm;
    uint64_t proof; /* a hash of the whole key; never 0 */
};

struct jwks {
    struct shared_value value;
    unsigned char digest[SHA256_BYTES]; /* digest of the text */
    size_t count;
    struct jwk keys[JWKS_KEYS_MAX];
    char issuer[];
};

static void jwks_destroy(struct shared_value *value)
{
    struct jwks *set = list_entry(value, struct jwks, value);
    for (size_t i = 0; i < set->count; i++) {
        public_key_destroy(set->keys[i].key);
        mem_free(set->keys[i].kid);
    }
    mem_free(set);
}

struct shared_value *jwks_value(struct jwks *set)
{
    return &set->value;
}

struct jwks *jwks_of(struct shared_value *value)
{
    return value ? list_entry(value, struct jwks, value) : NULL;
}

size_t jwks_count(const struct jwks *set)
{
    return set->count;
}

bool jwks_is_same(const struct jwks *a, const struct jwks *b)
{
    return memcmp(a->digest, b->digest, SHA256_BYTES) == 0;
}

/* ---- one key --------------------------------------------------------------------------------- */

/* The declared purpose of the key must match its use. */
static int read_purpose(const struct json *v, struct jwk *ret, struct tidings_error *err)
{
    const struct json *use = jv_get(v, "use"), *ops = jv_get(v, "key_ops"), *alg = jv_get(v, "alg");
    if (use && !str_eq(jv_str(use), STR("sig"))) {
        return tidings_fail(err, TIDINGS_E_INVALID, "its use is not 'sig'");
    }
    bool verifies = ops == NULL;
    for (size_t i = 0; i < jv_count(ops); i++) {
        verifies = verifies || str_eq(jv_str(jv_at(ops, i)), STR("verify"));
    }
    if (!verifies) {
        return tidings_fail(err, TIDINGS_E_INVALID, "its key_ops have no 'verify'");
    }
    if (alg && !signature_find_algorithm(jv_str(alg), &ret->algorithm)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "its alg is not accepted");
    }
    ret->has_algorithm = alg != NULL;
    return 0;
}

static int jwks_read_number(const struct json *v, const char *name, struct buf *out,
                            struct tidings_error *err)
{
    if (!jv_is(jv_get(v, name), JV_STRING) || base64url_decode(out, jv_str(jv_get(v, name))) < 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "'%s' is not base64url of a number", name);
    }
    return 0;
}

/* Hashes all properties that decide which signatures are valid: if one of these differs, it is
 * another key. */
static uint64_t make_proof(const struct jwk *k, struct tidings_str issuer,
                           const struct tidings_str parts[4])
{
    unsigned char digest[SHA256_BYTES];
    uint64_t proof = 0;
    struct sha256 hash;
    const uint64_t numbers[] = {issuer.len,     k->kid_len,
                                k->kid != NULL, parts[0].len,
                                parts[1].len,   parts[2].len,
                                parts[3].len,   k->has_algorithm ? 1u + (uint64_t)k->algorithm : 0};
    sha256_init(&hash);
    sha256_put(&hash, numbers, sizeof(numbers));
    sha256_put(&hash, issuer.ptr, issuer.len);
    sha256_put(&hash, k->kid ? k->kid : "", k->kid_len);
    for (size_t i = 0; i < 4; i++) {
        sha256_put(&hash, parts[i].ptr, parts[i].len);
    }
    sha256_end(&hash, digest);
    memcpy(&proof, digest, sizeof(proof));
    proof >>= JWKS_PROOF_SPARE;
    return proof > 0 ? proof : 1;
}

/* The key itself, and its proof. */
static int read_material(const struct json *v, struct tidings_str issuer, struct jwk *ret,
                         struct tidings_error *err)
{
    struct tidings_str type = jv_str(jv_get(v, "kty")), curve = jv_str(jv_get(v, "crv"));
    bool is_rsa = str_eq(type, STR("RSA")), is_ec = str_eq(type, STR("EC"));
    if (!is_rsa && !is_ec && !(str_eq(type, STR("OKP")) && str_eq(curve, STR("Ed25519")))) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "its kty is not RSA, EC or OKP with the curve Ed25519");
    }
    if (jv_get(v, "d")) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "it contains the private key; publish only the public key");
    }
    struct buf first, second;
    buf_init(&first, MEMBER_MAX);
    buf_init(&second, MEMBER_MAX);
    int rc = jwks_read_number(v, is_rsa ? "n" : "x", &first, err);
    if (rc == 0 && (is_rsa || is_ec)) {
        rc = jwks_read_number(v, is_rsa ? "e" : "y", &second, err);
    }
    if (rc == 0) {
        rc = is_rsa  ? public_key_rsa(&ret->key, buf_str(&first), buf_str(&second), err)
             : is_ec ? public_key_ec(&ret->key, curve, buf_str(&first), buf_str(&second), err)
                     : public_key_ed25519(&ret->key, buf_str(&first), err);
    }
    const struct tidings_str parts[4] = {type, curve, buf_str(&first), buf_str(&second)};
    ret->proof = rc == 0 ? make_proof(ret, issuer, parts) : 0;
    buf_deinit(&first);
    buf_deinit(&second);
    return rc;
}

/* TIDINGS_E_INVALID: the caller skips the key. */
static int jwks_read_key(const struct json *v, struct tidings_str issuer, struct jwk *ret,
                         struct tidings_error *err)
{
    const struct json *kid = jv_get(v, "kid");
    *ret = (struct jwk){0};
    if (!jv_is(v, JV_OBJECT)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "it is not an object");
    }
    if (kid && (!jv_is(kid, JV_STRING) || jv_str(kid).len > JWKS_KID_MAX)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "its kid is not a string of at most %u bytes",
                            JWKS_KID_MAX);
    }
    int rc = read_purpose(v, ret, err);
    if (rc == 0 && kid) {
        ret->kid = str_dup(jv_str(kid));
        ret->kid_len = jv_str(kid).len;
        rc = ret->kid ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc == 0) {
        rc = read_material(v, issuer, ret, err);
    }
    if (rc == 0 && ret->has_algorithm && !public_key_fits(ret->key, ret->algorithm)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "its alg is for another kind of key");
    }
    if (rc < 0) {
        public_key_destroy(ret->key);
        mem_free(ret->kid);
    }
    return rc;
}

int jwks_read_public(const struct json *jwk, struct public_key **ret, struct tidings_error *err)
{
    struct jwk k;
    int rc = jwks_read_key(jwk, STR_EMPTY, &k, err);
    if (rc == 0) {
        mem_free(k.kid);
        *ret = k.key;
    }
    return rc;
}

/* ---- the set --------------------------------------------------------------------------------- */

static int read_keys(struct jwks *set, const struct json *root, struct tidings_error *err)
{
    const struct json *keys = jv_get(root, "keys");
    struct tidings_error first = {0, ""};
    if (!jv_is(keys, JV_ARRAY)) {
        return tidings_fail(err, TIDINGS_E_PARSE, "a key set is an object with an array 'keys'");
    }
    if (jv_count(keys) > JWKS_KEYS_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "more than %u keys", JWKS_KEYS_MAX);
    }
    for (size_t i = 0; i < jv_count(keys); i++) {
        struct tidings_error why = {0, ""};
        int rc = jwks_read_key(jv_at(keys, i), set->value.key, &set->keys[set->count], &why);
        if (rc == 0) {
            set->count++;
        } else if (rc != TIDINGS_E_INVALID) {
            return tidings_fail(err, rc, "%s", why.text);
        } else if (first.code == 0) {
            first = why;
        }
    }
    return first.code == 0 || set->count > 0
               ? 0
               : tidings_fail(err, TIDINGS_E_INVALID, "no key that could be used; the first: %s",
                              first.text);
}

int jwks_parse(struct jwks **ret, struct tidings_str issuer, struct tidings_str text,
               struct tidings_error *err)
{
    struct json *root = NULL;
    struct sha256 hash;
    int rc = text.len > JWKS_MAX
                 ? tidings_fail(err, TIDINGS_E_LIMIT, "larger than %u bytes", JWKS_MAX)
                 : jv_parse(text, DEPTH_MAX, &root, err);
    if (rc < 0) {
        return rc;
    }
    struct jwks *set = mem_zalloc(sizeof(*set) + issuer.len + 1);
    if (!set) {
        jv_unref(root);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    char *at = set->issuer;
    set->value = (struct shared_value){str_pack(&at, issuer), jwks_destroy, 1};
    sha256_init(&hash);
    sha256_put(&hash, text.ptr, text.len);
    sha256_end(&hash, set->digest);
    rc = read_keys(set, root, err);
    jv_unref(root);
    if (rc < 0) {
        shared_value_unref(&set->value);
        return rc;
    }
    *ret = set;
    return 0;
}

int jwks_load(struct jwks **ret, struct tidings_str issuer, const char *path,
              struct tidings_error *err)
{
    struct buf text;
    buf_init(&text, JWKS_MAX + 8192);
    int rc = whole_file_read(path, JWKS_MAX, &text, err);
    if (rc == 0) {
        rc = jwks_parse(ret, issuer, buf_str(&text), err);
        rc = rc < 0 ? error_wrap(err, rc, "'%s'", path) : 0;
    }
    buf_deinit(&text);
    return rc;
}

/* ---- verifying ------------------------------------------------------------------------------- */

enum jwks_result jwks_verify(const struct jwks *set, struct tidings_str kid,
                             enum signature_algorithm algorithm, struct tidings_str bytes,
                             struct tidings_str signature, uint64_t *proof)
{
    enum jwks_result result = JWKS_NO_KEY;
    unsigned tried = 0;
    for (size_t i = 0; i < set->count && tried < JWKS_CANDIDATES_MAX; i++) {
        const struct jwk *k = &set->keys[i];
        bool is_named = kid.ptr && k->kid;
        if (is_named && !str_eq(kid, tidings_strn(k->kid, k->kid_len))) {
            continue;
        }
        if (!public_key_fits(k->key, algorithm) ||
            (k->has_algorithm && k->algorithm != algorithm)) {
            result = is_named && result == JWKS_NO_KEY ? JWKS_UNFIT : result;
            continue;
        }
        tried++;
        if (signature_is_good(k->key, algorithm, bytes, signature)) {
            *proof = k->proof;
            return JWKS_GOOD;
        }
        result = JWKS_BAD;
    }
    return result;
}

bool jwks_has(const struct jwks *set, uint64_t proof)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->keys[i].proof == proof) {
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------------------------------------- */

#define JWT_DEPTH_MAX 16u

bool jwt_is_likely(struct tidings_str token)
{
    size_t dots = 0;
    for (size_t i = 0; i < token.len; i++) {
        dots += token.ptr[i] == '.';
    }
    return dots == 2;
}

/* Parses an object in base64url; NULL: invalid. */
static struct json *jwt_read_object(struct tidings_str part)
{
    struct buf text;
    struct json *v = NULL;
    buf_init(&text, AUTH_TOKEN_MAX);
    if (base64url_decode(&text, part) < 0 ||
        jv_parse(buf_str(&text), JWT_DEPTH_MAX, &v, NULL) < 0) {
        v = NULL;
    }
    buf_deinit(&text);
    if (v && !jv_is(v, JV_OBJECT)) {
        jv_unref(v);
        v = NULL;
    }
    return v;
}

static bool jwt_is_access_token(const struct json *typ)
{
    static const char *const types[] = {"JWT", "at+jwt", "application/at+jwt"};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (str_eq_nocase(jv_str(typ), tidings_str(types[i]))) {
            return true;
        }
    }
    return typ == NULL;
}

static const char *read_header(struct jwt *t, const char *type)
{
    const struct json *typ = jv_get(t->header, "typ");
    const struct json *kid = jv_get(t->header, "kid");
    if (!signature_find_algorithm(jv_str(jv_get(t->header, "alg")), &t->algorithm)) {
        return "the algorithm of the token is not accepted";
    }
    if (jv_get(t->header, "crit")) {
        return "the token needs an extension that is not known here";
    }
    if (type ? !str_eq(jv_str(typ), tidings_str(type)) : !jwt_is_access_token(typ)) {
        return "the token is not an access token";
    }
    if (kid && (!jv_is(kid, JV_STRING) || jv_str(kid).len > JWKS_KID_MAX)) {
        return "the token names its key in no way that is known here";
    }
    t->kid = kid ? jv_str(kid) : (struct tidings_str){NULL, 0};
    return NULL;
}

const char *jwt_parse(struct jwt *ret, struct tidings_str token)
{
    return jwt_parse_as(ret, token, NULL);
}

const char *jwt_parse_as(struct jwt *ret, struct tidings_str token, const char *type)
{
    struct tidings_str rest, signature;
    struct tidings_str header = str_cut(token, '.', &rest, NULL);
    struct tidings_str claims = str_cut(rest, '.', &signature, NULL);
    const char *why = NULL;
    *ret = (struct jwt){.bytes = tidings_strn(token.ptr, header.len + 1 + claims.len)};
    buf_init(&ret->signature, AUTH_TOKEN_MAX);
    if (!jwt_is_likely(token) || token.len > AUTH_TOKEN_MAX) {
        why = "the token does not have the three parts of a JWT";
    } else if (!(ret->header = jwt_read_object(header)) ||
               !(ret->claims = jwt_read_object(claims)) ||
               base64url_decode(&ret->signature, signature) < 0) {
        why = "a part of the token cannot be read";
    } else {
        why = read_header(ret, type);
        ret->issuer = jv_str(jv_get(ret->claims, "iss"));
    }
    if (why) {
        jwt_deinit(ret);
    }
    return why;
}

void jwt_deinit(struct jwt *t)
{
    jv_unref(t->header);
    jv_unref(t->claims);
    buf_deinit(&t->signature);
    *t = (struct jwt){.header = NULL};
}
