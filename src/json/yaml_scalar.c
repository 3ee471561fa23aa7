/* SPDX-License-Identifier: MIT
 *
 * Scalars of YAML: quoted ones with their escapes and folded lines, block scalars, and what plain
 * ones mean by the core schema.
 */
#include "base/str.h"
#include "json/yaml_private.h"

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

/* The escape whose '\\' is at `at`; *ret_end is behind it. */
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
            return yaml_fail(y, at, "an escape that is no character");
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

/* A line break inside quotes, at `at`: *ret_next is where the text goes on. One becomes a blank,
 * more of them one less. */
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
                return yaml_fail(y, content, "a quoted text goes on without being indented");
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

/* The blanks before a line break do not count, but for those that were escaped. */
static void yaml_trim(struct yaml *y, size_t keep)
{
    struct buf *s = &y->scalar;
    while (s->len > keep && yaml_is_blank(s->ptr[s->len - 1])) {
        s->len--;
        s->ptr[s->len] = '\0';
    }
}

int yaml_quoted(struct yaml *y, size_t from, int indent, size_t *ret_end)
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

int yaml_check_plain(struct yaml *y, size_t offset, bool in_flow)
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
    struct tidings_str whole, fraction, exponent; /* the last with its sign */
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

bool yaml_is_string(struct tidings_str s)
{
    struct yaml_number n;
    uint64_t value;
    bool fits;
    return !yaml_is_one_of(s, nulls) && !yaml_is_one_of(s, trues) && !yaml_is_one_of(s, falses) &&
           !yaml_is_one_of(s, infinite) && !yaml_is_decimal(s, &n) &&
           !yaml_is_based(s, &value, &fits);
}

/* The same number as JSON writes it. */
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

int yaml_put_plain(struct yaml *y, size_t from)
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
    int explicit_; /* 0: as its first line is indented */
};

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
    return yaml_is_rest_empty(y, at, end) ? 0
                                          : yaml_fail(y, from,
                                                      "behind '|' or '>' come '-' or '+', "
                                                      "a digit, and the line ends");
}

static int yaml_leading_spaces(const struct yaml *y, size_t begin, size_t end)
{
    size_t at = begin;
    while (at < end && y->text.ptr[at] == ' ') {
        at++;
    }
    return (int)(at - begin);
}

/* By how much the lines of the scalar are indented: as the first that is not blank. */
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

/* One line of the scalar that is not empty, behind `pending` that were. */
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

int yaml_block_scalar(struct yaml *y, size_t from, int indent)
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
