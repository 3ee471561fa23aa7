/* SPDX-License-Identifier: MIT
 *
 * The parser: one pass, no recursion, no copy of a string that holds no escapes.
 *
 * The containers that are open stand on a stack of at most PARSE_MAX_DEPTH. A value is put into its
 * container as soon as it is made, so that everything built so far hangs on the root and a failure
 * frees that alone. Invariant: between two steps `at` is behind a complete token.
 *
 * Strings are looked at eight bytes at a time for what ends a plain run (quote, backslash, control
 * character). Deliberately no lookup of a key before it is put in: a duplicate shows in the count.
 */
#include "json/parse.h"

#include <endian.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

#define EACH_BYTE(c) (0x0101010101010101u * (uint64_t)(c))
#define HIGH_BITS EACH_BYTE(0x80)
#define SHORT_NUMBER 64u

struct parser {
    const char *begin, *at, *end;
    struct tidings_str key; /* of the member whose value comes next */
    const char *key_start;
    struct buf key_text, value_text; /* decoded escapes */
    unsigned max_depth;
    unsigned depth;
    int failed; /* the code, with … */
    const char *why;
    const char *where;
    json_t *root;
    json_t *open[PARSE_MAX_DEPTH];
};

/* ---- failing --------------------------------------------------------------------------------- */

static bool refuse(struct parser *p, const char *where, const char *why)
{
    p->failed = TIDINGS_E_PARSE;
    p->where = where;
    p->why = why;
    return false;
}

static bool refuse_end(struct parser *p)
{
    return refuse(p, p->end > p->begin ? p->end - 1 : p->begin, "the text ends too early");
}

/* Something else was expected at p->at. */
static bool refuse_here(struct parser *p, const char *why)
{
    if (p->at == p->end) {
        return refuse_end(p);
    }
    return refuse(p, p->at, *p->at == '\0' ? "NUL byte" : why);
}

static bool refuse_memory(struct parser *p)
{
    p->failed = TIDINGS_E_NOMEM;
    return false;
}

static bool refuse_depth(struct parser *p, const char *where)
{
    p->failed = TIDINGS_E_LIMIT;
    p->where = where;
    return false;
}

/* The sentence; lines and columns are counted only now, in characters. */
static int explain(const struct parser *p, struct tidings_error *err)
{
    size_t line = 1, column = 1;
    if (p->failed == TIDINGS_E_NOMEM) {
        return tidings_fail(err, p->failed, "out of memory while reading JSON");
    }
    for (const char *s = p->begin; s < p->where; s++) {
        if (*s == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)*s & 0xC0u) != 0x80u) {
            column++;
        }
    }
    if (p->failed == TIDINGS_E_LIMIT) {
        return tidings_fail(err, p->failed, "line %zu column %zu: nested deeper than %u levels",
                            line, column, p->max_depth);
    }
    return tidings_fail(err, p->failed, "line %zu column %zu: %s", line, column, p->why);
}

/* ---- strings --------------------------------------------------------------------------------- */

/* The first byte from `s` on that a string does not hold as it is, or `end`. The high bits of
 * *ret_bits are set if there are bytes of more than seven bits before it. */
static const char *skip_plain(const char *s, const char *end, uint64_t *ret_bits)
{
    uint64_t bits = 0;
    for (; end - s >= 8; s += 8) {
        uint64_t word;
        memcpy(&word, s, sizeof word);
        word = le64toh(word); /* so that the first byte is the lowest */
        uint64_t quote = word ^ EACH_BYTE('"');
        uint64_t slash = word ^ EACH_BYTE('\\');
        /* The lowest bit that is set is right; a borrow may set others above it. */
        uint64_t stop = (((word - EACH_BYTE(' ')) & ~word) | ((quote - EACH_BYTE(1)) & ~quote) |
                         ((slash - EACH_BYTE(1)) & ~slash)) &
                        HIGH_BITS;
        if (stop) {
            *ret_bits = bits | (word & ((stop & (0 - stop)) - 1));
            return s + (__builtin_ctzll(stop) >> 3);
        }
        bits |= word;
    }
    for (; s < end && (unsigned char)*s >= ' ' && *s != '"' && *s != '\\'; s++) {
        bits |= (unsigned char)*s;
    }
    *ret_bits = bits;
    return s;
}

