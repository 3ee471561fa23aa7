/* SPDX-License-Identifier: MIT
 *
 * URI templates (RFC 6570): parses the text and stores the result.
 *
 * The text is parsed twice: as written, for expansion, and in canonical spelling, for matching.
 * Both have the same expressions, because canonical form does not change braces. Literals must
 * follow the RFC's grammar, except that "'" is accepted.
 */
#include "formats/uri_template.h"

#include <assert.h>

#include "base/mem.h"
#include "formats/uri.h"

/* -------------------------------------------------------------------------------------------------
 * A compiled template, private to this file: creation, expansion and matching.
 *
 * `parts` is the text as written, for expansion. `steps` is the same template flattened for
 * matching, with literals in canonical spelling; there are none if no canonical URI can match.
 */

/* Each expression uses at least one variable; a literal can be before and after each. */
#define TEMPLATE_MAX_PARTS (2 * TEMPLATE_MAX_VARIABLES + 1)
/* A separator and a value per variable, literals between, an optional mark per expression. */
#define TEMPLATE_MAX_STEPS (4 * TEMPLATE_MAX_VARIABLES + 1)

/* One use of a variable. */
struct template_spec {
    struct tidings_str name;
    uint16_t max_chars; /* {name:n}; 0: no prefix */
    uint8_t variable;   /* index among the distinct names */
    bool explode;
};

struct template_part {
    char op;                 /* 0: literal; '{': plain expression; else the operator */
    struct tidings_str text; /* literal */
    size_t first, count;     /* expression: specs */
};

struct template_parse {
    struct template_part parts[TEMPLATE_MAX_PARTS];
    struct template_spec specs[TEMPLATE_MAX_VARIABLES];
    struct tidings_str names[TEMPLATE_MAX_VARIABLES];
    size_t part_count, spec_count, name_count;
};

enum template_step_kind {
    STEP_LITERAL,  /* text */
    STEP_VALUE,    /* one or more characters for `spec` */
    STEP_OPTIONAL, /* the next `count` steps, or nothing */
    STEP_NAMED,    /* ";name=value" for `spec`, or nothing; exploded: several times */
    STEP_QUERY, /* `lead`, then parameters for `count` specs from `spec` in any order; or nothing */
};

struct template_step {
    uint8_t kind;
    uint8_t spec;
    uint8_t count;
    uint8_t stops; /* VALUE, NAMED: characters that end a value */
    char lead;
    struct tidings_str text;
};

struct uri_template {
    struct tidings_str text; /* owned */
    char *canonical;         /* owned; steps point into it; may be NULL */
    const struct template_part *parts;
    const struct template_spec *specs;
    const struct tidings_str *names;
    const struct template_step *steps;
    size_t part_count, spec_count, name_count, step_count;
};

/* -------------------------------------------------------------------------------------------------
 * Matches a URI against a template in reverse.
 *
 * Two passes. Backwards: for each step and each position, can the rest of the steps match the rest
 * of the text? One bit each, computed from the row of the following step. Forwards: walk the steps,
 * each value ending at the first position from which the rest can match. So the first pass finds
 * whether the URI matches, the second with which values, and neither backtracks: time is linear in
 * the text for each step. Values are compared and kept in their encoded form and decoded at the
 * end.
 */

/* Characters that end a value. */
enum {
    STOP_SLASH = 1,
    STOP_QUESTION = 2,
    STOP_HASH = 4,
    STOP_SEMICOLON = 8,
    STOP_AMPERSAND = 16,
};

#define STOP_SEGMENT (STOP_SLASH | STOP_QUESTION | STOP_HASH)
#define MAX_PARAMETERS 64u
#define MAX_CAPTURES 128u
#define ROW_WORDS (URI_MAX / 64u + 1u)

/* ---- flattening ---------------------------------------------------------------------------- */

static uint8_t stops_of(char op, bool explode, bool in_query)
{
    switch (op) {
    case '+':
        return in_query ? STOP_HASH : STOP_QUESTION | STOP_HASH;
    case '#':
        return 0;
    case ';':
        return STOP_SEGMENT | STOP_SEMICOLON | (in_query ? STOP_AMPERSAND : 0);
    case '/':
        if (explode) {
            return STOP_QUESTION | STOP_HASH;
        }
        break;
    default:
        break;
    }
    return STOP_SEGMENT | (in_query ? STOP_AMPERSAND : 0);
}

static struct template_step literal_step(struct tidings_str text)
{
    return (struct template_step){.kind = STEP_LITERAL, .text = text};
}

