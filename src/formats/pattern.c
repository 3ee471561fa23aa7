/* SPDX-License-Identifier: MIT
 *
 * Glob matching as a set of states: a state is a position in the pattern, the set is a bit field,
 * and each character of the text moves every state at once. No backtracking, hence time at most
 * text × pattern and no allocation. Most pairs differ early and end after a few steps, because
 * literals keep the set small.
 *
 * Below that, the definition of every kind of pattern, matched one at a time; the match index
 * (engine/match/match.h) must agree with it.
 */
#include "formats/pattern.h"

#include <ctype.h>

#include "base/str.h"
#include "formats/regex.h"
#include "formats/uri.h"
#include "formats/uri_template.h"

/* -------------------------------------------------------------------------------------------------
 * The tokens of a glob, and the characters it is compared with; shared by the files that check,
 * match and plan globs.
 *
 * In a path a character is a UTF-8 sequence, or one byte where the text is not UTF-8. In a
 * canonical URI it is one byte, or one percent-encoded byte (`%XX`), which is a different value: a
 * literal `%2A` is not a literal `*`. In a class only the byte counts: `[*]` matches both.
 */

enum glob_mode {
    GLOB_PATH,  /* UTF-8, `?` matches one character */
    GLOB_URI,   /* canonical URI, `?` is literal */
    GLOB_URI_Q, /* canonical URI, `?` matches one character */
};

enum glob_token_kind { GLOB_LITERAL, GLOB_ANY_ONE, GLOB_CLASS, GLOB_STAR, GLOB_STAR_STAR };

struct glob_token {
    enum glob_token_kind kind;
    size_t next;    /* position of the following token */
    uint32_t value; /* literal: the character */
};

/* The length of the character of a canonical URI at `at`: a triplet is never split. */
static inline size_t glob_unit_length(struct tidings_str s, size_t at)
{
    return s.ptr[at] == '%' && s.len - at >= 3 ? 3 : 1;
}

/* -------------------------------------------------------------------------------------------------
 * Finds the literal text that a regex requires: one pass over its source, outermost level only.
 * Literal characters form a run; everything else ends it: classes, groups (skipped as a whole),
 * dots, anchors. A character with a quantifier that allows zero is removed. With alternatives at
 * the outermost level, options, verbs, quoting and other rare constructs, nothing is certain.
 *
 * Invariant: in doubt, fewer runs. An additional run would lose matches.
 */

struct reader {
    struct tidings_str s;
    size_t at;
    bool certain;
    char *out;
    size_t len, run; /* bytes written; start of the current run */
};

static void end_run(struct reader *r)
{
    if (r->len > r->run) {
        r->out[r->len++] = '\0';
        r->run = r->len;
    }
}

static char pattern_literals_peek(const struct reader *r, size_t ahead)
{
    if (r->at >= r->s.len || ahead >= r->s.len - r->at) {
        return '\0';
    }
    return r->s.ptr[r->at + ahead];
}

static bool pattern_literals_is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Skips the escape at r->at, inside or outside of a class or a group. Returns its literal, '\0' if
 * there is none. */
static char skip_escape(struct reader *r)
{
    char c = pattern_literals_peek(r, 1);
    r->at += 2;
    if (c == '\0' || (unsigned char)c >= 0x80) {
        r->certain = false;
        return '\0';
    }
    if (pattern_literals_is_alnum(c)) {
        /* Complete escapes; others have arguments, or quote the following text. */
        r->certain = r->certain && strchr("dDwWsShHvVRbBAZznrtfae", c);
        return '\0';
    }
    return c;
}

/* `[:alpha:]` and the like, inside a class. */
static bool skip_named_class(struct reader *r)
{
    char mark = pattern_literals_peek(r, 1);
    if (mark != ':' && mark != '.' && mark != '=') {
        return false;
    }
    size_t n = 2;
    while (pattern_literals_is_alnum(pattern_literals_peek(r, n)) ||
           pattern_literals_peek(r, n) == '^') {
        n++;
    }
    if (pattern_literals_peek(r, n) == mark && pattern_literals_peek(r, n + 1) == ']') {
        r->at += n + 2;
        return true;
    }
    r->certain = false; /* undecided: treat as uncertain */
    return false;
}

