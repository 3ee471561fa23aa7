/* SPDX-License-Identifier: MIT
 *
 * Indenting compact JSON text, byte by byte, without parsing it.
 */
#include "json/pretty.h"

static void put_line(struct buf *out, size_t level)
{
    buf_putc(out, '\n');
    for (size_t i = 0; i < level; i++) {
        buf_puts(out, STR("  "));
    }
}

/* The length of the string that begins at `at`, with its quotes. */
static size_t string_len(struct tidings_str text, size_t at)
{
    size_t end = at + 1;
    while (end < text.len && text.ptr[end] != '"') {
        end += text.ptr[end] == '\\' ? 2 : 1;
    }
    end = end < text.len ? end + 1 : text.len;
    return end - at;
}

int json_pretty(struct buf *out, struct tidings_str text)
{
    size_t level = 0;
    for (size_t i = 0; i < text.len && !out->failed; i++) {
        char c = text.ptr[i];
        char next = i + 1 < text.len ? text.ptr[i + 1] : '\0';
        if (c == '"') {
            size_t n = string_len(text, i);
            buf_put(out, text.ptr + i, n);
            i += n - 1;
        } else if ((c == '{' && next == '}') || (c == '[' && next == ']')) {
            buf_put(out, text.ptr + i++, 2);
        } else if (c == '{' || c == '[') {
            buf_putc(out, c);
            put_line(out, ++level);
        } else if (c == '}' || c == ']') {
            put_line(out, level > 0 ? --level : 0);
            buf_putc(out, c);
        } else {
            buf_putc(out, c);
            if (c == ',') {
                put_line(out, level);
            } else if (c == ':') {
                buf_putc(out, ' ');
            }
        }
    }
    return out->failed;
}
