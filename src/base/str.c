/* SPDX-License-Identifier: MIT
 *
 * Slices: comparison, splitting, numbers, hashing, UTF-8.
 *
 * Only str_dup allocates, and nothing relies on a terminating NUL. A slice of length 0 may have a
 * NULL pointer, which is never handed to a mem* function. Case is compared for ASCII only, because
 * the wire formats need no more.
 */
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* -------------------------------------------------------------------------------------------------
 * The growing buffer (struct buf of base/str.h).
 *
 * Invariant: ptr is NULL and cap 0, or len < cap, cap <= max + 1 and ptr[len] is NUL. Growth
 * doubles, so that appending is linear in total. Deliberately not safe for bytes inside the buffer
 * itself.
 */

#define BUF_FIRST_CAP 64u

void buf_init(struct buf *b, size_t max_bytes)
{
    *b = (struct buf){.max = max_bytes < PTRDIFF_MAX ? max_bytes : PTRDIFF_MAX - 1};
}

void buf_init_secret(struct buf *b, size_t max_bytes)
{
    buf_init(b, max_bytes);
    b->is_secret = true;
}

static void buf_release(struct buf *b)
{
    if (b->is_secret) {
        mem_free_secret(b->ptr, b->cap);
    } else {
        mem_free(b->ptr);
    }
}

void buf_deinit(struct buf *b)
{
    buf_release(b);
    *b = (struct buf){.max = b->max, .is_secret = b->is_secret};
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = 0;
    if (b->ptr) {
        b->ptr[0] = '\0';
    }
}

static int buf_grow(struct buf *b, size_t need)
{
    size_t cap = b->cap < BUF_FIRST_CAP ? BUF_FIRST_CAP : b->cap * 2;
    if (cap < need) {
        cap = need;
    }
    if (cap > b->max + 1) {
        cap = b->max + 1;
    }
    /* realloc would leave a copy that cannot be wiped. */
    char *ptr = b->is_secret ? mem_alloc(cap) : mem_realloc(b->ptr, cap);
    if (!ptr) {
        return b->failed = TIDINGS_E_NOMEM;
    }
    if (b->is_secret && b->ptr) {
        memcpy(ptr, b->ptr, b->len);
        buf_release(b);
    }
    ptr[b->len] = '\0';
    b->ptr = ptr;
    b->cap = cap;
    return 0;
}

int buf_reserve_one(struct buf *b, size_t more)
{
    if (b->failed) {
        return b->failed;
    }
    if (more > b->max - b->len) {
        return b->failed = TIDINGS_E_LIMIT;
    }
    size_t need = b->len + more + 1;
    return need <= b->cap ? 0 : buf_grow(b, need);
}

int buf_putf(struct buf *b, const char *fmt, ...)
{
    int rc = buf_reserve(b, 0);
    if (rc < 0) {
        return rc;
    }
    size_t room = b->cap - b->len;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(b->ptr + b->len, room, fmt, args);
    va_end(args);
    if (n >= 0 && (size_t)n < room) {
        b->len += (size_t)n;
        return 0;
    }
    b->ptr[b->len] = '\0';
    if (n < 0) {
        return b->failed = TIDINGS_E_LIMIT; /* longer than an int */
    }
    rc = buf_reserve(b, (size_t)n);
    if (rc < 0) {
        return rc;
    }
    va_start(args, fmt);
    (void)vsnprintf(b->ptr + b->len, (size_t)n + 1, fmt, args);
    va_end(args);
    b->len += (size_t)n;
    return 0;
}