/* Values after or between separators. */
static size_t flatten_values(const struct template_parse *parse, const struct template_part *part,
                             bool in_query, struct template_step *steps)
{
    size_t n = 0;
    if (part->op == '#') {
        uint8_t count = (uint8_t)(2 * part->count);
        steps[n++] = (struct template_step){.kind = STEP_OPTIONAL, .count = count};
    }
    struct tidings_str separator = STR(",");
    struct tidings_str lead = STR_EMPTY;
    if (part->op == '.') {
        lead = separator = STR(".");
    } else if (part->op == '/') {
        lead = separator = STR("/");
    } else if (part->op == '#') {
        lead = STR("#");
    }
    for (size_t i = 0; i < part->count; i++) {
        const struct template_spec *spec = &parse->specs[part->first + i];
        struct tidings_str before = i == 0 ? lead : separator;
        if (before.len > 0) {
            steps[n++] = literal_step(before);
        }
        steps[n++] = (struct template_step){.kind = STEP_VALUE,
                                            .spec = (uint8_t)(part->first + i),
                                            .stops = stops_of(part->op, spec->explode, in_query)};
    }
    return n;
}

/* Flattens `parse` (of the canonical text) into at most TEMPLATE_MAX_STEPS; returns the number. */
static size_t template_flatten(const struct template_parse *parse, struct template_step *steps)
{
    size_t n = 0;
    bool in_query = false;
    for (size_t i = 0; i < parse->part_count; i++) {
        const struct template_part *part = &parse->parts[i];
        bool after_query = n > 0 && steps[n - 1].kind == STEP_QUERY;
        if (part->op == 0) {
            steps[n++] = literal_step(part->text);
            in_query = in_query || str_find(part->text, '?') >= 0;
        } else if (part->op == '&' && after_query) {
            steps[n - 1].count = (uint8_t)(steps[n - 1].count + part->count); /* any order */
        } else if (part->op == '?' || part->op == '&') {
            steps[n++] = (struct template_step){.kind = STEP_QUERY,
                                                .spec = (uint8_t)part->first,
                                                .count = (uint8_t)part->count,
                                                .lead = part->op};
            in_query = true;
        } else if (part->op == ';') {
            for (size_t k = part->first; k < part->first + part->count; k++) {
                uint8_t stops = stops_of(';', false, in_query);
                steps[n++] =
                    (struct template_step){.kind = STEP_NAMED, .spec = (uint8_t)k, .stops = stops};
            }
        } else {
            n += flatten_values(parse, part, in_query, steps + n);
        }
    }
    assert(n <= TEMPLATE_MAX_STEPS);
    return n;
}

/* ---- matching ------------------------------------------------------------------------------ */

struct capture {
    uint8_t spec;
    struct tidings_str text; /* encoded */
};

struct matcher {
    const struct uri_template *t;
    struct tidings_str text;
    size_t query_at; /* position of the first '?', or the length */
    size_t stride;   /* words per row */
    size_t capture_count;
    struct capture captures[MAX_CAPTURES];
    uint64_t bits[(TEMPLATE_MAX_STEPS + 1) * ROW_WORDS];
};

static bool can(const struct matcher *m, size_t step, size_t at)
{
    return m->bits[step * m->stride + at / 64] >> (at % 64) & 1u;
}

static bool is_stop(char c, uint8_t stops)
{
    switch (c) {
    case '/':
        return stops & STOP_SLASH;
    case '?':
        return stops & STOP_QUESTION;
    case '#':
        return stops & STOP_HASH;
    case ';':
        return stops & STOP_SEMICOLON;
    case '&':
        return stops & STOP_AMPERSAND;
    default:
        return false;
    }
}

/* The length of the unit at `at`: a triplet is never split. */
static size_t unit_length(struct tidings_str s, size_t at)
{
    return s.ptr[at] == '%' && s.len - at >= 3 ? 3 : 1;
}

/* 1, or 0 for an encoded continuation byte (%80 to %BF), which belongs to the previous character.
 */
static size_t unit_weight(struct tidings_str s, size_t at)
{
    return unit_length(s, at) == 3 && strchr("89AB", s.ptr[at + 1]) ? 0 : 1;
}

static size_t count_characters(struct tidings_str s)
{
    size_t n = 0;
    for (size_t at = 0; at < s.len; at += unit_length(s, at)) {
        n += unit_weight(s, at);
    }
    return n;
}

static bool template_match_fits(const struct template_spec *spec, struct tidings_str value)
{
    return spec->max_chars == 0 || count_characters(value) <= spec->max_chars;
}

static bool literal_at(const struct matcher *m, size_t at, struct tidings_str literal)
{
    return m->text.len - at >= literal.len &&
           memcmp(m->text.ptr + at, literal.ptr, literal.len) == 0;
}

/* The end of the ";name" or ";name=value" at `at`; `at` if there is none from whose end the rest
 * can match. An exploded one can be repeated. */
