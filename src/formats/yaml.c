/* SPDX-License-Identifier: MIT
 *
 * YAML lines: block mappings and sequences, and the start and end of values. The parser moves only
 * forward; it immediately writes what it has read as JSON, which is parsed at the end; that also
 * detects duplicate keys.
 */
#include "formats/yaml.h"

#include "base/error.h"
#include "base/str.h"
#include "formats/json_write.h"

/* -------------------------------------------------------------------------------------------------
 * Shared declarations of the YAML parser: its position, and the functions of each part.
 */

/* The position of the parser. Offsets are into `text`; a completely read line is before `at`. */
struct yaml {
    struct tidings_str text;
    size_t at;         /* start of the next line */
    struct jw *w;      /* the input read so far, as JSON */
    struct buf scalar; /* text of the current scalar */
    unsigned depth;
    unsigned values;
    struct tidings_error *err;
};

/* The character at `offset`; '\n' at the end. */
static inline char yaml_char(const struct yaml *y, size_t offset)
{
    return offset < y->text.len ? y->text.ptr[offset] : '\n';
}
static inline bool yaml_is_blank(char c)
{
    return c == ' ' || c == '\t';
}
static inline bool yaml_is_space(char c)
{
    return yaml_is_blank(c) || c == '\n' || c == '\r';
}

/* -------------------------------------------------------------------------------------------------
 * YAML scalars: quoted ones with their escapes and folded lines, block scalars, and plain ones by
 * the core schema.
 */

/* ---- quoted ---------------------------------------------------------------------------------- */

static int yaml_hex(const struct yaml *y, size_t from, size_t digits, uint32_t *ret)
{
    uint32_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        char c = yaml_char(y, from + i);
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                : 16;
        if (digit == 16) {
            return TIDINGS_E_PARSE;
        }
        value = value << 4 | digit;
    }
    *ret = value;
    return 0;
}

static void yaml_put_character(struct buf *out, uint32_t c)
{
    char bytes[4];
    size_t len = 0;
    if (c < 0x80) {
        bytes[len++] = (char)c;
    } else if (c < 0x800) {
        bytes[len++] = (char)(0xc0 | c >> 6);
    } else if (c < 0x10000) {
        bytes[len++] = (char)(0xe0 | c >> 12);
        bytes[len++] = (char)(0x80 | (c >> 6 & 0x3f));
    } else {
        bytes[len++] = (char)(0xf0 | c >> 18);
        bytes[len++] = (char)(0x80 | (c >> 12 & 0x3f));
        bytes[len++] = (char)(0x80 | (c >> 6 & 0x3f));
    }
    if (c >= 0x80) {
        bytes[len++] = (char)(0x80 | (c & 0x3f));
    }
    buf_put(out, bytes, len);
}

static int yaml_fail(struct yaml *y, size_t offset, const char *what);

/* Reads the escape whose '\\' is at `at`; *ret_end is after it. */
static int yaml_escape(struct yaml *y, size_t at, size_t *ret_end)
{
    static const char names[] = "0abtnvfre \"/\\N_LP\t";
    static const uint32_t characters[] = {0,   7,   8,   9,    10,   11,   12,     13,     27,
                                          ' ', '"', '/', '\\', 0x85, 0xa0, 0x2028, 0x2029, '\t'};
    char name = yaml_char(y, at + 1);
    size_t digits = name == 'x' ? 2 : name == 'u' ? 4 : name == 'U' ? 8 : 0;
    uint32_t c = 0;
    *ret_end = at + 2 + digits;
    if (digits > 0) {
        bool ok =
            yaml_hex(y, at + 2, digits, &c) == 0 && c < 0x110000 && (c < 0xd800 || c > 0xdfff);
        if (!ok) {
            return yaml_fail(y, at, "invalid escape sequence");
        }
        yaml_put_character(&y->scalar, c);
        return 0;
    }
    const char *found = name != '\0' ? strchr(names, name) : NULL;
    if (!found) {
        return yaml_fail(y, at, "an escape that YAML does not have");
    }
    yaml_put_character(&y->scalar, characters[found - names]);
    return 0;
}

static size_t yaml_skip_blanks(const struct yaml *y, size_t from, size_t end);

static size_t yaml_line_end(const struct yaml *y, size_t from, size_t *next);

/* Folds a line break inside quotes, at `at`: *ret_next is where the text continues. One line break
 * becomes a blank; of several, one is dropped. */
static int yaml_fold(struct yaml *y, size_t at, int indent, bool is_escaped, size_t *ret_next)
{
    unsigned breaks = 0;
    size_t next = at, end = at;
    while (next < y->text.len) {
        size_t begin;
        yaml_line_end(y, next, &begin);
        end = yaml_line_end(y, begin, &next);
        size_t content = yaml_skip_blanks(y, begin, end);
        breaks++;
        if (content < end) {
            size_t spaces = begin;
            while (spaces < content && y->text.ptr[spaces] == ' ') {
                spaces++;
            }
            if ((int)(spaces - begin) <= indent) {
                return yaml_fail(y, content, "the next line of a quoted string is not indented");
            }
            for (unsigned i = 1; i < breaks; i++) {
                buf_putc(&y->scalar, '\n');
            }
            if (breaks == 1 && !is_escaped) {
                buf_putc(&y->scalar, ' ');
            }
            *ret_next = content;
            return 0;
        }
        next = begin;
    }
    return yaml_fail(y, at, "a quote that does not end");
}

