/* SPDX-License-Identifier: MIT
 *
 * SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104). Pure.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <tidings/types.h>

#define SHA256_BYTES 32u

struct sha256 {
    uint32_t state[8];
    uint64_t total; /* bytes */
    unsigned char block[64];
};

void sha256_init(struct sha256 *s);
void sha256_put(struct sha256 *s, const void *bytes, size_t len);
void sha256_end(struct sha256 *s, unsigned char out[SHA256_BYTES]);

struct hmac256 {
    struct sha256 inner, outer;
};

void hmac256_init(struct hmac256 *h, const unsigned char *key, size_t len); /* at most 64 bytes */
void hmac256_put(struct hmac256 *h, const void *bytes, size_t len);
void hmac256_end(struct hmac256 *h, unsigned char out[SHA256_BYTES]);

/* -------------------------------------------------------------------------------------------------
 * SHA-1 (FIPS 180-4). Pure. Only for the WebSocket handshake, which requires it but does not rely
 * on it for secrecy.
 */

#define SHA1_BYTES 20u

void sha1(struct tidings_str bytes, unsigned char out[SHA1_BYTES]);

#endif
