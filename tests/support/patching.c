/* SPDX-License-Identifier: MIT */
#include "support/patching.h"

#include <stdio.h>
#include <stdlib.h>

/* The next line with its line feed. */
static struct tidings_str take_line(struct tidings_str *s)
{
    const char *end = s->len > 0 ? memchr(s->ptr, '\n', s->len) : NULL;
    size_t len = end ? (size_t)(end - s->ptr) + 1 : s->len;
    struct tidings_str line = tidings_strn(s->ptr, len);
    *s = tidings_strn(s->ptr + len, s->len - len);
    return line;
}

/* A line of a hunk without its mark; without its line feed if the next line says that it has
 * none. */
static struct tidings_str take_body(struct tidings_str line, struct tidings_str *rest)
{
    struct tidings_str body = tidings_strn(line.ptr + 1, line.len - 1);
    if (rest->len > 0 && rest->ptr[0] == '\\') {
        take_line(rest);
        body.len--;
    }
    return body;
}

/* Copy lines up to the one a hunk begins at. */
static bool copy_up_to(FILE *out, struct tidings_str *before, size_t *line,
                       struct tidings_str header)
{
    size_t from = 0, count = 1;
    if (sscanf(header.ptr, "@@ -%zu,%zu", &from, &count) < 1) {
        return false;
    }
    size_t stop = count > 0 ? from - 1 : from;
    for (; *line < stop && before->len > 0; (*line)++) {
        struct tidings_str same = take_line(before);
        fwrite(same.ptr, 1, same.len, out);
    }
    return *line == stop;
}

static bool apply(FILE *out, struct tidings_str before, struct tidings_str hunks)
{
    size_t line = 0;
    while (hunks.len > 0) {
        struct tidings_str next = take_line(&hunks);
        if (next.ptr[0] == '@') {
            if (!copy_up_to(out, &before, &line, next)) {
                return false;
            }
            continue;
        }
        struct tidings_str body = take_body(next, &hunks);
        if (next.ptr[0] != '+') {
            line++;
            if (!tidings_str_eq(take_line(&before), body)) {
                return false;
            }
        }
        if (next.ptr[0] != '-') {
            fwrite(body.ptr, 1, body.len, out);
        }
    }
    fwrite(before.ptr, 1, before.len, out);
    return true;
}

char *patching_apply(struct tidings_str before, struct tidings_str hunks)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    bool fits = out && apply(out, before, hunks);
    if (out) {
        fclose(out);
    }
    if (!fits) {
        free(text);
        return NULL;
    }
    return text;
}
