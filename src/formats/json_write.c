/* SPDX-License-Identifier: MIT
 *
 * The JSON writer. Invariant: the output between balanced begin and end is one valid JSON text,
 * because strings are repaired to UTF-8 and numbers without a JSON form become null.
 *
 * Most strings need no escaping, so the longest such prefix is searched first, eight bytes at a
 * time; a string without escapes costs one reservation and one memcpy. Nothing is indented or
 * sorted.
 */
#include "formats/json_write.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/encode.h"

/* -------------------------------------------------------------------------------------------------
 * Indents compact JSON text, byte by byte, without parsing it.
 */

static void put_line(struct buf *out, size_t level)
{
    buf_putc(out, '\n');
    for (size_t i = 0; i < level; i++) {
        buf_puts(out, STR("  "));
    }
}

/* The length of the string at `at`, including its quotes. */
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

/* ---------------------------------------------------------------------------------------------- */

#define MAX_LEVELS 64u /* bits in jw.first */

#define EACH_BYTE(n) (UINT64_C(0x0101010101010101) * (n))

/* 0: unchanged; 1: \u00xx; 2: the start of a multi-byte character; else the letter after '\'. */
/* clang-format off */
#define EIGHT(n) [(n)] = 2, 2, 2, 2, 2, 2, 2, 2
static const unsigned char escapes[256] = {
    1, 1, 1, 1, 1, 1, 1, 1, 'b', 't', 'n', 1, 'f', 'r', 1, 1, /* 00 */
    1, 1, 1, 1, 1, 1, 1, 1, 1,   1,   1,   1, 1,   1,   1, 1, /* 10 */
    ['"'] = '"', ['\\'] = '\\',
    EIGHT(0x80), EIGHT(0x88), EIGHT(0x90), EIGHT(0x98), EIGHT(0xA0), EIGHT(0xA8), EIGHT(0xB0),
    EIGHT(0xB8), EIGHT(0xC0), EIGHT(0xC8), EIGHT(0xD0), EIGHT(0xD8), EIGHT(0xE0), EIGHT(0xE8),
    EIGHT(0xF0), EIGHT(0xF8),
};
#undef EIGHT
/* clang-format on */

/* Returns true if eight bytes need no escape. */
static bool is_plain_word(uint64_t v)
{
    /* A high bit is set if a byte is < 0x20, '"', '\' or >= 0x80. A borrow can only come from such
     * a byte, so a zero result is always correct. */
    uint64_t odd = v | (v - EACH_BYTE(0x20)) | ((v ^ EACH_BYTE('"')) - EACH_BYTE(1)) |
                   ((v ^ EACH_BYTE('\\')) - EACH_BYTE(1));
    return !(odd & EACH_BYTE(0x80));
}

/* The last bytes of a string of at least four, as a word; can overlap earlier bytes. */
static uint64_t last_word(const char *p, size_t len)
{
    uint32_t first, last;
    uint64_t v;
    if (len >= sizeof v) {
        memcpy(&v, p + len - sizeof v, sizeof v);
        return v;
    }
    memcpy(&first, p, sizeof first);
    memcpy(&last, p + len - sizeof last, sizeof last);
    return (uint64_t)first << 32 | last;
}

/* The length of the prefix that needs neither escaping nor checking. */
static size_t plain_prefix(const char *p, size_t len)
{
    size_t i = 0;
    while (len - i >= 8) {
        uint64_t v;
        memcpy(&v, p + i, 8);
        if (!is_plain_word(v)) {
            break;
        }
        i += 8;
    }
    if (len - i < 8 && len >= 4 && is_plain_word(last_word(p, len))) {
        return len;
    }
    while (i < len && escapes[(unsigned char)p[i]] == 0) {
        i++;
    }
    return i;
}

/* The length of the well-formed UTF-8 character at `p` (its first byte is >= 0x80), or 0 if it is
 * ill-formed; *skip then gets the length of the ill-formed part (Unicode: maximal subpart). */
