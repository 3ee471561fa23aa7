/* SPDX-License-Identifier: MIT
 *
 * Base64 (RFC 4648 §4) and base64url without padding (§5).
 *
 * Encoding takes 12 bits at a time through a table of all 4,096 pairs of digits, which halves the
 * work of the usual one-digit table: every read of a large blob uses it. Decoding is strict: one
 * byte sequence has exactly one accepted spelling, so two spellings cannot name the same thing.
 * Deliberately accepts no line breaks, no blanks, no mixed alphabets.
 */
#include "base/encode.h"

#include <string.h>

/* One row: the digit `c` before each of the 64 digits. */
#define ROW(c, d62, d63)                                                                           \
    c "A" c "B" c "C" c "D" c "E" c "F" c "G" c "H" c "I" c "J" c "K" c "L" c "M" c "N" c "O" c    \
      "P" c "Q" c "R" c "S" c "T" c "U" c "V" c "W" c "X" c "Y" c "Z" c "a" c "b" c "c" c "d" c    \
      "e" c "f" c "g" c "h" c "i" c "j" c "k" c "l" c "m" c "n" c "o" c "p" c "q" c "r" c "s" c    \
      "t" c "u" c "v" c "w" c "x" c "y" c "z" c "0" c "1" c "2" c "3" c "4" c "5" c "6" c "7" c    \
      "8" c "9" c d62 c d63
#define ROWS(p, q)                                                                                 \
    ROW("A", p, q), ROW("B", p, q), ROW("C", p, q), ROW("D", p, q), ROW("E", p, q),                \
        ROW("F", p, q), ROW("G", p, q), ROW("H", p, q), ROW("I", p, q), ROW("J", p, q),            \
        ROW("K", p, q), ROW("L", p, q), ROW("M", p, q), ROW("N", p, q), ROW("O", p, q),            \
        ROW("P", p, q), ROW("Q", p, q), ROW("R", p, q), ROW("S", p, q), ROW("T", p, q),            \
        ROW("U", p, q), ROW("V", p, q), ROW("W", p, q), ROW("X", p, q), ROW("Y", p, q),            \
        ROW("Z", p, q), ROW("a", p, q), ROW("b", p, q), ROW("c", p, q), ROW("d", p, q),            \
        ROW("e", p, q), ROW("f", p, q), ROW("g", p, q), ROW("h", p, q), ROW("i", p, q),            \
        ROW("j", p, q), ROW("k", p, q), ROW("l", p, q), ROW("m", p, q), ROW("n", p, q),            \
        ROW("o", p, q), ROW("p", p, q), ROW("q", p, q), ROW("r", p, q), ROW("s", p, q),            \
        ROW("t", p, q), ROW("u", p, q), ROW("v", p, q), ROW("w", p, q), ROW("x", p, q),            \
        ROW("y", p, q), ROW("z", p, q), ROW("0", p, q), ROW("1", p, q), ROW("2", p, q),            \
        ROW("3", p, q), ROW("4", p, q), ROW("5", p, q), ROW("6", p, q), ROW("7", p, q),            \
        ROW("8", p, q), ROW("9", p, q), ROW(p, p, q), ROW(q, p, q)

typedef const char pair_row[129];
static pair_row standard_pairs[64] = {ROWS("+", "/")};
static pair_row url_pairs[64] = {ROWS("-", "_")};

/* The value of each digit with IS_DIGIT added; all other bytes are 0. */
#define IS_DIGIT 64
#define D(c, n) [c] = IS_DIGIT + (n)
#define DIGITS                                                                                     \
    D('A', 0), D('B', 1), D('C', 2), D('D', 3), D('E', 4), D('F', 5), D('G', 6), D('H', 7),        \
        D('I', 8), D('J', 9), D('K', 10), D('L', 11), D('M', 12), D('N', 13), D('O', 14),          \
        D('P', 15), D('Q', 16), D('R', 17), D('S', 18), D('T', 19), D('U', 20), D('V', 21),        \
        D('W', 22), D('X', 23), D('Y', 24), D('Z', 25), D('a', 26), D('b', 27), D('c', 28),        \
        D('d', 29), D('e', 30), D('f', 31), D('g', 32), D('h', 33), D('i', 34), D('j', 35),        \
        D('k', 36), D('l', 37), D('m', 38), D('n', 39), D('o', 40), D('p', 41), D('q', 42),        \
        D('r', 43), D('s', 44), D('t', 45), D('u', 46), D('v', 47), D('w', 48), D('x', 49),        \
        D('y', 50), D('z', 51), D('0', 52), D('1', 53), D('2', 54), D('3', 55), D('4', 56),        \
        D('5', 57), D('6', 58), D('7', 59), D('8', 60), D('9', 61)

