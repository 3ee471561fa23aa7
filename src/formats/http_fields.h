/* SPDX-License-Identifier: MIT
 *
 * HTTP fields of conditional, partial and negotiated reads (RFC 9110 §12.5.1, §13.1, §14), and
 * query parameters, without I/O. Fields that are not understood are ignored where the RFC allows
 * it; no failure here needs an error message.
 *
 * Slices point into the field.
 */
#ifndef FORMATS_HTTP_FIELDS_H
#define FORMATS_HTTP_FIELDS_H

#include <tidings/types.h>

#include "base/str.h"
#include "formats/http.h"

/* ---- Range ----------------------------------------------------------------------------------- */

struct http_range {
    int64_t from; /* first byte */
    int64_t to;   /* after the last byte; -1: to the end */
    int64_t last; /* alternatively: this many bytes at the end; 0: not used */
};
/* One range of bytes: "bytes=0-99", "bytes=100-", "bytes=-500". false: malformed, several ranges,
 * or another unit; the field is then ignored (RFC 9110 §14.2). */
bool http_parse_range(struct tidings_str value, struct http_range *ret);

/* ---- entity tags ----------------------------------------------------------------------------- */

/* Removes the first tag from *list: `"x"` or `W/"x"` gives x, a single `*` gives "*". false at the
 * end, and at the first invalid tag (*list is then not empty). */
bool http_next_etag(struct tidings_str *list, struct tidings_str *ret, bool *ret_weak);
/* `name: "etag"\r\n`; an etag that starts with "W/" is written as a weak one. Writes nothing for an
 * invalid one. */
int http_put_etag(struct buf *out, const char *name, struct tidings_str etag);

/* ---- Accept ---------------------------------------------------------------------------------- */

/* The media ranges of the field, best first: by weight, then more specific ones first, then in the
 * order of the field. Ranges of weight 0 and malformed ones are omitted. At most `max`; a range
 * that accepts any type is kept as the last. An absent or empty field: 0. */
size_t http_parse_accept(struct tidings_str value, struct tidings_str *ranges, size_t max);

/* Returns true for "type/subtype", with or without parameters, of at most 255 bytes. */
bool http_is_media_type(struct tidings_str s);

/* ---- queries --------------------------------------------------------------------------------- */

/* Appends the value of `name`, percent-decoded, to `out` ('+' is unchanged: URIs contain no
 * blanks). 1: found; 0: absent; TIDINGS_E_INVALID: repeated, badly encoded, or too long for `out`;
 * TIDINGS_E_NOMEM. */
int http_query_get(struct tidings_str query, const char *name, struct buf *out);

/* -------------------------------------------------------------------------------------------------
 * Bearer tokens in requests and challenges in responses (RFC 6750, RFC 9728), without I/O.
 *
 * Does not interpret tokens; slices point into the request.
 */

#define BEARER_TOKEN_MAX 16384u /* bytes of a token */

enum bearer_result {
    BEARER_NONE,  /* no token: no Authorization, or another scheme */
    BEARER_TOKEN, /* a well-formed token */
    BEARER_BOUND, /* a well-formed token as "DPoP TOKEN" (RFC 9449), which requires a proof */
    BEARER_BAD,   /* several, malformed, or in the query */
};

/* Finds the token of a request; for BEARER_BAD, *why gets an error message. */
enum bearer_result bearer_find(const struct http_request *req, struct tidings_str *token,
                               const char **why);
/* Parses an Authorization field: "Bearer TOKEN" or "DPoP TOKEN", the scheme in any case, one or
 * more blanks, a token of letters, digits, - . _
 * + / and a tail of '=' (RFC 6750 §2.1). */
enum bearer_result bearer_parse(struct tidings_str field, struct tidings_str *token,
                                const char **why);

/* The challenge for a client without access; empty slices are omitted. */
struct bearer_challenge {
    struct tidings_str scheme; /* empty: Bearer. Only written */
    struct tidings_str error;  /* "invalid_token" */
    struct tidings_str description;
    struct tidings_str scope;    /* separated by blanks */
    struct tidings_str metadata; /* URL of the protected resource's metadata */
    struct tidings_str algs;     /* of proofs, separated by blanks. Only written */
};
/* `WWW-Authenticate: SCHEME …\r\n`. Values are quoted; invalid characters (anything but visible
 * ASCII and blanks) become '?'. */
int bearer_put_challenge(struct buf *out, const struct bearer_challenge *challenge);
/* The first Bearer challenge of a WWW-Authenticate field, which can also contain other schemes.
 * Slices point into the field; quoted values keep their backslashes. Unknown parts are ignored.
 * false: none. */