/* From p->at to what ends a plain run, which is not consumed. */
static bool read_run(struct parser *p, struct tidings_str *ret)
{
    uint64_t bits;
    const char *start = p->at;
    const char *stop = skip_plain(start, p->end, &bits);
    *ret = tidings_strn(start, (size_t)(stop - start));
    if ((bits & HIGH_BITS) && !str_is_utf8(*ret)) {
        /* Which character is it? */
        while (start < stop) {
            unsigned char lead = (unsigned char)*start;
            size_t len = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0x80 ? 2 : 1;
            if ((size_t)(stop - start) < len || !str_is_utf8(tidings_strn(start, len))) {
                break;
            }
            start += len;
        }
        return refuse(p, start, "not UTF-8");
    }
    p->at = stop;
    if (stop == p->end) {
        return refuse_end(p);
    }
    if ((unsigned char)*stop < ' ') {
        return refuse(p, stop, "a control character in a string must be written as an escape");
    }
    return true;
}

/* The four digits of a \u escape that stands at `s`, or -1. */
static int32_t unicode_unit(const char *s, const char *end)
{
    if (end - s < 6 || s[0] != '\\' || s[1] != 'u') {
        return -1;
    }
    uint32_t unit = 0;
    for (int i = 2; i < 6; i++) {
        unsigned digit = (unsigned char)s[i];
        unsigned letter = digit | 0x20u;
        if (digit - '0' <= 9) {
            digit -= '0';
        } else if (letter - 'a' <= 5) {
            digit = letter - 'a' + 10;
        } else {
            return -1;
        }
        unit = unit << 4 | digit;
    }
    return (int32_t)unit;
}

static void put_character(struct buf *out, uint32_t c)
{
    char bytes[4];
    size_t len = 0;
    if (c < 0x80) {
        bytes[len++] = (char)c;
    } else if (c < 0x800) {
        bytes[len++] = (char)(0xC0u | c >> 6);
        bytes[len++] = (char)(0x80u | (c & 0x3Fu));
    } else if (c < 0x10000) {
        bytes[len++] = (char)(0xE0u | c >> 12);
        bytes[len++] = (char)(0x80u | (c >> 6 & 0x3Fu));
        bytes[len++] = (char)(0x80u | (c & 0x3Fu));
    } else {
        bytes[len++] = (char)(0xF0u | c >> 18);
        bytes[len++] = (char)(0x80u | (c >> 12 & 0x3Fu));
        bytes[len++] = (char)(0x80u | (c >> 6 & 0x3Fu));
        bytes[len++] = (char)(0x80u | (c & 0x3Fu));
    }
    buf_put(out, bytes, len);
}

/* RFC 8259 §7: beyond U+FFFF a character is a pair of escapes; half a pair is none. */
static bool read_unicode(struct parser *p, struct buf *out)
{
    int32_t unit = unicode_unit(p->at, p->end);
    if (unit < 0) {
        return refuse(p, p->at, "four hexadecimal digits must follow '\\u'");
    }
    const char *start = p->at;
    uint32_t c = (uint32_t)unit;
    p->at += 6;
    if (c >= 0xD800 && c <= 0xDFFF) {
        int32_t low = c <= 0xDBFF ? unicode_unit(p->at, p->end) : -1;
        if (low < 0xDC00 || low > 0xDFFF) {
            return refuse(p, start, "half of a surrogate pair");
        }
        c = 0x10000 + ((c - 0xD800) << 10) + ((uint32_t)low - 0xDC00);
        p->at += 6;
    }
    put_character(out, c);
    return true;
}

static bool read_escape(struct parser *p, struct buf *out)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (p->end - p->at < 2) {
        return refuse_end(p);
    }
    char c = p->at[1];
    if (c == 'u') {
        return read_unicode(p, out);
    }
    const char *found = c ? strchr(escapes, c) : NULL;
    if (!found) {
        return refuse(p, p->at, "invalid escape");
    }
    buf_putc(out, meant[found - escapes]);
    p->at += 2;
    return true;
}

