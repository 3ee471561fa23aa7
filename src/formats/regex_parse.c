/* SPDX-License-Identifier: MIT
 *
 * Parsing a regex, from its source to a tree: alternatives, sequences, atoms with their
 * quantifiers, by recursive descent; groups nest REGEX_MAX_DEPTH deep.
 */
#include "formats/regex_internal.h"

/* -------------------------------------------------------------------------------------------------
 * The parser of regexes: its state, and parsing of escapes and classes.
 */

enum regex_flag {
    FLAG_I, /* letters in both cases */
    FLAG_S, /* `.` matches \n, too */
    FLAG_M, /* `^` and `$` match at lines */
    FLAG_COUNT,
};

struct regex_parser {
    struct arena *arena;
    struct tidings_str source;
    size_t at;
    enum regex_units units;
    uint32_t last; /* last character of the set of all */
    bool has_flag[FLAG_COUNT];
    bool is_quoting;
    unsigned depth;
    struct regex_sets *sets;
    int code; /* < 0: rejected, with an error */
    struct tidings_error *err;
};

enum regex_escape {
    REGEX_IS_CHARACTER,
    REGEX_IS_SET,
    REGEX_IS_ASSERTION, /* \b, \A … */
    REGEX_IS_NOTHING,
};

/* ---------------------------------------------------------------------------------------------- */

#define QUOTED_MAX 80u /* bytes of a source in an error message */

static struct regex_tree *parse_alternatives(struct regex_parser *p);

/* The length of the quoted part of the source, truncated between characters. */
static int quoted_len(struct tidings_str source)
{
    size_t len = source.len > QUOTED_MAX ? QUOTED_MAX : source.len;
    while (len > 0 && len < source.len && ((unsigned char)source.ptr[len] & 0xc0u) == 0x80u) {
        len--;
    }
    return (int)len;
}

static int regex_refuse(struct regex_parser *p, size_t at, const char *reason)
{
    if (p->code == 0) {
        p->code = TIDINGS_E_INVALID;
        tidings_fail(p->err, TIDINGS_E_INVALID, "regex '%.*s' refused: %s at byte %zu",
                     quoted_len(p->source), p->source.ptr, reason, at + 1);
    }
    return p->code;
}

/* Unless there is an earlier error. */
static int regex_refuse_size(struct regex_parser *p)
{
    if (p->code == 0) {
        p->code = regex_arena_failed(p->arena, p->err);
    }
    return p->code;
}

static struct regex_tree *regex_parse_make(struct regex_parser *p, enum regex_kind kind)
{
    struct regex_tree *t = arena_alloc(p->arena, sizeof(*t));
    if (!t) {
        regex_refuse_size(p);
        return NULL;
    }
    t->kind = kind;
    return t;
}

static void regex_parse_append(struct regex_tree *parent, struct regex_tree *child)
{
    child->prev = parent->last;
    if (parent->last) {
        parent->last->next = child;
    } else {
        parent->first = child;
    }
    parent->last = child;
}

static bool is_same_set(const struct regex_set *a, const struct regex_set *b)
{
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->at, b->at, a->count * sizeof(*a->at)) == 0);
}

/* A leaf for the set; equal sets are stored once. */
static struct regex_tree *make_set(struct regex_parser *p, struct regex_set *set)
{
    struct regex_sets *all = p->sets;
    size_t i = 0;
    struct regex_tree *t = regex_parse_make(p, REGEX_SET);
    if (p->has_flag[FLAG_I] && !regex_set_fold(p->arena, set)) {
        regex_refuse_size(p);
    }
    all->cost += 25 + 10 * set->count;
    regex_set_finish(set);
    while (i < all->count && !is_same_set(&all->at[i], set)) {
        i++;
    }
    all->cost += i;
    if (i == all->count) {
        if (all->count == all->cap) {
            size_t cap = all->cap ? 2 * all->cap : 16;
            struct regex_set *more = arena_alloc(p->arena, cap * sizeof(*more));
            if (!more) {
                regex_refuse_size(p);
                return NULL;
            }
            if (all->count > 0) {
                memcpy(more, all->at, all->count * sizeof(*more));
            }
            all->at = more;
            all->cap = cap;
        }
        all->at[all->count++] = *set;
    }
    if (t) {
        t->set = i;
    }
    return t;
}

