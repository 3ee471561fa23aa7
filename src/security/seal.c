/* SPDX-License-Identifier: MIT
 *
 * Seals and opens with AES-256-GCM from OpenSSL's EVP. Like everything that uses OpenSSL, every
 * function leaves the thread's error queue empty.
 */
#include "security/seal.h"

#include <limits.h>

#include "base/encode.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/net/openssl.h"
#include "base/time.h"

#define HEAD (SEAL_SALT + SEAL_NONCE)
#define OVERHEAD (HEAD + SEAL_TAG)
#define SMALL 256u /* bytes of a seal built on the stack */

_Static_assert(SHA256_BYTES == 32, "what comes out of the HMAC is the key");

int seal_key_init(struct seal_key *key)
{
    return random_bytes(key, sizeof(*key));
}

/* A context without a key; NULL: OpenSSL is missing, does not offer the cipher, or out of memory.
 */
static EVP_CIPHER_CTX *create_context(struct tidings_error *err)
{
    if (tls_api_load(err) < 0) {
        return NULL;
    }
    EVP_CIPHER_CTX *ctx = tls_api.EVP_CIPHER_CTX_new();
    if (!ctx) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    } else if (tls_api.EVP_EncryptInit_ex(ctx, tls_api.EVP_aes_256_gcm(), NULL, NULL, NULL) != 1) {
        tidings_fail(err, TIDINGS_E_UNSUPPORTED, "OpenSSL has no AES-256-GCM: %s",
                     tls_api_reason());
        tls_api.EVP_CIPHER_CTX_free(ctx);
        ctx = NULL;
    }
    tls_api.ERR_clear_error();
    return ctx;
}

int seal_load(struct tidings_error *err)
{
    struct tidings_error why = {0};
    EVP_CIPHER_CTX *ctx = create_context(&why);
    if (!ctx) {
        return tidings_fail(err, why.code, "%s", why.text);
    }
    tls_api.EVP_CIPHER_CTX_free(ctx);
    return 0;
}

void sealer_init(struct sealer *s, const struct seal_key *key)
{
    *s = (struct sealer){.key = key};
}

void sealer_deinit(struct sealer *s)
{
    if (s->put) {
        tls_api.EVP_CIPHER_CTX_free(s->put);
    }
    if (s->open) {
        tls_api.EVP_CIPHER_CTX_free(s->open);
    }
    *s = (struct sealer){0};
}

/* Sets the key for a salt in a context, which is created on first use. */
static int set_key(const struct sealer *s, EVP_CIPHER_CTX **ctx, const unsigned char *salt,
                   bool encrypts)
{
    struct tidings_error why = {0};
    unsigned char key[SHA256_BYTES];
    struct hmac256 h;
    if (!*ctx) {
        *ctx = create_context(&why);
    }
    if (!*ctx) {
        return why.code;
    }
    hmac256_init(&h, s->key->secret, sizeof(s->key->secret));
    hmac256_put(&h, salt, SEAL_SALT);
    hmac256_end(&h, key);
    int good = encrypts ? tls_api.EVP_EncryptInit_ex(*ctx, NULL, NULL, key, NULL)
                        : tls_api.EVP_DecryptInit_ex(*ctx, NULL, NULL, key, NULL);
    explicit_bzero(key, sizeof(key));
    if (good != 1) {
        tls_api.EVP_CIPHER_CTX_free(*ctx);
        tls_api.ERR_clear_error();
        *ctx = NULL;
    }
    return good == 1 ? 0 : TIDINGS_E_NOMEM;
}

/* ---- sealing --------------------------------------------------------------------------------- */

static int draw_nonce(struct sealer *s, unsigned char *nonce)
{
    if (s->nonces_left == 0) {
        int rc = random_bytes(s->nonces, sizeof(s->nonces));
        if (rc < 0) {
            return rc;
        }
        s->nonces_left = sizeof(s->nonces) / SEAL_NONCE;
    }
    memcpy(nonce, s->nonces + --s->nonces_left * SEAL_NONCE, SEAL_NONCE);
    return 0;
}

/* Writes salt and nonce to `head`. Replaces a salt that has been used up. */
static int begin_seal(struct sealer *s, unsigned char *head)
{
    int rc = 0;
    if (s->left == 0) {
        rc = random_bytes(s->salt, sizeof(s->salt));
        rc = rc < 0 ? rc : set_key(s, &s->put, s->salt, true);
        s->left = rc < 0 ? 0 : SEALS_PER_SALT;
    }
    if (rc == 0) {
        memcpy(head, s->salt, SEAL_SALT);
        rc = draw_nonce(s, head + SEAL_SALT);
    }
    s->left -= rc == 0;
    return rc;
}

