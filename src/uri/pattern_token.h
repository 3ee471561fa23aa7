/* SPDX-License-Identifier: MIT
 *
 * The tokens a glob is made of, and the characters it is compared with; shared by the files that
 * check, match and plan globs.
 *
 * In a path a character is a UTF-8 sequence, or one byte where the text is not UTF-8. In a
 * canonical URI it is one byte, or one percent-encoded byte (`%XX`), whose value is its own: a
 * literal `%2A` is not a literal `*`. In a class only the byte counts: `[*]` has both.
 */
#ifndef URI_PATTERN_TOKEN_H
#define URI_PATTERN_TOKEN_H

#include "base/str.h"

enum glob_mode {
    GLOB_PATH,  /* UTF-8, `?` is one character */
    GLOB_URI,   /* canonical URI, `?` is itself */
    GLOB_URI_Q, /* canonical URI, `?` is one character */
};

enum glob_token_kind { GLOB_LITERAL, GLOB_ANY_ONE, GLOB_CLASS, GLOB_STAR, GLOB_STAR_STAR };

struct glob_token {
    enum glob_token_kind kind;
    size_t next;    /* position of the following token */
    uint32_t value; /* literal: the character */
};

/* The character at `at` and its length. */
uint32_t glob_character(struct tidings_str s, size_t at, enum glob_mode mode, size_t *ret_len);
/* The token at `at`. A '[' that is never closed is a literal; in a URI a '/' closes none. */
struct glob_token glob_token_at(struct tidings_str pattern, size_t at, enum glob_mode mode);
/* Does the class that lies in `text` (with its brackets, whatever bytes these are) have `c`? */
bool glob_class_has(struct tidings_str text, uint32_t c, enum glob_mode mode);
/* Position in `text` behind a range that runs backwards, 0 when none does. */
size_t glob_class_backwards(struct tidings_str text, enum glob_mode mode);

/* Bytes of the character of a canonical URI at `at`: a triplet is never cut. */
static inline size_t glob_unit_length(struct tidings_str s, size_t at)
{
    return s.ptr[at] == '%' && s.len - at >= 3 ? 3 : 1;
}

#endif