typedef const unsigned char digit_table[256];
static digit_table standard_digits = {DIGITS, D('+', 62), D('/', 63)};
static digit_table url_digits = {DIGITS, D('-', 62), D('_', 63)};

static void put_pair(char *out, pair_row *pairs, size_t twelve_bits)
{
    memcpy(out, &pairs[twelve_bits >> 6][(twelve_bits & 63) * 2], 2);
}

/* Writes the digits without padding; returns the end. */
static char *encode(char *out, const unsigned char *in, size_t len, pair_row *pairs)
{
    for (; len >= 3; len -= 3, in += 3, out += 4) {
        uint32_t v = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
        put_pair(out, pairs, v >> 12);
        put_pair(out + 2, pairs, v & 0xFFF);
    }
    if (len == 2) {
        uint32_t v = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8;
        put_pair(out, pairs, v >> 12);
        out[2] = pairs[0][((v >> 6) & 63) * 2 + 1];
        out += 3;
    } else if (len == 1) {
        put_pair(out, pairs, (uint32_t)in[0] << 4);
        out += 2;
    }
    return out;
}

static int base64_put_with(struct buf *out, struct tidings_str in, pair_row *pairs, bool pad)
{
    if (in.len > (SIZE_MAX / 4) * 3 - 3) {
        out->failed = out->failed ? out->failed : TIDINGS_E_LIMIT;
        return out->failed;
    }
    size_t digits = in.len / 3 * 4 + (in.len % 3 ? in.len % 3 + 1 : 0);
    size_t total = pad ? (digits + 3) / 4 * 4 : digits;
    int rc = buf_reserve(out, total);
    if (rc < 0) {
        return rc;
    }
    char *start = out->ptr + out->len;
    char *end = encode(start, (const unsigned char *)in.ptr, in.len, pairs);
    while (end < start + total) {
        *end++ = '=';
    }
    *end = '\0';
    out->len += total;
    return 0;
}

char *base64_write(char *at, struct tidings_str in)
{
    char *end = encode(at, (const unsigned char *)in.ptr, in.len, standard_pairs);
    while (end < at + base64_len(in.len)) {
        *end++ = '=';
    }
    return end;
}

int base64_put(struct buf *out, struct tidings_str in)
{
    return base64_put_with(out, in, standard_pairs, true);
}

int base64url_put(struct buf *out, struct tidings_str in)
{
    return base64_put_with(out, in, url_pairs, false);
}

/* Decodes four digits at a time, then the rest: `in` is without padding, `out` has room. False if a
 * digit or the remaining bits are invalid. */
static bool base64_decode_with(char *out, struct tidings_str in, const unsigned char *digits)
{
    const unsigned char *p = (const unsigned char *)in.ptr;
    size_t left = in.len;
    for (; left >= 4; left -= 4, p += 4, out += 3) {
        uint32_t a = digits[p[0]], b = digits[p[1]], c = digits[p[2]], d = digits[p[3]];
        if ((a & b & c & d & IS_DIGIT) == 0) {
            return false;
        }
        uint32_t v = (a & 63) << 18 | (b & 63) << 12 | (c & 63) << 6 | (d & 63);
        out[0] = (char)(v >> 16);
        out[1] = (char)(v >> 8 & 0xFF);
        out[2] = (char)(v & 0xFF);
    }
    uint32_t v = 0;
    for (size_t i = 0; i < left; i++) {
        uint32_t d = digits[p[i]];
        if ((d & IS_DIGIT) == 0) {
            return false;
        }
        v |= (d & 63) << (18 - 6 * i);
    }
    for (size_t i = 0; i + 1 < left; i++, v = v << 8 & 0xFFFFFF) {
        *out++ = (char)(v >> 16);
    }
    return v == 0; /* stray bits: RFC 4648 §3.5 */
}

static int get(struct buf *out, struct tidings_str in, const unsigned char *digits)
{
    if (in.len % 4 == 1) {
        return TIDINGS_E_PARSE;
    }
    size_t len = in.len / 4 * 3 + (in.len % 4 ? in.len % 4 - 1 : 0);
    int rc = buf_reserve(out, len);
    if (rc < 0) {
        return rc;
    }
    bool is_valid = base64_decode_with(out->ptr + out->len, in, digits);
    out->len += is_valid ? len : 0;
    out->ptr[out->len] = '\0';
    return is_valid ? 0 : TIDINGS_E_PARSE;
}

int base64_decode(struct buf *out, struct tidings_str in)
{
    if (in.len % 4 != 0) {
        return TIDINGS_E_PARSE;
    }
    for (int i = 0; i < 2 && in.len > 0 && in.ptr[in.len - 1] == '='; i++) {
        in.len--;
    }
    return get(out, in, standard_digits);
}

int base64url_decode(struct buf *out, struct tidings_str in)
{
    return get(out, in, url_digits);
}
