/* SPDX-License-Identifier: MIT
 *
 * Patterns: globs over paths and URIs, and the definition of matching for each kind of pattern.
 *
 * A glob: `*` within a segment (possibly empty), `**` across segments, `?` one character, `[a-z]`,
 * `[!a-z]`, `[^a-z]`. Only `**` ever matches '/'. `**` as a whole segment also matches no segment
 * at all, together with the slash that follows it. Linear time for all patterns. There is no escape
 * character; `[*]` is a literal star.
 *
 * Over a path, a character is a UTF-8 sequence, or a single byte where the text is not UTF-8. Over
 * a canonical URI (the whole text, its query included) it is a byte or one percent-encoded byte:
 * `%20` is one character for `?` and classes, and so is each byte of an encoded UTF-8 sequence.
 * Literals are compared without decoding (`%2A` is not `*`), members of classes by their byte
 * (`[*]` matches both).
 */
#ifndef FORMATS_PATTERN_H
#define FORMATS_PATTERN_H

#include <tidings/types.h>

#include "base/str.h"
#include "formats/uri.h"
#include "formats/uri_template.h"

#define GLOB_MAX_BYTES 4096u
#define GLOB_MAX_WILDCARDS 64u

/* Returns true if the whole of `path` matches. A pattern without '/' is compared only with the last
 * segment (as in .gitignore); a leading '/' anchors at the root. A pattern that ends in '/' is for
 * directories: `path` must then end in '/' as well. */
bool glob_matches_path(struct tidings_str pattern, struct tidings_str path);
/* The plain form: the whole of `text` against `pattern`; `*` stops at '/', `**` does not. A pattern
 * longer than GLOB_MAX_BYTES matches nothing. */
bool glob_matches(struct tidings_str pattern, struct tidings_str text);
/* The same over a canonical URI; `?` is a wildcard only with `question`. */
bool glob_matches_uri(struct tidings_str pattern, struct tidings_str uri, bool question);
/* Rejects empty patterns, unclosed brackets, backwards ranges, more than GLOB_MAX_WILDCARDS
 * wildcards and more than GLOB_MAX_BYTES bytes (TIDINGS_E_INVALID). In a URI a class must be closed
 * before the next '/'. */
int glob_check(struct tidings_str pattern, struct tidings_error *err);
int glob_check_uri(struct tidings_str pattern, bool question, struct tidings_error *err);

/* The kinds of subscriptions. */
enum pattern_kind {
    PATTERN_LITERAL,   /* this URI */
    PATTERN_CONTAINER, /* everything below, and itself */
    PATTERN_GLOB,      /* `?` is literal */
    PATTERN_GLOB_Q,    /* `?` matches one character */
    PATTERN_TEMPLATE,  /* RFC 6570, in reverse: see template_match */
    PATTERN_REGEX,     /* found anywhere: see formats/regex.h */
};

/* Returns true if `text` (a canonical URI, a canonical pattern or the source of a regex) matches
 * the canonical `uri`. For a single comparison: templates and regexes are compiled each time.
 * Malformed patterns match nothing. URIs longer than URI_MAX match no pattern.
 *
 * A container "x:///a/" matches "x:///a/" and everything below it; a container "x:///a" (a resource
 * that has children and a name without slash) matches "x:///a", "x:///a/" and everything below. A
 * query is not part of the path: "x:///a/?q" is below "x:///a/", and nothing is below "x:///a?q".
 * "x:/" does not contain "x://h": an authority is another root. */
bool pattern_matches(enum pattern_kind kind, struct tidings_str text, struct tidings_str uri);

/* Returns the prefix of every URI that it matches: the text before the first wildcard. */
struct tidings_str pattern_prefix(enum pattern_kind kind, struct tidings_str text);

/* Returns true if both can match one URI; "x:///a/{+rest}" represents a prefix. False is certain,
 * true is not: "a*" and "{b}c" overlap here. A regex is not analyzed: true. */
bool pattern_meets(enum pattern_kind kind, struct tidings_str text,
                   struct tidings_str uri_template);

/* The earliest position of the first slash of a path: after "scheme:", or at the second slash of
 * "scheme://". */
size_t pattern_first_slash(struct tidings_str uri);

/* -------------------------------------------------------------------------------------------------
 * Required literals of a regex: text that every match contains. An index searches for it first, and
 * runs the regex only on texts that contain it.
 */