/* Removes blanks before a line break, except for escaped ones. */
static void yaml_trim(struct yaml *y, size_t keep)
{
    struct buf *s = &y->scalar;
    while (s->len > keep && yaml_is_blank(s->ptr[s->len - 1])) {
        s->len--;
        s->ptr[s->len] = '\0';
    }
}

/* Reads a quoted scalar that starts at `from` into y->scalar; *ret_end is after its quote. Its
 * further lines are indented by more than `indent`. */
static int yaml_quoted(struct yaml *y, size_t from, int indent, size_t *ret_end)
{
    char quote = y->text.ptr[from];
    size_t at = from + 1, keep = 0;
    int rc = 0;
    buf_clear(&y->scalar);
    while (rc == 0 && at < y->text.len) {
        char c = y->text.ptr[at];
        bool is_break = c == '\n' || c == '\r';
        if (c == quote && (quote == '"' || yaml_char(y, at + 1) != '\'')) {
            *ret_end = at + 1;
            return y->scalar.failed;
        }
        if (c == quote) {
            rc = buf_putc(&y->scalar, '\'');
            at += 2;
        } else if (c == '\\' && quote == '"') {
            char what = yaml_char(y, at + 1);
            if (what == '\n' || what == '\r') {
                rc = yaml_fold(y, at + 1, indent, true, &at);
            } else {
                rc = yaml_escape(y, at, &at);
            }
            keep = y->scalar.len;
        } else if (is_break && indent < 0) {
            break;
        } else if (is_break) {
            yaml_trim(y, keep);
            rc = yaml_fold(y, at, indent, false, &at);
            keep = y->scalar.len;
        } else {
            rc = buf_putc(&y->scalar, c);
            at++;
        }
    }
    return rc < 0 ? rc : yaml_fail(y, from, "a quote that does not end");
}

/* ---- plain ----------------------------------------------------------------------------------- */

static int yaml_check_plain(struct yaml *y, size_t offset, bool in_flow)
{
    char c = yaml_char(y, offset), next = yaml_char(y, offset + 1);
    bool ends = yaml_is_space(next) || (in_flow && strchr(",[]{}", next));
    switch (c) {
    case '&':
    case '*':
        return yaml_fail(y, offset, "anchors and aliases are not read; write the value out");
    case '!':
        return yaml_fail(y, offset, "tags are not read");
    case '%':
    case '@':
    case '`':
    case '|':
    case '>':
    case '#':
    case ',':
    case ']':
    case '}':
    case '[':
    case '{':
    case '"':
    case '\'':
        return yaml_fail(y, offset, "no value begins like that; put it in quotes");
    case '-':
    case '?':
    case ':':
        return ends ? yaml_fail(y, offset, "'- ', '? ' or ': ' where a value is expected") : 0;
    default:
        return 0;
    }
}

static bool yaml_is_one_of(struct tidings_str s, const char *const *words)
{
    for (; *words; words++) {
        if (str_eq(s, tidings_str(*words))) {
            return true;
        }
    }
    return false;
}

static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
static const char *const trues[] = {"true", "True", "TRUE", NULL};
static const char *const falses[] = {"false", "False", "FALSE", NULL};
static const char *const infinite[] = {".inf",  ".Inf",  ".INF", "+.inf", "+.Inf", "+.INF", "-.inf",
                                       "-.Inf", "-.INF", ".nan", ".NaN",  ".NAN",  NULL};

static size_t yaml_digits(struct tidings_str s, size_t at)
{
    size_t from = at;
    while (at < s.len && s.ptr[at] >= '0' && s.ptr[at] <= '9') {
        at++;
    }
    return at - from;
}

/* The parts of a decimal number. */
struct yaml_number {
    bool is_negative, is_integer;
    struct tidings_str whole, fraction, exponent; /* the exponent with its sign */
};

static bool yaml_is_decimal(struct tidings_str s, struct yaml_number *n)
{
    size_t at = s.len > 0 && (s.ptr[0] == '-' || s.ptr[0] == '+');
    *n = (struct yaml_number){.is_negative = at > 0 && s.ptr[0] == '-', .is_integer = true};
    size_t whole = yaml_digits(s, at), fraction = 0;
    n->whole = tidings_strn(s.ptr + at, whole);
    at += whole;
    if (at < s.len && s.ptr[at] == '.') {
        n->is_integer = false;
        fraction = yaml_digits(s, at + 1);
        n->fraction = tidings_strn(s.ptr + at + 1, fraction);
        at += 1 + fraction;
    }
    if (whole + fraction == 0) {
        return false;
    }
    if (at < s.len && (s.ptr[at] == 'e' || s.ptr[at] == 'E')) {
        n->is_integer = false;
        size_t begin = at + 1;
        bool has_sign = begin < s.len && (s.ptr[begin] == '-' || s.ptr[begin] == '+');
        size_t digits = yaml_digits(s, begin + has_sign);
        if (digits == 0) {
            return false;
        }
        n->exponent = tidings_strn(s.ptr + begin, digits + has_sign);
        at = begin + has_sign + digits;
    }
    return at == s.len;
}

