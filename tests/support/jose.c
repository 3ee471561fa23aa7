/* SPDX-License-Identifier: MIT
 *
 * A failure of OpenSSL here ends the test program: there is nothing to test then.
 */
#include "support/jose.h"
#include "base/encode.h"

#include <stdio.h>
#include <stdlib.h>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

struct jose_key {
    EVP_PKEY *evp;
    const char *digest;
    char kind; /* R, P, E (elliptic), D (Edwards) */
};

static void must(bool ok)
{
    if (!ok) {
        fprintf(stderr, "jose: OpenSSL failed\n");
        abort();
    }
}

struct jose_key *jose_key_create(const char *algorithm)
{
    struct jose_key *key = calloc(1, sizeof(*key));
    must(key != NULL);
    const char *bits = strchr(algorithm, '/');
    key->kind = algorithm[0] == 'E' && algorithm[1] == 'd' ? 'D' : algorithm[0];
    key->digest = strstr(algorithm, "384")   ? "SHA384"
                  : strstr(algorithm, "512") ? "SHA512"
                                             : "SHA256";
    if (key->kind == 'D') {
        key->digest = NULL;
        key->evp = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    } else if (key->kind == 'E') {
        key->evp = EVP_PKEY_Q_keygen(NULL, NULL, "EC",
                                     strstr(algorithm, "384")   ? "P-384"
                                     : strstr(algorithm, "512") ? "P-521"
                                                                : "P-256");
    } else {
        key->evp = EVP_PKEY_Q_keygen(NULL, NULL, "RSA",
                                     (size_t)(bits ? strtoul(bits + 1, NULL, 10) : 2048));
    }
    must(key->evp != NULL);
    return key;
}

void jose_key_destroy(struct jose_key *key)
{
    if (key) {
        EVP_PKEY_free(key->evp);
        free(key);
    }
}

static void put_bn(struct buf *out, const struct jose_key *key, const char *name)
{
    BIGNUM *bn = NULL;
    unsigned char bytes[2048];
    must(EVP_PKEY_get_bn_param(key->evp, name, &bn) == 1);
    int len = BN_bn2bin(bn, bytes);
    must(buf_put(out, bytes, (size_t)len) == 0);
    BN_free(bn);
}

void jose_put_rsa(struct buf *n, struct buf *e, const struct jose_key *key)
{
    put_bn(n, key, OSSL_PKEY_PARAM_RSA_N);
    put_bn(e, key, OSSL_PKEY_PARAM_RSA_E);
}

void jose_put_point(struct buf *x, struct buf *y, const struct jose_key *key)
{
    unsigned char point[256];
    size_t len = sizeof(point);
    if (key->kind == 'D') {
        must(EVP_PKEY_get_raw_public_key(key->evp, point, &len) == 1);
        must(buf_put(x, point, len) == 0);
        return;
    }
    must(EVP_PKEY_get_octet_string_param(key->evp, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point),
                                         &len) == 1);
    must(point[0] == 4);
    must(buf_put(x, point + 1, (len - 1) / 2) == 0);
    must(buf_put(y, point + 1 + (len - 1) / 2, (len - 1) / 2) == 0);
}

void jose_put_jwk(struct buf *out, const struct jose_key *key, const char *more)
{
    struct buf first, second;
    buf_init(&first, 2048);
    buf_init(&second, 2048);
    const char *names[] = {"x", "y"};
    if (key->kind == 'R' || key->kind == 'P') {
        names[0] = "n";
        names[1] = "e";
        jose_put_rsa(&first, &second, key);
        buf_puts(out, STR("{\"kty\":\"RSA\""));
    } else {
        jose_put_point(&first, &second, key);
        buf_puts(out, key->kind == 'D'  ? STR("{\"kty\":\"OKP\",\"crv\":\"Ed25519\"")
                      : first.len == 32 ? STR("{\"kty\":\"EC\",\"crv\":\"P-256\"")
                      : first.len == 66 ? STR("{\"kty\":\"EC\",\"crv\":\"P-521\"")
                                        : STR("{\"kty\":\"EC\",\"crv\":\"P-384\""));
    }
    buf_putf(out, ",\"%s\":\"", names[0]);
    base64url_put(out, buf_str(&first));
    if (second.len > 0) {
        buf_putf(out, "\",\"%s\":\"", names[1]);
        base64url_put(out, buf_str(&second));
    }
    buf_putf(out, "\"%s%s}", more[0] ? "," : "", more);
    buf_deinit(&first);
    buf_deinit(&second);
}

