/* SPDX-License-Identifier: MIT
 *
 * Sealing and opening. The tag is compared in constant time and before anything is decrypted.
 */
#include "base/seal.h"

#include "base/clock.h"
#include "base/sha256.h"

#define NONCE_BYTES 16u

int seal_key_init(struct seal_key *key)
{
    return random_bytes(key, sizeof(*key));
}

static void put_length(struct hmac256 *h, size_t len)
{
    unsigned char bytes[8];
    for (unsigned i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)((uint64_t)len >> (8 * i));
    }
    hmac256_put(h, bytes, sizeof(bytes));
}

/* XOR with the key stream of this nonce: in both directions. */
static void cipher(const struct seal_key *key, const unsigned char *nonce, unsigned char *text,
                   size_t len)
{
    for (size_t at = 0, block = 0; at < len; block++) {
        unsigned char stream[SHA256_BYTES];
        struct hmac256 h;
        hmac256_init(&h, key->encrypt, sizeof(key->encrypt));
        hmac256_put(&h, nonce, NONCE_BYTES);
        put_length(&h, block);
        hmac256_end(&h, stream);
        for (size_t i = 0; i < sizeof(stream) && at < len; i++) {
            text[at++] ^= stream[i];
        }
    }
}

/* Of nonce and ciphertext; lengths say where the purpose ends. */
static void make_tag(const struct seal_key *key, struct tidings_str purpose,
                     const unsigned char *sealed, size_t len, unsigned char tag[SHA256_BYTES])
{
    struct hmac256 h;
    hmac256_init(&h, key->authenticate, sizeof(key->authenticate));
    put_length(&h, purpose.len);
    hmac256_put(&h, purpose.ptr, purpose.len);
    hmac256_put(&h, sealed, len);
    hmac256_end(&h, tag);
}

int seal_put(struct buf *out, const struct seal_key *key, struct tidings_str purpose,
             struct tidings_str text)
{
    struct buf raw;
    buf_init(&raw, NONCE_BYTES + text.len + SHA256_BYTES);
    unsigned char nonce[NONCE_BYTES], tag[SHA256_BYTES];
    int rc = random_bytes(nonce, sizeof(nonce));
    if (rc == 0) {
        buf_put(&raw, nonce, sizeof(nonce));
        buf_puts(&raw, text);
        rc = raw.failed;
    }
    if (rc == 0) {
        unsigned char *at = (unsigned char *)raw.ptr;
        cipher(key, nonce, at + NONCE_BYTES, text.len);
        make_tag(key, purpose, at, raw.len, tag);
        rc = buf_put(&raw, tag, sizeof(tag));
    }
    if (rc == 0) {
        rc = base64url_put(out, buf_str(&raw));
    }
    buf_deinit(&raw);
    return rc;
}

int seal_open(struct buf *out, const struct seal_key *key, struct tidings_str purpose,
              struct tidings_str sealed)
{
    struct buf raw;
    buf_init(&raw, sealed.len);
    int rc = base64url_decode(&raw, sealed);
    if (rc == 0 && raw.len < NONCE_BYTES + SHA256_BYTES) {
        rc = TIDINGS_E_INVALID;
    }
    if (rc == 0) {
        unsigned char tag[SHA256_BYTES], different = 0;
        unsigned char *at = (unsigned char *)raw.ptr;
        size_t len = raw.len - SHA256_BYTES;
        make_tag(key, purpose, at, len, tag);
        for (size_t i = 0; i < sizeof(tag); i++) {
            different |= tag[i] ^ at[len + i];
        }
        rc = different ? TIDINGS_E_INVALID : 0;
        if (rc == 0) {
            cipher(key, at, at + NONCE_BYTES, len - NONCE_BYTES);
            rc = buf_put(out, at + NONCE_BYTES, len - NONCE_BYTES);
        }
    }
    buf_deinit(&raw);
    return rc == TIDINGS_E_PARSE ? TIDINGS_E_INVALID : rc;
}
