/* SPDX-License-Identifier: MIT
 *
 * Looking for a member in a text that could not be parsed: only quotes, brackets and colons count.
 */
#include "json/peek.h"

#include "base/str.h"
#include "json/number.h"

/* Behind the string whose quote is at `at`; the end of the text if it has none. */
static size_t peek_string_end(struct tidings_str text, size_t at)
{
    for (at++; at < text.len && text.ptr[at] != '"'; at++) {
        at += text.ptr[at] == '\\';
    }
    return at < text.len ? at + 1 : text.len;
}

static size_t peek_skip_blanks(struct tidings_str text, size_t at)
{
    while (at < text.len && strchr(" \t\r\n", text.ptr[at]) && text.ptr[at] != '\0') {
        at++;
    }
    return at;
}

static struct tidings_str peek_value(struct tidings_str text, size_t at)
{
    bool is_real;
    struct tidings_str rest = tidings_strn(text.ptr + at, text.len - at);
    if (rest.len > 0 && *rest.ptr == '"') {
        return tidings_strn(rest.ptr, peek_string_end(text, at) - at);
    }
    return tidings_strn(rest.ptr, rest.len > 0 ? number_length(rest, &is_real) : 0);
}

struct tidings_str json_peek(struct tidings_str text, struct tidings_str key)
{
    size_t depth = 0;
    for (size_t at = 0; at < text.len; at++) {
        char c = text.ptr[at];
        if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            depth -= depth > 0;
        } else if (c == '"') {
            size_t end = peek_string_end(text, at);
            size_t colon = peek_skip_blanks(text, end);
            bool is_key = depth == 1 && colon < text.len && text.ptr[colon] == ':';
            if (is_key && end - at == key.len + 2 &&
                memcmp(text.ptr + at + 1, key.ptr, key.len) == 0) {
                return peek_value(text, peek_skip_blanks(text, colon + 1));
            }
            at = end - 1;
        }
    }
    return STR_EMPTY;
}
