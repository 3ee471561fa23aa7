/* SPDX-License-Identifier: MIT
 *
 * Parsing a regex, from its source to a tree: alternatives, sequences, atoms with their
 * quantifiers, by recursive descent; groups nest REGEX_MAX_DEPTH deep. Classes and escapes are in
 * regex_parse_escape.c.
 */
#include "base/regex_parse.h"

#define QUOTED_MAX 80u /* bytes of a source in a sentence */

static struct regex_tree *parse_alternatives(struct regex_parser *p);

/* As much of the source as a sentence quotes, cut between characters. */
static int quoted_len(struct tidings_str source)
{
    size_t len = source.len > QUOTED_MAX ? QUOTED_MAX : source.len;
    while (len > 0 && len < source.len && ((unsigned char)source.ptr[len] & 0xc0u) == 0x80u) {
        len--;
    }
    return (int)len;
}

int regex_refuse(struct regex_parser *p, size_t at, const char *reason)
{
    if (p->code == 0) {
        p->code = TIDINGS_E_INVALID;
        tidings_fail(p->err, TIDINGS_E_INVALID, "regex '%.*s' refused: %s at byte %zu",
                     quoted_len(p->source), p->source.ptr, reason, at + 1);
    }
    return p->code;
}

int regex_refuse_size(struct regex_parser *p)
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

/* A leaf for the set, which is kept once. */
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

/* `(?i-s)`: for the rest of the group; `(?i-s:`: for the group that begins. */
static void read_flags(struct regex_parser *p)
{
    bool on = true;
    for (; p->at < p->source.len && p->source.ptr[p->at] != ')' && p->source.ptr[p->at] != ':';
         p->at++) {
        char c = p->source.ptr[p->at];
        const char *known = "ismJUn"; /* of the last three nothing depends here */
        const char *flag = c ? strchr(known, c) : NULL;
        if (c == '-') {
            on = false;
        } else if (!flag) {
            regex_refuse(p, p->at, "an unknown option, or a group that is no regular expression");
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

/* Behind `(?`. Returns the tree of the group without its contents (LOOK, else SEQUENCE). */
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

/* Behind the parenthesis. */
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
    if (p->code < 0 || is_closed) { /* flags for what follows, or a comment */
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

/* `{2}`, `{2,}`, `{2,5}`; anything else stays where it is: literal. */
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

/* `\Q` and `\E`: between them everything is itself. */
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
