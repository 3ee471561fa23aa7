/* SPDX-License-Identifier: MIT
 *
 * The request fields of conditional, partial and negotiated reads (RFC 9110 §12.5.1, §13.1, §14),
 * and the parameters of a query, without I/O. What a field says in a way we do not understand is
 * passed over where the RFC allows it; nothing here fails in a way that needs a sentence.
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

/* -------------------------------------------------------------------------------------------------
 * Bearer tokens in requests and challenges in answers (RFC 6750, RFC 9728), without I/O.
 *
 * What a token means is nobody's business here; slices point into the request.
 */

#define BEARER_TOKEN_MAX 16384u /* bytes of a token */

enum bearer_result {
    BEARER_NONE,  /* no token: no Authorization, or one of another scheme */
    BEARER_TOKEN, /* one, well-formed */
    BEARER_BOUND, /* one, shown as "DPoP TOKEN" (RFC 9449), which wants a proof beside it */
    BEARER_BAD,   /* several, malformed, or in the query */
};

/* The token of a request, and of BEARER_BAD in *why a sentence that says what was wrong. */
enum bearer_result bearer_find(const struct http_request *req, struct tidings_str *token,
                               const char **why);
/* An Authorization field: "Bearer TOKEN" or "DPoP TOKEN", the scheme in any case, one or more
 * blanks, a token of letters, digits, - . _ ~ + / and a tail of '=' (RFC 6750 §2.1). */
enum bearer_result bearer_parse(struct tidings_str field, struct tidings_str *token,
                                const char **why);

/* What is said to whoever may not come in; empty slices are left out. */
struct bearer_challenge {
    struct tidings_str scheme; /* empty: Bearer. Only written */
    struct tidings_str error;  /* "invalid_token" */
    struct tidings_str description;
    struct tidings_str scope;    /* separated by blanks */
    struct tidings_str metadata; /* URL of the protected resource's metadata */
    struct tidings_str algs;     /* of proofs, separated by blanks. Only written */
};
/* `WWW-Authenticate: SCHEME …\r\n`. Values are quoted; what cannot stand in them (anything but
 * visible ASCII and blanks) becomes '?'. */
int bearer_put_challenge(struct buf *out, const struct bearer_challenge *challenge);
/* The first Bearer challenge of a WWW-Authenticate field, which may hold those of other schemes
 * too. Slices point into the field; what was quoted is as it stands there, backslashes and all.
 * Whatever is not understood is passed over. false: there is none. */
bool bearer_read_challenge(struct tidings_str field, struct bearer_challenge *ret);
/* The same for the first challenge of another scheme whose parameters have these names: "DPoP"
 * (RFC 9449). */
bool bearer_read_scheme(struct tidings_str field, struct tidings_str scheme,
                        struct bearer_challenge *ret);
/* TIDINGS_E_DENIED with a sentence for whoever was refused with 401 or 403, of visible ASCII: what
 * the field says they lack, and where to get it. */
int bearer_refused(long status, struct tidings_str field, struct tidings_error *err);

/* May `scope` be a scope: visible ASCII but " and \ (RFC 6749 §3.3), at least one byte? */
bool bearer_is_scope(struct tidings_str scope);

/* -------------------------------------------------------------------------------------------------
 * W3C Trace Context: which trace a request belongs to, as `traceparent` and `tracestate` of HTTP
 * headers or of `_meta` (SEP-414) say.
 *
 *     traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
 *
 * Pure. What is not valid is ignored, as the recommendation has it, and a `tracestate` goes with
 * its `traceparent`. We make no spans of our own (there is no exporter): what is passed on is what
 * came, so that whoever is told hangs its span below the one that asked.
 */

#define TRACE_PARENT_LEN 55u /* of version 00, which is what is passed on */
#define TRACE_ID_LEN 32u
#define TRACE_SPAN_LEN 16u
#define TRACE_STATE_MAX 512u /* longer ones are dropped whole */

/* Both texts have their NUL; empty: there is none. */
struct trace {
    char parent[TRACE_PARENT_LEN + 1];
    char state[TRACE_STATE_MAX + 1];
};

/* false: `parent` is not valid, and *ret is empty. Of a version we do not know the part we do know
 * is taken, and passed on as version 00. */
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
 * Which bytes of some content a range means. Pure: no memory, no I/O.
 *
 * Bytes and lines count from 0 and a range is half open: [from, to). A line ends behind its line
 * feed; what follows the last line feed is a line too, unless it is empty. A range may end behind
 * the end of the content (there it stops) and may begin exactly there (it is empty); one that
 * begins further back is TIDINGS_E_INVALID, with a sentence that says how much there is.
 *
 * Text is never cut inside a character: both ends move back to the beginning of the character they
 * fall into, so that ranges which meet before still meet afterwards.
 */

/* How many bytes before and behind a range must be at hand to find the borders of characters. */
#define BYTE_RANGE_MARGIN 3

/* Is it something that can be asked for at all: nothing negative, not backwards? */
int byte_range_check(const struct tidings_range *range, struct tidings_error *err);
/* The bytes that a range of bytes means in content of `total` bytes. */
int byte_range_clip(const struct tidings_range *range, int64_t total, int64_t *ret_from,
                    int64_t *ret_to, struct tidings_error *err);
/* The bytes that a range of either unit means in content which is all at hand. */
int byte_range_find(const struct tidings_range *range, struct tidings_str whole, size_t *ret_from,
                    size_t *ret_to, struct tidings_error *err);

/* The beginning of the character that position `at` falls into; `at` itself when that is no UTF-8
 * there, or the end. */
size_t byte_range_border(struct tidings_str text, size_t at);
/* Move both ends to borders of characters. False, and nothing moves, when what is between them is
 * no text. */
bool byte_range_fit_text(struct tidings_str bytes, size_t *from, size_t *to);

/* For content that comes in pieces. The position behind *lines lines from the beginning of the
 * piece, or its length when it ends first; *lines becomes how many are still to be passed. */
size_t byte_range_skip_lines(struct tidings_str piece, int64_t *lines);
/* From the end of the piece backwards: the position behind the *lines-th line feed, or 0 when there
 * are not as many; *lines becomes how many are still to be found. */
size_t byte_range_back_lines(struct tidings_str piece, int64_t *lines);

#endif
