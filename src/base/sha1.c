/* SPDX-License-Identifier: MIT
 *
 * SHA-1 as FIPS 180-4 writes it down, over one piece of memory.
 */
#include "base/sha1.h"

static uint32_t sha1_rotate(uint32_t x, unsigned n)
{
    return x << n | x >> (32 - n);
}

/* §6.1.2: which function and constant, by the quarter of the 80 rounds. */
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
