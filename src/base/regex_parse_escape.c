/* SPDX-License-Identifier: MIT
 *
 * Parsing the escapes (`\d`, `\p{L}`) and the classes (`[a-z]`) of a regex.
 */
#include "base/regex_parse.h"

uint32_t regex_next(struct regex_parser *p)
{
    size_t len = 1;
    uint32_t c = p->units == REGEX_BYTES ? (unsigned char)p->source.ptr[p->at]
                                         : regex_decode(p->source, p->at, &len);
    p->at += len;
    return c;
}

static char regex_escape_peek(const struct regex_parser *p)
{
    return p->at < p->source.len ? p->source.ptr[p->at] : '\0';
}

static int regex_escape_hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Up to `most` digits of that base; how many there were. */
static size_t read_digits(struct regex_parser *p, uint32_t base, size_t most, uint32_t *ret)
{
    size_t n = 0;
    *ret = 0;
    for (int v;
         n < most && (v = regex_escape_hex_value(regex_escape_peek(p))) >= 0 && (uint32_t)v < base;
         n++, p->at++) {
        *ret = *ret > REGEX_LAST_CHARACTER ? *ret : *ret * base + (uint32_t)v;
    }
    return n;
}

/* `{…}`: at the brace. */
static uint32_t read_braced(struct regex_parser *p, uint32_t base)
{
    uint32_t c;
    size_t start = p->at++;
    if (read_digits(p, base, SIZE_MAX, &c) == 0 || regex_escape_peek(p) != '}') {
        regex_refuse(p, start, "the number of a character expected between braces");
    }
    p->at++;
    return c;
}

/* \xHH, \x{H…}, \uHHHH, \u{H…}: behind the letter, of which one without digits is one. */
static uint32_t read_hex(struct regex_parser *p, char letter)
{
    size_t start = p->at, wanted = letter == 'u' ? 4 : 2;
    bool is_ecma = p->units == REGEX_CHARACTERS;
    uint32_t c, low;
    if (regex_escape_peek(p) == '{') {
        return read_braced(p, 16);
    }
    size_t n = read_digits(p, 16, wanted, &c);
    if (n < wanted && is_ecma) {
        p->at = start;
        return (unsigned char)letter;
    }
    if (letter == 'u' && (c & 0xfc00u) == 0xd800u && regex_escape_peek(p) == '\\') {
        size_t before = p->at;
        p->at += 2;
        if (p->source.len > before + 1 && p->source.ptr[before + 1] == 'u' &&
            read_digits(p, 16, 4, &low) == 4 && (low & 0xfc00u) == 0xdc00u) {
            return 0x10000u + ((c & 0x3ffu) << 10) + (low & 0x3ffu);
        }
        p->at = before;
    }
    return c;
}

static uint32_t checked(struct regex_parser *p, size_t at, uint32_t c)
{
    if (c > p->last || (p->units == REGEX_CHARACTERS && c >= 0xd800 && c <= 0xdfff)) {
        regex_refuse(p, at, "there is no such character");
        return 0;
    }
    return c;
}

/* Steps that looking through the tables takes. */
#define COST_PROPERTY 1700u
#define COST_PROPERTY_BYTES 250u

/* \p{Name}, \pL, \P{^Name}: behind the letter. */
static void read_property(struct regex_parser *p, bool is_inverted, struct regex_set *set)
{
    size_t start = p->at;
    struct tidings_str name = {p->source.ptr + p->at, p->at < p->source.len};
    bool is_full = false;
    p->at++;
    if (str_eq(name, STR("{"))) {
        name = str_skip(p->source, p->at);
        ptrdiff_t end = str_find(name, '}');
        name.len = end < 0 ? 0 : (size_t)end;
        p->at += name.len + 1;
        if (str_starts(name, STR("^"))) {
            is_inverted = !is_inverted;
            name = str_skip(name, 1);
        }
    }
    struct regex_set own = {0};
    p->sets->cost += p->units == REGEX_BYTES ? COST_PROPERTY_BYTES : COST_PROPERTY;
    if (!regex_set_property(p->arena, &own, name, p->last, &is_full)) {
        regex_refuse(
            p, start,
            "a general category or script of Unicode expected, as in \\p{L} or \\p{Script=Greek}");
    }
    p->sets->cost += 20 * own.count;
    if (is_full || (is_inverted && !regex_set_invert(p->arena, &own, p->last)) ||
        !regex_set_add_all(p->arena, set, &own)) {
        regex_refuse_size(p);
    }
}

/* Escapes that are one character; false: not one of these. */
static bool read_single(struct regex_parser *p, char letter, bool in_class, uint32_t *ret)
{
    static const char letters[] = "tnrfae", meanings[] = "\t\n\r\f\a\033";
    size_t at = p->at - 1;
    const char *known = strchr(letters, letter);
    bool is_ecma = p->units == REGEX_CHARACTERS;
    if (known) {
        *ret = (unsigned char)meanings[known - letters];
    } else if (letter == 'v' && is_ecma) {
        *ret = '\v';
    } else if (letter == 'b' && in_class) {
        *ret = '\b';
    } else if (letter == '0') {
        (void)read_digits(p, 8, is_ecma ? 0 : 2, ret);
    } else if (letter == 'x' || (letter == 'u' && is_ecma)) {
        *ret = checked(p, at, read_hex(p, letter));
    } else if (letter == 'o' && regex_escape_peek(p) == '{') {
        *ret = checked(p, at, read_braced(p, 8));
    } else if (letter == 'c' && regex_escape_peek(p) > ' ' && regex_escape_peek(p) <= '~') {
        char c = p->source.ptr[p->at++];
        *ret = (unsigned char)(c >= 'a' && c <= 'z' ? c - 32 : c) ^ 0x40u;
    } else {
        return false;
    }
    return true;
}

