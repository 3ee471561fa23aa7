/* SPDX-License-Identifier: MIT
 *
 * The JSON writer: writes directly into a buffer, without a tree, and allocates only the buffer.
 * The writer places commas and quotes; the caller keeps begin/end balanced (asserted). Errors stick
 * in buf.failed.
 *
 *     struct jw w;
 *     jw_init(&w, &out);
 *     jw_begin_object(&w);
 *     jw_key(&w, STR("uri"));
 *     jw_string(&w, uri);
 *     jw_end_object(&w);
 */
#ifndef FORMATS_JSON_WRITE_H
#define FORMATS_JSON_WRITE_H

#include "base/str.h"
#include "formats/json.h"

struct jw {
    struct buf *out;
    uint64_t first; /* bit per level: nothing written in this container yet */
    unsigned depth;
    bool after_key;
};

void jw_init(struct jw *w, struct buf *out);
void jw_begin_object(struct jw *w);
void jw_end_object(struct jw *w);
void jw_begin_array(struct jw *w);
void jw_end_array(struct jw *w);
void jw_key(struct jw *w, struct tidings_str key);
void jw_string(struct jw *w, struct tidings_str s);     /* invalid UTF-8 becomes U+FFFD */
void jw_base64(struct jw *w, struct tidings_str bytes); /* a base64 string */
void jw_integer(struct jw *w, int64_t n);
void jw_number(struct jw *w, double n); /* shortest form that reads back; not finite: null */
void jw_bool(struct jw *w, bool b);
void jw_null(struct jw *w);
void jw_raw(struct jw *w, struct tidings_str text); /* one complete value, trusted */
void jw_value(struct jw *w, const struct json *v);  /* a parsed value, compact */
/* Writes the members of an object given as compact text, trusted; empty: none. */
void jw_members(struct jw *w, struct tidings_str object);

/* Shorthands: key and value. */
void jw_put_string(struct jw *w, struct tidings_str key, struct tidings_str s);
void jw_put_integer(struct jw *w, struct tidings_str key, int64_t n);
void jw_put_bool(struct jw *w, struct tidings_str key, bool b);
void jw_put_raw(struct jw *w, struct tidings_str key, struct tidings_str text);

/* The output of jw_string without the quotes, for pieces of valid UTF-8 that can end anywhere: its
 * length; and as much of it as fits into `len` bytes of `room`. The second function returns the
 * length and sets how many bytes of the piece it used. */
size_t jw_escaped_len(struct tidings_str piece);
size_t jw_escape_piece(struct tidings_str piece, size_t *used, char *room, size_t len);

/* Appends `s` as a quoted JSON string to `out`. */
int jw_quote(struct buf *out, struct tidings_str s);

/* -------------------------------------------------------------------------------------------------
 * Pretty-printed JSON: the same value on several lines, two blanks for each level.
 */

/* Appends `text`, which is one valid compact JSON value from the writer. Empty objects and arrays
 * stay "{}" and "[]". Returns the failure of the buffer, or 0. */
int json_pretty(struct buf *out, struct tidings_str text);

#endif