void jose_put_set(struct buf *out, const struct jose_key *key, const char *more)
{
    buf_puts(out, STR("{\"keys\":["));
    jose_put_jwk(out, key, more);
    buf_puts(out, STR("]}"));
}

/* From DER to r and s one behind the other. */
static size_t to_raw(unsigned char *der, size_t len, size_t half, unsigned char *out)
{
    const unsigned char *at = der;
    ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &at, (long)len);
    must(sig != NULL);
    must(BN_bn2binpad(ECDSA_SIG_get0_r(sig), out, (int)half) == (int)half);
    must(BN_bn2binpad(ECDSA_SIG_get0_s(sig), out + half, (int)half) == (int)half);
    ECDSA_SIG_free(sig);
    return 2 * half;
}

void jose_sign(struct buf *out, const struct jose_key *key, struct tidings_str bytes)
{
    unsigned char sig[1024], raw[132];
    size_t len = sizeof(sig);
    EVP_PKEY_CTX *ctx = NULL;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    must(md && EVP_DigestSignInit_ex(md, &ctx, key->digest, NULL, NULL, key->evp, NULL) == 1);
    if (key->kind == 'P') {
        must(EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING) == 1);
        must(EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) == 1);
    }
    must(EVP_DigestSign(md, sig, &len, (const unsigned char *)bytes.ptr, bytes.len) == 1);
    EVP_MD_CTX_free(md);
    if (key->kind == 'E') {
        size_t half = key->digest[3] == '2' ? 32 : key->digest[3] == '3' ? 48 : 66;
        len = to_raw(sig, len, half, raw);
    }
    must(buf_put(out, key->kind == 'E' ? raw : sig, len) == 0);
}

void jose_rsa_public(const struct jose_key *key, struct tidings_str signature,
                     unsigned char block[256])
{
    size_t len = 256;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key->evp, NULL);
    must(ctx && EVP_PKEY_encrypt_init(ctx) == 1);
    must(EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_NO_PADDING) == 1);
    must(EVP_PKEY_encrypt(ctx, block, &len, (const unsigned char *)signature.ptr, signature.len) ==
             1 &&
         len == 256);
    EVP_PKEY_CTX_free(ctx);
}

bool jose_rsa_private(const struct jose_key *key, const unsigned char block[256], struct buf *out)
{
    unsigned char bytes[256];
    size_t len = sizeof(bytes);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key->evp, NULL);
    must(ctx && EVP_PKEY_decrypt_init(ctx) == 1);
    must(EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_NO_PADDING) == 1);
    bool ok = EVP_PKEY_decrypt(ctx, bytes, &len, block, 256) == 1;
    EVP_PKEY_CTX_free(ctx);
    must(!ok || (len == 256 && buf_put(out, bytes, len) == 0));
    return ok;
}

void jose_put_token(struct buf *out, const struct jose_key *key, const char *header,
                    const char *claims)
{
    struct buf sig;
    size_t begin = out->len;
    buf_init(&sig, 1024);
    base64url_put(out, tidings_str(header));
    buf_putc(out, '.');
    base64url_put(out, tidings_str(claims));
    jose_sign(&sig, key, tidings_strn(out->ptr + begin, out->len - begin));
    buf_putc(out, '.');
    base64url_put(out, buf_str(&sig));
    must(!out->failed);
    buf_deinit(&sig);
}
