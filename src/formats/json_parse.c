/* SPDX-License-Identifier: MIT
 *
 * The JSON parser: one pass over the text, no recursion, into one block of values and strings.
 *
 * The values of open containers are on the stack of formats/json_build.h. Strings are copied, as
 * they are read, to the end of the document's first block, which has room for the whole text: so
 * they need no further memory. Invariant: between two steps `at` is after a complete token.
 *
 * Strings are searched eight bytes at a time for the end of a plain run (quote, backslash, control
 * character).
 */
#include "formats/json_parse.h"

#include <endian.h>
#include <float.h>
#include <stdbool.h>
#include <string.h>

#include "base/str.h"
#include "formats/json.h"
#include "formats/json_build.h"

/* -------------------------------------------------------------------------------------------------
 * Replaces comments and trailing commas in JSON files by blanks, outside of strings.
 */

unsigned json_blank_comments(char *text, size_t len)
{
    unsigned line = 1;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        line += text[i] == '\n' ? 1 : 0;
        if (in_string) {
            in_string = text[i] != '"' && text[i] != '\n';
            i += text[i] == '\\' ? 1 : 0;
        } else if (text[i] == '"') {
            in_string = true;
        } else if (text[i] == '/' && i + 1 < len && text[i + 1] == '/') {
            for (; i < len && text[i] != '\n'; i++) {
                text[i] = ' ';
            }
            line += i < len ? 1 : 0;
        } else if (text[i] == '/' && i + 1 < len && text[i + 1] == '*') {
            unsigned opened = line;
            text[i] = text[i + 1] = ' ';
            for (i += 2; i + 1 < len && !(text[i] == '*' && text[i + 1] == '/'); i++) {
                line += text[i] == '\n' ? 1 : 0;
                text[i] = text[i] == '\n' ? '\n' : ' ';
            }
            if (i + 1 >= len) {
                return opened;
            }
            text[i] = text[i + 1] = ' ';
            i++;
        }
    }
    return 0;
}

void json_blank_commas(char *text, size_t len)
{
    char *comma = NULL;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (in_string) {
            in_string = c != '"' && c != '\n';
            i += c == '\\' ? 1 : 0;
            continue;
        }
        if (comma && (c == '}' || c == ']')) {
            *comma = ' ';
        }
        if (c == ',') {
            comma = text + i;
        } else if (c == '\0' || !strchr(" \t\r\n", c)) {
            comma = NULL;
        }
        in_string = c == '"';
    }
}

bool json_is_list(const struct json *v)
{
    return jv_is(v, JV_ARRAY) || jv_is(v, JV_STRING);
}

size_t json_list_count(const struct json *v)
{
    return jv_is(v, JV_STRING) ? 1 : jv_is(v, JV_ARRAY) ? jv_count(v) : 0;
}

const struct json *json_list_at(const struct json *v, size_t index)
{
    return jv_is(v, JV_STRING) ? v : jv_at(v, index);
}

/* ---------------------------------------------------------------------------------------------- */

#define EACH_BYTE(c) (0x0101010101010101u * (uint64_t)(c))
#define HIGH_BITS EACH_BYTE(0x80)
#define FIRST_BLOCK 4096u
#define TEXT_MAX ((size_t)1 << 30) /* lengths have 32 bits */

struct parser {
    const char *begin, *at, *end;
    const char *key_start; /* key of the member whose value comes next */
    unsigned max_depth;
    struct jv_mended *mended;        /* NULL: repairs nothing, rejects instead */
    bool is_object[BUILD_MAX_DEPTH]; /* of the open containers */
    int failed;                      /* the code, with … */
    const char *why;
    const char *where;
    struct build b;
};

/* ---- errors ---------------------------------------------------------------------------------- */

static bool parse_refuse(struct parser *p, const char *where, const char *why)
{
    p->failed = TIDINGS_E_PARSE;
    p->where = where;
    p->why = why;
    return false;
}

static bool refuse_end(struct parser *p)
{
    return parse_refuse(p, p->end > p->begin ? p->end - 1 : p->begin, "the text ends too early");
}

