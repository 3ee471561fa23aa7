/* SPDX-License-Identifier: MIT
 *
 * HTTP/1.1 requests without I/O: a strict head parser, a chunked-body decoder, a response head
 * writer. Bytes in, slices out; nothing is allocated, and the caller owns the state between calls.
 *
 * The caller collects bytes in one buffer and calls http_parse_head until it no longer returns 0
 * ("more"). Strict means: CRLF only, no obsolete folding, no blank before the colon, token names,
 * visible values, exactly one Host in 1.1, one well-formed Content-Length or `Transfer-Encoding:
 * chunked` and never both, no unknown codings. The caller responds to a malformed request with an
 * error and closes the connection.
 */
#ifndef FORMATS_HTTP_H
#define FORMATS_HTTP_H

#include <tidings/types.h>

#include "base/str.h"

#define HTTP_MAX_HEADERS 100u
#define HTTP_MAX_TARGET 8192u
#define HTTP_MAX_HEAD 32768u /* request line and headers together */

enum http_method {
    HTTP_OTHER, /* a valid token, but none of these */
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_OPTIONS,
};

struct http_header {
    struct tidings_str name, value; /* value without surrounding blanks */
};

struct http_request {
    enum http_method method;
    struct tidings_str method_name;
    struct tidings_str target; /* as sent: origin-form, absolute-form or "*" */
    struct tidings_str path;   /* the part of the target before '?'; absolute-form reduced to it */
    struct tidings_str query;  /* after '?'; empty: none */
    struct tidings_str host;   /* Host header (or the authority of an absolute target) */
    int minor;                 /* HTTP/1.minor: 0 or 1 */
    bool keep_alive;
    bool expect_continue;
    bool chunked;
    bool has_length;
    uint64_t content_length; /* 0 without has_length */
    unsigned header_count;
    struct http_header headers[HTTP_MAX_HEADERS];
};

struct http_fault {
    int status;       /* 400, 414, 417, 431, 501, 505 */
    const char *text; /* error message */
};

/* Returns the length of the head (> 0), 0 if more bytes are needed, -1 with *fault. `*scanned` (0
 * at the start of a message) is the progress of earlier calls, so that the total cost of a slowly
 * arriving head is linear; success resets it to 0. Slices in *req point into `bytes`. Empty lines
 * before the request line: at most two are skipped (they count in the returned length). The result
 * depends only on the bytes, not on the number of calls. */
ptrdiff_t http_parse_head(const char *bytes, size_t len, size_t *scanned, struct http_request *req,
                          struct http_fault *fault);

/* The first header of that name (ASCII case-insensitive); ptr NULL if absent. `*count` (may be
 * NULL) gets the number of such headers. */
struct tidings_str http_header(const struct http_request *req, const char *name, unsigned *count);

/* Returns true if the comma-separated list in `value` contains `token` (case-insensitive,
 * parameters ignored). */
bool http_list_has(struct tidings_str value, const char *token);

/* Chunked bodies, decoded in place. */
struct http_chunked {
    uint64_t left;  /* of the current chunk */
    uint64_t total; /* decoded so far */
    unsigned state;
    unsigned line;    /* bytes of the line being read */
    unsigned trailer; /* bytes of extensions and trailers together */
};
enum http_chunked_result {
    HTTP_CHUNKED_MORE = 0, /* all input was used, the body continues */
    HTTP_CHUNKED_DONE = 1,
    HTTP_CHUNKED_BAD = -1,
};
void http_chunked_init(struct http_chunked *c);
/* Decodes `len` raw bytes at `bytes` in place. On return the decoded bytes are at the start, their
 * count is in *decoded, and *used raw bytes were consumed (on DONE the rest belongs to the next
 * request). Chunk extensions and trailers are skipped, bounded (256 bytes a line, 4 KiB together).
 */
enum http_chunked_result http_chunked_decode(struct http_chunked *c, char *bytes, size_t len,
                                             size_t *decoded, size_t *used);