/* "0x1f", "0o17". */
static bool yaml_is_based(struct tidings_str s, uint64_t *ret, bool *ret_fits)
{
    if (s.len < 3 || s.ptr[0] != '0' || (s.ptr[1] != 'x' && s.ptr[1] != 'o')) {
        return false;
    }
    unsigned shift = s.ptr[1] == 'x' ? 4 : 3;
    uint64_t value = 0;
    *ret_fits = true;
    for (size_t i = 2; i < s.len; i++) {
        char c = s.ptr[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit >= 1u << shift) {
            return false;
        }
        *ret_fits = *ret_fits && value >> (63 - shift) == 0;
        value = value << shift | digit;
    }
    *ret = value;
    return true;
}

/* Returns true if a plain scalar with this text is a string. */
static bool yaml_is_string(struct tidings_str s)
{
    struct yaml_number n;
    uint64_t value;
    bool fits;
    return !yaml_is_one_of(s, nulls) && !yaml_is_one_of(s, trues) && !yaml_is_one_of(s, falses) &&
           !yaml_is_one_of(s, infinite) && !yaml_is_decimal(s, &n) &&
           !yaml_is_based(s, &value, &fits);
}

/* Writes the same number in JSON form. */
static void yaml_put_number(struct yaml *y, const struct yaml_number *n)
{
    struct tidings_str whole = n->whole;
    struct buf text;
    while (whole.len > 1 && whole.ptr[0] == '0') {
        whole = str_skip(whole, 1);
    }
    buf_init(&text, YAML_MAX_BYTES * 2u);
    buf_puts(&text, n->is_negative ? STR("-") : STR_EMPTY);
    buf_puts(&text, whole.len > 0 ? whole : STR("0"));
    if (!n->is_integer) {
        buf_putc(&text, '.');
        buf_puts(&text, n->fraction.len > 0 ? n->fraction : STR("0"));
    }
    if (n->exponent.len > 0) {
        buf_putc(&text, 'e');
        buf_puts(&text, n->exponent);
    }
    if (text.failed) {
        y->scalar.failed = text.failed;
    }
    jw_raw(y->w, buf_str(&text));
    buf_deinit(&text);
}

/* Writes the plain scalar in y->scalar, from the line of `from`, as a value. */
static int yaml_put_plain(struct yaml *y, size_t from)
{
    struct tidings_str s = buf_str(&y->scalar);
    struct yaml_number n;
    uint64_t value;
    bool fits;
    if (yaml_is_one_of(s, nulls)) {
        jw_null(y->w);
    } else if (yaml_is_one_of(s, trues) || yaml_is_one_of(s, falses)) {
        jw_bool(y->w, yaml_is_one_of(s, trues));
    } else if (yaml_is_one_of(s, infinite)) {
        return yaml_fail(y, from, "JSON has no such number; put it in quotes");
    } else if (yaml_is_decimal(s, &n)) {
        yaml_put_number(y, &n);
    } else if (yaml_is_based(s, &value, &fits)) {
        if (!fits) {
            return yaml_fail(y, from, "a number is too large");
        }
        jw_integer(y->w, (int64_t)value);
    } else {
        jw_string(y->w, s);
    }
    return y->scalar.failed;
}

/* ---- block scalars --------------------------------------------------------------------------- */

struct yaml_block_header {
    bool is_folded;
    char chomp;    /* '-', '+' or '\0' */
    int explicit_; /* 0: the indentation of its first line */
};

static bool yaml_is_rest_empty(const struct yaml *y, size_t from, size_t end);

static int yaml_block_header(struct yaml *y, size_t from, struct yaml_block_header *h)
{
    size_t next, end = yaml_line_end(y, from, &next), at = from + 1;
    *h = (struct yaml_block_header){.is_folded = y->text.ptr[from] == '>'};
    for (; at < end; at++) {
        char c = y->text.ptr[at];
        if ((c == '-' || c == '+') && !h->chomp) {
            h->chomp = c;
        } else if (c >= '1' && c <= '9' && h->explicit_ == 0) {
            h->explicit_ = c - '0';
        } else {
            break;
        }
    }
    return yaml_is_rest_empty(y, at, end)
               ? 0
               : yaml_fail(
                     y, from,
                     "'|' or '>' is followed by '-' or '+', a digit, and the end of the line");
}

static int yaml_leading_spaces(const struct yaml *y, size_t begin, size_t end)
{
    size_t at = begin;
    while (at < end && y->text.ptr[at] == ' ') {
        at++;
    }
    return (int)(at - begin);
}

/* Finds the indentation of the scalar: that of the first line that is not blank. */
static int yaml_block_indent(struct yaml *y, int indent, int *ret)
{
    int longest = 0;
    for (size_t at = y->at, next; at < y->text.len; at = next) {
        size_t end = yaml_line_end(y, at, &next);
        int spaces = yaml_leading_spaces(y, at, end);
        if (at + (size_t)spaces == end) {
            longest = spaces > longest ? spaces : longest;
            continue;
        }
        *ret = spaces > indent ? spaces : indent + 1;
        return spaces > indent && longest > spaces
                   ? yaml_fail(y, at, "a blank line before is indented further than the text")
                   : 0;
    }
    *ret = longest > indent ? longest : indent + 1;
    return 0;
}

static void yaml_put_breaks(struct yaml *y, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        buf_putc(&y->scalar, '\n');
    }
}