/* Rejects the input at p->at. */
static bool refuse_here(struct parser *p, const char *why)
{
    if (p->at == p->end) {
        return refuse_end(p);
    }
    return parse_refuse(p, p->at, *p->at == '\0' ? "NUL byte" : why);
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

/* Writes the error message; only now computes lines and columns, in characters. */
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

/* Copies from `s` up to the first byte that needs special handling in a string, or `end`; returns
 * its position. The high bits of *ret_bits are set if a byte before it has more than seven bits.
 * Can write up to eight bytes more, if as many can be read. */
static inline const char *copy_plain(char *out, const char *s, const char *end, uint64_t *ret_bits)
{
    uint64_t bits = 0;
    for (; end - s >= 8; s += 8, out += 8) {
        uint64_t word;
        memcpy(&word, s, sizeof word);
        memcpy(out, &word, sizeof word);
        uint64_t quote = word ^ EACH_BYTE('"');
        uint64_t slash = word ^ EACH_BYTE('\\');
        /* A borrow can only come from a byte that matches itself: zero is always correct. */
        uint64_t odd =
            word | (word - EACH_BYTE(' ')) | (quote - EACH_BYTE(1)) | (slash - EACH_BYTE(1));
        if ((odd & HIGH_BITS) == 0) {
            continue;
        }
        word = le64toh(word); /* so that the first byte is the lowest */
        quote = word ^ EACH_BYTE('"');
        slash = word ^ EACH_BYTE('\\');
        /* The lowest set bit is correct; a borrow can set others above it. */
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
        *out++ = *s;
    }
    *ret_bits = bits;
    return s;
}

static bool refuse_utf8(struct parser *p, const char *start, const char *stop)
{
    /* Find the character. */
    while (start < stop) {
        unsigned char lead = (unsigned char)*start;
        size_t len = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0x80 ? 2 : 1;
        if ((size_t)(stop - start) < len || !str_is_utf8(tidings_strn(start, len))) {
            break;
        }
        start += len;
    }
    return parse_refuse(p, start, "not UTF-8");
}

/* Copies from p->at to the end of a plain run, without consuming the end; advances *out. */
static bool read_run(struct parser *p, char **out)
{
    uint64_t bits;
    const char *start = p->at;
    const char *stop = copy_plain(*out, start, p->end, &bits);
    if ((bits & HIGH_BITS) && !str_is_utf8(tidings_strn(start, (size_t)(stop - start)))) {
        return refuse_utf8(p, start, stop);
    }
    *out += stop - start;
    p->at = stop;
    if (stop == p->end) {
        return refuse_end(p);
    }
    if ((unsigned char)*stop < ' ') {
        return parse_refuse(p, stop,
                            "a control character in a string must be written as an escape");
    }
    return true;
}

/* The four digits of a \u escape at `s`, or -1. */
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

/* Returns the end of what was written. */
static char *put_character(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xC0u | c >> 6);
        *out++ = (char)(0x80u | (c & 0x3Fu));
    } else if (c < 0x10000) {
        *out++ = (char)(0xE0u | c >> 12);
        *out++ = (char)(0x80u | (c >> 6 & 0x3Fu));
        *out++ = (char)(0x80u | (c & 0x3Fu));
    } else {
        *out++ = (char)(0xF0u | c >> 18);
        *out++ = (char)(0x80u | (c >> 12 & 0x3Fu));
        *out++ = (char)(0x80u | (c >> 6 & 0x3Fu));
        *out++ = (char)(0x80u | (c & 0x3Fu));
    }
    return out;
}

/* RFC 8259 §7: a character beyond U+FFFF is a pair of escapes; half a pair is invalid. */
static bool read_unicode(struct parser *p, char **out)
{
    int32_t unit = unicode_unit(p->at, p->end);
    if (unit < 0) {
        return parse_refuse(p, p->at, "four hexadecimal digits must follow '\\u'");
    }
    const char *start = p->at;
    uint32_t c = (uint32_t)unit;
    p->at += 6;
    if (c >= 0xD800 && c <= 0xDFFF) {
        int32_t low = c <= 0xDBFF ? unicode_unit(p->at, p->end) : -1;
        bool is_pair = low >= 0xDC00 && low <= 0xDFFF;
        if (!is_pair && !p->mended) {
            return parse_refuse(p, start, "half of a surrogate pair");
        }
        c = is_pair ? 0x10000 + ((c - 0xD800) << 10) + ((uint32_t)low - 0xDC00) : 0xFFFD;
        p->at += is_pair ? 6 : 0;
        if (!is_pair) {
            p->mended->halves++;
        }
    }
    *out = put_character(*out, c);
    return true;
}

static bool read_escape(struct parser *p, char **out)
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
        return parse_refuse(p, p->at, "invalid escape");
    }
    *(*out)++ = meant[found - escapes];
    p->at += 2;
    return true;
}

/* Reads a string with escapes or non-ASCII characters, without consuming the closing quote. */
static bool read_escaped(struct parser *p, char **out)
{
    if (!read_run(p, out)) {
        return false;
    }
    while (*p->at != '"') {
        if (!read_escape(p, out) || !read_run(p, out)) {
            return false;
        }
    }
    return true;
}