static void skip_class(struct reader *r)
{
    r->at++;
    r->at += pattern_literals_peek(r, 0) == '^';
    r->at += pattern_literals_peek(r, 0) == ']';
    while (r->certain && r->at < r->s.len && pattern_literals_peek(r, 0) != ']') {
        if (pattern_literals_peek(r, 0) == '\\') {
            skip_escape(r);
        } else if (pattern_literals_peek(r, 0) != '[' || !skip_named_class(r)) {
            r->at++;
        }
    }
    r->at++;
}

static void skip_group(struct reader *r)
{
    size_t depth = 0;
    do {
        char c = pattern_literals_peek(r, 0);
        if (c == '\\') {
            skip_escape(r);
            continue;
        }
        if (c == '[') {
            skip_class(r);
            continue;
        }
        if (c == '(') {
            /* Options extend beyond their group, verbs end everything. */
            bool odd = pattern_literals_peek(r, 1) == '*' ||
                       (pattern_literals_peek(r, 1) == '?' && pattern_literals_peek(r, 2) != ':');
            r->certain = r->certain && !odd;
            depth++;
        }
        depth -= c == ')';
        r->at++;
    } while (r->certain && depth > 0 && r->at < r->s.len);
    r->certain = r->certain && depth == 0;
}

/* If there is a quantifier at r->at, skips it; *ret_optional: it allows zero. */
static bool skip_quantifier(struct reader *r, bool *ret_optional)
{
    char c = pattern_literals_peek(r, 0);
    size_t n = 1;
    *ret_optional = c != '+';
    if (c == '{') {
        while ((pattern_literals_peek(r, n) >= '0' && pattern_literals_peek(r, n) <= '9') ||
               pattern_literals_peek(r, n) == ',') {
            n++;
        }
        if (pattern_literals_peek(r, n++) != '}') {
            r->certain = false; /* a literal brace, or unknown newer syntax */
        }
    } else if (c != '*' && c != '?' && c != '+') {
        return false;
    }
    r->at += n;
    r->at += pattern_literals_peek(r, 0) == '?' ||
             pattern_literals_peek(r, 0) == '+'; /* lazy, possessive */
    return true;
}

static void pattern_literals_read_literal(struct reader *r, char c)
{
    r->out[r->len++] = c;
    bool is_optional;
    if (skip_quantifier(r, &is_optional)) {
        r->len -= is_optional;
        end_run(r);
    }
}

static void read_one(struct reader *r)
{
    char c = pattern_literals_peek(r, 0);
    bool ignored;
    switch (c) {
    case '\\':
        c = skip_escape(r);
        if (c != '\0') {
            pattern_literals_read_literal(r, c);
            return;
        }
        break;
    case '[':
        skip_class(r);
        break;
    case '(':
        skip_group(r);
        break;
    case '|':
    case '\0':
        r->certain = false;
        break;
    case '.':
    case '^':
    case '$':
        r->at++;
        break;
    case '*':
    case '+':
    case '?':
    case '{':
        (void)skip_quantifier(r, &ignored); /* after something that is not a literal */
        break;
    default:
        r->at++;
        pattern_literals_read_literal(r, c);
        return;
    }
    end_run(r);
}

size_t regex_literals(struct tidings_str source, char out[2 * REGEX_MAX_BYTES])
{
    struct reader r = {.s = source, .certain = source.len <= REGEX_MAX_BYTES};
    r.out = out;
    while (r.certain && r.at < r.s.len) {
        read_one(&r);
    }
    end_run(&r);
    return r.certain ? r.len : 0;
}

/* Reads to the end, because an alternative there makes the prefix uncertain. */
size_t regex_prefix(struct tidings_str source, char out[2 * REGEX_MAX_BYTES])
{
    struct reader r = {.s = source, .at = 1, .out = out};
    r.certain = source.len <= REGEX_MAX_BYTES && str_starts(source, STR("^"));
    bool is_prefix = true; /* the first run starts directly after the anchor */
    while (r.certain && r.at < r.s.len) {
        read_one(&r);
        is_prefix = is_prefix && r.len > 0;
    }
    end_run(&r);
    return r.certain && is_prefix ? strnlen(out, r.len) : 0;
}