/* The string whose quote is at p->at: a slice of the text, or of `decoded` if it holds escapes. */
static bool read_string(struct parser *p, struct buf *decoded, struct tidings_str *ret)
{
    p->at++;
    if (!read_run(p, ret)) {
        return false;
    }
    if (*p->at == '"') {
        p->at++;
        return true;
    }
    buf_clear(decoded);
    buf_puts(decoded, *ret);
    while (*p->at != '"') {
        struct tidings_str run;
        if (!read_escape(p, decoded) || !read_run(p, &run)) {
            return false;
        }
        buf_puts(decoded, run);
    }
    p->at++;
    *ret = buf_str(decoded);
    return decoded->failed ? refuse_memory(p) : true;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static const char *skip_digits(const char *s, const char *end)
{
    while (s < end && *s >= '0' && *s <= '9') {
        s++;
    }
    return s;
}

/* The end of the number at p->at (RFC 8259 §6), or NULL. */
static const char *number_end(const struct parser *p, bool *ret_is_real)
{
    const char *s = p->at + (*p->at == '-');
    const char *digits = s;
    s = skip_digits(s, p->end);
    if (s == digits || (*digits == '0' && s - digits > 1)) {
        return NULL;
    }
    *ret_is_real = false;
    if (s < p->end && *s == '.') {
        *ret_is_real = true;
        digits = s + 1;
        s = skip_digits(digits, p->end);
        if (s == digits) {
            return NULL;
        }
    }
    if (s < p->end && (*s == 'e' || *s == 'E')) {
        *ret_is_real = true;
        s++;
        s += s < p->end && (*s == '+' || *s == '-');
        digits = s;
        s = skip_digits(digits, p->end);
        if (s == digits) {
            return NULL;
        }
    }
    return s;
}

/* strtod in the C locale, whatever the program's is. */
static int to_real(struct tidings_str number, double *ret)
{
    char small[SHORT_NUMBER];
    char *text = number.len < sizeof small ? small : mem_alloc(number.len + 1);
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    int rc = TIDINGS_E_NOMEM;
    if (text && c_locale) {
        memcpy(text, number.ptr, number.len);
        text[number.len] = '\0';
        errno = 0;
        *ret = strtod_l(text, NULL, c_locale);
        /* ERANGE is also said of numbers too small: those are 0, or nearly. */
        rc = errno == ERANGE && fabs(*ret) > 1 ? TIDINGS_E_LIMIT : 0;
    }
    if (c_locale) {
        freelocale(c_locale);
    }
    if (text != small) {
        mem_free(text);
    }
    return rc;
}

static json_t *read_number(struct parser *p)
{
    bool is_real;
    const char *start = p->at;
    const char *end = number_end(p, &is_real);
    if (!end) {
        refuse(p, start, "invalid number");
        return NULL;
    }
    struct tidings_str number = {start, (size_t)(end - start)};
    int64_t whole = 0;
    double real = 0;
    int rc = is_real ? to_real(number, &real) : str_to_i64(number, &whole) ? 0 : TIDINGS_E_LIMIT;
    if (rc == TIDINGS_E_LIMIT) {
        refuse(p, start, "number out of range (integers have 64 bits, others are doubles)");
        return NULL;
    }
    p->at = end;
    json_t *v = rc < 0 ? NULL : is_real ? json_real(real) : json_integer(whole);
    if (!v) {
        refuse_memory(p);
    }
    return v;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void skip_blanks(struct parser *p)
{
    while (p->at < p->end &&
           (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t')) {
        p->at++;
    }
}

static json_t *read_literal(struct parser *p)
{
    static const struct {
        const char *text;
        size_t len;
        json_t *(*make)(void);
    } literals[] = {{"true", 4, json_true}, {"false", 5, json_false}, {"null", 4, json_null}};
    struct tidings_str rest = {p->at, (size_t)(p->end - p->at)};
    for (size_t i = 0; i < sizeof literals / sizeof *literals; i++) {
        struct tidings_str text = {literals[i].text, literals[i].len};
        if (str_starts(rest, text)) {
            p->at += text.len;
            return literals[i].make();
        }
        if (str_starts(text, rest)) {
            refuse_end(p);
            return NULL;
        }
    }
    refuse_here(p, "invalid token");
    return NULL;
}

/* A scalar, or a container that is still empty, its bracket consumed. NULL: failed. */
static json_t *read_value(struct parser *p)
{
    struct tidings_str text;
    json_t *v = NULL;
    switch (*p->at) {
    case '"':
        if (!read_string(p, &p->value_text, &text)) {
            return NULL;
        }
        v = json_stringn_nocheck(text.ptr, text.len);
        break;
    case '{':
    case '[':
        if (p->depth >= p->max_depth) {
            refuse_depth(p, p->at);
            return NULL;
        }
        v = *p->at++ == '{' ? json_object() : json_array();
        break;
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        return read_number(p);
    default:
        return read_literal(p);
    }
    if (!v) {
        refuse_memory(p);
    }
    return v;
}

/* Put `v`, which is taken, where it belongs. */
static bool attach(struct parser *p, json_t *v)
{
    if (p->depth == 0) {
        p->root = v;
        return true;
    }
    json_t *parent = p->open[p->depth - 1];
    if (json_is_array(parent)) {
        return json_array_append_new(parent, v) == 0 ? true : refuse_memory(p);
    }
    size_t before = json_object_size(parent);
    if (json_object_setn_new_nocheck(parent, p->key.ptr, p->key.len, v) < 0) {
        return refuse_memory(p);
    }
    return json_object_size(parent) > before ? true
                                             : refuse(p, p->key_start, "duplicate object key");
}

/* The key and the colon of a member of the innermost container, if that is an object. */
static bool read_key(struct parser *p)
{
    if (json_is_array(p->open[p->depth - 1])) {
        return true;
    }
    if (p->at == p->end || *p->at != '"') {
        return refuse_here(p, "a key in double quotes expected");
    }
    p->key_start = p->at;
    if (!read_string(p, &p->key_text, &p->key)) {
        return false;
    }
    /* Only an escape can have made it. */
    if (p->key.ptr == p->key_text.ptr && memchr(p->key.ptr, '\0', p->key.len)) {
        return refuse(p, p->key_start, "U+0000 in an object key");
    }
    skip_blanks(p);
    if (p->at == p->end || *p->at != ':') {
        return refuse_here(p, "':' expected");
    }
    p->at++;
    skip_blanks(p);
    return true;
}

/* A container was opened: is something in it? If so p->at comes to stand at the value. */
static bool enter(struct parser *p, json_t *container, bool *ret_has_value)
{
    p->open[p->depth++] = container;
    skip_blanks(p);
    bool is_array = json_is_array(container);
    *ret_has_value = p->at == p->end || *p->at != (is_array ? ']' : '}');
    return *ret_has_value ? read_key(p) : true;
}

/* A value is complete: go on to the next one, closing what ends here. */
static bool leave(struct parser *p)
{
    while (p->depth > 0) {
        bool is_array = json_is_array(p->open[p->depth - 1]);
        skip_blanks(p);
        int c = p->at < p->end ? *p->at : -1;
        if (c == ',') {
            p->at++;
            skip_blanks(p);
            return read_key(p);
        }
        if (c != (is_array ? ']' : '}')) {
            return refuse_here(p, is_array ? "',' or ']' expected" : "',' or '}' expected");
        }
        p->at++;
        p->depth--;
    }
    return true;
}

static bool read_all(struct parser *p)
{
    skip_blanks(p);
    do {
        if (p->at == p->end) {
            return refuse_end(p);
        }
        json_t *v = read_value(p);
        if (!v || !attach(p, v)) {
            return false;
        }
        bool has_value = false;
        if ((json_is_object(v) || json_is_array(v)) && !enter(p, v, &has_value)) {
            return false;
        }
        if (!has_value && !leave(p)) {
            return false;
        }
    } while (p->depth > 0);
    skip_blanks(p);
    return p->at == p->end ? true : refuse_here(p, "more text after the value");
}

int parse_text(struct tidings_str text, unsigned max_depth, json_t **ret_root,
               struct tidings_error *err)
{
    if (text.len == 0) {
        return tidings_fail(err, TIDINGS_E_PARSE, "line 1 column 1: the text is empty");
    }
    struct parser p;
    p.begin = p.at = text.ptr;
    p.end = text.ptr + text.len;
    p.max_depth = max_depth < PARSE_MAX_DEPTH ? max_depth : PARSE_MAX_DEPTH;
    p.depth = 0;
    p.failed = 0;
    p.root = NULL;
    buf_init(&p.key_text, text.len);
    buf_init(&p.value_text, text.len);
    int rc = read_all(&p) ? 0 : explain(&p, err);
    buf_deinit(&p.key_text);
    buf_deinit(&p.value_text);
    if (rc < 0) {
        json_decref(p.root);
        return rc;
    }
    *ret_root = p.root;
    return 0;
}