static size_t utf8_length(const unsigned char *p, size_t len, size_t *skip)
{
    unsigned char low = 0x80, high = 0xBF;
    size_t need;
    *skip = 1;
    if (p[0] >= 0xC2 && p[0] <= 0xDF) {
        need = 2;
    } else if ((p[0] & 0xF0) == 0xE0) {
        need = 3;
        low = p[0] == 0xE0 ? 0xA0 : low;   /* overlong */
        high = p[0] == 0xED ? 0x9F : high; /* surrogates */
    } else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
        need = 4;
        low = p[0] == 0xF0 ? 0x90 : low;   /* overlong */
        high = p[0] == 0xF4 ? 0x8F : high; /* above U+10FFFF */
    } else {
        return 0;
    }
    for (size_t i = 1; i < need; i++, *skip = i) {
        if (i >= len || p[i] < low || p[i] > high) {
            return 0;
        }
        low = 0x80;
        high = 0xBF;
    }
    return need;
}

static const char write_hex[] = "0123456789abcdef";

/* Writes a string's contents; its first `i` bytes are known to be plain. */
static void write_put_escaped(struct buf *b, struct tidings_str s, size_t i)
{
    size_t run = 0; /* start of the bytes not copied yet */
    if (buf_reserve(b, s.len) < 0) {
        return;
    }
    while (i < s.len) {
        unsigned char c = (unsigned char)s.ptr[i];
        unsigned char kind = escapes[c];
        size_t used = 0, skip = 0;
        if (kind == 0) {
            used = plain_prefix(s.ptr + i, s.len - i);
        } else if (kind == 2) {
            used = utf8_length((const unsigned char *)s.ptr + i, s.len - i, &skip);
        }
        if (used > 0) {
            i += used;
            continue;
        }
        if (buf_reserve(b, i - run + 6) < 0) {
            return;
        }
        char *p = b->ptr + b->len;
        memcpy(p, s.ptr + run, i - run);
        p += i - run;
        if (kind == 1) {
            memcpy(p, (char[]){'\\', 'u', '0', '0', write_hex[c >> 4], write_hex[c & 15]}, 6);
            p += 6;
        } else if (kind == 2) {
            memcpy(p, "\xEF\xBF\xBD", 3); /* U+FFFD */
            p += 3;
        } else {
            *p++ = '\\';
            *p++ = (char)kind;
        }
        *p = '\0';
        b->len = (size_t)(p - b->ptr);
        i += kind == 2 ? skip : 1;
        run = i;
    }
    buf_put(b, s.ptr + run, s.len - run);
}

/* Returns the length of the prefix of valid UTF-8 that needs no escape. */
static size_t unescaped_prefix(struct tidings_str s)
{
    size_t i = 0;
    while (i < s.len) {
        unsigned char kind = escapes[(unsigned char)s.ptr[i]];
        if (kind == 0) {
            i += plain_prefix(s.ptr + i, s.len - i);
        } else if (kind == 2) {
            i++;
        } else {
            break;
        }
    }
    return i;
}

size_t jw_escaped_len(struct tidings_str piece)
{
    size_t len = 0;
    while (piece.len > 0) {
        size_t run = unescaped_prefix(piece);
        len += run;
        piece = tidings_strn(piece.ptr + run, piece.len - run);
        if (piece.len > 0) {
            len += escapes[(unsigned char)piece.ptr[0]] == 1 ? 6 : 2;
            piece = tidings_strn(piece.ptr + 1, piece.len - 1);
        }
    }
    return len;
}

size_t jw_escape_piece(struct tidings_str piece, size_t *used, char *room, size_t len)
{
    size_t at = 0;
    *used = 0;
    while (*used < piece.len && at < len) {
        const char *from = piece.ptr + *used;
        size_t left = piece.len - *used, fits = len - at;
        size_t run = unescaped_prefix(tidings_strn(from, left < fits ? left : fits));
        memcpy(room + at, from, run);
        at += run;
        *used += run;
        unsigned char c = run < left ? (unsigned char)from[run] : 0;
        unsigned char kind = escapes[c];
        if (run == left || kind == 0 || kind == 2 || (kind == 1 ? 6u : 2u) > len - at) {
            break; /* the end of the piece or of the room */
        }
        if (kind == 1) {
            memcpy(room + at, (char[]){'\\', 'u', '0', '0', write_hex[c >> 4], write_hex[c & 15]},
                   6);
            at += 6;
        } else {
            room[at++] = '\\';
            room[at++] = (char)kind;
        }
        ++*used;
    }
    return at;
}

