/* SPDX-License-Identifier: MIT
 *
 * Reading globs, token by token, from any position; nothing is kept.
 *
 * Invariant: a token ends where the next begins, and reading never goes past the pattern, whatever
 * its bytes. What is not well formed is read as literals; refusing it is the checker's job.
 */
#include "uri/pattern_token.h"

/* An encoded byte of a URI, apart from the same byte written as it is. */
#define ENCODED 0x100u
/* A byte of a path that is not UTF-8: outside Unicode, so that it equals only itself. */
#define STRAY 0x110000u

static int pattern_token_hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static uint32_t uri_character(struct tidings_str s, size_t at, size_t *ret_len)
{
    *ret_len = glob_unit_length(s, at);
    int high = *ret_len == 3 ? pattern_token_hex_value(s.ptr[at + 1]) : -1;
    int low = *ret_len == 3 ? pattern_token_hex_value(s.ptr[at + 2]) : -1;
    if (high < 0 || low < 0) {
        *ret_len = 1;
        return (unsigned char)s.ptr[at];
    }
    return ENCODED + (uint32_t)high * 16u + (uint32_t)low;
}

static uint32_t path_character(struct tidings_str s, size_t at, size_t *ret_len)
{
    unsigned char lead = (unsigned char)s.ptr[at];
    *ret_len = 1;
    if (lead < 0x80) {
        return lead;
    }
    size_t len = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || s.len - at < len || !str_is_utf8(tidings_strn(s.ptr + at, len))) {
        return STRAY + lead;
    }
    uint32_t value = lead & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        value = value << 6 | ((unsigned char)s.ptr[at + i] & 0x3fu);
    }
    *ret_len = len;
    return value;
}

uint32_t glob_character(struct tidings_str s, size_t at, enum glob_mode mode, size_t *ret_len)
{
    return mode == GLOB_PATH ? path_character(s, at, ret_len) : uri_character(s, at, ret_len);
}

/* Bytes of the negation mark at `at`. Canonical form encodes '^'. */
static size_t negation_length(struct tidings_str p, size_t at, enum glob_mode mode)
{
    if (at < p.len && (p.ptr[at] == '!' || p.ptr[at] == '^')) {
        return 1;
    }
    return mode != GLOB_PATH && str_starts(str_skip(p, at), STR("%5E")) ? 3 : 0;
}

/* Position after the ']' of the class at `at`, 0 when it is not closed. */
static size_t class_end(struct tidings_str p, size_t at, enum glob_mode mode)
{
    size_t i = at + 1;
    i += negation_length(p, i, mode);
    if (i < p.len && p.ptr[i] == ']') {
        i++; /* first: a member */
    }
    while (i < p.len && p.ptr[i] != ']') {
        if (p.ptr[i] == '/' && mode != GLOB_PATH) {
            return 0;
        }
        i++;
    }
    return i < p.len ? i + 1 : 0;
}

struct glob_token glob_token_at(struct tidings_str p, size_t at, enum glob_mode mode)
{
    struct glob_token t = {GLOB_LITERAL, at + 1, 0};
    size_t len;
    switch (p.ptr[at]) {
    case '*':
        /* Behind another star: a double star that has begun to match, see the matcher. */
        t.kind = at > 0 && p.ptr[at - 1] == '*' ? GLOB_STAR_STAR : GLOB_STAR;
        while (t.next < p.len && p.ptr[t.next] == '*') {
            t.kind = GLOB_STAR_STAR;
            t.next++;
        }
        return t;
    case '?':
        t.kind = mode == GLOB_URI ? GLOB_LITERAL : GLOB_ANY_ONE;
        break;
    case '[':
        t.next = class_end(p, at, mode);
        if (t.next > 0) {
            t.kind = GLOB_CLASS;
            return t;
        }
        break; /* unclosed: an ordinary character */
    default:
        break;
    }
    t.value = glob_character(p, at, mode, &len);
    t.next = at + len;
    return t;
}

/* A member of a class: in a URI only the byte counts. */
static uint32_t pattern_token_member(struct tidings_str text, size_t *at, enum glob_mode mode)
{
    size_t len;
    uint32_t c = glob_character(text, *at, mode, &len);
    *at += len;
    return mode == GLOB_PATH ? c : c & 0xffu;
}

/* One member or range of the class: from *at, which moves on; *low > *high runs backwards. */
static void class_range(struct tidings_str text, size_t *at, enum glob_mode mode, uint32_t *low,
                        uint32_t *high)
{
    *low = *high = pattern_token_member(text, at, mode);
    if (*at + 1 < text.len && text.ptr[*at] == '-') {
        *at += 1;
        *high = pattern_token_member(text, at, mode);
    }
}

bool glob_class_has(struct tidings_str text, uint32_t c, enum glob_mode mode)
{
    text.len--; /* the closing bracket */
    size_t at = 1 + negation_length(text, 1, mode);
    bool negated = at > 1, found = false;
    c = mode == GLOB_PATH ? c : c & 0xffu;
    while (at < text.len && !found) {
        uint32_t low, high;
        class_range(text, &at, mode, &low, &high);
        found = c >= low && c <= high;
    }
    return found != negated;
}

size_t glob_class_backwards(struct tidings_str text, enum glob_mode mode)
{
    text.len--;
    for (size_t at = 1 + negation_length(text, 1, mode); at < text.len;) {
        uint32_t low, high;
        class_range(text, &at, mode, &low, &high);
        if (low > high) {
            return at;
        }
    }
    return 0;
}