/* Adds one non-empty line of the scalar, after `pending` empty ones. */
static void yaml_block_line(struct yaml *y, struct tidings_str text, unsigned pending,
                            bool is_folded, bool *was_indented)
{
    bool is_first = y->scalar.len == 0, is_indented = yaml_is_blank(text.ptr[0]);
    if (is_first) {
        yaml_put_breaks(y, pending);
    } else if (!is_folded || is_indented || *was_indented) {
        yaml_put_breaks(y, pending + 1);
    } else if (pending == 0) {
        buf_putc(&y->scalar, ' ');
    } else {
        yaml_put_breaks(y, pending);
    }
    *was_indented = is_indented;
    buf_puts(&y->scalar, text);
}

/* Reads a block scalar ("|", ">") whose sign is at `from`, in a node indented by `indent`. */
static int yaml_block_scalar(struct yaml *y, size_t from, int indent)
{
    struct yaml_block_header h;
    int own = 0, rc = yaml_block_header(y, from, &h);
    if (rc == 0 && h.explicit_ > 0) {
        own = indent + h.explicit_;
    } else if (rc == 0) {
        rc = yaml_block_indent(y, indent, &own);
    }
    if (rc < 0) {
        return rc;
    }
    unsigned pending = 0;
    bool was_indented = false, has_text = false;
    buf_clear(&y->scalar);
    while (y->at < y->text.len) {
        size_t next, end = yaml_line_end(y, y->at, &next);
        int spaces = yaml_leading_spaces(y, y->at, end);
        bool is_blank = y->at + (size_t)spaces == end;
        if (spaces < own && !is_blank) {
            break;
        }
        size_t begin = y->at + (size_t)(spaces < own ? spaces : own);
        if (begin == end) {
            pending++;
        } else {
            yaml_block_line(y, tidings_strn(y->text.ptr + begin, end - begin), pending, h.is_folded,
                            &was_indented);
            has_text = true;
            pending = 0;
        }
        y->at = next;
    }
    yaml_put_breaks(y, h.chomp == '+' ? pending + has_text : has_text && h.chomp != '-');
    jw_string(y->w, buf_str(&y->scalar));
    return y->scalar.failed;
}

/* ---------------------------------------------------------------------------------------------- */

#define JSON_MAX (YAML_MAX_BYTES * 8u)

/* A line with content. */
struct yaml_line {
    size_t begin, end; /* range of its content: no indentation, no line break */
    size_t next;
    int indent;
};

/* Returns the end of the line that starts at `from`, without its line break; *next is the start of
 * the next line. */
static size_t yaml_line_end(const struct yaml *y, size_t from, size_t *next)
{
    const char *feed =
        from < y->text.len ? memchr(y->text.ptr + from, '\n', y->text.len - from) : NULL;
    size_t end = feed ? (size_t)(feed - y->text.ptr) : y->text.len;
    *next = feed ? end + 1 : end;
    return end > from && y->text.ptr[end - 1] == '\r' ? end - 1 : end;
}

/* The number of the line that contains `offset`, for errors. */
static unsigned yaml_line_number(const struct yaml *y, size_t offset)
{
    unsigned line = 1;
    for (size_t i = 0; i < offset && i < y->text.len; i++) {
        line += y->text.ptr[i] == '\n';
    }
    return line;
}

/* The first non-blank position at or after `from`. */
static size_t yaml_skip_blanks(const struct yaml *y, size_t from, size_t end)
{
    while (from < end && yaml_is_blank(y->text.ptr[from])) {
        from++;
    }
    return from;
}

/* Returns true if there are only blanks and a comment from `from` (the end of a token) to `end`. */
static bool yaml_is_rest_empty(const struct yaml *y, size_t from, size_t end)
{
    size_t at = yaml_skip_blanks(y, from, end);
    return at == end || (at > from && y->text.ptr[at] == '#');
}

/* TIDINGS_E_PARSE for the line that contains `offset`. */
static int yaml_fail(struct yaml *y, size_t offset, const char *what)
{
    return tidings_fail(y->err, TIDINGS_E_PARSE, "line %u: %s", yaml_line_number(y, offset), what);
}

/* Counts one more value; too many are rejected. */
static int yaml_count(struct yaml *y, size_t offset)
{
    if (++y->values > YAML_MAX_VALUES) {
        return tidings_fail(y->err, TIDINGS_E_LIMIT, "line %u: more than %u values",
                            yaml_line_number(y, offset), YAML_MAX_VALUES);
    }
    return 0;
}

/* Finds the next line with content, and sets y->at to its start. 1, 0 at the end, or a failure. */
static int yaml_peek(struct yaml *y, struct yaml_line *line)
{
    while (y->at < y->text.len) {
        line->end = yaml_line_end(y, y->at, &line->next);
        line->begin = y->at;
        while (line->begin < line->end && y->text.ptr[line->begin] == ' ') {
            line->begin++;
        }
        line->indent = (int)(line->begin - y->at);
        size_t content = yaml_skip_blanks(y, line->begin, line->end);
        if (content == line->end || y->text.ptr[content] == '#') {
            y->at = line->next;
            continue;
        }
        if (content > line->begin) {
            return yaml_fail(y, y->at, "a tab in the indentation; use spaces");
        }
        struct tidings_str text = tidings_strn(y->text.ptr + line->begin, line->end - line->begin);
        bool is_mark = str_starts(text, STR("---")) || str_starts(text, STR("..."));
        if (line->indent == 0 && is_mark && (text.len == 3 || yaml_is_blank(text.ptr[3]))) {
            return yaml_fail(y, y->at, "a second document; only one is read");
        }
        return 1;
    }
    return 0;
}