/* -------------------------------------------------------------------------------------------------
 * Reads globs, token by token, from any position, without state.
 *
 * Invariant: a token ends where the next one starts, and reading never exceeds the pattern,
 * whatever its bytes. Malformed parts are read as literals; the checker rejects them.
 */

/* An encoded byte of a URI, distinct from the same byte unencoded. */
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

/* The character at `at` and its length. */
static uint32_t glob_character(struct tidings_str s, size_t at, enum glob_mode mode,
                               size_t *ret_len)
{
    return mode == GLOB_PATH ? path_character(s, at, ret_len) : uri_character(s, at, ret_len);
}

/* Length of the negation mark at `at`. Canonical form encodes '^'. */
static size_t negation_length(struct tidings_str p, size_t at, enum glob_mode mode)
{
    if (at < p.len && (p.ptr[at] == '!' || p.ptr[at] == '^')) {
        return 1;
    }
    return mode != GLOB_PATH && str_starts(str_skip(p, at), STR("%5E")) ? 3 : 0;
}

/* Position after the ']' of the class at `at`, 0 if it is not closed. */
static size_t class_end(struct tidings_str p, size_t at, enum glob_mode mode)
{
    size_t i = at + 1;
    i += negation_length(p, i, mode);
    if (i < p.len && p.ptr[i] == ']') {
        i++; /* in the first position: a member */
    }
    while (i < p.len && p.ptr[i] != ']') {
        if (p.ptr[i] == '/' && mode != GLOB_PATH) {
            return 0;
        }
        i++;
    }
    return i < p.len ? i + 1 : 0;
}

/* The token at `at`. An unclosed '[' is a literal; in a URI, '/' ends the search for its ']'. */
static struct glob_token glob_token_at(struct tidings_str p, size_t at, enum glob_mode mode)
{
    struct glob_token t = {GLOB_LITERAL, at + 1, 0};
    size_t len;
    switch (p.ptr[at]) {
    case '*':
        /* After another star: a double star that has started to match, see the matcher. */
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

/* Reads one member or range of the class and advances *at; *low > *high: a backwards range. */
static void class_range(struct tidings_str text, size_t *at, enum glob_mode mode, uint32_t *low,
                        uint32_t *high)
{
    *low = *high = pattern_token_member(text, at, mode);
    if (*at + 1 < text.len && text.ptr[*at] == '-') {
        *at += 1;
        *high = pattern_token_member(text, at, mode);
    }
}

/* Returns true if the class in `text` (including brackets, any bytes between) contains `c`. */
static bool glob_class_has(struct tidings_str text, uint32_t c, enum glob_mode mode)
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

/* Position in `text` after a backwards range, 0 if there is none. */
static size_t glob_class_backwards(struct tidings_str text, enum glob_mode mode)
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

/* -------------------------------------------------------------------------------------------------
 * Matches one segment of a URI against one of a pattern. A wildcard first takes as little as it
 * can; on a mismatch the last one takes one more character. Backtracking to an earlier one is never
 * needed: the last one can take the same additional characters, because all wildcards of a part
 * exclude the same characters (or the literal between them contains the one they differ in). All
 * moves are by whole characters.
 */

static bool is_repeated(char mark)
{
    return mark == SEGMENT_STAR || mark == SEGMENT_VALUE || mark == SEGMENT_PARAMETER;
}

/* Returns true if the wildcard can take the character at `at`. */
static bool can_take(char mark, struct tidings_str s, size_t at)
{
    if (at == s.len) {
        return false;
    }
    switch (mark) {
    case SEGMENT_PARAMETER:
        return s.ptr[at] != '?' && s.ptr[at] != '&';
    case SEGMENT_VALUE:
        return s.ptr[at] != '?';
    default:
        return true;
    }
}

/* If the token at *p takes exactly one character or byte, at *at: advances both. */
static bool take_one(struct tidings_str part, size_t *p, struct tidings_str s, size_t *at)
{
    if (*at == s.len) {
        return false;
    }
    char mark = part.ptr[*p];
    if (mark == SEGMENT_ANY) {
        *p += 1;
        *at += glob_unit_length(s, *at);
        return true;
    }
    if (mark == SEGMENT_CLASS) {
        struct tidings_str rest = str_skip(part, *p), ignored;
        size_t len = str_cut(rest, SEGMENT_CLASS_END, &ignored, NULL).len + 1;
        size_t unit;
        uint32_t c = glob_character(s, *at, GLOB_URI, &unit);
        if (!glob_class_has(tidings_strn(rest.ptr, len), c, GLOB_URI)) {
            return false;
        }
        *p += len;
        *at += unit;
        return true;
    }
    return part.ptr[(*p)++] == s.ptr[(*at)++];
}

bool segment_matches(struct tidings_str part, struct tidings_str segment)
{
    size_t p = 0, at = 0;
    size_t last = SIZE_MAX, last_end = 0; /* the last repeated wildcard, and its current end */
    while (p < part.len || at < segment.len) {
        if (p < part.len && is_repeated(part.ptr[p])) {
            bool some = part.ptr[p] != SEGMENT_STAR;
            if (!some || can_take(part.ptr[p], segment, at)) {
                at += some ? glob_unit_length(segment, at) : 0;
                last = p++;
                last_end = at;
                continue;
            }
        } else if (p < part.len && take_one(part, &p, segment, &at)) {
            continue;
        }
        if (last == SIZE_MAX || !can_take(part.ptr[last], segment, last_end)) {
            return false;
        }
        last_end += glob_unit_length(segment, last_end);
        at = last_end;
        p = last + 1;
    }
    return true;
}

size_t segment_head(struct tidings_str part)
{
    size_t n = 0;
    while (n < part.len && !segment_is_mark(part.ptr[n])) {
        n++;
    }
    return n;
}

size_t segment_tail(struct tidings_str part)
{
    size_t n = 0;
    while (n < part.len && !segment_is_mark(part.ptr[part.len - 1 - n])) {
        n++;
    }
    return n;
}

struct tidings_str segment_inner(struct tidings_str part)
{
    struct tidings_str best = STR_EMPTY;
    for (size_t at = segment_head(part); at < part.len;) {
        if (part.ptr[at] == SEGMENT_CLASS) {
            struct tidings_str ignored;
            at += str_cut(str_skip(part, at), SEGMENT_CLASS_END, &ignored, NULL).len;
        }
        at++;
        struct tidings_str rest = str_skip(part, at);
        size_t len = segment_head(rest);
        if (len > best.len && len < rest.len) {
            best = tidings_strn(rest.ptr, len);
        }
        at += len;
    }
    return best;
}

/* ---------------------------------------------------------------------------------------------- */

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

/* Adds states reachable without consuming anything. Such moves only go forward, so one ascending
 * pass finds them all. */
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

/* Moves the state at `at` over the character `c`. */
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
        /* Stay on the last star: only a double star that has matched nothing may be dropped. */
        states_add(to, t.next - 1);
        break;
    }
    if (taken) {
        states_add(to, t.next);
    }
}