static size_t named_end(const struct matcher *m, size_t index, size_t at, struct tidings_str *value)
{
    const struct template_step *step = &m->t->steps[index];
    const struct template_spec *spec = &m->t->specs[step->spec];
    size_t row = spec->explode ? index : index + 1;
    if (at == m->text.len || m->text.ptr[at] != ';' || !literal_at(m, at + 1, spec->name)) {
        return at;
    }
    size_t start = at + 1 + spec->name.len;
    if (start == m->text.len || m->text.ptr[start] != '=') {
        *value = STR_EMPTY;
        return can(m, row, start) ? start : at;
    }
    for (size_t end = ++start;; end += unit_length(m->text, end)) {
        *value = tidings_strn(m->text.ptr + start, end - start);
        if (can(m, row, end)) {
            return template_match_fits(spec, *value) ? end : at;
        }
        if (end == m->text.len || is_stop(m->text.ptr[end], step->stops)) {
            return at;
        }
    }
}

/* The spec of the group for a parameter called `name`; -1: none, or already seen. */
static int query_spec(const struct matcher *m, const struct template_step *step,
                      struct tidings_str name, uint32_t seen)
{
    for (int i = step->spec; i < step->spec + step->count; i++) {
        const struct template_spec *spec = &m->t->specs[i];
        if (str_eq(spec->name, name) && (spec->explode || !(seen >> i & 1u))) {
            return i;
        }
    }
    return -1;
}

/* The end of the longest run of known parameters at `at` (`at` if there is none). Stores their
 * values in `captures` unless it is NULL. */
static size_t query_end(const struct matcher *m, const struct template_step *step, size_t at,
                        struct capture *captures, size_t *ret_count)
{
    size_t end = at, count = 0;
    uint32_t seen = 0;
    bool led = step->lead == '?' ? at == m->query_at : true;
    while (led && end < m->text.len && count < MAX_PARAMETERS &&
           m->text.ptr[end] == (end == at ? step->lead : '&')) {
        struct tidings_str rest = str_skip(m->text, end + 1);
        size_t len = 0;
        while (len < rest.len && rest.ptr[len] != '&' && rest.ptr[len] != '#') {
            len++;
        }
        struct tidings_str value;
        struct tidings_str name = str_cut(tidings_strn(rest.ptr, len), '=', &value, NULL);
        int spec = query_spec(m, step, name, seen);
        if (spec < 0 || !template_match_fits(&m->t->specs[spec], value)) {
            break;
        }
        seen |= 1u << spec;
        if (captures) {
            captures[count] = (struct capture){(uint8_t)spec, value};
        }
        count++;
        end += 1 + len;
    }
    if (ret_count) {
        *ret_count = count;
    }
    return end;
}

/* The row of a value step. `ends` caches, for the next few positions, the minimum number of
 * characters of a value that starts there: SIZE_MAX for "impossible". */
static void fill_value_row(struct matcher *m, size_t index)
{
    const struct template_step *step = &m->t->steps[index];
    size_t max = m->t->specs[step->spec].max_chars;
    size_t ends[4] = {SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX};
    uint64_t *row = m->bits + index * m->stride;
    for (size_t at = m->text.len; at-- > 0;) {
        size_t shortest = SIZE_MAX;
        if (!is_stop(m->text.ptr[at], step->stops)) {
            size_t next = at + unit_length(m->text, at);
            size_t rest = can(m, index + 1, next) ? 0 : ends[next % 4];
            shortest = rest == SIZE_MAX ? rest : rest + unit_weight(m->text, at);
        }
        ends[at % 4] = shortest;
        if (shortest != SIZE_MAX && (max == 0 || shortest <= max)) {
            row[at / 64] |= 1ull << (at % 64);
        }
    }
}

static void fill_row(struct matcher *m, size_t index)
{
    const struct template_step *step = &m->t->steps[index];
    uint64_t *row = m->bits + index * m->stride;
    struct tidings_str ignored;
    if (step->kind == STEP_VALUE) {
        fill_value_row(m, index);
        return;
    }
    for (size_t at = m->text.len + 1; at-- > 0;) {
        bool ok = false;
        size_t end;
        switch (step->kind) {
        case STEP_LITERAL:
            ok = literal_at(m, at, step->text) && can(m, index + 1, at + step->text.len);
            break;
        case STEP_OPTIONAL:
            ok = can(m, index + 1, at) || can(m, index + 1 + step->count, at);
            break;
        case STEP_NAMED:
            ok = can(m, index + 1, at) || named_end(m, index, at, &ignored) > at;
            break;
        default:
            end = query_end(m, step, at, NULL, NULL);
            ok = can(m, index + 1, at) || (end > at && can(m, index + 1, end));
        }
        if (ok) {
            row[at / 64] |= 1ull << (at % 64);
        }
    }
}

static bool capture(struct matcher *m, uint8_t spec, struct tidings_str text)
{
    if (m->capture_count == MAX_CAPTURES) {
        return false;
    }
    m->captures[m->capture_count++] = (struct capture){spec, text};
    return true;
}

