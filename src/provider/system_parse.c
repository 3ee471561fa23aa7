/* SPDX-License-Identifier: MIT
 *
 * Parsers of /proc. The kernel writes these texts, but in a container anybody may have: they are
 * read like a stranger's.
 */
#include "provider/system_parse.h"

#include "base/str.h"

/* The next run of what is neither blank nor line break; *s moves behind it. */
static struct tidings_str next_word(struct tidings_str *s)
{
    while (s->len > 0 && (*s->ptr == ' ' || *s->ptr == '\t' || *s->ptr == '\n')) {
        *s = str_skip(*s, 1);
    }
    size_t n = 0;
    while (n < s->len && s->ptr[n] != ' ' && s->ptr[n] != '\t' && s->ptr[n] != '\n') {
        n++;
    }
    struct tidings_str word = tidings_strn(s->ptr, n);
    *s = str_skip(*s, n);
    return word;
}

static bool to_u32(struct tidings_str s, uint32_t *ret)
{
    uint64_t n;
    if (!str_to_u64(s, &n) || n > UINT32_MAX) {
        return false;
    }
    *ret = (uint32_t)n;
    return true;
}

/* "0.05" as 5: exactly two digits behind the point. */
static bool to_hundredths(struct tidings_str s, uint32_t *ret)
{
    struct tidings_str rest;
    uint32_t whole, part;
    if (!to_u32(str_cut(s, '.', &rest, NULL), &whole) || rest.len != 2 || !to_u32(rest, &part) ||
        whole > UINT32_MAX / 100 - 1) {
        return false;
    }
    *ret = whole * 100 + part;
    return true;
}

bool system_parse_load(struct tidings_str text, struct system_load *ret)
{
    for (size_t i = 0; i < 3; i++) {
        if (!to_hundredths(next_word(&text), &ret->hundredths[i])) {
            return false;
        }
    }
    struct tidings_str threads;
    struct tidings_str running = str_cut(next_word(&text), '/', &threads, NULL);
    return to_u32(running, &ret->running) && to_u32(threads, &ret->threads);
}

bool system_parse_memory(struct tidings_str text, struct system_memory *ret)
{
    *ret = (struct system_memory){0};
    const struct {
        struct tidings_str name;
        uint64_t *field;
    } rows[] = {
        {STR("MemTotal"), &ret->total},         {STR("MemFree"), &ret->unused},
        {STR("MemAvailable"), &ret->available}, {STR("Buffers"), &ret->buffers},
        {STR("Cached"), &ret->cached},          {STR("SwapTotal"), &ret->swap_total},
        {STR("SwapFree"), &ret->swap_free},
    };
    while (text.len > 0) {
        struct tidings_str rest;
        struct tidings_str name = str_cut(str_cut(text, '\n', &text, NULL), ':', &rest, NULL);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            uint64_t kib;
            if (!str_eq(name, rows[i].name)) {
                continue;
            }
            if (!str_to_u64(next_word(&rest), &kib) || kib > UINT64_MAX / 2048) {
                return false;
            }
            *rows[i].field = kib * 1024;
        }
    }
    return ret->total > 0;
}

/* The columns are: bytes packets errs drop fifo frame compressed multicast, the same for what was
 * sent from the ninth on. */
static bool parse_interface(struct tidings_str line, struct system_interface *ret)
{
    struct tidings_str rest;
    bool found;
    ret->name = str_trim(str_cut(line, ':', &rest, &found), " \t");
    if (!found || ret->name.len == 0) {
        return false;
    }
    for (size_t column = 0; column < 12; column++) {
        uint64_t n;
        if (!str_to_u64(next_word(&rest), &n) || n > INT64_MAX) {
            return false;
        }
        if (column < 4) {
            ret->received[column] = n;
        } else if (column >= 8) {
            ret->sent[column - 8] = n;
        }
    }
    return true;
}

bool system_next_interface(struct tidings_str *text, struct system_interface *ret)
{
    while (text->len > 0) {
        if (parse_interface(str_cut(*text, '\n', text, NULL), ret)) {
            return true;
        }
    }
    return false;
}

static bool is_octal(char c)
{
    return c >= '0' && c <= '7';
}

/* "\040" is a blank. False: too long. */
static bool decode_path(struct tidings_str in, char *out, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < in.len; i++) {
        char c = in.ptr[i];
        if (c == '\\' && i + 3 < in.len && in.ptr[i + 1] <= '3' && is_octal(in.ptr[i + 1]) &&
            is_octal(in.ptr[i + 2]) && is_octal(in.ptr[i + 3])) {
            c = (char)((in.ptr[i + 1] - '0') * 64 + (in.ptr[i + 2] - '0') * 8 +
                       (in.ptr[i + 3] - '0'));
            i += 3;
        }
        if (c == '\0' || n + 1 >= room) {
            return false;
        }
        out[n++] = c;
    }
    out[n] = '\0';
    return n > 0;
}

bool system_next_mount(struct tidings_str *text, struct system_mount *ret)
{
    while (text->len > 0) {
        struct tidings_str line = str_cut(*text, '\n', text, NULL);
        ret->device = next_word(&line);
        struct tidings_str path = next_word(&line);
        ret->type = next_word(&line);
        bool is_ours = str_starts(ret->device, STR("/")) || str_eq(path, STR("/"));
        if (is_ours && ret->type.len > 0 && decode_path(path, ret->path, sizeof(ret->path))) {
            return true;
        }
    }
    return false;
}
