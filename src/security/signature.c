/* SPDX-License-Identifier: MIT
 *
 * Public keys and signature verification with OpenSSL's EVP. Every public function leaves the
 * thread's OpenSSL error queue empty, because TLS sessions on the same thread read it
 * (base/net/tls.c).
 */
#include "security/signature.h"

#include "base/encode.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/net/openssl.h"
#include "base/str.h"

/* -------------------------------------------------------------------------------------------------
 * Private keys and signing with OpenSSL's EVP; the error queue is left empty here too.
 */

#define PEM_MAX 32768u
#define P256_BYTES 32u
#define POINT_BYTES (1 + 2 * P256_BYTES)
#define SIGNATURE_MAX 1024u /* of RSA with 8192 bits */
#define RSA_MIN_BITS 2048
#define RSA_MAX_BITS 8192

struct private_key {
    EVP_PKEY *evp;
    bool is_rsa;
};

/* Instead of prompting for the password of an encrypted key, fails. */
static int private_key_no_password(char *out, int size, int is_writing, void *user)
{
    (void)out;
    (void)size;
    (void)is_writing;
    (void)user;
    return -1;
}

/* Takes ownership of `evp`. */
static int private_key_wrap(struct private_key **ret, EVP_PKEY *evp, struct tidings_error *err)
{
    char group[32] = "";
    struct private_key *key = mem_zalloc(sizeof(*key));
    if (!key) {
        tls_api.EVP_PKEY_free(evp);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    *key = (struct private_key){evp, tls_api.EVP_PKEY_is_a(evp, "RSA") == 1};
    int bits = tls_api.EVP_PKEY_get_bits(evp);
    (void)tls_api.EVP_PKEY_get_utf8_string_param(evp, OSSL_PKEY_PARAM_GROUP_NAME, group,
                                                 sizeof(group), NULL);
    bool is_p256 = tls_api.EVP_PKEY_is_a(evp, "EC") == 1 &&
                   (strcmp(group, "prime256v1") == 0 || strcmp(group, "P-256") == 0);
    bool is_fit = key->is_rsa ? bits >= RSA_MIN_BITS && bits <= RSA_MAX_BITS : is_p256;
    tls_api.ERR_clear_error();
    if (!is_fit) {
        private_key_destroy(key);
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "the key is neither one on P-256 nor one of RSA with %d to %d bits",
                            RSA_MIN_BITS, RSA_MAX_BITS);
    }
    *ret = key;
    return 0;
}

int private_key_read(struct private_key **ret, struct tidings_str pem, struct tidings_error *err)
{
    int rc = tls_api_load(err);
    if (rc < 0) {
        return error_wrap(err, rc, "nothing can be signed");
    }
    BIO *in = pem.len <= PEM_MAX ? tls_api.BIO_new_mem_buf(pem.ptr, (int)pem.len) : NULL;
    EVP_PKEY *evp =
        in ? tls_api.PEM_read_bio_PrivateKey(in, NULL, private_key_no_password, NULL) : NULL;
    tls_api.BIO_free(in);
    tls_api.ERR_clear_error();
    return evp ? private_key_wrap(ret, evp, err)
               : tidings_fail(err, TIDINGS_E_INVALID, "not an unencrypted private key in PEM");
}

int private_key_generate(struct private_key **ret, struct tidings_error *err)
{
    int rc = tls_api_load(err);
    if (rc < 0) {
        return error_wrap(err, rc, "nothing can be signed");
    }
    EVP_PKEY *evp = tls_api.EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    tls_api.ERR_clear_error();
    return evp ? private_key_wrap(ret, evp, err)
               : tidings_fail(err, TIDINGS_E_NOMEM, "no key can be made");
}

void private_key_destroy(struct private_key *key)
{
    if (key) {
        tls_api.EVP_PKEY_free(key->evp);
        mem_free(key);
    }
}

const char *private_key_algorithm(const struct private_key *key)
{
    return key->is_rsa ? "RS256" : "ES256";
}

