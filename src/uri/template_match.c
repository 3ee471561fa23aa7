/* SPDX-License-Identifier: MIT
 *
 * Matching a URI against a template in reverse.
 *
 * Two passes. Backwards: for each step and each position, can the rest of the steps match the rest
 * of the text? One bit each, computed from the row of the following step. Forwards: walk the steps,
 * each value ending at the first position from which the rest can match. So the first pass finds
 * whether it matches, the second with which values, and neither ever goes back: time is linear in
 * the text for each step. Values are compared and kept in their encoded form and decoded at the
 * very end.
 */
#include <assert.h>

#include "uri/template_private.h"
#include "uri/uri.h"

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

/* Values behind or between separators. */
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

size_t template_flatten(const struct template_parse *parse, struct template_step *steps)
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

/* Bytes of the unit at `at`: a whole triplet is never cut. */
static size_t unit_length(struct tidings_str s, size_t at)
{
    return s.ptr[at] == '%' && s.len - at >= 3 ? 3 : 1;
}

/* 1, or 0 for an encoded continuation byte (%80 to %BF): it belongs to the character before. */
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

/* The ";name" or ";name=value" at `at`: where it ends, or `at` when there is none from whose end
 * the rest can match. An exploded one may be followed by itself. */
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

/* Which spec of the group takes a parameter called `name`; -1: none, or it was there before. */
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

/* The longest run of known parameters at `at`: where it ends (`at` when there is none). With
 * `captures` their values are kept. */
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

/* The row of a value step. `ends` remembers, for the next few positions, how many characters a
 * value beginning there has at least: SIZE_MAX for "cannot". */
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

/* The second pass, by kind of step: `at` moves to where the step ends, which the first pass has
 * made sure exists. False only when there are more values than we keep. */
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

/* Could `other`, another use of the same variable, have come from the value of `chosen`? */
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

/* The capture that tells the value of a variable: the first whole one, else the first prefix. */
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

/* Decode the value of one variable: its capture, or all of the same exploded use. */
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

/* Fill the bits and find the values; `m` is set up by the caller. */
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
    /* Most pairs part at the literal the template begins with. */
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