static bool yaml_is_dash(const struct yaml *y, size_t at)
{
    return yaml_char(y, at) == '-' && yaml_is_space(yaml_char(y, at + 1));
}

/* Returns true if "key:" is at `from`; *ret_colon is the position of its ':'. */
static bool yaml_is_key(const struct yaml *y, size_t from, size_t end, size_t *ret_colon)
{
    size_t at = from;
    char quote = y->text.ptr[from];
    if (quote == '"' || quote == '\'') {
        for (at++; at < end && y->text.ptr[at] != quote; at++) {
            at += quote == '"' && y->text.ptr[at] == '\\';
        }
        /* skip an escaped quote ('') */
        while (at < end && quote == '\'' && yaml_char(y, at + 1) == '\'') {
            for (at += 2; at < end && y->text.ptr[at] != quote; at++) {
            }
        }
        at = yaml_skip_blanks(y, at + 1, end);
        *ret_colon = at;
        return at < end && y->text.ptr[at] == ':' && yaml_is_space(yaml_char(y, at + 1));
    }
    if (quote == '[' || quote == '{') {
        return false;
    }
    for (; at < end; at++) {
        char c = y->text.ptr[at];
        if (c == '#' && at > from && yaml_is_blank(y->text.ptr[at - 1])) {
            return false;
        }
        if (c == ':' && yaml_is_space(yaml_char(y, at + 1))) {
            *ret_colon = at;
            return true;
        }
    }
    return false;
}

/* ---- inline values --------------------------------------------------------------------------- */

/* Reads the part of a plain scalar from `from` on, up to a comment. */
static int yaml_plain_piece(struct yaml *y, size_t from, size_t end, bool *ret_comment)
{
    size_t at = from;
    *ret_comment = false;
    for (; at < end && !*ret_comment; at++) {
        char c = y->text.ptr[at];
        if (c == ':' && yaml_is_space(yaml_char(y, at + 1))) {
            return yaml_fail(y, at, "': ' inside a plain text; put it in quotes");
        }
        *ret_comment = c == '#' && at > from && yaml_is_blank(y->text.ptr[at - 1]);
    }
    at -= *ret_comment;
    while (at > from && yaml_is_blank(y->text.ptr[at - 1])) {
        at--;
    }
    return buf_put(&y->scalar, y->text.ptr + from, at - from);
}

/* Reads a plain scalar and its further lines. y->at is after its first line. */
static int yaml_plain(struct yaml *y, size_t from, size_t end, int indent)
{
    bool has_comment = false;
    int rc = yaml_check_plain(y, from, false);
    buf_clear(&y->scalar);
    rc = rc < 0 ? rc : yaml_plain_piece(y, from, end, &has_comment);
    while (rc == 0 && !has_comment) {
        struct yaml_line line;
        size_t before = y->at;
        rc = yaml_peek(y, &line);
        unsigned breaks = 0;
        bool is_comment = false; /* a comment ends the scalar, too */
        for (size_t at = before, next; rc > 0 && at < y->at; at = next, breaks++) {
            size_t blank_end = yaml_line_end(y, at, &next);
            is_comment = is_comment || yaml_skip_blanks(y, at, blank_end) < blank_end;
        }
        if (rc <= 0 || line.indent <= indent || is_comment) {
            break;
        }
        y->at = line.next;
        rc = breaks == 0 ? buf_putc(&y->scalar, ' ') : 0;
        for (unsigned i = 0; i < breaks; i++) {
            rc = buf_putc(&y->scalar, '\n');
        }
        rc = rc < 0 ? rc : yaml_plain_piece(y, line.begin, line.end, &has_comment);
    }
    return rc < 0 ? rc : yaml_put_plain(y, from);
}

static int yaml_flow(struct yaml *y, size_t from, int indent, size_t *ret_end);

/* Reads the value that starts at `from` in the line that ends at `end`; y->at is after that line.
 * Its node is indented by `indent`. */
static int yaml_inline(struct yaml *y, size_t from, size_t end, int indent)
{
    size_t behind = 0, next;
    int rc = 0;
    switch (y->text.ptr[from]) {
    case '|':
    case '>':
        return yaml_block_scalar(y, from, indent);
    case '"':
    case '\'':
        rc = yaml_quoted(y, from, indent, &behind);
        if (rc == 0) {
            jw_string(y->w, buf_str(&y->scalar));
        }
        break;
    case '[':
    case '{':
        rc = yaml_flow(y, from, indent, &behind);
        break;
    default:
        return yaml_plain(y, from, end, indent);
    }
    if (rc < 0) {
        return rc;
    }
    end = yaml_line_end(y, behind, &next);
    y->at = next;
    return yaml_is_rest_empty(y, behind, end)
               ? 0
               : yaml_fail(y, behind, "unexpected text after a value");
}

/* ---- collections ----------------------------------------------------------------------------- */

static int yaml_block(struct yaml *y, size_t from, size_t end, int indent);

/* Reads a value on separate lines, indented by more than `indent`; a sequence in a mapping can have
 * the indentation of its key. No value: null. */