/* Writes the digits before `end` and returns their start. */
static char *decimal(char *end, uint64_t n)
{
    do {
        *--end = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    return end;
}

int buf_putu(struct buf *b, uint64_t n)
{
    char digits[20];
    char *start = decimal(digits + sizeof digits, n);
    return buf_put(b, start, (size_t)(digits + sizeof digits - start));
}

int buf_puti(struct buf *b, int64_t n)
{
    char digits[21];
    char *start = decimal(digits + sizeof digits, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
    if (n < 0) {
        *--start = '-';
    }
    return buf_put(b, start, (size_t)(digits + sizeof digits - start));
}

void buf_consume(struct buf *b, size_t n)
{
    if (n >= b->len) {
        n = b->len;
    }
    if (n == 0) {
        return;
    }
    b->len -= n;
    memmove(b->ptr, b->ptr + n, b->len);
    b->ptr[b->len] = '\0';
}

char *buf_detach(struct buf *b, size_t *len)
{
    char *ptr = b->ptr;
    if (len) {
        *len = b->len;
    }
    *b = (struct buf){.max = b->max, .is_secret = b->is_secret};
    return ptr;
}

int buf_check(const struct buf *b, const char *what, const char *advice, struct tidings_error *err)
{
    if (!b->failed) {
        return 0;
    }
    if (b->failed == TIDINGS_E_LIMIT) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "%s is larger than %zu bytes%s%s", what, b->max,
                            advice ? "; " : "", advice ? advice : "");
    }
    return tidings_fail(err, b->failed, "%s ran out of memory; try again later", what);
}

/* -------------------------------------------------------------------------------------------------
 * UTF-8 in pieces (Unicode, table 3-7): the first byte determines the number of bytes that follow
 * and the range of the second one; the others are continuation bytes. ASCII is skipped eight bytes
 * at a time.
 */

static bool utf8_begin(struct utf8_pieces *u, unsigned char c)
{
    u->low = 0x80;
    u->high = 0xBF;
    if (c >= 0xC2 && c <= 0xDF) {
        u->missing = 1;
    } else if ((c & 0xF0u) == 0xE0) {
        u->missing = 2;
        u->low = c == 0xE0 ? 0xA0 : 0x80;  /* overlong */
        u->high = c == 0xED ? 0x9F : 0xBF; /* surrogates */
    } else if (c >= 0xF0 && c <= 0xF4) {
        u->missing = 3;
        u->low = c == 0xF0 ? 0x90 : 0x80;  /* overlong */
        u->high = c == 0xF4 ? 0x8F : 0xBF; /* above U+10FFFF */
    } else {
        return c < 0x80;
    }
    return true;
}