int private_key_put_pem(const struct private_key *key, struct buf *out)
{
    BIO *to = tls_api.BIO_new(tls_api.BIO_s_mem());
    char *text = NULL;
    bool ok =
        to && tls_api.PEM_write_bio_PKCS8PrivateKey(to, key->evp, NULL, NULL, 0, NULL, NULL) == 1;
    long len = ok ? tls_api.BIO_ctrl(to, BIO_CTRL_INFO, 0, &text) : 0;
    int rc = len > 0 ? buf_put(out, text, (size_t)len) : TIDINGS_E_NOMEM;
    if (len > 0) {
        explicit_bzero(text, (size_t)len);
    }
    tls_api.BIO_free(to);
    tls_api.ERR_clear_error();
    return rc;
}

int private_key_put_jwk(const struct private_key *key, struct buf *out)
{
    unsigned char point[POINT_BYTES];
    size_t len = 0;
    bool ok = !key->is_rsa &&
              tls_api.EVP_PKEY_get_octet_string_param(key->evp, OSSL_PKEY_PARAM_PUB_KEY, point,
                                                      sizeof(point), &len) == 1 &&
              len == POINT_BYTES && point[0] == POINT_CONVERSION_UNCOMPRESSED;
    tls_api.ERR_clear_error();
    if (!ok) {
        return TIDINGS_E_UNSUPPORTED;
    }
    buf_puts(out, STR("{\"crv\":\"P-256\",\"kty\":\"EC\",\"x\":\""));
    base64url_put(out, tidings_strn((const char *)point + 1, P256_BYTES));
    buf_puts(out, STR("\",\"y\":\""));
    base64url_put(out, tidings_strn((const char *)point + 1 + P256_BYTES, P256_BYTES));
    return buf_puts(out, STR("\"}"));
}

/* From DER to the concatenation of r and s. */
static int private_key_put_raw(const unsigned char *der, size_t len, struct buf *out)
{
    unsigned char raw[2 * P256_BYTES];
    const unsigned char *at = der;
    const BIGNUM *r = NULL, *s = NULL;
    ECDSA_SIG *sig = tls_api.d2i_ECDSA_SIG(NULL, &at, (long)len);
    if (sig) {
        tls_api.ECDSA_SIG_get0(sig, &r, &s);
    }
    bool ok = sig && tls_api.BN_bn2binpad(r, raw, P256_BYTES) == P256_BYTES &&
              tls_api.BN_bn2binpad(s, raw + P256_BYTES, P256_BYTES) == P256_BYTES;
    tls_api.ECDSA_SIG_free(sig);
    return ok ? buf_put(out, raw, sizeof(raw)) : TIDINGS_E_NOMEM;
}

int private_key_sign(const struct private_key *key, struct tidings_str bytes, struct buf *out)
{
    unsigned char signature[SIGNATURE_MAX];
    size_t len = sizeof(signature);
    EVP_MD_CTX *md = tls_api.EVP_MD_CTX_new();
    bool ok =
        md && tls_api.EVP_DigestSignInit_ex(md, NULL, "SHA256", NULL, NULL, key->evp, NULL) == 1 &&
        tls_api.EVP_DigestSign(md, signature, &len, (const unsigned char *)bytes.ptr, bytes.len) ==
            1;
    int rc = !ok           ? TIDINGS_E_NOMEM
             : key->is_rsa ? buf_put(out, signature, len)
                           : private_key_put_raw(signature, len, out);
    tls_api.EVP_MD_CTX_free(md);
    tls_api.ERR_clear_error();
    return rc;
}

/* ---------------------------------------------------------------------------------------------- */

#define RSA_BITS_MIN 2048
#define RSA_BITS_MAX 8192   /* larger ones cost a verifier too much */
#define ROCA_PRIME_MAX 701u /* the 126th prime */
#define RSA_EXPONENT_BYTES 8u
#define ED25519_BYTES 32u
#define COORDINATE_MAX 66u
#define DER_MAX 144u /* two numbers of P-521 and their encoding */

enum key_kind { KEY_RSA, KEY_P256, KEY_P384, KEY_P521, KEY_ED25519 };

static const struct {
    const char *name;
    size_t bytes; /* of a coordinate */
} curves[] = {[KEY_P256] = {"P-256", 32}, [KEY_P384] = {"P-384", 48}, [KEY_P521] = {"P-521", 66}};