static int yaml_nested(struct yaml *y, int indent, bool in_mapping)
{
    struct yaml_line line;
    int rc = yaml_peek(y, &line);
    if (rc < 0) {
        return rc;
    }
    bool is_flush = rc > 0 && in_mapping && line.indent == indent && yaml_is_dash(y, line.begin);
    if (rc == 0 || (line.indent <= indent && !is_flush)) {
        jw_null(y->w);
        return 0;
    }
    size_t colon;
    if (yaml_is_dash(y, line.begin) || yaml_is_key(y, line.begin, line.end, &colon)) {
        return yaml_block(y, line.begin, line.end, line.indent);
    }
    y->at = line.next;
    return yaml_inline(y, line.begin, line.end, indent);
}

static int yaml_put_key(struct yaml *y, size_t from, size_t colon)
{
    char first = y->text.ptr[from];
    size_t behind = colon;
    buf_clear(&y->scalar);
    if (first == '"' || first == '\'') {
        int rc = yaml_quoted(y, from, -1, &behind);
        if (rc < 0) {
            return rc;
        }
    } else {
        int rc = yaml_check_plain(y, from, false);
        while (behind > from && yaml_is_blank(y->text.ptr[behind - 1])) {
            behind--;
        }
        rc = rc < 0 ? rc : buf_put(&y->scalar, y->text.ptr + from, behind - from);
        if (rc < 0) {
            return rc;
        }
        if (!yaml_is_string(buf_str(&y->scalar)) || str_eq(buf_str(&y->scalar), STR("<<"))) {
            return yaml_fail(y, from, "the key is not a string; put it in quotes");
        }
    }
    jw_key(y->w, buf_str(&y->scalar));
    return 0;
}

/* Reads one "key: value" that starts at `from`. */
static int yaml_pair(struct yaml *y, size_t from, size_t end, int indent)
{
    size_t colon, next;
    if (!yaml_is_key(y, from, end, &colon)) {
        return yaml_fail(y, from, "neither 'key: value' nor '- value'");
    }
    int rc = yaml_put_key(y, from, colon);
    rc = rc < 0 ? rc : yaml_count(y, from);
    if (rc < 0) {
        return rc;
    }
    yaml_line_end(y, from, &next);
    y->at = next;
    if (yaml_is_rest_empty(y, colon + 1, end)) {
        return yaml_nested(y, indent, true);
    }
    return yaml_inline(y, yaml_skip_blanks(y, colon + 1, end), end, indent);
}

/* Reads one "- value" that starts at `from`. */
static int yaml_item(struct yaml *y, size_t from, size_t end, int indent)
{
    size_t colon, next;
    int rc = yaml_count(y, from);
    if (rc < 0) {
        return rc;
    }
    yaml_line_end(y, from, &next);
    if (yaml_is_rest_empty(y, from + 1, end)) {
        y->at = next;
        return yaml_nested(y, indent, false);
    }
    size_t begin = yaml_skip_blanks(y, from + 1, end);
    if (memchr(y->text.ptr + from, '\t', begin - from)) {
        return yaml_fail(y, from, "a tab after '-'; use spaces");
    }
    if (yaml_is_dash(y, begin) || yaml_is_key(y, begin, end, &colon)) {
        return yaml_block(y, begin, end, indent + (int)(begin - from));
    }
    y->at = next;
    return yaml_inline(y, begin, end, indent);
}

/* Reads the mapping or sequence whose first entry starts at `from`, indented by `indent`. */
static int yaml_block(struct yaml *y, size_t from, size_t end, int indent)
{
    bool is_sequence = yaml_is_dash(y, from);
    int rc = 1;
    if (++y->depth > YAML_MAX_DEPTH) {
        return tidings_fail(y->err, TIDINGS_E_LIMIT, "line %u: nested more than %u deep",
                            yaml_line_number(y, from), YAML_MAX_DEPTH);
    }
    if (is_sequence) {
        jw_begin_array(y->w);
    } else {
        jw_begin_object(y->w);
    }
    while (rc > 0) {
        rc = is_sequence ? yaml_item(y, from, end, indent) : yaml_pair(y, from, end, indent);
        struct yaml_line line;
        rc = rc < 0 ? rc : yaml_peek(y, &line);
        if (rc > 0 && line.indent > indent) {
            rc = yaml_fail(y, line.begin, "indented further than what it belongs to");
        } else if (rc > 0 &&
                   (line.indent < indent || (is_sequence && !yaml_is_dash(y, line.begin)))) {
            rc = 0;
        } else if (rc > 0) {
            from = line.begin;
            end = line.end;
        }
    }
    if (rc == 0 && is_sequence) {
        jw_end_array(y->w);
    } else if (rc == 0) {
        jw_end_object(y->w);
    }
    y->depth--;
    return rc;
}

/* ---- public ---------------------------------------------------------------------------------- */

static int yaml_check_text(struct tidings_str text, struct tidings_error *err)
{
    if (text.len > YAML_MAX_BYTES) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "more than %u KiB", YAML_MAX_BYTES / 1024);
    }
    bool ok = str_is_utf8(text);
    for (size_t i = 0; ok && i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        ok = (c >= ' ' && c != 0x7f) || c == '\t' || c == '\n' ||
             (c == '\r' && i + 1 < text.len && text.ptr[i + 1] == '\n');
    }
    return ok ? 0 : tidings_fail(err, TIDINGS_E_PARSE, "control characters, or not valid UTF-8");
}

static int yaml_read(struct yaml *y)
{
    struct yaml_line line;
    int rc = yaml_peek(y, &line);
    if (rc == 0) {
        jw_null(y->w);
    } else if (rc > 0) {
        rc = yaml_block(y, line.begin, line.end, line.indent);
    }
    return rc == 0 && yaml_peek(y, &line) != 0
               ? yaml_fail(y, y->at, "indented less than what it belongs to")
               : rc;
}