bool utf8_pieces_add(struct utf8_pieces *u, struct tidings_str piece)
{
    const uint64_t high_bits = 0x8080808080808080u;
    for (size_t i = 0; i < piece.len; i++) {
        unsigned char c = (unsigned char)piece.ptr[i];
        uint64_t word = high_bits;
        if (u->missing > 0) {
            if (c < u->low || c > u->high) {
                return false;
            }
            u->missing--;
            u->low = 0x80;
            u->high = 0xBF;
            continue;
        }
        if (piece.len - i >= sizeof word) {
            memcpy(&word, piece.ptr + i, sizeof word);
        }
        if ((word & high_bits) == 0) {
            i += sizeof word - 1;
        } else if (!utf8_begin(u, c)) {
            return false;
        }
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------- */

bool str_eq(struct tidings_str a, struct tidings_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

bool str_eq_nocase(struct tidings_str a, struct tidings_str b)
{
    if (a.len != b.len) {
        return false;
    }
    for (size_t i = 0; i < a.len; i++) {
        if (lower(a.ptr[i]) != lower(b.ptr[i])) {
            return false;
        }
    }
    return true;
}

int str_cmp(struct tidings_str a, struct tidings_str b)
{
    size_t common = a.len < b.len ? a.len : b.len;
    int order = common ? memcmp(a.ptr, b.ptr, common) : 0;
    if (order != 0) {
        return order;
    }
    return (a.len > b.len) - (a.len < b.len);
}

bool str_starts(struct tidings_str s, struct tidings_str prefix)
{
    return s.len >= prefix.len && str_eq(tidings_strn(s.ptr, prefix.len), prefix);
}

bool str_ends(struct tidings_str s, struct tidings_str suffix)
{
    return s.len >= suffix.len && str_eq(str_skip(s, s.len - suffix.len), suffix);
}

static bool in_set(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

struct tidings_str str_trim(struct tidings_str s, const char *set)
{
    while (s.len > 0 && in_set(s.ptr[0], set)) {
        s = str_skip(s, 1);
    }
    while (s.len > 0 && in_set(s.ptr[s.len - 1], set)) {
        s.len--;
    }
    return s;
}

struct tidings_str str_skip(struct tidings_str s, size_t n)
{
    if (n > s.len) {
        n = s.len;
    }
    return n ? tidings_strn(s.ptr + n, s.len - n) : s;
}

struct tidings_str str_cut(struct tidings_str s, char c, struct tidings_str *rest, bool *found)
{
    ptrdiff_t at = str_find(s, c);
    if (found) {
        *found = at >= 0;
    }
    if (at < 0) {
        *rest = str_skip(s, s.len);
        return s;
    }
    *rest = str_skip(s, (size_t)at + 1);
    return tidings_strn(s.ptr, (size_t)at);
}

ptrdiff_t str_find(struct tidings_str s, char c)
{
    const char *at = s.len ? memchr(s.ptr, c, s.len) : NULL;
    return at ? at - s.ptr : -1;
}

struct tidings_str str_pack(char **at, struct tidings_str s)
{
    struct tidings_str copy = {*at, s.len};
    if (s.len > 0) {
        memcpy(*at, s.ptr, s.len);
    }
    *at += s.len;
    return copy;
}

char *str_dup(struct tidings_str s)
{
    char *copy = s.len < SIZE_MAX ? mem_alloc(s.len + 1) : NULL;
    if (!copy) {
        return NULL;
    }
    if (s.len) {
        memcpy(copy, s.ptr, s.len);
    }
    copy[s.len] = '\0';
    return copy;
}

void str_free_secret(char *s)
{
    mem_free_secret(s, s ? strlen(s) : 0);
}

bool str_to_u64(struct tidings_str s, uint64_t *out)
{
    if (s.len == 0) {
        return false;
    }
    uint64_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        unsigned digit = (unsigned)(unsigned char)s.ptr[i] - '0';
        if (digit > 9 || n > (UINT64_MAX - digit) / 10) {
            return false;
        }
        n = n * 10 + digit;
    }
    *out = n;
    return true;
}

bool str_to_i64(struct tidings_str s, int64_t *out)
{
    bool negative = s.len > 0 && s.ptr[0] == '-';
    uint64_t n;
    if (!str_to_u64(str_skip(s, negative), &n)) {
        return false;
    }
    if (n > (uint64_t)INT64_MAX + negative) {
        return false;
    }
    *out = negative ? (int64_t)(0 - n) : (int64_t)n;
    return true;
}

static uint64_t load64(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Folds the 128-bit product: every bit of the input affects every bit of the result. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t str_hash(struct tidings_str s, uint64_t seed)
{
    /* The multiplier depends on the seed too: with a fixed one, an attacker could find keys that
     * often collide without knowing the seed. */
    uint64_t multiplier = fold(seed ^ 0x9E3779B97F4A7C15u, 0xD1B54A32D192ED03u) | 1;
    uint64_t h = seed ^ s.len * 0xA0761D6478BD642Fu;
    const char *p = s.ptr;
    size_t left = s.len;
    for (; left >= 8; left -= 8, p += 8) {
        h = fold(h ^ load64(p), multiplier);
    }
    if (left) {
        uint64_t tail = 0;
        memcpy(&tail, p, left);
        h = fold(h ^ tail, multiplier);
    }
    return fold(h ^ (h >> 32), 0xE7037ED1A0B428DBu);
}

/* The length of the valid sequence at p, which is not ASCII; 0 if it is invalid (RFC 3629 §4). */
static size_t sequence_length(const unsigned char *p, size_t left)
{
    unsigned char lead = p[0];
    size_t len = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || left < len) {
        return 0;
    }
    /* Only the second byte has a special range. */
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < len; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return len;
}

bool str_is_utf8(struct tidings_str s)
{
    const uint64_t high_bits = 0x8080808080808080u;
    size_t i = 0;
    while (i < s.len) {
        while (s.len - i >= 8 && (load64(s.ptr + i) & high_bits) == 0) {
            i += 8;
        }
        if (i == s.len) {
            break;
        }
        if ((unsigned char)s.ptr[i] < 0x80) {
            i++;
            continue;
        }
        size_t n = sequence_length((const unsigned char *)s.ptr + i, s.len - i);
        if (n == 0) {
            return false;
        }
        i += n;
    }
    return true;
}