/* Escapes that are zero-width assertions: they match at a position and take no character. */
static bool read_assertion(char letter, enum regex_kind *ret)
{
    static const struct {
        char letter;
        enum regex_kind kind;
    } assertions[] = {{'b', REGEX_WORD},
                      {'B', REGEX_NOT_WORD},
                      {'A', REGEX_BEGIN},
                      {'z', REGEX_END},
                      {'Z', REGEX_END}};
    for (size_t i = 0; i < sizeof(assertions) / sizeof(assertions[0]); i++) {
        if (assertions[i].letter == letter) {
            *ret = assertions[i].kind;
            return true;
        }
    }
    return false;
}

enum regex_escape regex_read_escape(struct regex_parser *p, bool in_class, struct regex_set *set,
                                    uint32_t *ret_character, enum regex_kind *ret_assertion)
{
    if (p->at == p->source.len) {
        regex_refuse(p, p->at - 1, "a backslash at the end");
        return REGEX_IS_NOTHING;
    }
    size_t at = p->at - 1;
    bool is_full = false;
    uint32_t c = regex_next(p);
    bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    char letter = is_letter ? (char)c : '\0';
    if (!is_letter) {
        *ret_character = c;
        return REGEX_IS_CHARACTER;
    }
    if (read_single(p, letter, in_class, ret_character)) {
        return REGEX_IS_CHARACTER;
    }
    if (letter == 'p' || letter == 'P') {
        read_property(p, letter == 'P', set);
        return REGEX_IS_SET;
    }
    if ((letter != 'N' || (!in_class && regex_escape_peek(p) != '{')) &&
        regex_set_letter(p->arena, set, letter, p->last, &is_full)) {
        if (is_full) {
            regex_refuse_size(p);
        }
        return REGEX_IS_SET;
    }
    if (!in_class && read_assertion(letter, ret_assertion)) {
        return REGEX_IS_ASSERTION;
    }
    bool is_back = (letter >= '1' && letter <= '9') || letter == 'k' || letter == 'g';
    regex_refuse(p, at,
                 is_back ? "backreferences are not supported"
                         : "a backslash and a letter that mean nothing here");
    return REGEX_IS_NOTHING;
}

/* ---- classes --------------------------------------------------------------------------------- */

/* `[:alpha:]` at p->at; false: it is none. */
static bool read_posix(struct regex_parser *p, struct regex_set *set)
{
    struct tidings_str rest = str_skip(p->source, p->at);
    bool is_full = false;
    if (p->units != REGEX_BYTES || !str_starts(rest, STR("[:"))) {
        return false;
    }
    rest = str_skip(rest, 2);
    bool is_inverted = str_starts(rest, STR("^"));
    rest = str_skip(rest, is_inverted);
    size_t len = 0;
    while (len < rest.len && rest.ptr[len] >= 'a' && rest.ptr[len] <= 'z') {
        len++;
    }
    if (!str_starts(str_skip(rest, len), STR(":]"))) {
        return false;
    }
    struct regex_set own = {0};
    if (!regex_set_posix(p->arena, &own, tidings_strn(rest.ptr, len), &is_full)) {
        regex_refuse(p, p->at, "an unknown class between [: and :]");
    }
    if (is_full || (is_inverted && !regex_set_invert(p->arena, &own, p->last)) ||
        !regex_set_add_all(p->arena, set, &own)) {
        regex_refuse_size(p);
    }
    p->at += 2 + (size_t)is_inverted + len + 2;
    return true;
}

/* One element: a character (returned true), or a set that is added. */
static bool read_element(struct regex_parser *p, struct regex_set *set, uint32_t *ret)
{
    enum regex_kind ignored;
    if (read_posix(p, set)) {
        return false;
    }
    *ret = regex_next(p);
    if (*ret != '\\') {
        return true;
    }
    enum regex_escape what = regex_read_escape(p, true, set, ret, &ignored);
    return what == REGEX_IS_CHARACTER;
}

static void regex_escape_read_range(struct regex_parser *p, struct regex_set *set)
{
    size_t at = p->at;
    uint32_t first, last;
    if (!read_element(p, set, &first)) {
        return;
    }
    last = first;
    size_t dash = p->at;
    if (regex_escape_peek(p) == '-' && dash + 1 < p->source.len && p->source.ptr[dash + 1] != ']') {
        p->at++;
        if (!read_element(p, set, &last)) { /* `[a-\d]`: the dash is itself */
            last = first;
            if (!regex_set_add(p->arena, set, '-', '-')) {
                regex_refuse_size(p);
            }
        }
    }
    if (last < first) {
        regex_refuse(p, at, "a range out of order in a class");
    } else if (!regex_set_add(p->arena, set, first, last)) {
        regex_refuse_size(p);
    }
}

void regex_read_class(struct regex_parser *p, struct regex_set *set)
{
    size_t opened = p->at - 1;
    bool is_inverted = regex_escape_peek(p) == '^';
    p->at += is_inverted;
    /* A bracket at the beginning is one of the class, but for ECMA-262. */
    bool is_first = p->units == REGEX_BYTES;
    while (p->code == 0 && p->at < p->source.len && (is_first || regex_escape_peek(p) != ']')) {
        is_first = false;
        regex_escape_read_range(p, set);
    }
    if (p->code == 0 && p->at >= p->source.len) {
        regex_refuse(p, opened, "missing closing bracket");
    }
    p->at++;
    /* Both cases before the inversion: [^a] has neither. */
    if (p->has_flag[FLAG_I] && !regex_set_fold(p->arena, set)) {
        regex_refuse_size(p);
    }
    if (is_inverted && !regex_set_invert(p->arena, set, p->last)) {
        regex_refuse_size(p);
    }
}