/* Moves every state over the character; false if none is left. */
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
    /* Equal bytes up to the first wildcard need no states. The cut is after a slash, so that "at
     * the start of a segment" means the same on both sides of it. */
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

/* -------------------------------------------------------------------------------------------------
 * Overlap: whether two patterns can match the same URI. Both are walked segment by segment: the
 * patterns do not overlap if literal parts of segments differ before their first wildcard, or if
 * the numbers of segments differ. A wildcard that crosses '/' ends the walk with yes. The answer no
 * is always correct; yes can be wrong if wildcards of both patterns meet within one segment.
 */

struct segment {
    struct tidings_str text;
    size_t fixed; /* length of the text before its first wildcard */
    bool is_wild;
    bool is_deep; /* it can match more than one segment */
};

static const char *wildcards_of(enum pattern_kind kind)
{
    switch (kind) {
    case PATTERN_GLOB:
        return "*[";
    case PATTERN_GLOB_Q:
        return "*[?";
    case PATTERN_TEMPLATE:
        return "{";
    case PATTERN_LITERAL:
    case PATTERN_CONTAINER:
    case PATTERN_REGEX:
        break;
    }
    return "";
}

/* "{name}" stays within a segment; an operator such as '+' or '/' can leave it. */
static bool has_operator(struct tidings_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        bool is_name = i + 1 < text.len && (isalnum((unsigned char)text.ptr[i + 1]) ||
                                            text.ptr[i + 1] == '_' || text.ptr[i + 1] == '%');
        if (text.ptr[i] == '{' && !is_name) {
            return true;
        }
    }
    return false;
}

