/* SPDX-License-Identifier: MIT
 *
 * Glob matching as a set of states: a state is a position in the pattern, the set is a bit field,
 * and each character of the text moves every state at once. No backtracking, hence time at most
 * text × pattern and no allocation. Most pairs differ early and leave after a few steps, because
 * literals keep the set small.
 */
#include "uri/pattern.h"

#define WORDS (GLOB_MAX_BYTES / 64u + 1u)

struct states {
    uint64_t bits[WORDS];
};

/* What stands at a position of the pattern. */
enum token_kind { LITERAL, ANY_ONE, CLASS, STAR, STAR_STAR };

struct token {
    enum token_kind kind;
    size_t next;    /* position of the following token */
    uint32_t value; /* LITERAL: the character */
};

/* The character at `at` and its length; a byte that does not begin a well-formed sequence is a
 * character of its own, outside Unicode so that it equals only itself. */
static uint32_t character(struct tidings_str s, size_t at, size_t *ret_len)
{
    unsigned char lead = (unsigned char)s.ptr[at];
    *ret_len = 1;
    if (lead < 0x80) {
        return lead;
    }
    size_t len = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || s.len - at < len || !str_is_utf8(tidings_strn(s.ptr + at, len))) {
        return 0x110000u + lead;
    }
    uint32_t value = lead & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        value = value << 6 | ((unsigned char)s.ptr[at + i] & 0x3fu);
    }
    *ret_len = len;
    return value;
}

static bool is_negation(char c)
{
    return c == '!' || c == '^';
}

/* Position after the ']' of the class at `at`, 0 when it is not closed. */
static size_t class_end(struct tidings_str p, size_t at)
{
    size_t i = at + 1;
    if (i < p.len && is_negation(p.ptr[i])) {
        i++;
    }
    if (i < p.len && p.ptr[i] == ']') {
        i++; /* first: a member */
    }
    while (i < p.len && p.ptr[i] != ']') {
        i++;
    }
    return i < p.len ? i + 1 : 0;
}

/* One member or range of the class: from *at, which moves on; *low > *high runs backwards. */
static void class_range(struct tidings_str p, size_t *at, uint32_t *low, uint32_t *high)
{
    size_t len;
    *low = *high = character(p, *at, &len);
    *at += len;
    if (*at + 1 < p.len && p.ptr[*at] == '-' && p.ptr[*at + 1] != ']') {
        *high = character(p, *at + 1, &len);
        *at += 1 + len;
    }
}

static bool class_has(struct tidings_str p, size_t at, size_t end, uint32_t c)
{
    bool negated = is_negation(p.ptr[at + 1]);
    bool found = false;
    p.len = end;
    at += negated ? 2 : 1;
    while (at < end - 1) {
        uint32_t low, high;
        class_range(p, &at, &low, &high);
        found = found || (c >= low && c <= high);
    }
    return found != negated;
}

static struct token token_at(struct tidings_str p, size_t at)
{
    struct token t = {LITERAL, at + 1, 0};
    size_t len;
    switch (p.ptr[at]) {
    case '*':
        /* Behind another star: a double star that has begun to match, see step(). */
        t.kind = at > 0 && p.ptr[at - 1] == '*' ? STAR_STAR : STAR;
        while (t.next < p.len && p.ptr[t.next] == '*') {
            t.kind = STAR_STAR;
            t.next++;
        }
        break;
    case '?':
        t.kind = ANY_ONE;
        break;
    case '[':
        t.next = class_end(p, at);
        if (t.next > 0) {
            t.kind = CLASS;
            break;
        }
        /* unclosed: an ordinary character */
        t.next = at + 1;
        t.value = '[';
        break;
    default:
        t.value = character(p, at, &len);
        t.next = at + len;
    }
    return t;
}

static bool states_has(const struct states *s, size_t at)
{
    return s->bits[at / 64] >> (at % 64) & 1u;
}

static void states_add(struct states *s, size_t at)
{
    s->bits[at / 64] |= 1ull << (at % 64);
}

/* Add what is reached without consuming anything. Such moves only go forward, so that one ascending
 * pass sees them all. */
static void close_over(struct states *s, struct tidings_str p)
{
    for (size_t w = 0; w <= p.len / 64; w++) {
        uint64_t done = 0;
        for (uint64_t left = s->bits[w]; left; left = s->bits[w] & ~done) {
            size_t at = w * 64 + (size_t)__builtin_ctzll(left);
            done |= left & -left;
            if (at >= p.len || p.ptr[at] != '*') {
                continue;
            }
            struct token t = token_at(p, at);
            bool whole = t.kind == STAR_STAR && (at == 0 || p.ptr[at - 1] == '/');
            states_add(s, t.next);
            if (whole && t.next < p.len && p.ptr[t.next] == '/') {
                states_add(s, t.next + 1);
            }
        }
    }
}