bool bearer_read_challenge(struct tidings_str field, struct bearer_challenge *ret);
/* The same for the first challenge of another scheme with the same parameter names: "DPoP" (RFC
 * 9449). */
bool bearer_read_scheme(struct tidings_str field, struct tidings_str scheme,
                        struct bearer_challenge *ret);
/* TIDINGS_E_DENIED with an error message in visible ASCII for a client that got 401 or 403: what it
 * lacks according to the field, and where to get it. */
int bearer_refused(long status, struct tidings_str field, struct tidings_error *err);

/* Returns true if `scope` is a valid scope: visible ASCII except " and \ (RFC 6749 §3.3), at least
 * one byte. */
bool bearer_is_scope(struct tidings_str scope);

/* -------------------------------------------------------------------------------------------------
 * W3C Trace Context: the trace of a request, from the HTTP headers or `_meta` members (SEP-414)
 * `traceparent` and `tracestate`.
 *
 *     traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
 *
 * Pure. Invalid values are ignored, as the recommendation requires, and a `tracestate` without its
 * `traceparent` too. We create no spans (there is no exporter): the received context is passed on
 * unchanged, so the receiver's span becomes a child of the requester's.
 */

#define TRACE_PARENT_LEN 55u /* of version 00, which is the version passed on */
#define TRACE_ID_LEN 32u
#define TRACE_SPAN_LEN 16u
#define TRACE_STATE_MAX 512u /* longer ones are dropped whole */

/* Both strings are NUL-terminated; empty: none. */
struct trace {
    char parent[TRACE_PARENT_LEN + 1];
    char state[TRACE_STATE_MAX + 1];
};

/* false: `parent` is invalid, and *ret is empty. For an unknown version the known part is used, and
 * passed on as version 00. */
bool trace_read(struct tidings_str parent, struct tidings_str state, struct trace *ret);

static inline bool trace_is_there(const struct trace *trace)
{
    return trace->parent[0] != '\0';
}
static inline struct tidings_str trace_id(const struct trace *trace)
{
    return tidings_strn(trace->parent + 3, TRACE_ID_LEN);
}
static inline struct tidings_str trace_span_id(const struct trace *trace)
{
    return tidings_strn(trace->parent + 4 + TRACE_ID_LEN, TRACE_SPAN_LEN);
}

/* -------------------------------------------------------------------------------------------------
 * Byte ranges: finds the bytes of a content that a range selects. Pure: no memory, no I/O.
 *
 * Bytes and lines count from 0 and a range is half open: [from, to). A line ends after its line
 * feed; the text after the last line feed is a line too, unless it is empty. The end of a range may
 * exceed the content (it is clipped), and its start may equal the length of the content (it is then
 * empty); a larger start is TIDINGS_E_INVALID, with an error message that gives the length.
 *
 * Text is never split inside a character: both ends move back to the start of the character they
 * are in, so adjacent ranges stay adjacent.
 */

/* Bytes needed before and after a range to find character boundaries. */
#define BYTE_RANGE_MARGIN 3

/* Checks that the range is valid: not negative, not backwards. */
int byte_range_check(const struct tidings_range *range, struct tidings_error *err);
/* The bytes of a byte range in content of `total` bytes. */
int byte_range_clip(const struct tidings_range *range, int64_t total, int64_t *ret_from,
                    int64_t *ret_to, struct tidings_error *err);
/* The bytes of a range of either unit in content that is completely available. */
int byte_range_find(const struct tidings_range *range, struct tidings_str whole, size_t *ret_from,
                    size_t *ret_to, struct tidings_error *err);

/* The start of the character that contains position `at`; `at` itself if that is invalid UTF-8, or
 * the end. */
size_t byte_range_border(struct tidings_str text, size_t at);
/* Moves both ends to character boundaries. False, with both unchanged, if the bytes between them
 * are not text. */
bool byte_range_fit_text(struct tidings_str bytes, size_t *from, size_t *to);

/* For content in pieces. The position after *lines lines from the start of the piece, or its length
 * if it ends first; *lines becomes the number of lines still to skip. */
size_t byte_range_skip_lines(struct tidings_str piece, int64_t *lines);
/* Backwards from the end of the piece: the position after the *lines-th line feed, or 0 if there
 * are fewer; *lines becomes the number still to find. */
size_t byte_range_back_lines(struct tidings_str piece, int64_t *lines);

#endif