static struct segment segment_next(enum pattern_kind kind, struct tidings_str *rest, bool *ret_more)
{
    struct segment s = {.text = str_cut(*rest, '/', rest, ret_more)};
    const char *wild = wildcards_of(kind);
    while (s.fixed < s.text.len && !strchr(wild, s.text.ptr[s.fixed])) {
        s.fixed++;
    }
    s.is_wild = s.fixed < s.text.len;
    for (size_t i = s.fixed; s.is_wild && kind != PATTERN_TEMPLATE && i + 1 < s.text.len; i++) {
        s.is_deep = s.is_deep || (s.text.ptr[i] == '*' && s.text.ptr[i + 1] == '*');
    }
    s.is_deep = s.is_deep || (kind == PATTERN_TEMPLATE && has_operator(s.text));
    return s;
}

static bool heads_meet(const struct segment *a, const struct segment *b)
{
    struct tidings_str own = tidings_strn(a->text.ptr, a->fixed);
    struct tidings_str other = tidings_strn(b->text.ptr, b->fixed);
    return str_starts(own, other) || str_starts(other, own);
}

static bool segments_meet(enum pattern_kind kind, const struct segment *a, const struct segment *b)
{
    if (!a->is_wild && !b->is_wild) {
        return str_eq(a->text, b->text);
    }
    if (a->is_wild && b->is_wild) {
        return heads_meet(a, b);
    }
    if (a->is_wild && kind != PATTERN_TEMPLATE) {
        return glob_matches_uri(a->text, b->text, kind == PATTERN_GLOB_Q);
    }
    return a->is_wild ? str_starts(b->text, tidings_strn(a->text.ptr, a->fixed))
                      : str_starts(a->text, tidings_strn(b->text.ptr, b->fixed));
}

/* Containers also match everything below them. */
static bool covers_rest(enum pattern_kind kind, struct tidings_str rest, bool more)
{
    return kind == PATTERN_CONTAINER && (!more || rest.len == 0);
}

bool pattern_meets(enum pattern_kind kind, struct tidings_str text, struct tidings_str uri_template)
{
    bool more = true, others = true;
    if (kind == PATTERN_REGEX) {
        return true;
    }
    while (more && others) {
        struct segment a = segment_next(kind, &text, &more);
        struct segment b = segment_next(PATTERN_TEMPLATE, &uri_template, &others);
        if (a.is_deep || b.is_deep) {
            return heads_meet(&a, &b);
        }
        if (!segments_meet(kind, &a, &b)) {
            return false;
        }
        if (covers_rest(kind, text, more)) {
            return true;
        }
    }
    /* "**" also matches no segment, together with the slash before or after it. */
    return more == others || (more && str_starts(text, STR("**")));
}

/* -------------------------------------------------------------------------------------------------
 * Creates plans of globs and templates for the index, in two passes. First the pattern is
 * translated to a string of at most the same length, in which wildcards are single control
 * characters: then `*.log` and `{name}.log` differ in one byte. Then that string is split at its
 * slashes into steps.
 */

/* ---- globs ----------------------------------------------------------------------------------- */

/* Returns true if the `**` from `at` to `next` is a whole segment. */
static bool is_whole_segment(struct tidings_str p, size_t at, size_t next)
{
    return (at == 0 || p.ptr[at - 1] == '/') && (next == p.len || p.ptr[next] == '/');
}

/* Writes the marks; returns the length. Text after a `**` inside a segment is ignored. */
static size_t mark_glob(struct pattern_plan *plan, struct tidings_str p, enum glob_mode mode)
{
    size_t len = 0;
    for (size_t at = 0; at < p.len;) {
        struct glob_token t = glob_token_at(p, at, mode);
        switch (t.kind) {
        case GLOB_LITERAL:
            memcpy(plan->text + len, p.ptr + at, t.next - at);
            len += t.next - at;
            break;
        case GLOB_ANY_ONE:
            plan->text[len++] = SEGMENT_ANY;
            break;
        case GLOB_CLASS:
            memcpy(plan->text + len, p.ptr + at, t.next - at);
            plan->text[len] = SEGMENT_CLASS;
            len += t.next - at;
            plan->text[len - 1] = SEGMENT_CLASS_END;
            break;
        case GLOB_STAR:
            plan->text[len++] = SEGMENT_STAR;
            break;
        case GLOB_STAR_STAR:
            if (!is_whole_segment(p, at, t.next)) {
                plan->text[len++] = SEGMENT_REST;
                return len;
            }
            plan->text[len++] = SEGMENT_LOOP;
            break;
        }
        at = t.next;
    }
    return len;
}