/* Move the state at `at` over the character `c`. */
static void step(struct states *to, struct tidings_str p, size_t at, uint32_t c)
{
    struct token t = token_at(p, at);
    bool taken = false;
    switch (t.kind) {
    case LITERAL:
        taken = t.value == c;
        break;
    case ANY_ONE:
        taken = c != '/';
        break;
    case CLASS:
        taken = c != '/' && class_has(p, at, t.next, c);
        break;
    case STAR:
        if (c != '/') {
            states_add(to, at);
        }
        break;
    case STAR_STAR:
        /* Stay, on the last star: only a double star that has matched nothing may vanish. */
        states_add(to, t.next - 1);
        break;
    }
    if (taken) {
        states_add(to, t.next);
    }
}

/* Move every state over the character; false when there was none left to move. */
static bool step_all(const struct states *now, struct states *then, struct tidings_str p,
                     uint32_t c)
{
    bool alive = false;
    for (size_t w = 0; w <= p.len / 64; w++) {
        for (uint64_t left = now->bits[w]; left; left &= left - 1) {
            size_t at = w * 64 + (size_t)__builtin_ctzll(left);
            if (at < p.len) {
                step(then, p, at, c);
                alive = true;
            }
        }
    }
    return alive;
}

static bool run(struct tidings_str p, struct tidings_str text)
{
    struct states sets[2];
    size_t bytes = (p.len / 64 + 1) * sizeof(uint64_t);
    struct states *now = &sets[0], *then = &sets[1];
    memset(now->bits, 0, bytes);
    states_add(now, 0);
    close_over(now, p);
    for (size_t at = 0, len; at < text.len; at += len) {
        uint32_t c = character(text, at, &len);
        memset(then->bits, 0, bytes);
        if (!step_all(now, then, p, c)) {
            return false;
        }
        struct states *swap = now;
        now = then;
        then = swap;
        close_over(now, p);
    }
    return states_has(now, p.len);
}

bool glob_matches(struct tidings_str pattern, struct tidings_str text)
{
    if (pattern.len > GLOB_MAX_BYTES) {
        return false;
    }
    /* Equal bytes up to the first wildcard need no states. The cut is made after a slash, so that
     * "at the start of a segment" means the same on both sides of it. */
    size_t same = 0, cut = 0;
    while (same < pattern.len && !strchr("*?[", pattern.ptr[same])) {
        if (same == text.len || pattern.ptr[same] != text.ptr[same]) {
            return false;
        }
        cut = pattern.ptr[same++] == '/' ? same : cut;
    }
    if (same == pattern.len) {
        return text.len == pattern.len;
    }
    return run(str_skip(pattern, cut), str_skip(text, cut));
}

static struct tidings_str last_segment(struct tidings_str path)
{
    const char *slash = path.len > 0 ? memrchr(path.ptr, '/', path.len) : NULL;
    return slash ? str_skip(path, (size_t)(slash - path.ptr) + 1) : path;
}

bool glob_matches_path(struct tidings_str pattern, struct tidings_str path)
{
    bool anchored = str_starts(pattern, STR("/"));
    if (anchored) {
        pattern = str_skip(pattern, 1);
    }
    if (str_starts(path, STR("/"))) {
        path = str_skip(path, 1);
    }
    bool directory = str_ends(path, STR("/"));
    if (directory) {
        path.len--;
    }
    if (str_ends(pattern, STR("/"))) {
        if (!directory) {
            return false;
        }
        pattern.len--;
    }
    bool deep = anchored || str_find(pattern, '/') >= 0;
    return pattern.len > 0 && glob_matches(pattern, deep ? path : last_segment(path));
}

int glob_check(struct tidings_str pattern, struct tidings_error *err)
{
    if (pattern.len == 0 || pattern.len > GLOB_MAX_BYTES) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "glob of %zu bytes refused: between 1 and %u accepted", pattern.len,
                            GLOB_MAX_BYTES);
    }
    unsigned wildcards = 0;
    for (size_t at = 0; at < pattern.len;) {
        struct token t = token_at(pattern, at);
        if (t.kind == LITERAL && t.value == '[') {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "glob '%.*s' refused: '[' at byte %zu is never closed ('[[]' "
                                "matches a bracket)",
                                STR_ARG(pattern), at + 1);
        }
        struct tidings_str class = tidings_strn(pattern.ptr, t.next);
        size_t member = at + (t.kind == CLASS && is_negation(pattern.ptr[at + 1]) ? 2 : 1);
        while (t.kind == CLASS && member < t.next - 1) {
            uint32_t low, high;
            class_range(class, &member, &low, &high);
            if (low > high) {
                return tidings_fail(err, TIDINGS_E_INVALID,
                                    "glob '%.*s' refused: the range before byte %zu runs backwards",
                                    STR_ARG(pattern), member + 1);
            }
        }
        wildcards += t.kind != LITERAL;
        at = t.next;
    }
    if (wildcards > GLOB_MAX_WILDCARDS) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "glob refused: %u wildcards, at most %u accepted", wildcards,
                            GLOB_MAX_WILDCARDS);
    }
    return 0;
}
