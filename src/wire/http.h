/* SPDX-License-Identifier: MIT
 *
 * HTTP/1.1 requests without I/O: a strict head parser, a chunked-body decoder, a response head
 * writer. Bytes in, slices out; nothing is allocated, and what is kept between calls is the
 * caller's.
 *
 * The caller gathers bytes in one buffer and calls http_parse_head until it stops saying "more".
 * Strict means: CRLF only, no obsolete folding, no blank before the colon, token names, visible
 * values, exactly one Host in 1.1, one well-formed Content-Length or `Transfer-Encoding: chunked`
 * and never both, no unknown codings. A malformed request is answered and the connection closed.
 */
#ifndef WIRE_HTTP_H
#define WIRE_HTTP_H

#include "base/str.h"

#define HTTP_MAX_HEADERS 100u
#define HTTP_MAX_TARGET 8192u
#define HTTP_MAX_HEAD 32768u /* request line and headers together */

enum http_method {
    HTTP_OTHER, /* a valid token that is none of these */
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
    struct tidings_str query;  /* after '?', empty when there is none */
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
    const char *text; /* a sentence for the person */
};

/* Returns the length of the head (> 0), 0 when more bytes are needed, -1 with *fault. `*scanned`
 * (0 at the start of a message) remembers how far earlier calls looked, so that a head that
 * dribbles in costs linear time; success sets it back to 0. Slices in *req point into `bytes`.
 * Empty lines before the request line: at most two are skipped (they count in the returned length).
 * The outcome depends on the bytes alone, not on how many calls they came in. */
ptrdiff_t http_parse_head(const char *bytes, size_t len, size_t *scanned, struct http_request *req,
                          struct http_fault *fault);

/* The first header of that name (ASCII case-insensitive); ptr NULL when absent. `*count` (may be
 * NULL) gets how many there are. */
struct tidings_str http_header(const struct http_request *req, const char *name, unsigned *count);

/* Does the comma-separated list in `value` hold `token` (case-insensitive, parameters ignored)? */
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
    HTTP_CHUNKED_MORE = 0, /* everything given was used, the body goes on */
    HTTP_CHUNKED_DONE = 1,
    HTTP_CHUNKED_BAD = -1,
};
void http_chunked_init(struct http_chunked *c);
/* Decode `len` raw bytes at `bytes` in place. On return the decoded bytes are at the start, their
 * count in *decoded, and *used raw bytes were consumed (on DONE the rest belongs to the next
 * request). Chunk extensions and trailers are skipped, bounded (256 bytes a line, 4 KiB together).
 */
enum http_chunked_result http_chunked_decode(struct http_chunked *c, char *bytes, size_t len,
                                             size_t *decoded, size_t *used);

/* The reason phrase of a status ("OK"); "Unknown" for others. */
const char *http_reason(int status);
/* "HTTP/1.1 200 OK\r\n" */
void http_put_status(struct buf *out, int status);
/* "name: value\r\n"; control characters in value are refused (TIDINGS_E_INVALID). */
int http_put_header(struct buf *out, const char *name, struct tidings_str value);

#endif