static bool encrypt(EVP_CIPHER_CTX *ctx, struct tidings_str purpose, struct tidings_str text,
                    unsigned char *raw)
{
    unsigned char *at = raw + HEAD;
    int n = 0;
    return tls_api.EVP_EncryptInit_ex(ctx, NULL, NULL, NULL, raw + SEAL_SALT) == 1 &&
           tls_api.EVP_EncryptUpdate(ctx, NULL, &n, (const unsigned char *)purpose.ptr,
                                     (int)purpose.len) == 1 &&
           tls_api.EVP_EncryptUpdate(ctx, at, &n, (const unsigned char *)text.ptr, (int)text.len) ==
               1 &&
           tls_api.EVP_EncryptFinal_ex(ctx, at + n, &n) == 1 &&
           tls_api.EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, SEAL_TAG, at + text.len) == 1;
}

int seal_put(struct sealer *s, struct buf *out, struct tidings_str purpose, struct tidings_str text)
{
    unsigned char small[SMALL];
    if (text.len > INT_MAX - OVERHEAD || purpose.len > INT_MAX) {
        return TIDINGS_E_LIMIT;
    }
    size_t size = text.len + OVERHEAD;
    unsigned char *raw = size > sizeof(small) ? mem_alloc(size) : small;
    int rc = raw ? begin_seal(s, raw) : TIDINGS_E_NOMEM;
    if (rc == 0) {
        rc = encrypt(s->put, purpose, text, raw) ? 0 : TIDINGS_E_NOMEM;
        tls_api.ERR_clear_error();
    }
    if (rc == 0) {
        rc = base64url_put(out, tidings_strn((const char *)raw, size));
    }
    if (raw != small) {
        mem_free(raw);
    }
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Decrypts in place. Callers must not use the plaintext until the tag has been verified. */
static bool decrypt(EVP_CIPHER_CTX *ctx, struct tidings_str purpose, unsigned char *raw, size_t len)
{
    unsigned char *at = raw + HEAD;
    int n = 0;
    return tls_api.EVP_DecryptInit_ex(ctx, NULL, NULL, NULL, raw + SEAL_SALT) == 1 &&
           tls_api.EVP_DecryptUpdate(ctx, NULL, &n, (const unsigned char *)purpose.ptr,
                                     (int)purpose.len) == 1 &&
           tls_api.EVP_DecryptUpdate(ctx, at, &n, at, (int)len) == 1 &&
           tls_api.EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, SEAL_TAG, at + len) == 1 &&
           tls_api.EVP_DecryptFinal_ex(ctx, at + n, &n) == 1;
}

/* `raw` has the length of a seal, but is not verified yet. */
static int open_raw(struct sealer *s, struct tidings_str purpose, unsigned char *raw, size_t len)
{
    int rc = 0;
    if (!s->open || memcmp(s->opened, raw, SEAL_SALT) != 0) {
        rc = set_key(s, &s->open, raw, false);
        memcpy(s->opened, raw, SEAL_SALT);
    }
    if (rc == 0) {
        rc = decrypt(s->open, purpose, raw, len) ? 0 : TIDINGS_E_INVALID;
        tls_api.ERR_clear_error();
    }
    return rc;
}

int seal_open(struct sealer *s, struct buf *out, struct tidings_str purpose,
              struct tidings_str sealed)
{
    struct buf raw;
    buf_init_secret(&raw, sealed.len);
    int rc = sealed.len > INT_MAX || purpose.len > INT_MAX ? TIDINGS_E_INVALID
                                                           : base64url_decode(&raw, sealed);
    if (rc == 0 && raw.len < OVERHEAD) {
        rc = TIDINGS_E_INVALID;
    }
    if (rc == 0) {
        size_t len = raw.len - OVERHEAD;
        rc = open_raw(s, purpose, (unsigned char *)raw.ptr, len);
        rc = rc < 0 ? rc : buf_put(out, raw.ptr + HEAD, len);
    }
    buf_deinit(&raw);
    return rc == TIDINGS_E_PARSE ? TIDINGS_E_INVALID : rc;
}
