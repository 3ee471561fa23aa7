/* SPDX-License-Identifier: MIT
 *
 * The request fields of conditional, partial and negotiated reads (RFC 9110 §12.5.1, §13.1, §14),
 * and the parameters of a query, without I/O. What a field says in a way we do not understand is
 * passed over where the RFC allows it; nothing here fails in a way that needs a sentence.
 *
 * Slices point into the field.
 */
#ifndef WIRE_HTTP_FIELDS_H
#define WIRE_HTTP_FIELDS_H

#include "base/str.h"

/* ---- Range ----------------------------------------------------------------------------------- */

struct http_range {
    int64_t from; /* first byte */
    int64_t to;   /* behind the last; -1: to the end */
    int64_t last; /* instead: so many at the end; 0: not asked so */
};
/* One range of bytes: "bytes=0-99", "bytes=100-", "bytes=-500". false: malformed, several, or
 * another unit; then the field does not count (RFC 9110 §14.2). */
bool http_parse_range(struct tidings_str value, struct http_range *ret);

/* ---- entity tags ----------------------------------------------------------------------------- */

/* Take the next tag off the front of *list: `"x"` or `W/"x"` gives x, a lone `*` gives "*". false
 * at the end, and at the first thing that is none (*list is then not empty). */
bool http_next_etag(struct tidings_str *list, struct tidings_str *ret, bool *ret_weak);
/* `name: "etag"\r\n`; one that begins with "W/" is written as a weak one. Nothing for one that
 * cannot stand there. */
int http_put_etag(struct buf *out, const char *name, struct tidings_str etag);

/* ---- Accept ---------------------------------------------------------------------------------- */

/* The media ranges of the field, the best first: by weight, the more specific one before the less,
 * then as written. Those of weight 0 and malformed ones are left out. At most `max`; one that
 * accepts any type is kept as the last. An absent or empty field: 0. */
size_t http_parse_accept(struct tidings_str value, struct tidings_str *ranges, size_t max);

/* "type/subtype", with parameters or without? At most 255 bytes. */
bool http_is_media_type(struct tidings_str s);

/* ---- queries --------------------------------------------------------------------------------- */

/* The value of `name`, percent-decoded, into `out` ('+' stays what it is: a URI holds no blanks).
 * 1: there it is; 0: absent; TIDINGS_E_INVALID: twice, badly encoded, or too long for
 * `out`; TIDINGS_E_NOMEM. */
int http_query_get(struct tidings_str query, const char *name, struct buf *out);

#endif
