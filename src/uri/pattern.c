/* SPDX-License-Identifier: MIT
 *
 * Glob matching as a set of states: a state is a position in the pattern, the set is a bit field,
 * and each character of the text moves every state at once. No backtracking, hence time at most
 * text × pattern and no allocation. Most pairs differ early and leave after a few steps, because
 * literals keep the set small.
 *
 * Below that, the definition of every kind of pattern, matched one at a time; the match index
 * (match/match.h) must agree with it.
 */
#include "uri/pattern.h"

#include "base/regex.h"
#include "uri/pattern_literals.h"
#include "uri/pattern_token.h"
#include "uri/template.h"
#include "uri/uri.h"

#define WORDS (GLOB_MAX_BYTES / 64u + 1u)

struct states {
    uint64_t bits[WORDS];
};

struct glob {
    struct tidings_str text;
    enum glob_mode mode;
};

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
static void close_over(struct states *s, const struct glob *g)
{
    struct tidings_str p = g->text;
    for (size_t w = 0; w <= p.len / 64; w++) {
        uint64_t done = 0;
        for (uint64_t left = s->bits[w]; left; left = s->bits[w] & ~done) {
            size_t at = w * 64 + (size_t)__builtin_ctzll(left);
            done |= left & -left;
            if (at >= p.len || p.ptr[at] != '*') {
                continue;
            }
            struct glob_token t = glob_token_at(p, at, g->mode);
            bool whole = t.kind == GLOB_STAR_STAR && (at == 0 || p.ptr[at - 1] == '/');
            states_add(s, t.next);
            if (whole && t.next < p.len && p.ptr[t.next] == '/') {
                states_add(s, t.next + 1);
            }
        }
    }
}

/* Move the state at `at` over the character `c`. */
static void pattern_step(struct states *to, const struct glob *g, size_t at, uint32_t c)
{
    struct glob_token t = glob_token_at(g->text, at, g->mode);
    bool taken = false;
    switch (t.kind) {
    case GLOB_LITERAL:
        taken = t.value == c;
        break;
    case GLOB_ANY_ONE:
        taken = c != '/';
        break;
    case GLOB_CLASS:
        taken = c != '/' && glob_class_has(tidings_strn(g->text.ptr + at, t.next - at), c, g->mode);
        break;
    case GLOB_STAR:
        if (c != '/') {
            states_add(to, at);
        }
        break;
    case GLOB_STAR_STAR:
        /* Stay, on the last star: only a double star that has matched nothing may vanish. */
        states_add(to, t.next - 1);
        break;
    }
    if (taken) {
        states_add(to, t.next);
    }
}

/* Move every state over the character; false when there was none left to move. */
static bool step_all(const struct states *now, struct states *then, const struct glob *g,
                     uint32_t c)
{
    bool alive = false;
    for (size_t w = 0; w <= g->text.len / 64; w++) {
        for (uint64_t left = now->bits[w]; left; left &= left - 1) {
            size_t at = w * 64 + (size_t)__builtin_ctzll(left);
            if (at < g->text.len) {
                pattern_step(then, g, at, c);
                alive = true;
            }
        }
    }
    return alive;
}

static bool pattern_run(const struct glob *g, struct tidings_str text)
{
    struct states sets[2];
    size_t bytes = (g->text.len / 64 + 1) * sizeof(uint64_t);
    struct states *now = &sets[0], *then = &sets[1];
    memset(now->bits, 0, bytes);
    states_add(now, 0);
    close_over(now, g);
    for (size_t at = 0, len; at < text.len; at += len) {
        uint32_t c = glob_character(text, at, g->mode, &len);
        memset(then->bits, 0, bytes);
        if (!step_all(now, then, g, c)) {
            return false;
        }
        struct states *swap = now;
        now = then;
        then = swap;
        close_over(now, g);
    }
    return states_has(now, g->text.len);
}

static bool matches(struct tidings_str pattern, struct tidings_str text, enum glob_mode mode)
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
    struct glob rest = {str_skip(pattern, cut), mode};
    return pattern_run(&rest, str_skip(text, cut));
}

bool glob_matches(struct tidings_str pattern, struct tidings_str text)
{
    return matches(pattern, text, GLOB_PATH);
}

bool glob_matches_uri(struct tidings_str pattern, struct tidings_str uri, bool question)
{
    return matches(pattern, uri, question ? GLOB_URI_Q : GLOB_URI);
}

static struct tidings_str pattern_last_segment(struct tidings_str path)
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
    return pattern.len > 0 && glob_matches(pattern, deep ? path : pattern_last_segment(path));
}