struct public_key {
    EVP_PKEY *evp;
    enum key_kind kind;
};

static const struct {
    enum key_kind kind;
    const char *digest; /* NULL: built into the algorithm */
    bool is_pss;
} algorithms[] = {
    [SIGNATURE_RS256] = {KEY_RSA, "SHA256", false},
    [SIGNATURE_RS384] = {KEY_RSA, "SHA384", false},
    [SIGNATURE_RS512] = {KEY_RSA, "SHA512", false},
    [SIGNATURE_PS256] = {KEY_RSA, "SHA256", true},
    [SIGNATURE_PS384] = {KEY_RSA, "SHA384", true},
    [SIGNATURE_PS512] = {KEY_RSA, "SHA512", true},
    [SIGNATURE_ES256] = {KEY_P256, "SHA256", false},
    [SIGNATURE_ES384] = {KEY_P384, "SHA384", false},
    [SIGNATURE_ES512] = {KEY_P521, "SHA512", false},
    [SIGNATURE_EDDSA] = {KEY_ED25519, NULL, false},
};

int signature_load(struct tidings_error *err)
{
    int rc = tls_api_load(err);
    return rc < 0 ? error_wrap(err, rc, "signatures cannot be verified") : 0;
}

bool signature_find_algorithm(struct tidings_str name, enum signature_algorithm *ret)
{
    static const char *const names[] = {
        [SIGNATURE_RS256] = "RS256", [SIGNATURE_RS384] = "RS384", [SIGNATURE_RS512] = "RS512",
        [SIGNATURE_PS256] = "PS256", [SIGNATURE_PS384] = "PS384", [SIGNATURE_PS512] = "PS512",
        [SIGNATURE_ES256] = "ES256", [SIGNATURE_ES384] = "ES384", [SIGNATURE_ES512] = "ES512",
        [SIGNATURE_EDDSA] = "EdDSA",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (tidings_str_eq(name, tidings_str(names[i]))) {
            *ret = (enum signature_algorithm)i;
            return true;
        }
    }
    return false;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static const unsigned char *signature_bytes_of(struct tidings_str s)
{
    return (const unsigned char *)s.ptr;
}

/* Takes ownership of `evp`; NULL: OpenSSL gives the reason. */
static int make_key(struct public_key **ret, enum key_kind kind, EVP_PKEY *evp,
                    struct tidings_error *err)
{
    if (!evp) {
        int rc =
            tidings_fail(err, TIDINGS_E_INVALID, "not a valid public key: %s", tls_api_reason());
        tls_api.ERR_clear_error();
        return rc;
    }
    struct public_key *key = mem_alloc(sizeof(*key));
    if (!key) {
        tls_api.EVP_PKEY_free(evp);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    *key = (struct public_key){evp, kind};
    tls_api.ERR_clear_error();
    *ret = key;
    return 0;
}

static EVP_PKEY *from_params(const char *type, OSSL_PARAM *params)
{
    EVP_PKEY *evp = NULL;
    EVP_PKEY_CTX *ctx = tls_api.EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    if (ctx && tls_api.EVP_PKEY_fromdata_init(ctx) == 1 &&
        tls_api.EVP_PKEY_fromdata(ctx, &evp, EVP_PKEY_PUBLIC_KEY, params) != 1) {
        evp = NULL;
    }
    tls_api.EVP_PKEY_CTX_free(ctx);
    return evp;
}

/* Numbers in parameters have native byte order. */
static bool to_native(struct tidings_str number, unsigned char *out)
{
    BIGNUM *bn = tls_api.BN_bin2bn(signature_bytes_of(number), (int)number.len, NULL);
    bool ok = bn && tls_api.BN_bn2nativepad(bn, out, (int)number.len) == (int)number.len;
    tls_api.BN_free(bn);
    return ok;
}

static int bits_of(struct tidings_str number)
{
    int bits = (int)number.len * 8;
    for (size_t i = 0; i < number.len; i++, bits -= 8) {
        for (int bit = 7; bit >= 0; bit--) {
            if (signature_bytes_of(number)[i] >> bit & 1) {
                return bits - (7 - bit);
            }
        }
    }
    return 0;
}

/* Returns true if `residue` is a power of 65537 modulo this prime. */
static bool is_power(unsigned residue, unsigned prime)
{
    unsigned power = 1;
    do {
        if (power == residue) {
            return true;
        }
        power = power * (65537 % prime) % prime;
    } while (power != 1);
    return false;
}

static bool is_prime(unsigned odd)
{
    for (unsigned i = 3; i * i <= odd; i += 2) {
        if (odd % i == 0) {
            return false;
        }
    }
    return true;
}

/* Returns true if the key was generated by the chips of CVE-2017-15361, whose keys can be factored.
 * Their keys of at least 1984 bits are powers of 65537 modulo each of the first 126 primes; one
 * other key in 2^167 is so too, and most already fail modulo 11 or 13. */
static bool has_roca_form(struct tidings_str n)
{
    for (unsigned prime = 3; prime <= ROCA_PRIME_MAX; prime += 2) {
        unsigned residue = 0;
        bool counts = is_prime(prime);
        for (size_t i = 0; counts && i < n.len; i++) {
            residue = (residue << 8 | signature_bytes_of(n)[i]) % prime;
        }
        if (counts && !is_power(residue, prime)) {
            return false;
        }
    }
    return true;
}

static int check_rsa(struct tidings_str n, struct tidings_str e, struct tidings_error *err)
{
    if (n.len > RSA_BITS_MAX / 8 + 1 || bits_of(n) < RSA_BITS_MIN || bits_of(n) > RSA_BITS_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID, "an RSA key has %d to %d bits", RSA_BITS_MIN,
                            RSA_BITS_MAX);
    }
    if (e.len == 0 || e.len > RSA_EXPONENT_BYTES || bits_of(e) < 2 ||
        !(signature_bytes_of(e)[e.len - 1] & 1)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "the exponent of an RSA key is odd, at least 3, and has at most %u "
                            "bytes",
                            RSA_EXPONENT_BYTES);
    }
    if (has_roca_form(n)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "this RSA key can be factored (CVE-2017-15361); the issuer has to "
                            "make another one");
    }
    return 0;
}