/* Writes an optional comma, the quoted string, an optional colon. */
static void write_put_quoted(struct buf *b, struct tidings_str s, bool comma, bool colon)
{
    size_t plain = plain_prefix(s.ptr, s.len);
    if (plain < s.len) {
        buf_put(b, ",\"", comma ? 2 : 0);
        buf_put(b, "\"", comma ? 0 : 1);
        write_put_escaped(b, s, plain);
        buf_put(b, "\":", colon ? 2 : 1);
        return;
    }
    if (buf_reserve(b, s.len + 4) < 0) {
        return;
    }
    char *p = b->ptr + b->len;
    if (comma) {
        *p++ = ',';
    }
    *p++ = '"';
    if (s.len > 0) {
        memcpy(p, s.ptr, s.len);
        p += s.len;
    }
    *p++ = '"';
    if (colon) {
        *p++ = ':';
    }
    *p = '\0';
    b->len = (size_t)(p - b->ptr);
}

/* Returns true if a comma must precede the next value; records that a value follows. */
static bool take_comma(struct jw *w)
{
    if (w->after_key) {
        w->after_key = false;
        return false;
    }
    if (w->depth == 0 || w->depth > MAX_LEVELS) {
        return false;
    }
    uint64_t bit = UINT64_C(1) << (w->depth - 1);
    bool comma = !(w->first & bit);
    w->first &= ~bit;
    return comma;
}

static void write_put_literal(struct jw *w, struct tidings_str text)
{
    if (take_comma(w)) {
        buf_putc(w->out, ',');
    }
    buf_puts(w->out, text);
}

static void write_begin(struct jw *w, char bracket)
{
    if (take_comma(w)) {
        buf_putc(w->out, ',');
    }
    buf_putc(w->out, bracket);
    if (w->depth < MAX_LEVELS) {
        w->first |= UINT64_C(1) << w->depth;
    } else {
        w->out->failed = TIDINGS_E_LIMIT;
    }
    w->depth++;
}

static void write_end(struct jw *w, char bracket)
{
    assert(w->depth > 0 && !w->after_key);
    if (w->depth > 0) {
        w->depth--;
    }
    buf_putc(w->out, bracket);
}

void jw_init(struct jw *w, struct buf *out)
{
    *w = (struct jw){.out = out};
}

void jw_begin_object(struct jw *w)
{
    write_begin(w, '{');
}

void jw_end_object(struct jw *w)
{
    write_end(w, '}');
}

void jw_begin_array(struct jw *w)
{
    write_begin(w, '[');
}

void jw_end_array(struct jw *w)
{
    write_end(w, ']');
}

void jw_key(struct jw *w, struct tidings_str key)
{
    assert(w->depth > 0 && !w->after_key);
    write_put_quoted(w->out, key, take_comma(w), true);
    w->after_key = true;
}

void jw_string(struct jw *w, struct tidings_str s)
{
    write_put_quoted(w->out, s, take_comma(w), false);
}

void jw_base64(struct jw *w, struct tidings_str bytes)
{
    write_put_literal(w, STR("\""));
    base64_put(w->out, bytes);
    buf_putc(w->out, '"');
}

void jw_integer(struct jw *w, int64_t n)
{
    if (take_comma(w)) {
        buf_putc(w->out, ',');
    }
    buf_puti(w->out, n);
}

/* The shortest digits that read back as the same double. printf uses the host's locale, so its
 * decimal point is replaced; ".0" keeps a real a real when it is read again. */