int yaml_parse(struct tidings_str text, struct json **ret_root, struct tidings_error *err)
{
    struct tidings_error why = {0};
    struct buf json;
    struct jw w;
    int rc = yaml_check_text(text, err);
    if (rc < 0) {
        return rc;
    }
    buf_init(&json, JSON_MAX);
    jw_init(&w, &json);
    struct yaml y = {.text = text, .w = &w, .err = &why};
    buf_init(&y.scalar, YAML_MAX_BYTES * 2u);
    rc = yaml_read(&y);
    rc = rc < 0 ? rc : json.failed ? json.failed : y.scalar.failed;
    if (rc == 0 && (rc = jv_parse(buf_str(&json), YAML_MAX_DEPTH + 1, ret_root, NULL)) < 0) {
        rc = tidings_fail(&why, rc, "a key comes twice, or a number is too large");
    }
    buf_deinit(&json);
    buf_deinit(&y.scalar);
    return rc < 0 ? tidings_fail(err, rc, "%s", why.text[0] ? why.text : tidings_code_text(rc)) : 0;
}

/* -------------------------------------------------------------------------------------------------
 * Flow collections of YAML: [a, "b"] and {a: b}, on one line or several.
 */

/* Skips blanks, line breaks and comments from `at` to the next token. */
static int yaml_flow_skip(struct yaml *y, size_t at, int indent, size_t *ret)
{
    size_t next, end = yaml_line_end(y, at, &next);
    for (;;) {
        size_t begin = at;
        at = yaml_skip_blanks(y, at, end);
        bool is_comment = at < end && y->text.ptr[at] == '#' &&
                          (at > begin || at == 0 || yaml_is_space(y->text.ptr[at - 1]));
        if (at < end && !is_comment) {
            *ret = at;
            return 0;
        }
        if (next >= y->text.len) {
            return yaml_fail(y, begin, "a bracket that is not closed");
        }
        at = next;
        end = yaml_line_end(y, at, &next);
        size_t spaces = at;
        while (spaces < end && y->text.ptr[spaces] == ' ') {
            spaces++;
        }
        size_t content = yaml_skip_blanks(y, spaces, end);
        if (content < end && y->text.ptr[content] != '#' && (int)(spaces - at) <= indent) {
            return yaml_fail(y, content, "the next line in brackets is not indented");
        }
    }
}

static bool yaml_flow_ends_plain(const struct yaml *y, size_t at)
{
    char c = yaml_char(y, at), next = yaml_char(y, at + 1);
    return c == '\n' || c == '\r' || strchr(",[]{}", c) ||
           (c == ':' && (yaml_is_space(next) || strchr(",[]{}", next)));
}

/* Reads a plain scalar inside brackets into y->scalar; it ends with its line. */
static int yaml_flow_plain(struct yaml *y, size_t from, size_t *ret_end)
{
    size_t at = from;
    int rc = yaml_check_plain(y, from, true);
    if (rc < 0) {
        return rc;
    }
    while (!yaml_flow_ends_plain(y, at) &&
           !(y->text.ptr[at] == '#' && at > from && yaml_is_blank(y->text.ptr[at - 1]))) {
        at++;
    }
    *ret_end = at;
    while (at > from && yaml_is_blank(y->text.ptr[at - 1])) {
        at--;
    }
    buf_clear(&y->scalar);
    return buf_put(&y->scalar, y->text.ptr + from, at - from);
}

/* Reads the value at `from`: *ret_end is after it. */
static int yaml_flow_value(struct yaml *y, size_t from, int indent, size_t *ret_end)
{
    char c = y->text.ptr[from];
    int rc = yaml_count(y, from);
    if (rc < 0) {
        return rc;
    }
    if (c == '[' || c == '{') {
        return yaml_flow(y, from, indent, ret_end);
    }
    if (c == '"' || c == '\'') {
        rc = yaml_quoted(y, from, indent, ret_end);
        if (rc == 0) {
            jw_string(y->w, buf_str(&y->scalar));
        }
        return rc;
    }
    rc = yaml_flow_plain(y, from, ret_end);
    return rc < 0 ? rc : yaml_put_plain(y, from);
}

/* Reads "key: value" at *at, and moves *at after it. */
static int yaml_flow_pair(struct yaml *y, size_t *at, int indent)
{
    char first = y->text.ptr[*at];
    bool is_quoted = first == '"' || first == '\'';
    size_t from = *at;
    int rc = is_quoted ? yaml_quoted(y, from, -1, at) : yaml_flow_plain(y, from, at);
    if (rc < 0) {
        return rc;
    }
    if (!is_quoted &&
        (!yaml_is_string(buf_str(&y->scalar)) || str_eq(buf_str(&y->scalar), STR("<<")))) {
        return yaml_fail(y, from, "the key is not a string; put it in quotes");
    }
    jw_key(y->w, buf_str(&y->scalar));
    rc = yaml_flow_skip(y, *at, indent, at);
    if (rc < 0) {
        return rc;
    }
    if (y->text.ptr[*at] != ':') {
        return yaml_fail(y, from, "in {} each key has a ': ' and a value");
    }
    rc = yaml_flow_skip(y, *at + 1, indent, at);
    if (rc == 0 && (y->text.ptr[*at] == ',' || y->text.ptr[*at] == '}')) {
        jw_null(y->w);
        return yaml_count(y, from);
    }
    return rc < 0 ? rc : yaml_flow_value(y, *at, indent, at);
}