/* The second pass, by kind of step: `at` moves to the end of the step, which exists after the first
 * pass. False only if there are too many values to store. */
static bool walk_value(struct matcher *m, size_t index, size_t *at)
{
    size_t end = *at;
    do {
        end += unit_length(m->text, end);
    } while (!can(m, index + 1, end));
    struct tidings_str value = tidings_strn(m->text.ptr + *at, end - *at);
    *at = end;
    return capture(m, m->t->steps[index].spec, value);
}

static bool walk_named(struct matcher *m, size_t index, size_t *at)
{
    const struct template_step *step = &m->t->steps[index];
    struct tidings_str value;
    bool more = true;
    for (size_t end; more && (end = named_end(m, index, *at, &value)) > *at; *at = end) {
        if (!capture(m, step->spec, value)) {
            return false;
        }
        more = m->t->specs[step->spec].explode;
    }
    return true;
}

static bool walk_query(struct matcher *m, size_t index, size_t *at)
{
    size_t count;
    if (m->capture_count + MAX_PARAMETERS > MAX_CAPTURES) {
        return false;
    }
    struct capture *captures = m->captures + m->capture_count;
    size_t end = query_end(m, &m->t->steps[index], *at, captures, &count);
    if (end > *at && can(m, index + 1, end)) {
        m->capture_count += count;
        *at = end;
    }
    return true;
}

static bool template_match_walk(struct matcher *m)
{
    bool ok = true;
    for (size_t i = 0, at = 0; i < m->t->step_count && ok; i++) {
        const struct template_step *step = &m->t->steps[i];
        switch (step->kind) {
        case STEP_LITERAL:
            at += step->text.len;
            break;
        case STEP_OPTIONAL:
            i += can(m, i + 1, at) ? 0 : step->count;
            break;
        case STEP_VALUE:
            ok = walk_value(m, i, &at);
            break;
        case STEP_NAMED:
            ok = walk_named(m, i, &at);
            break;
        default:
            ok = walk_query(m, i, &at);
        }
    }
    return ok;
}

/* Returns true if `other`, another use of the same variable, can result from the value of `chosen`.
 */
static bool agrees(const struct matcher *m, const struct capture *chosen,
                   const struct capture *other)
{
    const struct template_spec *a = &m->t->specs[chosen->spec], *b = &m->t->specs[other->spec];
    if (a->explode || b->explode) {
        return true;
    }
    if (b->max_chars == 0 || other->text.len == chosen->text.len) {
        return str_eq(chosen->text, other->text);
    }
    if (a->max_chars == 0) {
        return str_starts(chosen->text, other->text) &&
               count_characters(other->text) == b->max_chars;
    }
    return str_starts(chosen->text, other->text) || str_starts(other->text, chosen->text);
}

/* The capture with the value of a variable: the first complete one, else the first prefix. */
static const struct capture *chosen_capture(const struct matcher *m, size_t variable)
{
    const struct capture *found = NULL;
    for (size_t i = 0; i < m->capture_count; i++) {
        const struct template_spec *spec = &m->t->specs[m->captures[i].spec];
        if (spec->variable == variable && (!found || spec->max_chars == 0)) {
            found = &m->captures[i];
            if (spec->max_chars == 0) {
                break;
            }
        }
    }
    return found;
}

static bool is_consistent(const struct matcher *m)
{
    if (m->capture_count < 2) {
        return true;
    }
    for (size_t v = 0; v < m->t->name_count; v++) {
        const struct capture *chosen = chosen_capture(m, v);
        for (size_t i = 0; chosen && i < m->capture_count; i++) {
            const struct capture *other = &m->captures[i];
            if (m->t->specs[other->spec].variable == v && !agrees(m, chosen, other)) {
                return false;
            }
        }
    }
    return true;
}

/* Decodes the value of one variable: its capture, or all captures of the same exploded use. */
static bool template_match_put_value(const struct matcher *m, const struct capture *chosen,
                                     struct arena *arena, struct tidings_str *ret)
{
    size_t room = 1;
    for (size_t i = 0; i < m->capture_count; i++) {
        room += m->captures[i].spec == chosen->spec ? m->captures[i].text.len + 1 : 0;
    }
    char *out = arena_alloc(arena, room);
    if (!out) {
        return false;
    }
    size_t len = 0;
    for (const struct capture *c = chosen; c < m->captures + m->capture_count; c++) {
        if (c->spec == chosen->spec) {
            if (c != chosen) {
                out[len++] = ',';
            }
            len += uri_decode_into(out + len, c->text);
        }
    }
    *ret = tidings_strn(out, len);
    return true;
}