static void put_real(struct buf *b, double n)
{
    char text[40];
    /* 15 digits always suffice to read back what 15 digits or fewer wrote, except for subnormals.
     */
    for (int digits = fabs(n) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, n);
        if (strtod(text, NULL) == n) {
            break;
        }
    }
    char clean[44];
    size_t len = 0;
    bool is_real = false;
    for (const char *p = text; *p; p++) {
        if (*p == '0' && len > 1 && (p[-1] == '+' || (p[-1] == '-' && p[-2] == 'e'))) {
            continue; /* e-07 */
        }
        if ((*p >= '0' && *p <= '9') || *p == '-' || *p == 'e') {
            is_real = is_real || *p == 'e';
            clean[len++] = *p;
        } else if (*p != '+' && len > 0 && clean[len - 1] != '.') {
            is_real = true;
            clean[len++] = '.'; /* even if the locale's point has several bytes */
        }
    }
    if (!is_real) {
        clean[len++] = '.';
        clean[len++] = '0';
    }
    buf_put(b, clean, len);
}

void jw_number(struct jw *w, double n)
{
    if (!isfinite(n)) {
        jw_null(w);
        return;
    }
    if (take_comma(w)) {
        buf_putc(w->out, ',');
    }
    put_real(w->out, n);
}

void jw_bool(struct jw *w, bool b)
{
    write_put_literal(w, b ? STR("true") : STR("false"));
}

void jw_null(struct jw *w)
{
    write_put_literal(w, STR("null"));
}

void jw_raw(struct jw *w, struct tidings_str text)
{
    write_put_literal(w, text);
}

static void write_put_value(struct buf *b, const struct json *v);

static void put_members(struct buf *b, const struct json *object)
{
    struct json *o = (struct json *)(uintptr_t)object; /* iteration does not modify it */
    struct tidings_str key;
    struct json *value;
    bool comma = false;
    buf_putc(b, '{');
    for (void *at = NULL; (at = jv_next(o, at, &key, &value)); comma = true) {
        write_put_quoted(b, key, comma, true);
        write_put_value(b, value);
    }
    buf_putc(b, '}');
}

static void put_elements(struct buf *b, const struct json *array)
{
    size_t count = jv_count(array);
    buf_putc(b, '[');
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            buf_putc(b, ',');
        }
        write_put_value(b, jv_at(array, i));
    }
    buf_putc(b, ']');
}

/* Recursion is as deep as the value, and no parsed value is deeper than its max_depth. It does not
 * use the writer's level bits: a value of JSON_MAX_DEPTH levels can be inside an envelope. */
static void write_put_value(struct buf *b, const struct json *v)
{
    switch (jv_type(v)) {
    case JV_NULL:
        buf_puts(b, STR("null"));
        break;
    case JV_FALSE:
        buf_puts(b, STR("false"));
        break;
    case JV_TRUE:
        buf_puts(b, STR("true"));
        break;
    case JV_INT:
        buf_puti(b, jv_int(v));
        break;
    case JV_REAL:
        if (jv_written(v).len > 0) {
            buf_puts(b, jv_written(v));
        } else {
            put_real(b, jv_real(v));
        }
        break;
    case JV_STRING:
        write_put_quoted(b, jv_str(v), false, false);
        break;
    case JV_ARRAY:
        put_elements(b, v);
        break;
    case JV_OBJECT:
        put_members(b, v);
        break;
    }
}

void jw_members(struct jw *w, struct tidings_str object)
{
    if (object.len > 2) {
        write_put_literal(w, tidings_strn(object.ptr + 1, object.len - 2));
    }
}

void jw_value(struct jw *w, const struct json *v)
{
    if (take_comma(w)) {
        buf_putc(w->out, ',');
    }
    write_put_value(w->out, v);
}

void jw_put_string(struct jw *w, struct tidings_str key, struct tidings_str s)
{
    jw_key(w, key);
    jw_string(w, s);
}

void jw_put_integer(struct jw *w, struct tidings_str key, int64_t n)
{
    jw_key(w, key);
    jw_integer(w, n);
}

void jw_put_bool(struct jw *w, struct tidings_str key, bool b)
{
    jw_key(w, key);
    jw_bool(w, b);
}

void jw_put_raw(struct jw *w, struct tidings_str key, struct tidings_str text)
{
    jw_key(w, key);
    jw_raw(w, text);
}

int jw_quote(struct buf *out, struct tidings_str s)
{
    size_t before = out->len;
    write_put_quoted(out, s, false, false);
    if (out->failed && out->len > before) {
        out->len = before; /* no partial string remains if it does not fit */
        out->ptr[before] = '\0';
    }
    return out->failed;
}