/* Reads the string whose quote is at p->at into *ret. It is never longer than its text, and the
 * closing quote leaves room for the terminating byte. */
static bool read_string(struct parser *p, struct json *ret)
{
    uint64_t bits;
    char *start = p->b.text, *out = start;
    const char *text = ++p->at;
    const char *stop = copy_plain(out, text, p->end, &bits);
    if (stop < p->end && *stop == '"' && (bits & HIGH_BITS) == 0) {
        out += stop - text;
        p->at = stop;
    } else if (!read_escaped(p, &out)) {
        return false;
    }
    p->at++;
    *out = '\0';
    p->b.text = out + 1;
    ret->text = start;
    ret->len = (uint32_t)(out - start);
    ret->tag = JV_STRING;
    return true;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Keeps a number as written. The byte after it, at least the end of the text, leaves room for the
 * terminating byte. */
static void keep_number(struct parser *p, struct json *ret, struct tidings_str number)
{
    memcpy(p->b.text, number.ptr, number.len);
    p->b.text[number.len] = '\0';
    *ret = (struct json){.text = p->b.text, .len = (uint32_t)number.len, .tag = JV_REAL};
    p->b.text += number.len + 1;
}

static bool parse_number(struct parser *p, struct json *ret)
{
    bool is_real;
    const char *start = p->at;
    struct tidings_str number = {start, (size_t)(p->end - start)};
    number.len = number_length(number, &is_real);
    if (number.len == 0) {
        return parse_refuse(p, start, "invalid number");
    }
    int rc;
    ret->len = 0;
    if (is_real) {
        ret->tag = JV_REAL;
        rc = number_to_real(number, &ret->real);
    } else {
        ret->tag = JV_INT;
        rc = str_to_i64(number, &ret->whole) ? 0 : TIDINGS_E_LIMIT;
    }
    p->at = start + number.len;
    if (p->mended && (rc == TIDINGS_E_LIMIT || (rc == 0 && is_real && number.len > DBL_DIG))) {
        keep_number(p, ret, number);
        return true;
    }
    if (rc == TIDINGS_E_LIMIT) {
        return parse_refuse(p, start,
                            "number out of range (integers have 64 bits, others are doubles)");
    }
    return rc == 0 ? true : refuse_memory(p);
}

/* ---- values ---------------------------------------------------------------------------------- */

static inline void parse_skip_blanks(struct parser *p)
{
    while (p->at < p->end && (unsigned char)*p->at <= ' ' &&
           (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t')) {
        p->at++;
    }
}

static bool parse_token(struct parser *p, struct json *ret)
{
    static const struct {
        const char *text;
        size_t len;
        enum jv_type type;
    } literals[] = {{"true", 4, JV_TRUE}, {"false", 5, JV_FALSE}, {"null", 4, JV_NULL}};
    struct tidings_str rest = {p->at, (size_t)(p->end - p->at)};
    for (size_t i = 0; i < sizeof literals / sizeof *literals; i++) {
        struct tidings_str text = {literals[i].text, literals[i].len};
        if (str_starts(rest, text)) {
            p->at += text.len;
            ret->tag = literals[i].type;
            return true;
        }
        if (str_starts(text, rest)) {
            return refuse_end(p);
        }
    }
    return refuse_here(p, "invalid token");
}

/* Checks that the key of the last value is new. */
static bool parse_check_key(struct parser *p)
{
    bool is_member = p->b.depth > 0 && p->is_object[p->b.depth - 1];
    int rc = is_member && !p->mended ? build_check_key(&p->b) : 1;
    return rc < 0    ? refuse_memory(p)
           : rc == 0 ? parse_refuse(p, p->key_start, "duplicate object key")
                     : true;
}

/* Pushes an empty container after its bracket was consumed. */
static bool read_bracket(struct parser *p, bool is_object)
{
    unsigned depth = p->b.depth;
    if (depth >= p->max_depth) {
        return refuse_depth(p, p->at);
    }
    p->at++;
    if (!build_begin(&p->b, is_object ? JV_OBJECT : JV_ARRAY)) {
        return refuse_memory(p);
    }
    /* The key belongs to the container around it. */
    p->b.depth = depth;
    if (!parse_check_key(p)) {
        return false;
    }
    p->is_object[depth] = is_object;
    p->b.depth = depth + 1;
    return true;
}

static bool read_scalar(struct parser *p)
{
    struct json *v = build_push(&p->b);
    if (!v) {
        return refuse_memory(p);
    }
    bool ok = *p->at == '"'                                       ? read_string(p, v)
              : *p->at == '-' || (*p->at >= '0' && *p->at <= '9') ? parse_number(p, v)
                                                                  : parse_token(p, v);
    return ok && parse_check_key(p);
}

/* Reads the key and the colon of a member if the innermost container is an object. */
static bool read_key(struct parser *p)
{
    if (!p->is_object[p->b.depth - 1]) {
        return true;
    }
    if (p->at == p->end || *p->at != '"') {
        return refuse_here(p, "a key in double quotes expected");
    }
    p->key_start = p->at;
    struct json *key = build_push(&p->b);
    if (!key) {
        return refuse_memory(p);
    }
    if (!read_string(p, key)) {
        return false;
    }
    /* Only an escape can produce it, and then the key is shorter than its text. */
    if (!p->mended && key->len + 2 < (size_t)(p->at - p->key_start) &&
        memchr(key->text, '\0', key->len)) {
        return parse_refuse(p, p->key_start, "U+0000 in an object key");
    }
    parse_skip_blanks(p);
    if (p->at == p->end || *p->at != ':') {
        return refuse_here(p, "':' expected");
    }
    p->at++;
    parse_skip_blanks(p);
    return true;
}

/* After the start of a container: if it is not empty, p->at moves to its first value. */
static bool parse_enter(struct parser *p, bool is_object, bool *ret_has_value)
{
    parse_skip_blanks(p);
    *ret_has_value = p->at == p->end || *p->at != (is_object ? '}' : ']');
    return *ret_has_value ? read_key(p) : true;
}

/* After a complete value: moves to the next one, and closes containers that end here. */
static bool parse_leave(struct parser *p)
{
    while (p->b.depth > 0) {
        bool is_object = p->is_object[p->b.depth - 1];
        parse_skip_blanks(p);
        int c = p->at < p->end ? *p->at : -1;
        if (c == ',') {
            p->at++;
            parse_skip_blanks(p);
            return read_key(p);
        }
        if (c != (is_object ? '}' : ']')) {
            return refuse_here(p, is_object ? "',' or '}' expected" : "',' or ']' expected");
        }
        p->at++;
        if (!build_end(&p->b)) {
            return refuse_memory(p);
        }
    }
    return true;
}

static bool parse_all(struct parser *p)
{
    parse_skip_blanks(p);
    do {
        if (p->at == p->end) {
            return refuse_end(p);
        }
        bool has_value = false;
        if (*p->at == '{' || *p->at == '[') {
            bool is_object = *p->at == '{';
            if (!read_bracket(p, is_object) || !parse_enter(p, is_object, &has_value)) {
                return false;
            }
        } else if (!read_scalar(p)) {
            return false;
        }
        if (!has_value && !parse_leave(p)) {
            return false;
        }
    } while (p->b.depth > 0);
    parse_skip_blanks(p);
    return p->at == p->end ? true : refuse_here(p, "more text after the value");
}

/* The number of values to reserve: enough for most messages of that length. */
static size_t first_values(size_t len)
{
    return 4 + (len < FIRST_BLOCK ? len / 11 : FIRST_BLOCK / 11);
}

static int parse_text(struct tidings_str text, unsigned max_depth, struct jv_mended *mended,
                      struct json **ret_root, struct tidings_error *err)
{
    if (text.len == 0) {
        return tidings_fail(err, TIDINGS_E_PARSE, "line 1 column 1: the text is empty");
    }
    if (text.len > TEXT_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "line 1 column 1: the text is too long");
    }
    struct parser p;
    p.begin = p.at = text.ptr;
    p.end = text.ptr + text.len;
    p.max_depth = max_depth < BUILD_MAX_DEPTH ? max_depth : BUILD_MAX_DEPTH;
    p.mended = mended;
    p.failed = 0;
    bool ok = build_init(&p.b, first_values(text.len), text.len + 1) == 0;
    p.b.may_repeat = mended != NULL;
    ok = ok ? parse_all(&p) : refuse_memory(&p);
    if (!ok) {
        build_discard(&p.b);
        return explain(&p, err);
    }
    if (mended) {
        mended->repeated = p.b.repeated;
    }
    *ret_root = build_finish(&p.b);
    return 0;
}

int jv_parse(struct tidings_str text, unsigned max_depth, struct json **ret_root,
             struct tidings_error *err)
{
    return parse_text(text, max_depth, NULL, ret_root, err);
}

int json_parse_lenient(struct tidings_str text, struct json **ret_root,
                       struct jv_mended *ret_mended, struct tidings_error *err)
{
    struct jv_mended mended = {0};
    int rc = parse_text(text, BUILD_MAX_DEPTH, &mended, ret_root, err);
    if (ret_mended) {
        *ret_mended = mended;
    }
    return rc;
}