/* The reason phrase of a status ("OK"); "Unknown" for others. */
const char *http_reason(int status);
/* "HTTP/1.1 200 OK\r\n" */
void http_put_status(struct buf *out, int status);
/* "name: value\r\n"; control characters in value are rejected (TIDINGS_E_INVALID). */
int http_put_header(struct buf *out, const char *name, struct tidings_str value);

/* -------------------------------------------------------------------------------------------------
 * HTTP character classes: the bytes that are valid in each part of a message, in one table that is
 * used for heads, trailers and written headers.
 */

enum http_char {
    HTTP_IS_TOKEN = 1, /* RFC 9110 §5.6.2 */
    /* of a target; wider than RFC 3986 by characters that browsers send raw: [ ] | */
    HTTP_IS_PATH = 2,
    HTTP_IS_QUERY = 4, /* likewise: any visible ASCII but " # < > */
    HTTP_IS_HOST = 8,  /* letters, digits and - . _ ~ % */
    HTTP_IS_HEX = 16,
};

extern const unsigned char http_chars[256]; /* bits of enum http_char */

static inline bool http_is(char c, enum http_char kind)
{
    return http_chars[(unsigned char)c] & (unsigned)kind;
}

static inline bool http_all_are(struct tidings_str s, enum http_char kind)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!http_is(s.ptr[i], kind)) {
            return false;
        }
    }
    return true;
}

/* Returns true if `c` is valid in a field value (visible, blank, tab, obs-text: RFC 9110 §5.5). */
static inline bool http_is_text(char c)
{
    unsigned char u = (unsigned char)c;
    return (u >= ' ' && u != 0x7F) || u == '\t';
}

/* -------------------------------------------------------------------------------------------------
 * Conditional requests (RFC 9110 §13), whose preconditions are evaluated in the order of §13.2.2:
 * If-Match, or without it If-Unmodified-Since; then If-None-Match, which is not evaluated here but
 * disables If-Modified-Since.
 *
 * Dates have whole seconds, and a resource can change twice in one second. So Last-Modified is
 * never the current second, but the one before: a client with that date gets the current content.
 * Without I/O.
 */

struct http_conditions {
    struct tidings_str if_match; /* the field; .ptr NULL: none */
    bool has_unmodified_since, has_modified_since;
    int64_t unmodified_since, modified_since; /* seconds */
};

enum http_condition {
    HTTP_CONDITION_HOLDS,
    HTTP_CONDITION_FAILED,    /* 412 */
    HTTP_CONDITION_UNCHANGED, /* 304 */
};

/* Ignores a date that is invalid, repeated, or (If-Modified-Since) later than `now_ms`, and one
 * that another field overrides. Slices point into the request. */
void http_conditions_read(struct http_conditions *c, const struct http_request *req,
                          int64_t now_ms);
/* For the current etag of the resource (weak: "W/…"; empty: none) and its Unix time (0: unknown). A
 * weak one never counts as unchanged. */
enum http_condition http_conditions_decide(const struct http_conditions *c, struct tidings_str etag,
                                           int64_t modified_ms);
/* The value of Last-Modified, in seconds: neither in the future nor the current second. */
int64_t http_last_modified(int64_t modified_ms, int64_t now_ms);

/* -------------------------------------------------------------------------------------------------
 * HTTP dates (RFC 9110 §5.6.7), without I/O and independent of the locale: parses all three
 * formats, writes the first.
 *
 *     Sun, 06 Nov 1994 08:49:37 GMT        IMF-fixdate
 *     Sunday, 06-Nov-94 08:49:37 GMT       RFC 850, obsolete
 *     Sun Nov  6 08:49:37 1994             asctime(), obsolete
 */

/* Seconds of Unix time. A two-digit year that would be more than 50 years after `now` belongs to
 * the previous century. false: another format, or a date that does not exist or has another
 * weekday; such a field is ignored (RFC 9110 §13.1). */
bool http_parse_date(struct tidings_str text, int64_t now, int64_t *ret);

/* Writes the first format. Years 0 to 9999; other dates become the nearest of these. */
#define HTTP_DATE_LEN 29u
void http_put_date(struct buf *out, int64_t seconds);

#endif
