/* SPDX-License-Identifier: MIT
 *
 * Server-sent events, as in the WHATWG HTML standard ("event stream interpretation").
 *
 * Lines end in LF, CR or CRLF and are buffered only if a feed ends inside one. Bytes are not
 * checked for UTF-8: the parser of the data does that. The events of a stream are written by
 * transport/http_response.c; only the event that begins a stream is written here.
 */
#include "formats/sse.h"

static bool has_line_break(struct tidings_str s)
{
    return s.len > 0 && (memchr(s.ptr, '\n', s.len) || memchr(s.ptr, '\r', s.len));
}

int sse_put_priming(struct buf *out, struct tidings_str id, int64_t retry_ms)
{
    if (has_line_break(id)) {
        return TIDINGS_E_INVALID;
    }
    int rc = buf_reserve(out, id.len + 64); /* all or nothing; 64 covers the rest */
    if (rc < 0) {
        return rc;
    }
    if (id.len > 0) {
        buf_puts(out, STR("id: "));
        buf_puts(out, id);
        buf_putc(out, '\n');
    }
    if (retry_ms >= 0) {
        buf_puts(out, STR("retry: "));
        buf_puti(out, retry_ms);
        buf_putc(out, '\n');
    }
    return buf_puts(out, STR("data:\n\n"));
}

#define MAX_FIELD 64u /* room for a field name next to the largest value */

void sse_parser_init(struct sse_parser *p, size_t max_event)
{
    *p = (struct sse_parser){.retry_ms = -1};
    buf_init(&p->line, max_event <= SIZE_MAX - MAX_FIELD ? max_event + MAX_FIELD : SIZE_MAX);
    buf_init(&p->data, max_event);
    buf_init(&p->event, max_event);
    buf_init(&p->id, max_event);
}

void sse_parser_deinit(struct sse_parser *p)
{
    if (p) {
        buf_deinit(&p->line);
        buf_deinit(&p->data);
        buf_deinit(&p->event);
        buf_deinit(&p->id);
    }
}

static int sse_replace(struct buf *b, struct tidings_str value)
{
    buf_clear(b);
    return buf_puts(b, value);
}

static void sse_dispatch(struct sse_parser *p, sse_event_fn fn, void *user)
{
    if (p->has_data || p->has_id || p->retry_ms >= 0) {
        struct sse_event event = {
            .event = p->event.len > 0 ? buf_str(&p->event) : STR("message"),
            .data = buf_str(&p->data),
            .id = buf_str(&p->id),
            .retry_ms = p->retry_ms,
        };
        fn(&event, user);
    }
    buf_clear(&p->event);
    buf_clear(&p->data);
    p->has_data = p->has_id = false;
    p->retry_ms = -1;
}

static int add_data(struct sse_parser *p, struct tidings_str value)
{
    if (p->has_data && buf_putc(&p->data, '\n') < 0) {
        return p->data.failed;
    }
    p->has_data = true;
    return buf_puts(&p->data, value);
}

static int on_field(struct sse_parser *p, struct tidings_str name, struct tidings_str value)
{
    int64_t ms;
    if (str_eq(name, STR("data"))) {
        return add_data(p, value);
    }
    if (str_eq(name, STR("event"))) {
        return sse_replace(&p->event, value);
    }
    if (str_eq(name, STR("id"))) {
        if (str_find(value, '\0') >= 0) {
            return 0; /* the standard: ignore an id that contains U+0000 */
        }
        p->has_id = true;
        return sse_replace(&p->id, value);
    }
    if (str_eq(name, STR("retry")) && str_find(value, '-') < 0 && str_to_i64(value, &ms)) {
        p->retry_ms = ms;
    }
    return 0;
}

static int on_line(struct sse_parser *p, struct tidings_str line, sse_event_fn fn, void *user)
{
    if (line.len > p->line.max) {
        return p->line.failed = TIDINGS_E_LIMIT; /* however the input was split */
    }
    if (!p->started) {
        p->started = true;
        if (str_starts(line, STR("\xEF\xBB\xBF"))) {
            line = str_skip(line, 3);
        }
    }
    if (line.len == 0) {
        sse_dispatch(p, fn, user);
        return 0;
    }
    struct tidings_str value;
    struct tidings_str name = str_cut(line, ':', &value, NULL);
    if (value.len > 0 && value.ptr[0] == ' ') {
        value = str_skip(value, 1);
    }
    return on_field(p, name, value); /* a comment is a field without name */
}

static int sse_failure(const struct sse_parser *p)
{
    if (p->line.failed || p->data.failed) {
        return p->line.failed ? p->line.failed : p->data.failed;
    }
    return p->event.failed ? p->event.failed : p->id.failed;
}

int sse_parser_feed(struct sse_parser *p, const char *bytes, size_t len, sse_event_fn fn,
                    void *user)
{
    int rc = sse_failure(p);
    size_t start = 0;
    for (size_t i = 0; rc == 0 && i < len; i++) {
        if (bytes[i] == '\n' && p->after_cr) {
            p->after_cr = false; /* the second half of a CRLF */
            start = i + 1;
            continue;
        }
        p->after_cr = bytes[i] == '\r';
        if (bytes[i] != '\n' && bytes[i] != '\r') {
            continue;
        }
        struct tidings_str line = tidings_strn(bytes + start, i - start);
        start = i + 1;
        if (p->line.len > 0) {
            rc = buf_puts(&p->line, line);
            line = buf_str(&p->line);
        }
        if (rc == 0) {
            rc = on_line(p, line, fn, user);
            if (rc == 0) {
                buf_clear(&p->line);
            }
        }
    }
    if (rc == 0 && start < len) {
        rc = buf_put(&p->line, bytes + start, len - start);
    }
    return rc;
}