#define REGEX_MAX_BYTES 1024u /* of the source of a regex for URIs */

/* Writes runs of bytes, each NUL-terminated; every text that `source` matches contains each of
 * them. Returns the bytes written: 0 if nothing is certain, including for any unknown construct.
 * `source` must compile. */
size_t regex_literals(struct tidings_str source, char out[2 * REGEX_MAX_BYTES]);
/* Writes the literal prefix of every text that `source` matches, without a NUL. Returns its length:
 * 0 if `source` is not anchored at the start, or if the prefix is not certain. */
size_t regex_prefix(struct tidings_str source, char out[2 * REGEX_MAX_BYTES]);

/* -------------------------------------------------------------------------------------------------
 * A *part*: one segment of a pattern with wildcards, as a string of bytes in which wildcards are
 * control characters, which no canonical URI contains. Every other byte is literal.
 */

enum {
    SEGMENT_STAR = 1,      /* any characters, possibly none */
    SEGMENT_VALUE = 2,     /* one or more characters, no '?' */
    SEGMENT_PARAMETER = 3, /* one or more characters, no '?' and no '&' */
    SEGMENT_ANY = 4,       /* one character */
    SEGMENT_CLASS = 5,     /* one character of the class up to SEGMENT_CLASS_END */
    SEGMENT_CLASS_END = 6,
    SEGMENT_LOOP = 7, /* in a plan only: any number of segments */
    SEGMENT_REST = 8, /* only in a plan: any number of segments */
    SEGMENT_MAX_MARK = 8,
};

static inline bool segment_is_mark(char c)
{
    return c > 0 && c <= SEGMENT_MAX_MARK;
}

/* Returns true if the whole of `segment`, a part of a canonical URI without '/', matches. At most
 * part × segment steps. */
bool segment_matches(struct tidings_str part, struct tidings_str segment);
/* Lengths of the literal at the start of a part, and of the one at its end. */
size_t segment_head(struct tidings_str part);
size_t segment_tail(struct tidings_str part);
/* The longest literal between two wildcards; empty if there is none. */
struct tidings_str segment_inner(struct tidings_str part);

/* -------------------------------------------------------------------------------------------------
 * A plan: a glob or a template as steps from segment to segment, for an index of many patterns.
 *
 * Steps follow each other from the start of the URI: `a/b/` (a run of literal segments), one
 * segment with wildcards (a *part*), any number of segments; the last step ends the plan. The plan
 * of a pattern matches at least everything the pattern matches; if it is exact, nothing else.
 */

#define PLAN_MAX_RUN 32u       /* segments of one run; longer ones become several */
#define PLAN_MAX_LOOPS 8u      /* `**` of one pattern */
#define PLAN_MAX_SEGMENT 1024u /* bytes of one segment with wildcards */
/* Each wildcard ends a part or a loop, with a run before it; runs are cut at their maximum. */
#define PLAN_MAX_STEPS (2 * GLOB_MAX_WILDCARDS + 2 + URI_MAX / PLAN_MAX_RUN)

enum plan_kind {
    PLAN_RUN,     /* `text`: `segments` literal segments, each with its trailing slash */
    PLAN_SEGMENT, /* `text`: a segment with wildcards (see above), and a slash */
    PLAN_LOOP,    /* any number of segments, each with its trailing slash */
    /* These end the plan. */
    PLAN_END,         /* `text`: `segments` literal segments, then the end */
    PLAN_SEGMENT_END, /* `text`: a segment with wildcards, then the end */
    PLAN_ALL,         /* anything */
    PLAN_REST,        /* `text`, then anything; never exact */
};

struct plan_step {
    uint8_t kind;
    uint8_t segments;
    struct tidings_str text; /* in the plan's own memory */
};

struct pattern_plan {
    bool exact;
    size_t count;
    struct plan_step steps[PLAN_MAX_STEPS];
    char text[URI_MAX];
};

/* Rejects patterns that glob_check_uri rejects, and those that do not fit a plan
 * (TIDINGS_E_INVALID). */
int plan_glob(struct pattern_plan *plan, struct tidings_str pattern, bool question,
              struct tidings_error *err);
/* For a canonical template. Not exact if there is any doubt, even about its validity: the caller
 * then uses template_create. */
int plan_template(struct pattern_plan *plan, struct tidings_str text, struct tidings_error *err);

#endif
