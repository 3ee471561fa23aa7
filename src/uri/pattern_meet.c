/* SPDX-License-Identifier: MIT
 *
 * Whether two patterns can match the same URI. Both are walked a segment at a time: segments that
 * differ before anything in them is wild keep the patterns apart, and so does a different number of
 * segments. A wildcard that crosses '/' ends the walk with a yes. The answer no is always right;
 * yes may be wrong where wildcards of both patterns meet within one segment.
 */
#include <ctype.h>

#include "uri/pattern.h"

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

/* "{name}" stays within a segment; an operator such as '+' or '/' need not. */
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

/* Containers match what is below them as well. */
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
    /* "**" stands for no segment, too, with the slash before or behind it. */
    return more == others || (more && str_starts(text, STR("**")));
}