/* Fills the bits and finds the values; the caller has initialised `m`. */
static bool template_match_run(struct matcher *m)
{
    size_t steps = m->t->step_count;
    m->stride = m->text.len / 64 + 1;
    memset(m->bits, 0, (steps + 1) * m->stride * sizeof(uint64_t));
    m->bits[steps * m->stride + m->text.len / 64] |= 1ull << (m->text.len % 64);
    for (size_t i = steps; i-- > 0;) {
        fill_row(m, i);
    }
    return can(m, 0, 0) && template_match_walk(m) && is_consistent(m);
}

bool template_match(const struct uri_template *t, struct tidings_str uri, struct arena *arena,
                    struct template_match *ret)
{
    /* Most pairs differ in the literal prefix of the template. */
    if (t->step_count == 0 || uri.len > URI_MAX || uri.len == 0 ||
        (t->steps[0].kind == STEP_LITERAL && !str_starts(uri, t->steps[0].text))) {
        return false;
    }
    struct matcher m;
    m.t = t;
    m.text = uri;
    m.capture_count = 0;
    ptrdiff_t query_at = str_find(uri, '?');
    m.query_at = query_at < 0 ? uri.len : (size_t)query_at;
    if (!template_match_run(&m)) {
        return false;
    }
    struct template_match found = {0};
    for (size_t v = 0; ret && v < t->name_count; v++) {
        const struct capture *chosen = chosen_capture(&m, v);
        if (chosen) {
            struct template_value *value = &found.values[found.count++];
            value->name = t->names[v];
            if (!template_match_put_value(&m, chosen, arena, &value->value)) {
                return false;
            }
        }
    }
    if (ret) {
        *ret = found;
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------- */

struct parser {
    struct tidings_str text;
    size_t pos;
    struct template_parse *ret;
    struct tidings_error *err;
};

static int template_refuse(struct parser *p, size_t at, const char *what)
{
    return tidings_fail(p->err, TIDINGS_E_INVALID, "template '%.*s' refused: %s at byte %zu",
                        STR_ARG_MAX(p->text, 120), what, at + 1);
}

static bool template_is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool template_is_hex(char c)
{
    return (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || (c >= '0' && c <= '9');
}

static char template_peek(const struct parser *p)
{
    if (p->pos == p->text.len) {
        return '\0';
    }
    return p->text.ptr[p->pos];
}

/* Returns true if there is a percent-encoded triplet at the current position. */
static bool at_triplet(const struct parser *p)
{
    const char *s = p->text.ptr + p->pos;
    return p->text.len - p->pos >= 3 && s[0] == '%' && template_is_hex(s[1]) &&
           template_is_hex(s[2]);
}

static int parse_literal(struct parser *p)
{
    size_t start = p->pos;
    while (p->pos < p->text.len && p->text.ptr[p->pos] != '{') {
        unsigned char c = (unsigned char)p->text.ptr[p->pos];
        if (c == '%' && !at_triplet(p)) {
            return template_refuse(p, p->pos, "'%' not followed by two hexadecimal digits");
        }
        if (c == '}') {
            return template_refuse(p, p->pos, "'}' without '{'");
        }
        if (c <= ' ' || c == 0x7f || strchr("\"<>\\^`|", c)) {
            return template_refuse(p, p->pos, "character that must be percent-encoded");
        }
        p->pos++;
    }
    struct template_part *part = &p->ret->parts[p->ret->part_count++];
    *part = (struct template_part){.text = tidings_strn(p->text.ptr + start, p->pos - start)};
    return 0;
}

/* varname = varchar *( ["."] varchar ) */
static int parse_name(struct parser *p, struct tidings_str *ret)
{
    size_t start = p->pos;
    bool after_char = false;
    while (p->pos < p->text.len) {
        char c = template_peek(p);
        if (c == '%' && at_triplet(p)) {
            p->pos += 3;
        } else if (template_is_alnum(c) || c == '_' || (c == '.' && after_char)) {
            p->pos++;
        } else {
            break;
        }
        after_char = c != '.';
    }
    if (!after_char) {
        return template_refuse(p, p->pos, "missing or malformed variable name");
    }
    *ret = tidings_strn(p->text.ptr + start, p->pos - start);
    return 0;
}

/* modifier = ":" 1 to 9999 without leading zero, or "*" */
static int parse_modifier(struct parser *p, struct template_spec *spec)
{
    if (template_peek(p) == '*') {
        p->pos++;
        spec->explode = true;
    } else if (template_peek(p) == ':') {
        p->pos++;
        size_t start = p->pos;
        unsigned n = 0;
        while (template_peek(p) >= '0' && template_peek(p) <= '9' && p->pos - start < 4) {
            n = n * 10 + (unsigned)(template_peek(p) - '0');
            p->pos++;
        }
        if (n == 0 || p->text.ptr[start] == '0') {
            return template_refuse(p, start, "prefix length that is not 1 to 9999");
        }
        spec->max_chars = (uint16_t)n;
    }
    return 0;
}

static uint8_t variable_index(struct template_parse *ret, struct tidings_str name)
{
    size_t i = 0;
    while (i < ret->name_count && !str_eq(ret->names[i], name)) {
        i++;
    }
    if (i == ret->name_count) {
        ret->names[ret->name_count++] = name;
    }
    return (uint8_t)i;
}

static int parse_spec(struct parser *p)
{
    if (p->ret->spec_count == TEMPLATE_MAX_VARIABLES) {
        return template_refuse(p, p->pos, "more than 16 variables");
    }
    struct template_spec spec = {0};
    int rc = parse_name(p, &spec.name);
    if (rc == 0) {
        rc = parse_modifier(p, &spec);
    }
    if (rc == 0) {
        spec.variable = variable_index(p->ret, spec.name);
        p->ret->specs[p->ret->spec_count++] = spec;
    }
    return rc;
}

static int parse_expression(struct parser *p)
{
    size_t open = p->pos++;
    struct template_part part = {.op = '{', .first = p->ret->spec_count};
    if (template_peek(p) && strchr("+#./;?&", template_peek(p))) {
        part.op = template_peek(p);
        p->pos++;
    } else if (template_peek(p) && strchr("=,!@|", template_peek(p))) {
        return template_refuse(p, p->pos, "operator that RFC 6570 reserves");
    }
    for (;;) {
        int rc = parse_spec(p);
        if (rc < 0) {
            return rc;
        }
        char c = template_peek(p);
        if (p->pos == p->text.len) {
            return template_refuse(p, open, "'{' that is never closed");
        }
        if (c != ',' && c != '}') {
            return template_refuse(p, p->pos, "character not allowed in an expression");
        }
        p->pos++;
        if (c == '}') {
            break;
        }
    }
    part.count = p->ret->spec_count - part.first;
    p->ret->parts[p->ret->part_count++] = part;
    return 0;
}

static int parse(struct tidings_str text, struct template_parse *ret, struct tidings_error *err)
{
    struct parser p = {.text = text, .ret = ret, .err = err};
    int rc = 0;
    memset(ret, 0, sizeof(*ret));
    while (rc == 0 && p.pos < text.len) {
        rc = text.ptr[p.pos] == '{' ? parse_expression(&p) : parse_literal(&p);
    }
    return rc;
}

/* Writes the canonical spelling of `text` to `out`. A template can start with a variable or a path,
 * so text without a scheme is tried with a temporary one. False: no canonical URI can ever match.
 */
static bool canonical_text(struct tidings_str text, struct buf *out)
{
    if (uri_canonical_pattern(text, out, NULL) == 0) {
        return true;
    }
    struct buf with_scheme;
    buf_init(&with_scheme, URI_MAX + 2);
    buf_puts(&with_scheme, STR("x:"));
    buf_puts(&with_scheme, text);
    bool ok = !with_scheme.failed && !out->failed &&
              uri_canonical_pattern(buf_str(&with_scheme), out, NULL) == 0;
    if (ok) {
        buf_consume(out, 2);
    } else if (with_scheme.failed) {
        out->failed = with_scheme.failed;
    }
    buf_deinit(&with_scheme);
    return ok;
}

/* One block: the struct and its four arrays. */
static struct uri_template *pack(const struct template_parse *parse,
                                 const struct template_step *steps, size_t step_count)
{
    size_t parts = parse->part_count * sizeof(*parse->parts);
    size_t specs = parse->spec_count * sizeof(*parse->specs);
    size_t names = parse->name_count * sizeof(*parse->names);
    size_t flat = step_count * sizeof(*steps);
    struct uri_template *t = mem_zalloc(sizeof(*t) + parts + specs + names + flat);
    if (!t) {
        return NULL;
    }
    char *at = (char *)(t + 1);
    t->parts = memcpy(at, parse->parts, parts);
    t->specs = memcpy(at + parts, parse->specs, specs);
    t->names = memcpy(at + parts + specs, parse->names, names);
    t->steps = memcpy(at + parts + specs + names, steps, flat);
    t->part_count = parse->part_count;
    t->spec_count = parse->spec_count;
    t->name_count = parse->name_count;
    t->step_count = step_count;
    return t;
}

/* Compiles the steps of the canonical text, which *ret_canonical then owns. Not matchable: no
 * steps. */
static int compile_match(struct tidings_str text, struct template_step *steps, size_t *ret_count,
                         char **ret_canonical)
{
    struct template_parse parsed;
    struct buf canonical;
    buf_init(&canonical, URI_MAX + 2);
    size_t count = 0;
    bool ok = canonical_text(text, &canonical) && parse(buf_str(&canonical), &parsed, NULL) == 0;
    if (canonical.failed == TIDINGS_E_NOMEM) {
        buf_deinit(&canonical);
        return TIDINGS_E_NOMEM;
    }
    if (ok) {
        count = template_flatten(&parsed, steps);
        *ret_canonical = buf_detach(&canonical, NULL);
    }
    buf_deinit(&canonical);
    *ret_count = count;
    return 0;
}

int template_create(struct tidings_str text, struct uri_template **ret, struct tidings_error *err)
{
    if (text.len > URI_MAX || !str_is_utf8(text)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "template of %zu bytes refused: UTF-8 of at most %u bytes accepted",
                            text.len, URI_MAX);
    }
    struct template_parse parsed;
    struct template_step steps[TEMPLATE_MAX_STEPS];
    size_t step_count = 0;
    char *canonical = NULL;
    struct uri_template *t = NULL;
    char *own = str_dup(text);
    if (!own) {
        goto fail_memory;
    }
    int rc = parse(tidings_strn(own, text.len), &parsed, err);
    if (rc < 0) {
        mem_free(own);
        return rc;
    }
    if (compile_match(text, steps, &step_count, &canonical) < 0) {
        goto fail_memory;
    }
    t = pack(&parsed, steps, step_count);
    if (!t) {
        goto fail_memory;
    }
    t->text = tidings_strn(own, text.len);
    t->canonical = canonical;
    *ret = t;
    return 0;

fail_memory:
    mem_free(canonical);
    mem_free(own);
    return tidings_fail(err, TIDINGS_E_NOMEM, "template: out of memory");
}

void template_destroy(struct uri_template *t)
{
    if (t) {
        mem_free((char *)(uintptr_t)t->text.ptr);
        mem_free(t->canonical);
        mem_free(t);
    }
}

struct tidings_str template_text(const struct uri_template *t)
{
    return t->text;
}

size_t template_variable_count(const struct uri_template *t)
{
    return t->name_count;
}

struct tidings_str template_variable(const struct uri_template *t, size_t index)
{
    return index < t->name_count ? t->names[index] : STR_EMPTY;
}

/* -------------------------------------------------------------------------------------------------
 * RFC 6570 expansion: section 3 and the table of appendix A, all four levels. Independent of
 * matching; the result may not be a URI, so the caller canonicalizes it next.
 */

/* Appendix A. */
struct expansion {
    char op;
    char first; /* 0: nothing */
    char separator;
    bool named;
    bool empty_equals; /* "name=" for an empty value */
    bool reserved;     /* reserved characters and triplets stay */
};

static const struct expansion operators[] = {
    {'{', 0, ',', false, false, false},   {'+', 0, ',', false, false, true},
    {'#', '#', ',', false, false, true},  {'.', '.', '.', false, false, false},
    {'/', '/', '/', false, false, false}, {';', ';', ';', true, false, false},
    {'?', '?', '&', true, true, false},   {'&', '&', '&', true, true, false},
};

static const struct expansion *operator_of(char op)
{
    size_t i = 0;
    while (operators[i].op != op) {
        i++;
    }
    return &operators[i];
}

static bool is_unreserved(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-._~", c));
}

static bool template_expand_is_hex(char c)
{
    return (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || (c >= '0' && c <= '9');
}

/* The length of the character at `at`: a triplet if these are kept, else a UTF-8 sequence. */
static size_t character_length(struct tidings_str s, size_t at, bool triplets)
{
    size_t left = s.len - at, len = 1;
    if (triplets && left >= 3 && s.ptr[at] == '%' && template_expand_is_hex(s.ptr[at + 1]) &&
        template_expand_is_hex(s.ptr[at + 2])) {
        return 3;
    }
    while ((unsigned char)s.ptr[at] >= 0xc0 && len < left && len < 4 &&
           ((unsigned char)s.ptr[at + len] & 0xc0) == 0x80) {
        len++;
    }
    return len;
}

static void template_expand_put_encoded(struct buf *out, struct tidings_str value, bool reserved)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < value.len;) {
        size_t len = character_length(value, i, reserved);
        unsigned char c = (unsigned char)value.ptr[i];
        bool raw = is_unreserved(c) || (c && reserved && strchr(":/?#[]@!$&'()*+,;=", c));
        if (raw || (c == '%' && len == 3)) {
            buf_put(out, value.ptr + i, len);
        } else {
            for (size_t k = i; k < i + len; k++) {
                unsigned char byte = (unsigned char)value.ptr[k];
                char text[3] = {'%', digits[byte >> 4], digits[byte & 15]};
                buf_put(out, text, sizeof(text));
            }
        }
        i += len;
    }
}

/* The first `max` characters (section 2.4.1: neither sequences nor triplets are split). */
static struct tidings_str template_expand_prefix_of(struct tidings_str value, size_t max,
                                                    bool triplets)
{
    size_t len = 0;
    for (size_t n = 0; n < max && len < value.len; n++) {
        len += character_length(value, len, triplets);
    }
    return tidings_strn(value.ptr, len);
}

static void put_named(struct buf *out, const struct expansion *op, struct tidings_str value)
{
    if (value.len > 0 || op->empty_equals) {
        buf_putc(out, '=');
    }
    template_expand_put_encoded(out, value, op->reserved);
}

/* A list or pairs, exploded: each item is expanded separately. */
static void put_exploded(struct buf *out, const struct expansion *op,
                         const struct template_spec *spec, const struct template_variable *v)
{
    bool pairs = v->type == TEMPLATE_PAIRS;
    for (size_t i = 0; i < v->count; i++) {
        if (i > 0) {
            buf_putc(out, op->separator);
        }
        if (pairs) {
            template_expand_put_encoded(out, v->items[2 * i], op->reserved);
        } else if (op->named) {
            buf_puts(out, spec->name);
        }
        struct tidings_str value = v->items[pairs ? 2 * i + 1 : i];
        if (op->named) {
            put_named(out, op, value);
        } else {
            if (pairs) {
                buf_putc(out, '=');
            }
            template_expand_put_encoded(out, value, op->reserved);
        }
    }
}

static void put_variable(struct buf *out, const struct expansion *op,
                         const struct template_spec *spec, const struct template_variable *v)
{
    if (v->type != TEMPLATE_STRING && spec->explode) {
        put_exploded(out, op, spec, v);
        return;
    }
    if (op->named) {
        buf_puts(out, spec->name);
    }
    if (v->type == TEMPLATE_STRING) {
        struct tidings_str value = v->string;
        if (spec->max_chars > 0) {
            value = template_expand_prefix_of(value, spec->max_chars, op->reserved);
        }
        if (op->named) {
            put_named(out, op, value);
        } else {
            template_expand_put_encoded(out, value, op->reserved);
        }
        return;
    }
    if (op->named) {
        buf_putc(out, '=');
    }
    size_t items = v->type == TEMPLATE_PAIRS ? 2 * v->count : v->count;
    for (size_t i = 0; i < items; i++) {
        if (i > 0) {
            buf_putc(out, ',');
        }
        template_expand_put_encoded(out, v->items[i], op->reserved);
    }
}

/* The variable, or NULL if it is undefined as in section 2.3. */
static const struct template_variable *defined(const struct template_variable *variables,
                                               size_t count, struct tidings_str name)
{
    for (size_t i = 0; i < count; i++) {
        const struct template_variable *v = &variables[i];
        if (str_eq(v->name, name)) {
            bool composite = v->type == TEMPLATE_LIST || v->type == TEMPLATE_PAIRS;
            bool empty = composite && v->count == 0;
            return v->type == TEMPLATE_UNDEFINED || empty ? NULL : v;
        }
    }
    return NULL;
}

static void template_expand_put_literal(struct buf *out, struct tidings_str text)
{
    size_t start = 0;
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.ptr[i] >= 0x80) {
            buf_put(out, text.ptr + start, i - start);
            template_expand_put_encoded(out, tidings_strn(text.ptr + i, 1), false);
            start = i + 1;
        }
    }
    buf_put(out, text.ptr + start, text.len - start);
}