int public_key_rsa(struct public_key **ret, struct tidings_str n, struct tidings_str e,
                   struct tidings_error *err)
{
    unsigned char modulus[RSA_BITS_MAX / 8 + 1], exponent[RSA_EXPONENT_BYTES];
    int rc = signature_load(err);
    if (rc == 0) {
        rc = check_rsa(n, e, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (!to_native(n, modulus) || !to_native(e, exponent)) {
        tls_api.ERR_clear_error();
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    OSSL_PARAM params[] = {
        tls_api.OSSL_PARAM_construct_BN(OSSL_PKEY_PARAM_RSA_N, modulus, n.len),
        tls_api.OSSL_PARAM_construct_BN(OSSL_PKEY_PARAM_RSA_E, exponent, e.len),
        tls_api.OSSL_PARAM_construct_end(),
    };
    return make_key(ret, KEY_RSA, from_params("RSA", params), err);
}

int public_key_ec(struct public_key **ret, struct tidings_str curve, struct tidings_str x,
                  struct tidings_str y, struct tidings_error *err)
{
    enum key_kind kind = KEY_P256;
    char group[] = "P-256";
    unsigned char point[1 + 2 * COORDINATE_MAX] = {POINT_CONVERSION_UNCOMPRESSED};
    int rc = signature_load(err);
    if (rc < 0) {
        return rc;
    }
    while (kind <= KEY_P521 && !str_eq(curve, tidings_str(curves[kind].name))) {
        kind++;
    }
    if (kind > KEY_P521) {
        return tidings_fail(err, TIDINGS_E_INVALID, "the curve is P-256, P-384 or P-521");
    }
    size_t len = curves[kind].bytes;
    if (x.len != len || y.len != len) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a coordinate on this curve has %zu bytes",
                            len);
    }
    memcpy(group, curve.ptr, curve.len);
    memcpy(point + 1, x.ptr, len);
    memcpy(point + 1 + len, y.ptr, len);
    OSSL_PARAM params[] = {
        tls_api.OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
        tls_api.OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point, 1 + 2 * len),
        tls_api.OSSL_PARAM_construct_end(),
    };
    return make_key(ret, kind, from_params("EC", params), err);
}

