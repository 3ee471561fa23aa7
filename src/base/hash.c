/* SPDX-License-Identifier: MIT
 *
 * SHA-256 as in FIPS 180-4: a block at a time, no tables except the constants.
 */
#include "base/hash.h"

#include <assert.h>

#include <tidings/file.h>

/* -------------------------------------------------------------------------------------------------
 * SHA-1 as in FIPS 180-4, over one contiguous input.
 */

static uint32_t sha1_rotate(uint32_t x, unsigned n)
{
    return x << n | x >> (32 - n);
}

/* §6.1.2: function and constant by the quarter of the 80 rounds. */
static uint32_t sha1_mix(unsigned t, const uint32_t v[5])
{
    switch (t / 20) {
    case 0:
        return ((v[1] & v[2]) ^ (~v[1] & v[3])) + 0x5a827999;
    case 1:
        return (v[1] ^ v[2] ^ v[3]) + 0x6ed9eba1;
    case 2:
        return ((v[1] & v[2]) ^ (v[1] & v[3]) ^ (v[2] & v[3])) + 0x8f1bbcdc;
    default:
        return (v[1] ^ v[2] ^ v[3]) + 0xca62c1d6;
    }
}

static void sha1_compress(uint32_t state[5], const unsigned char block[64])
{
    uint32_t w[80], v[5];
    for (unsigned t = 0; t < 16; t++) {
        const unsigned char *p = block + (size_t)4 * t;
        w[t] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    for (unsigned t = 16; t < 80; t++) {
        w[t] = sha1_rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    }
    memcpy(v, state, sizeof(v));
    for (unsigned t = 0; t < 80; t++) {
        uint32_t next = sha1_rotate(v[0], 5) + sha1_mix(t, v) + v[4] + w[t];
        memmove(v + 1, v, 4 * sizeof(v[0]));
        v[2] = sha1_rotate(v[2], 30);
        v[0] = next;
    }
    for (unsigned i = 0; i < 5; i++) {
        state[i] += v[i];
    }
}

void sha1(struct tidings_str bytes, unsigned char out[SHA1_BYTES])
{
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    const unsigned char *p = (const unsigned char *)bytes.ptr;
    size_t left = bytes.len;
    for (; left >= 64; left -= 64, p += 64) {
        sha1_compress(state, p);
    }
    /* The rest, a one bit, and the length in bits at the end of a block. */
    unsigned char tail[128] = {0};
    size_t size = left < 56 ? 64 : 128;
    uint64_t bits = (uint64_t)bytes.len * 8;
    if (left > 0) {
        memcpy(tail, p, left);
    }
    tail[left] = 0x80;
    for (unsigned i = 0; i < 8; i++) {
        tail[size - 1 - i] = (unsigned char)(bits >> 8 * i);
    }
    for (size_t at = 0; at < size; at += 64) {
        sha1_compress(state, tail + at);
    }
    for (unsigned i = 0; i < SHA1_BYTES; i++) {
        out[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

/* ---------------------------------------------------------------------------------------------- */

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes (§4.2.2). */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t sha256_rotate(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static uint32_t read_word(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void write_word(unsigned char *p, uint32_t v)
{
    p[0] = (unsigned char)(v >> 24);
    p[1] = (unsigned char)(v >> 16);
    p[2] = (unsigned char)(v >> 8);
    p[3] = (unsigned char)v;
}

static void sha256_compress(uint32_t state[8], const unsigned char block[64])
{
    uint32_t w[64], v[8];
    for (unsigned t = 0; t < 16; t++) {
        w[t] = read_word(block + 4 * t);
    }
    for (unsigned t = 16; t < 64; t++) {
        uint32_t s0 = sha256_rotate(w[t - 15], 7) ^ sha256_rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = sha256_rotate(w[t - 2], 17) ^ sha256_rotate(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    memcpy(v, state, sizeof(v));
    for (unsigned t = 0; t < 64; t += 8) {
        /* Instead of moving the eight words, each step finds them one place further back; with
         * unrolling, the places are constants and the words stay in registers. */
#pragma GCC unroll 8
        for (unsigned j = 0; j < 8; j++) {
            uint32_t a = v[(8 - j) % 8], b = v[(9 - j) % 8], c = v[(10 - j) % 8];
            uint32_t e = v[(12 - j) % 8], f = v[(13 - j) % 8], g = v[(14 - j) % 8];
            uint32_t s1 = sha256_rotate(e, 6) ^ sha256_rotate(e, 11) ^ sha256_rotate(e, 25);
            uint32_t t1 = v[(15 - j) % 8] + s1 + ((e & f) ^ (~e & g)) + K[t + j] + w[t + j];
            uint32_t s0 = sha256_rotate(a, 2) ^ sha256_rotate(a, 13) ^ sha256_rotate(a, 22);
            v[(11 - j) % 8] += t1;
            v[(15 - j) % 8] = t1 + s0 + ((a & b) ^ (a & c) ^ (b & c));
        }
    }
    for (unsigned i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

void sha256_init(struct sha256 *s)
{
    /* Fractional parts of the square roots of the first eight primes (§5.3.3). */
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(s->state, first, sizeof(first));
    s->total = 0;
}

void sha256_put(struct sha256 *s, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    while (len > 0) {
        size_t at = s->total % sizeof(s->block);
        size_t n = sizeof(s->block) - at < len ? sizeof(s->block) - at : len;
        memcpy(s->block + at, p, n);
        s->total += n;
        p += n;
        len -= n;
        if (at + n == sizeof(s->block)) {
            sha256_compress(s->state, s->block);
        }
    }
}

void sha256_end(struct sha256 *s, unsigned char out[SHA256_BYTES])
{
    static const unsigned char padding[64] = {0x80};
    unsigned char length[8];
    uint64_t bits = s->total * 8;
    write_word(length, (uint32_t)(bits >> 32));
    write_word(length + 4, (uint32_t)bits);
    size_t at = s->total % sizeof(s->block);
    sha256_put(s, padding, (at < 56 ? 56 : 120) - at);
    sha256_put(s, length, sizeof(length));
    for (unsigned i = 0; i < 8; i++) {
        write_word(out + 4 * i, s->state[i]);
    }
}

void hmac256_init(struct hmac256 *h, const unsigned char *key, size_t len)
{
    unsigned char pad[64];
    assert(len <= sizeof(pad));
    for (size_t i = 0; i < sizeof(pad); i++) {
        pad[i] = (unsigned char)((i < len ? key[i] : 0) ^ 0x36);
    }
    sha256_init(&h->inner);
    sha256_put(&h->inner, pad, sizeof(pad));
    for (size_t i = 0; i < sizeof(pad); i++) {
        pad[i] ^= 0x36 ^ 0x5c;
    }
    sha256_init(&h->outer);
    sha256_put(&h->outer, pad, sizeof(pad));
    explicit_bzero(pad, sizeof(pad));
}

void hmac256_put(struct hmac256 *h, const void *bytes, size_t len)
{
    sha256_put(&h->inner, bytes, len);
}

void hmac256_end(struct hmac256 *h, unsigned char out[SHA256_BYTES])
{
    unsigned char inner[SHA256_BYTES];
    sha256_end(&h->inner, inner);
    sha256_put(&h->outer, inner, sizeof(inner));
    sha256_end(&h->outer, out);
    explicit_bzero(h, sizeof(*h)); /* both halves are equivalent to the key */
}

void tidings_digest(struct tidings_str bytes, char out[TIDINGS_DIGEST_MAX])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[SHA256_BYTES];
    struct sha256 s;
    sha256_init(&s);
    sha256_put(&s, bytes.ptr, bytes.len);
    sha256_end(&s, digest);
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[2 * SHA256_BYTES] = '\0';
}
