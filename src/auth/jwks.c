/* SPDX-License-Identifier: MIT
 *
 * Reading a set of public keys, and finding those that may have signed a token.
 */
#include "auth/jwks.h"

#include "base/error.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/whole_file.h"
#include "json/json.h"

#define DEPTH_MAX 8u
#define MEMBER_MAX 2048u /* bytes of a number, decoded */

struct jwk {
    struct public_key *key;
    char *kid; /* NULL: none */
    size_t kid_len;
    bool has_algorithm;
    enum signature_algorithm algorithm;
    uint64_t proof; /* made of all of it; never 0 */
};

struct jwks {
    struct shared_value value;
    unsigned char digest[SHA256_BYTES]; /* of the text */
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

/* What it says it is for must be what it is used for. */
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
        return tidings_fail(err, TIDINGS_E_INVALID, "its alg is none that is accepted here");
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

/* Whatever decides which signatures are good: what differs in one of these is another key. */
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
                            "it holds its private part, which is for the issuer alone");
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

/* TIDINGS_E_INVALID: one to pass over. */
static int jwks_read_key(const struct json *v, struct tidings_str issuer, struct jwk *ret,
                         struct tidings_error *err)
{
    const struct json *kid = jv_get(v, "kid");
    *ret = (struct jwk){0};
    if (!jv_is(v, JV_OBJECT)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "it is not an object");
    }
    if (kid && (!jv_is(kid, JV_STRING) || jv_str(kid).len > JWKS_KID_MAX)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "its kid is not a text of at most %u bytes",
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