int public_key_ed25519(struct public_key **ret, struct tidings_str x, struct tidings_error *err)
{
    int rc = signature_load(err);
    if (rc < 0) {
        return rc;
    }
    if (x.len != ED25519_BYTES) {
        return tidings_fail(err, TIDINGS_E_INVALID, "an Ed25519 key has %u bytes", ED25519_BYTES);
    }
    return make_key(
        ret, KEY_ED25519,
        tls_api.EVP_PKEY_new_raw_public_key_ex(NULL, "ED25519", NULL, signature_bytes_of(x), x.len),
        err);
}

void public_key_destroy(struct public_key *key)
{
    if (key) {
        tls_api.EVP_PKEY_free(key->evp);
        mem_free(key);
    }
}

bool public_key_fits(const struct public_key *key, enum signature_algorithm algorithm)
{
    return key->kind == algorithms[algorithm].kind;
}

/* ---- signatures ------------------------------------------------------------------------------ */

/* From the concatenation of r and s to DER, which OpenSSL takes. Returns the length; 0: invalid. */
static size_t to_der(enum key_kind kind, struct tidings_str raw, unsigned char out[DER_MAX])
{
    size_t half = curves[kind].bytes;
    if (raw.len != 2 * half) {
        return 0;
    }
    ECDSA_SIG *sig = tls_api.ECDSA_SIG_new();
    BIGNUM *r = tls_api.BN_bin2bn(signature_bytes_of(raw), (int)half, NULL);
    BIGNUM *s = tls_api.BN_bin2bn(signature_bytes_of(raw) + half, (int)half, NULL);
    int len = 0;
    if (sig && r && s && tls_api.ECDSA_SIG_set0(sig, r, s) == 1) {
        r = s = NULL; /* now owned by the signature */
        len = tls_api.i2d_ECDSA_SIG(sig, NULL);
        unsigned char *at = out;
        len = len > 0 && (unsigned)len <= DER_MAX ? tls_api.i2d_ECDSA_SIG(sig, &at) : 0;
    }
    tls_api.BN_free(r);
    tls_api.BN_free(s);
    tls_api.ECDSA_SIG_free(sig);
    return len > 0 ? (size_t)len : 0;
}

static bool signature_set_up(EVP_MD_CTX *md, const struct public_key *key,
                             enum signature_algorithm algorithm)
{
    EVP_PKEY_CTX *pkey = NULL; /* owned by md */
    if (tls_api.EVP_DigestVerifyInit_ex(md, &pkey, algorithms[algorithm].digest, NULL, NULL,
                                        key->evp, NULL) != 1) {
        return false;
    }
    /* RFC 7518 §3.5: the salt is as long as the digest. */
    return !algorithms[algorithm].is_pss ||
           (tls_api.EVP_PKEY_CTX_set_rsa_padding(pkey, RSA_PKCS1_PSS_PADDING) == 1 &&
            tls_api.EVP_PKEY_CTX_set_rsa_pss_saltlen(pkey, RSA_PSS_SALTLEN_DIGEST) == 1);
}

bool signature_is_good(const struct public_key *key, enum signature_algorithm algorithm,
                       struct tidings_str bytes, struct tidings_str signature)
{
    unsigned char der[DER_MAX];
    if (!public_key_fits(key, algorithm)) {
        return false;
    }
    if (key->kind >= KEY_P256 && key->kind <= KEY_P521) {
        signature = tidings_strn((char *)der, to_der(key->kind, signature, der));
        if (signature.len == 0) {
            return false;
        }
    }
    EVP_MD_CTX *md = tls_api.EVP_MD_CTX_new();
    bool ok = md && signature_set_up(md, key, algorithm) &&
              tls_api.EVP_DigestVerify(md, signature_bytes_of(signature), signature.len,
                                       signature_bytes_of(bytes), bytes.len) == 1;
    tls_api.EVP_MD_CTX_free(md);
    tls_api.ERR_clear_error();
    return ok;
}
