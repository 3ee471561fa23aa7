/* SPDX-License-Identifier: MIT
 *
 * Globs over paths: `*` within a segment, `**` across segments, `?` one character, `[a-z]`,
 * `[!a-z]`. Linear time whatever the pattern. Used for exclusions now; subscriptions build on it.
 *
 * A character is a UTF-8 sequence, or a single byte where the text is not UTF-8. Only `**` ever
 * matches '/'. `**` that is a whole segment also stands for no segment at all, and vanishes
 * together with the slash that follows it. There is no escape character; `[*]` is a literal star.
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
/* Empty patterns, unclosed brackets, ranges that run backwards, more than GLOB_MAX_WILDCARDS
 * wildcards and more than GLOB_MAX_BYTES bytes are refused (TIDINGS_E_INVALID). */
int glob_check(struct tidings_str pattern, struct tidings_error *err);

#endif
