/* SPDX-License-Identifier: MIT
 *
 * Finding the literal text that a regex requires: one pass over its source, outermost level only.
 * Literal characters make a run; anything else ends it: classes, groups (skipped whole), dots,
 * anchors. A character that is quantified with a possible zero is taken back. Alternatives at the
 * outermost level, options, verbs, quoting and other rarities: nothing is certain.
 *
 * Invariant: when in doubt, less. A run too many would lose matches.
 */
#include "uri/pattern_literals.h"

#include "base/str.h"

struct reader {
    struct tidings_str s;
    size_t at;
    bool certain;
    char *out;
    size_t len, run; /* written; where the current run begins */
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

/* The escape at r->at, inside a class or a group or not: moves behind it. Returns the literal it
 * stands for, '\0' when it is none. */
static char skip_escape(struct reader *r)
{
    char c = pattern_literals_peek(r, 1);
    r->at += 2;
    if (c == '\0' || (unsigned char)c >= 0x80) {
        r->certain = false;
        return '\0';
    }
    if (pattern_literals_is_alnum(c)) {
        /* Those that stand alone; others have arguments, or quote what follows. */
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
    r->certain = false; /* whether it is one takes more to say */
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
            /* Options reach past their group, verbs end it all. */
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

/* A quantifier at r->at? Moves behind it; *ret_optional: it allows none. */
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
            r->certain = false; /* a literal brace, or something newer than this */
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
        (void)skip_quantifier(r, &ignored); /* of what was no literal */
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
    bool is_prefix = true; /* the first run begins right after the anchor */
    while (r.certain && r.at < r.s.len) {
        read_one(&r);
        is_prefix = is_prefix && r.len > 0;
    }
    end_run(&r);
    return r.certain && is_prefix ? strnlen(out, r.len) : 0;
}
