/* SPDX-License-Identifier: MIT
 *
 * Matching one segment of a URI with one of a pattern. A wildcard takes as little as it can; on a
 * mismatch the last one takes one character more. Going back to an earlier one is never needed:
 * what it could take besides, the last one can take as well, because all wildcards of a part refuse
 * the same characters (or the literal between them holds the one they differ in). All moves are by
 * whole characters.
 */
#include "uri/pattern_part.h"

#include "uri/pattern_token.h"

static bool is_repeated(char mark)
{
    return mark == PART_STAR || mark == PART_VALUE || mark == PART_PARAMETER;
}

/* Can the wildcard take the character at `at`? */
static bool can_take(char mark, struct tidings_str s, size_t at)
{
    if (at == s.len) {
        return false;
    }
    switch (mark) {
    case PART_PARAMETER:
        return s.ptr[at] != '?' && s.ptr[at] != '&';
    case PART_VALUE:
        return s.ptr[at] != '?';
    default:
        return true;
    }
}

/* The token at *p that takes exactly one character or byte, at *at: both move on. */
static bool take_one(struct tidings_str part, size_t *p, struct tidings_str s, size_t *at)
{
    if (*at == s.len) {
        return false;
    }
    char mark = part.ptr[*p];
    if (mark == PART_ANY) {
        *p += 1;
        *at += glob_unit_length(s, *at);
        return true;
    }
    if (mark == PART_CLASS) {
        struct tidings_str rest = str_skip(part, *p), ignored;
        size_t len = str_cut(rest, PART_CLASS_END, &ignored, NULL).len + 1;
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

bool part_matches(struct tidings_str part, struct tidings_str segment)
{
    size_t p = 0, at = 0;
    size_t last = SIZE_MAX, last_end = 0; /* the last repeated wildcard, and where it ends now */
    while (p < part.len || at < segment.len) {
        if (p < part.len && is_repeated(part.ptr[p])) {
            bool some = part.ptr[p] != PART_STAR;
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

size_t part_head(struct tidings_str part)
{
    size_t n = 0;
    while (n < part.len && !part_is_mark(part.ptr[n])) {
        n++;
    }
    return n;
}

size_t part_tail(struct tidings_str part)
{
    size_t n = 0;
    while (n < part.len && !part_is_mark(part.ptr[part.len - 1 - n])) {
        n++;
    }
    return n;
}

struct tidings_str part_inner(struct tidings_str part)
{
    struct tidings_str best = STR_EMPTY;
    for (size_t at = part_head(part); at < part.len;) {
        if (part.ptr[at] == PART_CLASS) {
            struct tidings_str ignored;
            at += str_cut(str_skip(part, at), PART_CLASS_END, &ignored, NULL).len;
        }
        at++;
        struct tidings_str rest = str_skip(part, at);
        size_t len = part_head(rest);
        if (len > best.len && len < rest.len) {
            best = tidings_strn(rest.ptr, len);
        }
        at += len;
    }
    return best;
}
