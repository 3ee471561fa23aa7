/* SPDX-License-Identifier: MIT
 *
 * RFC 6570 expansion: section 3 and the table of appendix A, all four levels. Knows nothing of
 * matching, and makes no claim that the result is a URI: canonical form is the caller's next step.
 */
#include "uri/template_private.h"

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

/* Bytes of the character at `at`: a triplet where those stay, else a UTF-8 sequence. */
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

/* The first `max` characters (section 2.4.1: neither sequences nor triplets are cut). */
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

/* A list or pairs, exploded: every item by itself. */
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

/* The variable, or NULL when it is undefined in the sense of section 2.3. */
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
