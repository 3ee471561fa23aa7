/* SPDX-License-Identifier: MIT
 *
 * Newline framing. Invariant between calls: bytes before `start` are spent, no LF lies between
 * `start` and `scanned`, so every byte is searched once. Spent bytes are dropped when the reader
 * runs dry, not line by line, so that many short lines in one read cost no moving.
 */
#include "wire/line.h"

void line_reader_init(struct line_reader *r, size_t max_line)
{
    *r = (struct line_reader){.max = max_line};
    buf_init(&r->in, SIZE_MAX); /* bounded by max_line and one feed; see the header */
}

void line_reader_deinit(struct line_reader *r)
{
    if (r) {
        buf_deinit(&r->in);
    }
}

static void drop_spent(struct line_reader *r)
{
    if (r->start == r->in.len) {
        buf_deinit(&r->in);
        r->scanned = 0;
    } else {
        buf_consume(&r->in, r->start);
        r->scanned -= r->start;
    }
    r->start = 0;
}

int line_reader_feed(struct line_reader *r, const char *bytes, size_t len)
{
    if (r->skipping) {
        const char *lf = len > 0 ? memchr(bytes, '\n', len) : NULL;
        if (!lf) {
            return 0;
        }
        len -= (size_t)(lf + 1 - bytes);
        bytes = lf + 1;
        r->skipping = false;
    }
    if (len == 0) {
        return 0;
    }
    if (r->start > 0) {
        drop_spent(r);
    }
    int rc = buf_put(&r->in, bytes, len);
    if (rc < 0) {
        r->in.failed = 0; /* nothing was taken: the caller may try again */
        return TIDINGS_E_NOMEM;
    }
    return 0;
}

/* Without the CR of a CRLF. */
static struct tidings_str trim_cr(struct tidings_str line)
{
    if (line.len > 0 && line.ptr[line.len - 1] == '\r') {
        line.len--;
    }
    return line;
}

static bool is_blank(struct tidings_str line)
{
    return str_trim(line, " \t\r").len == 0;
}

enum line_result line_reader_next(struct line_reader *r, struct tidings_str *line)
{
    while (r->scanned < r->in.len) {
        char *from = r->in.ptr + r->scanned;
        char *lf = memchr(from, '\n', r->in.len - r->scanned);
        if (!lf) {
            r->scanned = r->in.len;
            break;
        }
        char *begin = r->in.ptr + r->start;
        struct tidings_str found = trim_cr(tidings_strn(begin, (size_t)(lf - begin)));
        r->start = r->scanned = (size_t)(lf + 1 - r->in.ptr);
        if (found.len > r->max) {
            return LINE_TOO_LONG;
        }
        if (!is_blank(found)) {
            *line = found;
            return LINE_READY;
        }
    }
    drop_spent(r);
    /* One byte more may be the CR. */
    if (trim_cr(buf_str(&r->in)).len > r->max) {
        buf_deinit(&r->in);
        r->scanned = 0;
        r->skipping = true;
        return LINE_TOO_LONG;
    }
    return LINE_MORE;
}

enum line_result line_reader_finish(struct line_reader *r, struct tidings_str *line)
{
    enum line_result result = line_reader_next(r, line);
    if (result != LINE_MORE) {
        return result;
    }
    struct tidings_str rest = trim_cr(buf_str(&r->in));
    r->start = r->scanned = r->in.len;
    r->skipping = false;
    if (is_blank(rest)) {
        drop_spent(r);
        return LINE_MORE;
    }
    *line = rest;
    return LINE_READY;
}

bool line_reader_is_idle(const struct line_reader *r)
{
    return r->start == r->in.len && !r->skipping;
}