int template_expand(const struct uri_template *t, const struct template_variable *variables,
                    size_t count, struct buf *out, struct tidings_error *err)
{
    size_t mark = out->len;
    int rc = 0;
    for (size_t i = 0; i < t->part_count && rc == 0; i++) {
        const struct template_part *part = &t->parts[i];
        if (part->op == 0) {
            template_expand_put_literal(out, part->text);
            continue;
        }
        const struct expansion *op = operator_of(part->op);
        char lead = op->first;
        for (size_t k = part->first; k < part->first + part->count && rc == 0; k++) {
            const struct template_spec *spec = &t->specs[k];
            const struct template_variable *v = defined(variables, count, spec->name);
            if (!v) {
                continue;
            }
            if (spec->max_chars > 0 && v->type != TEMPLATE_STRING) {
                rc = tidings_fail(err, TIDINGS_E_INVALID,
                                  "variable '%.*s' is not a string and has no prefix of %u",
                                  STR_ARG(spec->name), spec->max_chars);
                break;
            }
            if (lead) {
                buf_putc(out, lead);
            }
            lead = op->separator;
            put_variable(out, op, spec, v);
        }
    }
    if (rc == 0 && out->failed) {
        rc = tidings_fail(err, out->failed, "expanding '%.*s': %s", STR_ARG(t->text),
                          tidings_code_text(out->failed));
    }
    if (rc < 0 && out->len > mark) {
        out->len = mark;
        out->ptr[mark] = '\0';
    }
    return rc;
}