static int yaml_flow_entries(struct yaml *y, size_t *at, int indent, bool is_mapping)
{
    const char close = is_mapping ? '}' : ']';
    int rc = yaml_flow_skip(y, *at, indent, at);
    while (rc == 0 && y->text.ptr[*at] != close) {
        rc = is_mapping ? yaml_flow_pair(y, at, indent) : yaml_flow_value(y, *at, indent, at);
        rc = rc < 0 ? rc : yaml_flow_skip(y, *at, indent, at);
        if (rc == 0 && y->text.ptr[*at] == ',') {
            rc = yaml_flow_skip(y, *at + 1, indent, at);
        } else if (rc == 0 && y->text.ptr[*at] != close) {
            rc = yaml_fail(y, *at, "in brackets a ',' comes between two values");
        }
    }
    return rc;
}

/* Reads a flow collection that starts at `from`; *ret_end is after its bracket. */
static int yaml_flow(struct yaml *y, size_t from, int indent, size_t *ret_end)
{
    bool is_mapping = y->text.ptr[from] == '{';
    size_t at = from + 1;
    if (++y->depth > YAML_MAX_DEPTH) {
        return tidings_fail(y->err, TIDINGS_E_LIMIT, "line %u: nested more than %u deep",
                            yaml_line_number(y, from), YAML_MAX_DEPTH);
    }
    if (is_mapping) {
        jw_begin_object(y->w);
    } else {
        jw_begin_array(y->w);
    }
    int rc = yaml_flow_entries(y, &at, indent, is_mapping);
    if (rc == 0 && is_mapping) {
        jw_end_object(y->w);
    } else if (rc == 0) {
        jw_end_array(y->w);
    }
    y->depth--;
    *ret_end = at + 1;
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * Finds front matter, and compares two of them.
 */

/* Returns the next line of *rest, without its line break and trailing blanks. */
static struct tidings_str front_matter_line(struct tidings_str *rest)
{
    struct tidings_str line = str_cut(*rest, '\n', rest, NULL);
    while (line.len > 0 && strchr(" \t\r", line.ptr[line.len - 1])) {
        line.len--;
    }
    return line;
}

int front_matter_parse(struct tidings_str file, struct json **ret_root, struct tidings_error *err)
{
    struct tidings_str rest = str_starts(file, STR("\xef\xbb\xbf")) ? str_skip(file, 3) : file;
    rest.len = rest.len < FRONT_MATTER_MAX ? rest.len : FRONT_MATTER_MAX;
    bool is_cut = file.len > FRONT_MATTER_MAX;
    /* The parser sees an empty first line, so that line numbers match the file. */
    const char *begin = memchr(rest.ptr, '\n', rest.len);
    if (!str_eq(front_matter_line(&rest), STR("---")) || !begin) {
        return tidings_fail(err, TIDINGS_E_PARSE,
                            "line 1: there is no front matter; it begins "
                            "with a line '---'");
    }
    for (const char *at = begin; rest.len > 0;) {
        const char *line_begin = rest.ptr;
        if (str_eq(front_matter_line(&rest), STR("---"))) {
            int rc = yaml_parse(tidings_strn(at, (size_t)(line_begin - at)), ret_root, err);
            if (rc == 0 && !jv_is(*ret_root, JV_OBJECT)) {
                jv_unref(*ret_root);
                *ret_root = NULL;
                rc = tidings_fail(err, TIDINGS_E_PARSE, "the front matter has no 'key: value'");
            }
            return rc;
        }
    }
    return is_cut ? tidings_fail(err, TIDINGS_E_LIMIT, "the front matter has more than %u KiB",
                                 YAML_MAX_BYTES / 1024)
                  : tidings_fail(err, TIDINGS_E_PARSE,
                                 "the front matter has no end; it is a line "
                                 "'---'");
}

static bool front_matter_same_members(const struct json *a, const struct json *b)
{
    struct tidings_str key;
    struct json *value;
    struct json *object = (struct json *)(uintptr_t)a;
    for (void *at = NULL; (at = jv_next(object, at, &key, &value)) != NULL;) {
        struct json *other = jv_get_str(b, key);
        if (!other || !front_matter_equal(value, other)) {
            return false;
        }
    }
    return jv_count(a) == jv_count(b);
}

bool front_matter_equal(const struct json *a, const struct json *b)
{
    if (jv_is_number(a) && jv_is_number(b)) {
        bool are_integers = jv_is(a, JV_INT) && jv_is(b, JV_INT);
        double difference = jv_real(a) - jv_real(b);
        return are_integers ? jv_int(a) == jv_int(b) : difference >= 0 && difference <= 0;
    }
    if (jv_is(a, JV_OBJECT) && jv_is(b, JV_OBJECT)) {
        return front_matter_same_members(a, b);
    }
    if (!jv_is(a, JV_ARRAY) || !jv_is(b, JV_ARRAY)) {
        return jv_equal(a, b);
    }
    bool same = jv_count(a) == jv_count(b);
    for (size_t i = 0; same && i < jv_count(a); i++) {
        same = front_matter_equal(jv_at(a, i), jv_at(b, i));
    }
    return same;
}
