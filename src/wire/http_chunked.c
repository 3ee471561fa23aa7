/* SPDX-License-Identifier: MIT
 *
 * Chunked bodies (RFC 9112 §7.1), decoded in place, strictly: CRLF only, at most 16 hex digits, no
 * blank after the size but before ';', trailers that look like headers. Invariant: the writing
 * position never passes the reading one. Extensions and trailers are judged and thrown away.
 *
 *                    ,------------------------------ CRLF -----------------------------.
 *                    v                                                                 |
 *   SIZE_FIRST -> SIZE -+-> BLANK -> EXTENSION -+-> SIZE_LF -> DATA -> DATA_CR -> DATA_LF
 *                       `-----------------------'     |
 *                                                     | size 0
 *                                                     v
 *                  .----------------------> TRAILER_FIRST -> END_LF -> DONE
 *                  |                              |
 *                  `- TRAILER_LF <- TRAILER_VALUE <- TRAILER_NAME        (any) -> BAD
 */
#include "wire/http.h"

#include "wire/http_chars.h"

#define MAX_SIZE_DIGITS 16u
#define MAX_LINE 256u      /* one extension or trailer line */
#define MAX_TOGETHER 4096u /* all of them */

enum state {
    SIZE_FIRST,
    SIZE,
    BLANK,
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_FIRST,
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    END_LF,
    DONE,
    BAD,
};

void http_chunked_init(struct http_chunked *c)
{
    *c = (struct http_chunked){.state = SIZE_FIRST};
}

static unsigned http_chunked_hex_value(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

static enum state add_digit(struct http_chunked *c, char digit)
{
    c->left = c->left << 4 | http_chunked_hex_value(digit);
    c->line++;
    /* The sum stays within an int64_t, so that whoever counts bodies cannot overflow. */
    bool fits = c->line <= MAX_SIZE_DIGITS && c->left <= (uint64_t)INT64_MAX - c->total;
    return fits ? SIZE : BAD;
}

/* One more byte that will be thrown away: the state to go on with. */
static enum state discard(struct http_chunked *c, enum state next)
{
    c->line++;
    c->trailer++;
    return c->line <= MAX_LINE && c->trailer <= MAX_TOGETHER ? next : BAD;
}

static enum state http_chunked_expect(bool ok, enum state next)
{
    return ok ? next : BAD;
}

static enum state step_size(struct http_chunked *c, char b)
{
    switch (c->state) {
    case SIZE_FIRST:
        c->left = 0;
        c->line = 0;
        return http_is(b, HTTP_IS_HEX) ? add_digit(c, b) : BAD;
    case SIZE:
        if (http_is(b, HTTP_IS_HEX)) {
            return add_digit(c, b);
        }
        c->line = 0;
        if (b == ';') {
            return discard(c, EXTENSION);
        }
        return b == '\r' ? SIZE_LF : discard(c, http_chunked_expect(b == ' ' || b == '\t', BLANK));
    case BLANK: /* RFC 9112 §7.1.1: "bad" blanks, only before a ';' */
        return discard(c, b == ';' ? EXTENSION : http_chunked_expect(b == ' ' || b == '\t', BLANK));
    case EXTENSION:
        return b == '\r' ? SIZE_LF : discard(c, http_chunked_expect(http_is_text(b), EXTENSION));
    default: /* SIZE_LF */
        c->line = 0;
        return http_chunked_expect(b == '\n', c->left > 0 ? DATA : TRAILER_FIRST);
    }
}

static enum state step_trailer(struct http_chunked *c, char b)
{
    switch (c->state) {
    case TRAILER_FIRST:
        c->line = 0;
        return b == '\r' ? END_LF
                         : discard(c, http_chunked_expect(http_is(b, HTTP_IS_TOKEN), TRAILER_NAME));
    case TRAILER_NAME:
        return discard(c, b == ':' ? TRAILER_VALUE
                                   : http_chunked_expect(http_is(b, HTTP_IS_TOKEN), TRAILER_NAME));
    case TRAILER_VALUE:
        return b == '\r' ? TRAILER_LF
                         : discard(c, http_chunked_expect(http_is_text(b), TRAILER_VALUE));
    case TRAILER_LF:
        return http_chunked_expect(b == '\n', TRAILER_FIRST);
    default: /* END_LF */
        return http_chunked_expect(b == '\n', DONE);
    }
}

static enum state http_chunked_step(struct http_chunked *c, char b)
{
    if (c->state <= SIZE_LF) {
        return step_size(c, b);
    }
    if (c->state == DATA_CR) {
        return http_chunked_expect(b == '\r', DATA_LF);
    }
    if (c->state == DATA_LF) {
        return http_chunked_expect(b == '\n', SIZE_FIRST);
    }
    return step_trailer(c, b);
}

enum http_chunked_result http_chunked_decode(struct http_chunked *c, char *bytes, size_t len,
                                             size_t *decoded, size_t *used)
{
    size_t in = 0, out = 0;
    while (in < len && c->state != DONE && c->state != BAD) {
        if (c->state != DATA) {
            c->state = http_chunked_step(c, bytes[in++]);
            continue;
        }
        size_t n = len - in < c->left ? len - in : (size_t)c->left;
        if (out != in) {
            memmove(bytes + out, bytes + in, n);
        }
        in += n;
        out += n;
        c->left -= n;
        c->total += n;
        if (c->left == 0) {
            c->state = DATA_CR;
        }
    }
    *decoded = out;
    *used = in;
    if (c->state == BAD) {
        return HTTP_CHUNKED_BAD;
    }
    return c->state == DONE ? HTTP_CHUNKED_DONE : HTTP_CHUNKED_MORE;
}
