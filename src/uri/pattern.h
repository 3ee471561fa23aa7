/* SPDX-License-Identifier: MIT
 *
 * Patterns: globs over paths and URIs, and the definition of what each kind of pattern matches.
 *
 * A glob: `*` within a segment (maybe nothing), `**` across segments, `?` one character, `[a-z]`,
 * `[!a-z]`, `[^a-z]`. Only `**` ever matches '/'. `**` that is a whole segment also stands for no
 * segment at all, and vanishes together with the slash that follows it. Linear time whatever the
 * pattern. There is no escape character; `[*]` is a literal star.
 *
 * Over a path, a character is a UTF-8 sequence, or a single byte where the text is not UTF-8. Over
 * a canonical URI (the whole text, its query included) it is a byte or one percent-encoded byte:
 * `%20` is one character for `?` and classes, and so is each byte of an encoded UTF-8 sequence.
 * Literals are compared as they stand (`%2A` is not `*`), members of classes by their byte (`[*]`
 * has both).
 */
#ifndef URI_PATTERN_H
#define URI_PATTERN_H

#include "base/str.h"

#define GLOB_MAX_BYTES 4096u
#define GLOB_MAX_WILDCARDS 64u

/* Does the whole of `path` match? A pattern without '/' is compared with the last segment only
 * (like .gitignore); a leading '/' anchors at the root. A pattern that ends in '/' is for
 * directories: `path` must then end in '/' as well. */
bool glob_matches_path(struct tidings_str pattern, struct tidings_str path);
/* The plain form: the whole of `text` against `pattern`, `*` stopping at '/', `**` not. A pattern
 * longer than GLOB_MAX_BYTES matches nothing. */
bool glob_matches(struct tidings_str pattern, struct tidings_str text);
/* The same over a canonical URI; `?` is a wildcard only with `question`. */
bool glob_matches_uri(struct tidings_str pattern, struct tidings_str uri, bool question);
/* Empty patterns, unclosed brackets, ranges that run backwards, more than GLOB_MAX_WILDCARDS
 * wildcards and more than GLOB_MAX_BYTES bytes are refused (TIDINGS_E_INVALID). In a URI a class
 * must close before the next '/'. */
int glob_check(struct tidings_str pattern, struct tidings_error *err);
int glob_check_uri(struct tidings_str pattern, bool question, struct tidings_error *err);

/* What a subscription may be. */
enum pattern_kind {
    PATTERN_LITERAL,   /* this URI */
    PATTERN_CONTAINER, /* everything below, and itself */
    PATTERN_GLOB,      /* `?` is itself */
    PATTERN_GLOB_Q,    /* `?` is one character */
    PATTERN_TEMPLATE,  /* RFC 6570, in reverse: see template_match */
    PATTERN_REGEX,     /* found anywhere: see base/regex.h */
};

/* Does `text` (a canonical URI, a canonical pattern or the source of a regex) match the canonical
 * `uri`? For a question asked once: templates and regexes are compiled each time. What is not well
 * formed matches nothing; so do URIs longer than URI_MAX.
 *
 * A container "x:///a/" matches "x:///a/" and what is below it; a container "x:///a" (a resource
 * that has children and a name without slash) matches "x:///a", "x:///a/" and what is below. A
 * query is not part of the path: "x:///a/?q" is below "x:///a/", and nothing is below "x:///a?q".
 * "x:/" does not hold "x://h": an authority is another root. */
bool pattern_matches(enum pattern_kind kind, struct tidings_str text, struct tidings_str uri);

/* Returns the prefix of every URI that it matches: the text before the first wildcard. */
struct tidings_str pattern_prefix(enum pattern_kind kind, struct tidings_str text);

/* Both can match one URI; "x:///a/{+rest}" stands for a prefix. No is
 * certain, yes is not: "a*" and "{b}c" meet here. A regex is not looked into: yes. */
bool pattern_meets(enum pattern_kind kind, struct tidings_str text,
                   struct tidings_str uri_template);

/* Where the first slash of a path may be: after "scheme:", or at the second slash of "scheme://".
 */
size_t pattern_first_slash(struct tidings_str uri);

#endif
