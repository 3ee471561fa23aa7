/* SPDX-License-Identifier: MIT
 *
 * Any bytes as lines: the same lines and complaints whether they come whole or one by one.
 */
#include <stdlib.h>

#include "formats/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void read_lines(const char *bytes, size_t size, size_t step, struct buf *out)
{
    struct line_reader r;
    struct tidings_str line;
    line_reader_init(&r, 20);
    buf_init(out, SIZE_MAX);
    for (size_t at = 0; at <= size; at += step) {
        size_t n = size - at < step ? size - at : step;
        require(line_reader_feed(&r, bytes + at, n) == 0);
        enum line_result got;
        while ((got = at + step > size ? line_reader_finish(&r, &line)
                                       : line_reader_next(&r, &line)) != LINE_MORE) {
            require(got == LINE_TOO_LONG || (line.len > 0 && line.len <= 20));
            require(buf_puts(out, got == LINE_READY ? line : STR("\n!")) == 0);
            require(buf_putc(out, '\n') == 0);
        }
        require(r.in.len <= 21);
    }
    line_reader_deinit(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = size ? (const char *)data : "";
    struct buf whole, dribbled;
    read_lines(bytes, size, size + 1, &whole);
    read_lines(bytes, size, 1, &dribbled);
    require(str_eq(buf_str(&whole), buf_str(&dribbled)));
    buf_deinit(&whole);
    buf_deinit(&dribbled);
    return 0;
}