static int pattern_check(struct tidings_str pattern, enum glob_mode mode, struct tidings_error *err)
{
    if (pattern.len == 0 || pattern.len > GLOB_MAX_BYTES) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "glob of %zu bytes refused: between 1 and %u accepted", pattern.len,
                            GLOB_MAX_BYTES);
    }
    unsigned wildcards = 0;
    for (size_t at = 0; at < pattern.len;) {
        struct glob_token t = glob_token_at(pattern, at, mode);
        if (t.kind == GLOB_LITERAL && pattern.ptr[at] == '[') {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "glob '%.*s' refused: '[' at byte %zu is never closed (%s "
                                "matches a bracket)",
                                STR_ARG(pattern), at + 1, mode == GLOB_PATH ? "'[[]'" : "'%5B'");
        }
        size_t backwards = 0;
        if (t.kind == GLOB_CLASS) {
            backwards = glob_class_backwards(tidings_strn(pattern.ptr + at, t.next - at), mode);
        }
        if (backwards > 0) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "glob '%.*s' refused: the range before byte %zu runs backwards",
                                STR_ARG(pattern), at + backwards + 1);
        }
        wildcards += t.kind != GLOB_LITERAL;
        at = t.next;
    }
    if (wildcards > GLOB_MAX_WILDCARDS) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "glob refused: %u wildcards, at most %u accepted", wildcards,
                            GLOB_MAX_WILDCARDS);
    }
    return 0;
}

int glob_check(struct tidings_str pattern, struct tidings_error *err)
{
    return pattern_check(pattern, GLOB_PATH, err);
}

int glob_check_uri(struct tidings_str pattern, bool question, struct tidings_error *err)
{
    return pattern_check(pattern, question ? GLOB_URI_Q : GLOB_URI, err);
}

/* ---- one pattern of any kind ---------------------------------------------------------------- */

size_t pattern_first_slash(struct tidings_str uri)
{
    ptrdiff_t colon = str_find(uri, ':');
    size_t after = colon < 0 ? 0 : (size_t)colon + 1;
    return str_starts(str_skip(uri, after), STR("//")) ? after + 1 : after;
}

static bool container_matches(struct tidings_str container, struct tidings_str uri)
{
    if (str_eq(container, uri)) {
        return true;
    }
    struct tidings_str path = str_cut(uri, '?', &(struct tidings_str){0}, NULL);
    if (container.len == 0 || str_find(container, '?') >= 0 || !str_starts(path, container)) {
        return false;
    }
    size_t first = pattern_first_slash(uri);
    if (str_ends(container, STR("/"))) {
        return container.len - 1 >= first;
    }
    return path.len == container.len || (path.ptr[container.len] == '/' && container.len > first);
}

static bool template_matches(struct tidings_str text, struct tidings_str uri)
{
    struct uri_template *t = NULL;
    bool found = template_create(text, &t, NULL) == 0 && template_match(t, uri, NULL, NULL);
    template_destroy(t);
    return found;
}

static bool regex_matches(struct tidings_str source, struct tidings_str uri)
{
    struct regex *regex = NULL;
    uint64_t steps = UINT64_MAX;
    bool found = regex_create(source, REGEX_BYTES, REGEX_MAX_BYTES, &regex, NULL) == 0 &&
                 regex_search(regex, NULL, uri, &steps) == REGEX_FOUND;
    regex_destroy(regex);
    return found;
}

bool pattern_matches(enum pattern_kind kind, struct tidings_str text, struct tidings_str uri)
{
    if (uri.len == 0 || uri.len > URI_MAX) {
        return false;
    }
    switch (kind) {
    case PATTERN_LITERAL:
        return str_eq(text, uri);
    case PATTERN_CONTAINER:
        return container_matches(text, uri);
    case PATTERN_GLOB:
    case PATTERN_GLOB_Q:
        return glob_matches_uri(text, uri, kind == PATTERN_GLOB_Q);
    case PATTERN_TEMPLATE:
        return template_matches(text, uri);
    case PATTERN_REGEX:
        return regex_matches(text, uri);
    }
    return false;
}

struct tidings_str pattern_prefix(enum pattern_kind kind, struct tidings_str text)
{
    static const char *const wild[] = {
        [PATTERN_LITERAL] = "", [PATTERN_CONTAINER] = "", [PATTERN_TEMPLATE] = "{",
        [PATTERN_GLOB] = "*[",  [PATTERN_GLOB_Q] = "*[?",
    };
    size_t len = 0;
    while (kind != PATTERN_REGEX && len < text.len && !strchr(wild[kind], text.ptr[len])) {
        len++;
    }
    return tidings_strn(text.ptr, len);
}
