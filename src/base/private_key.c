/* SPDX-License-Identifier: MIT
 *
 * Private keys and signing with OpenSSL's EVP. Every public function leaves the thread's list of
 * OpenSSL errors empty: sessions on the same thread read it (base/tls.c).
 */
#include "base/private_key.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/tls_library.h"

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

/* A key with a password is not asked for one. */
static int private_key_no_password(char *out, int size, int is_writing, void *user)
{
    (void)out;
    (void)size;
    (void)is_writing;
    (void)user;
    return -1;
}

/* Takes `evp`. */
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
               : tidings_fail(err, TIDINGS_E_INVALID,
                              "that is no private key in PEM, without a password");
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

/* From DER to r and s one behind the other. */
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