/* ---- templates ------------------------------------------------------------------------------- */

struct template_reader {
    struct tidings_str text;
    size_t at;
    bool in_query;
    bool exact;
    size_t len; /* bytes written */
    size_t name_count;
    struct tidings_str names[TEMPLATE_MAX_VARIABLES];
};

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* A repeated name must have the same value twice, which a plan cannot express. False for an invalid
 * template. */
static bool note_name(struct template_reader *r, struct tidings_str name)
{
    for (size_t i = 0; i < r->name_count; i++) {
        r->exact = r->exact && !str_eq(r->names[i], name);
    }
    if (r->name_count == TEMPLATE_MAX_VARIABLES || name.len == 0) {
        return false;
    }
    r->names[r->name_count++] = name;
    return true;
}

/* Writes one variable: a separator, then its mark. `r->at` moves after its modifiers. */
static void mark_variable(struct template_reader *r, char *out, char separator)
{
    size_t start = r->at;
    while (r->at < r->text.len && is_name_char(r->text.ptr[r->at])) {
        r->at++;
    }
    bool is_sound = note_name(r, tidings_strn(r->text.ptr + start, r->at - start));
    size_t plain_end = r->at;
    while (r->at < r->text.len && r->text.ptr[r->at] != ',' && r->text.ptr[r->at] != '}') {
        r->at++;
    }
    bool exploded = r->at > plain_end && r->text.ptr[r->at - 1] == '*';
    r->exact = r->exact && r->at == plain_end + exploded; /* no prefix, no rare name */
    if (separator) {
        out[r->len++] = separator;
    }
    if (!is_sound || (exploded && separator == '/')) {
        out[r->len++] = SEGMENT_REST;
    } else if (r->in_query) {
        out[r->len++] = SEGMENT_PARAMETER;
    } else {
        out[r->len++] = SEGMENT_VALUE;
    }
}

/* Writes the expression at r->at. False if the rest after it is unknown. */
static bool mark_expression(struct template_reader *r, char *out)
{
    char op = '}';
    if (++r->at < r->text.len) {
        op = r->text.ptr[r->at];
    }
    if (strchr("+#;?&", op)) {
        out[r->len++] = SEGMENT_REST;
        return false;
    }
    char separator = ',', lead = '\0';
    if (op == '.' || op == '/') {
        separator = lead = op;
        r->at++;
    }
    for (;;) {
        mark_variable(r, out, lead);
        lead = separator;
        if (out[r->len - 1] == SEGMENT_REST) {
            return false;
        }
        if (r->at == r->text.len) {
            r->exact = false;
            return true;
        }
        if (r->text.ptr[r->at++] == '}') {
            return true;
        }
    }
}