static struct regex_tree *make_character(struct regex_parser *p, uint32_t c)
{
    struct regex_set set = {0};
    if (!regex_set_add(p->arena, &set, c, c)) {
        regex_refuse_size(p);
    }
    return make_set(p, &set);
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* `(?i-s)`: for the rest of the group; `(?i-s:`: for the new group. */
static void read_flags(struct regex_parser *p)
{
    bool on = true;
    for (; p->at < p->source.len && p->source.ptr[p->at] != ')' && p->source.ptr[p->at] != ':';
         p->at++) {
        char c = p->source.ptr[p->at];
        const char *known = "ismJUn"; /* the last three have no effect here */
        const char *flag = c ? strchr(known, c) : NULL;
        if (c == '-') {
            on = false;
        } else if (!flag) {
            regex_refuse(p, p->at, "an unknown option, or an invalid group");
            return;
        } else if (flag - known < FLAG_COUNT) {
            p->has_flag[flag - known] = on;
        }
    }
}

static void skip_name(struct regex_parser *p, char end)
{
    size_t start = p->at;
    while (p->at < p->source.len && p->source.ptr[p->at] != end) {
        p->at++;
    }
    if (p->at == start || p->at == p->source.len) {
        regex_refuse(p, start, "a name of a group expected");
        return;
    }
    p->at++;
}

/* After `(?`. Returns the tree of the group without its contents (LOOK, else SEQUENCE). */
static struct regex_tree *open_special(struct regex_parser *p, bool *ret_is_closed)
{
    static const struct {
        const char *sign;
        bool is_behind, is_negative;
    } lookarounds[] = {
        {"=", false, false}, {"!", false, true}, {"<=", true, false}, {"<!", true, true}};
    struct tidings_str rest = str_skip(p->source, p->at);
    for (size_t i = 0; i < sizeof(lookarounds) / sizeof(lookarounds[0]); i++) {
        struct tidings_str sign = tidings_str(lookarounds[i].sign);
        struct regex_tree *t =
            str_starts(rest, sign) ? regex_parse_make(p, REGEX_LOOKAROUND) : NULL;
        if (t) {
            t->is_behind = lookarounds[i].is_behind;
            t->is_negative = lookarounds[i].is_negative;
            p->at += sign.len;
            return t;
        }
    }
    if (str_starts(rest, STR("#"))) {
        skip_name(p, ')');
        *ret_is_closed = true;
    } else if (str_starts(rest, STR("<"))) {
        p->at++;
        skip_name(p, '>');
    } else if (str_starts(rest, STR("'"))) {
        p->at++;
        skip_name(p, '\'');
    } else if (str_starts(rest, STR("P<"))) {
        p->at += 2;
        skip_name(p, '>');
    } else if (str_starts(rest, STR(">"))) {
        regex_refuse(p, p->at, "atomic groups are not supported");
    } else {
        read_flags(p);
        if (p->at == p->source.len) {
            regex_refuse(p, p->at - 1, "missing closing parenthesis");
            return NULL;
        }
        *ret_is_closed = p->source.ptr[p->at] == ')';
        p->at++;
    }
    return regex_parse_make(p, REGEX_SEQUENCE);
}

/* After the parenthesis. */
static struct regex_tree *parse_group(struct regex_parser *p)
{
    size_t opened = p->at - 1;
    bool is_closed = false, flags[FLAG_COUNT];
    struct tidings_str rest = str_skip(p->source, p->at);
    memcpy(flags, p->has_flag, sizeof(flags));
    if (str_starts(rest, STR("*"))) {
        regex_refuse(p, p->at, "verbs are not supported");
        return NULL;
    }
    struct regex_tree *group;
    if (str_starts(rest, STR("?"))) {
        p->at++;
        group = open_special(p, &is_closed);
    } else {
        group = regex_parse_make(p, REGEX_SEQUENCE);
    }
    if (p->code < 0 || is_closed) { /* flags for the rest, or a comment */
        return group;
    }
    if (++p->depth > REGEX_MAX_DEPTH) {
        regex_refuse(p, opened, "groups nest too deep");
        return NULL;
    }
    struct regex_tree *inner = parse_alternatives(p);
    p->depth--;
    if (p->code == 0 && p->at == p->source.len) {
        regex_refuse(p, opened, "missing closing parenthesis");
    }
    if (p->code < 0) {
        return NULL;
    }
    p->at++;
    regex_parse_append(group, inner);
    memcpy(p->has_flag, flags, sizeof(flags));
    return group;
}

/* ---- atoms and quantifiers ------------------------------------------------------------------- */

static bool regex_parse_read_number(struct regex_parser *p, uint32_t *ret)
{
    size_t start = p->at;
    *ret = 0;
    while (p->at < p->source.len && p->source.ptr[p->at] >= '0' && p->source.ptr[p->at] <= '9') {
        *ret = *ret * 10 + (uint32_t)(p->source.ptr[p->at++] - '0');
        *ret = *ret > 65536 ? 65536 : *ret;
    }
    return p->at > start;
}

/* `{2}`, `{2,}`, `{2,5}`; everything else is not consumed and literal. */
static bool read_counts(struct regex_parser *p, uint32_t *min, uint32_t *max)
{
    size_t start = p->at++;
    bool ok = regex_parse_read_number(p, min);
    *max = *min;
    if (ok && p->at < p->source.len && p->source.ptr[p->at] == ',') {
        p->at++;
        if (!regex_parse_read_number(p, max)) {
            *max = REGEX_NO_MAXIMUM;
        }
    }
    if (!ok || p->at == p->source.len || p->source.ptr[p->at] != '}') {
        p->at = start;
        return false;
    }
    p->at++;
    return true;
}

static bool read_quantifier(struct regex_parser *p, uint32_t *min, uint32_t *max)
{
    char c = p->at < p->source.len ? p->source.ptr[p->at] : '\0';
    *min = c == '+';
    *max = c == '?' ? 1 : REGEX_NO_MAXIMUM;
    if (c == '{') {
        return read_counts(p, min, max);
    }
    p->at += c == '*' || c == '+' || c == '?';
    return c == '*' || c == '+' || c == '?';
}

static struct regex_tree *quantify(struct regex_parser *p, struct regex_tree *atom)
{
    size_t at = p->at;
    uint32_t min, max;
    while (p->code == 0 && read_quantifier(p, &min, &max)) {
        if (atom->kind >= REGEX_BEGIN) {
            regex_refuse(p, at, "a quantifier follows nothing that could be repeated");
        }
        char c = p->at < p->source.len ? p->source.ptr[p->at] : '\0';
        if (c == '+') {
            regex_refuse(p, p->at, "possessive quantifiers are not supported");
        } else if (max < min) {
            regex_refuse(p, at, "numbers out of order in a quantifier");
        } else if (min > 65535 || (max > 65535 && max != REGEX_NO_MAXIMUM)) {
            regex_refuse(p, at, "number too big in a quantifier");
        }
        p->at += c == '?'; /* lazy */
        struct regex_tree *t = regex_parse_make(p, REGEX_REPEAT);
        if (!t) {
            return NULL;
        }
        t->min = min;
        t->max = max;
        regex_parse_append(t, atom);
        atom = t;
        c = p->at < p->source.len ? p->source.ptr[p->at] : '\0';
        if (c == '*' || c == '+' || c == '?') {
            regex_refuse(p, p->at, "a quantifier follows a quantifier");
        }
    }
    return atom;
}

static struct regex_tree *parse_dot(struct regex_parser *p)
{
    struct regex_set set = {0};
    bool ok = p->has_flag[FLAG_S] || regex_set_add(p->arena, &set, '\n', '\n');
    if (!ok || !regex_set_invert(p->arena, &set, p->last)) {
        regex_refuse_size(p);
    }
    return make_set(p, &set);
}

static enum regex_escape regex_read_escape(struct regex_parser *p, bool in_class,
                                           struct regex_set *set, uint32_t *ret_character,
                                           enum regex_kind *ret_assertion);

static struct regex_tree *parse_escape(struct regex_parser *p)
{
    struct regex_set set = {0};
    enum regex_kind kind = REGEX_SET;
    uint32_t c = 0;
    switch (regex_read_escape(p, false, &set, &c, &kind)) {
    case REGEX_IS_CHARACTER:
        return make_character(p, c);
    case REGEX_IS_SET:
        return make_set(p, &set);
    case REGEX_IS_ASSERTION:
        return regex_parse_make(p, kind);
    case REGEX_IS_NOTHING:
        break;
    }
    return regex_parse_make(p, REGEX_EMPTY);
}

static void regex_read_class(struct regex_parser *p, struct regex_set *set);

static uint32_t regex_next(struct regex_parser *p);

static struct regex_tree *parse_atom(struct regex_parser *p)
{
    size_t at = p->at;
    uint32_t c = regex_next(p), ignored;
    struct regex_set set = {0};
    if (p->is_quoting) {
        return make_character(p, c);
    }
    switch (c) {
    case '(':
        return parse_group(p);
    case '[':
        regex_read_class(p, &set);
        return p->code == 0 ? make_set(p, &set) : NULL;
    case '.':
        return parse_dot(p);
    case '\\':
        return parse_escape(p);
    case '^':
        return regex_parse_make(p, p->has_flag[FLAG_M] ? REGEX_LINE_BEGIN : REGEX_BEGIN);
    case '$':
        return regex_parse_make(p, p->has_flag[FLAG_M] ? REGEX_LINE_END : REGEX_END);
    case '{':
        p->at = at;
        if (!read_counts(p, &ignored, &ignored)) {
            p->at = at + 1;
            return make_character(p, c);
        }
        p->at = at;
        break;
    case '*':
    case '+':
    case '?':
        p->at = at;
        break;
    default:
        return make_character(p, c);
    }
    regex_refuse(p, at, "a quantifier follows nothing that could be repeated");
    return NULL;
}

/* `\Q` and `\E`: between them everything is literal. */
static void skip_quotes(struct regex_parser *p)
{
    for (;;) {
        struct tidings_str rest = str_skip(p->source, p->at);
        bool opens = !p->is_quoting && str_starts(rest, STR("\\Q"));
        if (!opens && !str_starts(rest, STR("\\E"))) {
            return;
        }
        p->is_quoting = opens;
        p->at += 2;
    }
}

static bool goes_on(struct regex_parser *p)
{
    skip_quotes(p);
    char c = p->at < p->source.len ? p->source.ptr[p->at] : ')';
    return p->code == 0 && p->at < p->source.len && (p->is_quoting || (c != '|' && c != ')'));
}

static struct regex_tree *parse_sequence(struct regex_parser *p)
{
    struct regex_tree *all = regex_parse_make(p, REGEX_SEQUENCE);
    while (all && goes_on(p)) {
        struct regex_tree *atom = parse_atom(p);
        skip_quotes(p);
        atom = atom && p->code == 0 && !p->is_quoting ? quantify(p, atom) : atom;
        if (atom) {
            regex_parse_append(all, atom);
        }
    }
    return all;
}

static struct regex_tree *parse_alternatives(struct regex_parser *p)
{
    struct regex_tree *first = parse_sequence(p);
    if (p->code < 0 || p->at == p->source.len || p->source.ptr[p->at] != '|') {
        return first;
    }
    struct regex_tree *all = regex_parse_make(p, REGEX_ALTERNATIVES);
    if (!all || !first) {
        return NULL;
    }
    regex_parse_append(all, first);
    while (p->code == 0 && p->at < p->source.len && p->source.ptr[p->at] == '|') {
        p->at++;
        struct regex_tree *t = parse_sequence(p);
        if (t) {
            regex_parse_append(all, t);
        }
    }
    return all;
}

int regex_parse(struct arena *a, struct tidings_str source, enum regex_units units,
                struct regex_tree **ret, struct regex_sets *ret_sets, struct tidings_error *err)
{
    struct regex_parser p = {
        .arena = a,
        .source = source,
        .units = units,
        .last = units == REGEX_BYTES ? REGEX_LAST_BYTE : REGEX_LAST_CHARACTER,
        .sets = ret_sets,
        .err = err,
    };
    *ret = parse_alternatives(&p);
    if (p.code == 0 && p.at < source.len) {
        regex_refuse(&p, p.at, "unmatched closing parenthesis");
    }
    return p.code;
}

/* -------------------------------------------------------------------------------------------------
 * Parses the escapes (`\d`, `\p{L}`) and the classes (`[a-z]`) of a regex.
 */

static uint32_t regex_next(struct regex_parser *p)
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

/* Reads up to `most` digits of that base; returns their number. */
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

/* `{…}`, starting at the brace. */
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

/* \xHH, \x{H…}, \uHHHH, \u{H…}, starting after the letter, which is literal without digits. */
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

/* Cost in steps of a search through the tables. */
#define COST_PROPERTY 1700u
#define COST_PROPERTY_BYTES 250u

/* \p{Name}, \pL, \P{^Name}, starting after the letter. */
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

/* Escapes of a single character; false: another escape. */
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

/* After the backslash, inside or outside a class. */
static enum regex_escape regex_read_escape(struct regex_parser *p, bool in_class,
                                           struct regex_set *set, uint32_t *ret_character,
                                           enum regex_kind *ret_assertion)
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

/* `[:alpha:]` at p->at; false: none. */
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

/* One element: a character (returns true), or a set that is added. */
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
        if (!read_element(p, set, &last)) { /* `[a-\d]`: the dash is literal */
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

/* After the bracket. */
static void regex_read_class(struct regex_parser *p, struct regex_set *set)
{
    size_t opened = p->at - 1;
    bool is_inverted = regex_escape_peek(p) == '^';
    p->at += is_inverted;
    /* A bracket in the first position is a member of the class, except in ECMA-262. */
    bool is_first = p->units == REGEX_BYTES;
    while (p->code == 0 && p->at < p->source.len && (is_first || regex_escape_peek(p) != ']')) {
        is_first = false;
        regex_escape_read_range(p, set);
    }
    if (p->code == 0 && p->at >= p->source.len) {
        regex_refuse(p, opened, "missing closing bracket");
    }
    p->at++;
    /* Add both cases before inverting: [^a] excludes both. */
    if (p->has_flag[FLAG_I] && !regex_set_fold(p->arena, set)) {
        regex_refuse_size(p);
    }
    if (is_inverted && !regex_set_invert(p->arena, set, p->last)) {
        regex_refuse_size(p);
    }
}
