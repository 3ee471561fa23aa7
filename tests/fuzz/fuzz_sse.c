/* SPDX-License-Identifier: MIT
 *
 * Any bytes as an event stream: the same events whether they come whole or one by one; and any
 * bytes without a line break are read as the data of an event.
 */
#include <stdlib.h>

#include "formats/sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void note(const struct sse_event *e, void *user)
{
    struct buf *out = user;
    buf_puts(out, e->event);
    buf_putc(out, '\n');
    buf_puts(out, e->data);
    buf_putc(out, '\n');
    buf_puts(out, e->id);
    buf_puti(out, e->retry_ms);
    require(out->failed == 0);
}

static int read_events(const char *bytes, size_t size, size_t step, struct buf *out)
{
    struct sse_parser p;
    int rc = 0;
    sse_parser_init(&p, 60);
    buf_init(out, SIZE_MAX);
    for (size_t at = 0; at < size && rc == 0; at += step) {
        rc = sse_parser_feed(&p, bytes + at, size - at < step ? size - at : step, note, out);
    }
    sse_parser_deinit(&p);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = size ? (const char *)data : "";
    struct buf whole, dribbled, frame;
    int rc = read_events(bytes, size, size + 1, &whole);
    require(rc == read_events(bytes, size, 1, &dribbled));
    require(str_eq(buf_str(&whole), buf_str(&dribbled)));
    buf_deinit(&whole);
    buf_deinit(&dribbled);
    buf_init(&frame, SIZE_MAX);
    if (size <= 60 && !memchr(bytes, '\n', size) && !memchr(bytes, '\r', size)) {
        buf_puts(&frame, STR("event: message\nid: 7\ndata: "));
        buf_puts(&frame, tidings_strn(bytes, size));
        require(buf_puts(&frame, STR("\n\n")) == 0);
        require(read_events(frame.ptr, frame.len, frame.len, &whole) == 0);
        struct tidings_str back = str_skip(buf_str(&whole), sizeof "message");
        require(back.len == size + 4 && memcmp(back.ptr, bytes, size) == 0);
        buf_deinit(&whole);
    }
    buf_deinit(&frame);
    return 0;
}