static void mark_template(struct template_reader *r, char *out)
{
    while (r->at < r->text.len) {
        char c = r->text.ptr[r->at];
        if (c == '{') {
            if (!mark_expression(r, out)) {
                r->exact = false;
                return;
            }
            continue;
        }
        /* Canonical form omits these, or keeps them where they have no meaning. */
        r->exact = r->exact && c > ' ' && !strchr("\"<>\\^`|}", c);
        r->in_query = r->in_query || c == '?';
        out[r->len++] = c;
        r->at++;
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void add_step(struct pattern_plan *plan, enum plan_kind kind, const char *text, size_t len,
                     size_t segments)
{
    plan->steps[plan->count++] = (struct plan_step){
        .kind = (uint8_t)kind, .segments = (uint8_t)segments, .text = tidings_strn(text, len)};
}

/* Adds the literal segments from `start` up to the segment that contains the mark at `stop`;
 * without one, to the end. Returns where it stopped. */
static size_t add_runs(struct pattern_plan *plan, size_t start, size_t stop, size_t len)
{
    size_t segments = 0, from = start, last = start;
    for (size_t at = start; at < stop; at++) {
        if (plan->text[at] != '/') {
            continue;
        }
        last = at + 1;
        if (++segments == PLAN_MAX_RUN) {
            add_step(plan, PLAN_RUN, plan->text + from, last - from, segments);
            segments = 0;
            from = last;
        }
    }
    if (stop == len) {
        /* One more segment: the one without a slash after it. */
        add_step(plan, PLAN_END, plan->text + from, len - from, segments + 1);
        return len;
    }
    if (segments > 0) {
        add_step(plan, PLAN_RUN, plan->text + from, last - from, segments);
    }
    return last;
}

/* Adds the segment with wildcards at `start`; returns the start of the next one, or `len` + 1. */
static size_t plan_add_segment(struct pattern_plan *plan, size_t start, size_t len)
{
    struct tidings_str ignored;
    struct tidings_str segment =
        str_cut(tidings_strn(plan->text + start, len - start), '/', &ignored, NULL);
    bool is_last = start + segment.len == len;
    if (memchr(segment.ptr, SEGMENT_REST, segment.len)) {
        add_step(plan, PLAN_REST, segment.ptr, segment_head(segment), 0);
        return len + 1;
    }
    if (segment.ptr[0] == SEGMENT_LOOP) {
        /* Two in a row are equivalent to one. */
        if (is_last || plan->count == 0 || plan->steps[plan->count - 1].kind != PLAN_LOOP) {
            add_step(plan, is_last ? PLAN_ALL : PLAN_LOOP, segment.ptr, 0, 0);
        }
    } else {
        add_step(plan, is_last ? PLAN_SEGMENT_END : PLAN_SEGMENT, segment.ptr, segment.len, 1);
    }
    return start + segment.len + 1;
}

/* Splits the marked string of `len` bytes. */
static int pattern_plan_cut(struct pattern_plan *plan, size_t len, struct tidings_error *err)
{
    plan->count = 0;
    size_t at = 0, loops = 0;
    while (at <= len) {
        size_t mark = at;
        while (mark < len && !segment_is_mark(plan->text[mark])) {
            mark++;
        }
        at = add_runs(plan, at, mark, len);
        if (mark == len) {
            break;
        }
        at = plan_add_segment(plan, at, len);
        const struct plan_step *step = &plan->steps[plan->count - 1];
        loops += step->kind == PLAN_LOOP;
        if (step->text.len > PLAN_MAX_SEGMENT && step->kind != PLAN_RUN) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "pattern refused: a segment with wildcards of %zu bytes, at most "
                                "%u accepted",
                                step->text.len, PLAN_MAX_SEGMENT);
        }
        if (loops > PLAN_MAX_LOOPS) {
            return tidings_fail(err, TIDINGS_E_INVALID, "pattern refused: '**' more than %u times",
                                PLAN_MAX_LOOPS);
        }
    }
    return 0;
}

/* Marks are control characters: the text must not contain others. */
static int check_bytes(struct tidings_str text, const char *what, struct tidings_error *err)
{
    if (text.len == 0 || text.len > URI_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "%s of %zu bytes refused: between 1 and %u accepted", what, text.len,
                            URI_MAX);
    }
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.ptr[i] <= ' ') {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "%s refused: blank or control character at byte %zu", what, i + 1);
        }
    }
    return 0;
}

int plan_glob(struct pattern_plan *plan, struct tidings_str pattern, bool question,
              struct tidings_error *err)
{
    int rc = check_bytes(pattern, "glob", err);
    if (rc == 0) {
        rc = glob_check_uri(pattern, question, err);
    }
    if (rc < 0) {
        return rc;
    }
    size_t len = mark_glob(plan, pattern, question ? GLOB_URI_Q : GLOB_URI);
    plan->exact = len == 0 || plan->text[len - 1] != SEGMENT_REST;
    return pattern_plan_cut(plan, len, err);
}

int plan_template(struct pattern_plan *plan, struct tidings_str text, struct tidings_error *err)
{
    int rc = check_bytes(text, "template", err);
    if (rc < 0) {
        return rc;
    }
    struct template_reader r = {.text = text, .exact = true};
    mark_template(&r, plan->text);
    plan->exact = r.exact;
    return pattern_plan_cut(plan, r.len, err);
}
