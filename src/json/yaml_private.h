/* SPDX-License-Identifier: MIT
 *
 * Between the parts of the YAML parser: where it is, and what each part does there.
 */
#ifndef JSON_YAML_PRIVATE_H
#define JSON_YAML_PRIVATE_H

#include "json/write.h"
#include "json/yaml.h"

/* Where the parser is. Offsets are into `text`; a line that was read to its end is behind `at`. */
struct yaml {
    struct tidings_str text;
    size_t at;         /* where the next line to look at begins */
    struct jw *w;      /* what was read so far, as JSON */
    struct buf scalar; /* the text of the scalar at hand */
    unsigned depth;
    unsigned values;
    struct tidings_error *err;
};

/* The line that begins at `from`: returns where it ends, without its line break; *next is where the
 * one after it begins. */
size_t yaml_line_end(const struct yaml *y, size_t from, size_t *next);
/* The number of the line that `offset` is in, for errors. */
unsigned yaml_line_number(const struct yaml *y, size_t offset);
/* The first at or behind `from` that is no blank. */
size_t yaml_skip_blanks(const struct yaml *y, size_t from, size_t end);
/* Is there nothing but blanks and a comment from `from` (where a token ended) to `end`? */
bool yaml_is_rest_empty(const struct yaml *y, size_t from, size_t end);
/* TIDINGS_E_PARSE about the line that `offset` is in. */
int yaml_fail(struct yaml *y, size_t offset, const char *what);
/* One more value; too many are refused. */
int yaml_count(struct yaml *y, size_t offset);
/* The character at `offset`; '\n' at the end. */
static inline char yaml_char(const struct yaml *y, size_t offset)
{
    return offset < y->text.len ? y->text.ptr[offset] : '\n';
}
static inline bool yaml_is_blank(char c)
{
    return c == ' ' || c == '\t';
}
static inline bool yaml_is_space(char c)
{
    return yaml_is_blank(c) || c == '\n' || c == '\r';
}

/* ---- yaml_scalar.c --------------------------------------------------------------------------- */

/* A quoted scalar that begins at `from`, into y->scalar; *ret_end is behind its quote. Lines that
 * it goes on in are indented by more than `indent`. */
int yaml_quoted(struct yaml *y, size_t from, int indent, size_t *ret_end);
/* The text of y->scalar, which stood plain in the line of `from`, as the value it means. */
int yaml_put_plain(struct yaml *y, size_t from);
/* Does a plain scalar of this text mean a string? */
bool yaml_is_string(struct tidings_str plain);
/* May a plain scalar begin at `offset`? TIDINGS_E_PARSE says what it would be else. */
int yaml_check_plain(struct yaml *y, size_t offset, bool in_flow);
/* A block scalar ("|", ">") whose sign is at `from`, in a node indented by `indent`. */
int yaml_block_scalar(struct yaml *y, size_t from, int indent);

/* ---- yaml_flow.c ----------------------------------------------------------------------------- */

/* A flow collection that begins at `from`; *ret_end is behind its bracket. */
int yaml_flow(struct yaml *y, size_t from, int indent, size_t *ret_end);

#endif
