/* SPDX-License-Identifier: MIT
 *
 * RFC 6570 templates: reading the text and keeping the result.
 *
 * The text is parsed twice: as written, which is what expansion needs, and in canonical spelling,
 * which is what matching compares. Both have the same expressions, because canonical form leaves
 * braces alone. Literals are held to the RFC's grammar, except that "'" is accepted.
 */
#include "uri/template.h"

#include "base/mem.h"
#include "uri/template_private.h"
#include "uri/uri.h"

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

/* A percent-encoded triplet at the current position? */
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

/* The canonical spelling of `text` in `out`. A template may begin with a variable or a path, so
 * what has no scheme is tried behind a borrowed one. False: no canonical URI can ever match. */
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

/* Steps of the canonical text, which *ret_canonical then owns. Not matchable: no steps. */
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
