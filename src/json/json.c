/* SPDX-License-Identifier: MIT
 *
 * JSON values over jansson: a `struct json *` is a jansson value under another name.
 *
 * Nesting is counted before the parser sees a byte, so hostile depth costs one pass and no stack.
 * Error texts are ours: they name the place and the rule and never echo the stranger's bytes. The
 * parser's allocations are not ours (its allocator is global to the process) and are not counted.
 */
#include "json/json.h"

#include <jansson.h>

static json_t *unwrap(const struct json *v)
{
    /* jansson takes non-const pointers even to read; nothing here writes through them. */
    return (json_t *)(uintptr_t)v;
}

static struct json *wrap(json_t *v)
{
    return (struct json *)(void *)v;
}

/* Offset of the bracket that opens level `max_depth` + 1, or text.len when there is none. Brackets
 * inside strings do not count. Text that is not JSON may be misjudged; the parser refuses it. */
static size_t find_too_deep(struct tidings_str text, unsigned max_depth)
{
    unsigned depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (in_string) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                in_string = false;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (depth == max_depth) {
                return i;
            }
            depth++;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return text.len;
}

/* "line 2 column 7", counted in characters like the parser's own. */
struct place {
    size_t line, column;
};

static struct place find_place(struct tidings_str text, size_t at)
{
    struct place p = {1, 1};
    for (size_t i = 0; i < at; i++) {
        if (text.ptr[i] == '\n') {
            p.line++;
            p.column = 1;
        } else if (((unsigned char)text.ptr[i] & 0xC0u) != 0x80u) {
            p.column++;
        }
    }
    return p;
}

/* What must not reach the parser: an empty text, a NUL (it would skip one between tokens), depth.
 */
static int judge_text(struct tidings_str text, unsigned max_depth, struct tidings_error *err)
{
    if (text.len == 0) {
        return tidings_fail(err, TIDINGS_E_PARSE, "line 1 column 1: the text is empty");
    }
    const char *nul = memchr(text.ptr, '\0', text.len);
    if (nul) {
        struct place p = find_place(text, (size_t)(nul - text.ptr));
        return tidings_fail(err, TIDINGS_E_PARSE, "line %zu column %zu: NUL byte", p.line,
                            p.column);
    }
    size_t deep = find_too_deep(text, max_depth);
    if (deep < text.len) {
        struct place p = find_place(text, deep);
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "line %zu column %zu: nested deeper than %u levels", p.line, p.column,
                            max_depth);
    }
    return 0;
}

/* jansson's sentence up to " near '…'", which would quote the stranger; printable ASCII only. */
static void copy_reason(char *out, size_t size, const char *text)
{
    size_t n = 0;
    for (; n + 1 < size && text[n]; n++) {
        if (strncmp(text + n, " near ", 6) == 0) {
            break;
        }
        out[n] = '?';
        if (text[n] >= ' ' && text[n] <= '~') {
            out[n] = text[n];
        }
    }
    out[n] = '\0';
}

static int fail_syntax(const json_error_t *e, struct tidings_error *err)
{
    char own[JSON_ERROR_TEXT_LENGTH];
    const char *why = own;
    copy_reason(own, sizeof own, e->text);
    switch ((int)json_error_code(e)) {
    case json_error_out_of_memory:
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory while reading JSON");
    case json_error_stack_overflow:
        return tidings_fail(err, TIDINGS_E_LIMIT, "line %d column %d: nested too deep", e->line,
                            e->column);
    case json_error_invalid_utf8:
        why = "not UTF-8";
        break;
    case json_error_premature_end_of_input:
        why = "the text ends too early";
        break;
    case json_error_end_of_input_expected:
        why = "more text after the value";
        break;
    case json_error_null_byte_in_key:
        why = "U+0000 in an object key";
        break;
    case json_error_duplicate_key:
        why = "duplicate object key";
        break;
    case json_error_numeric_overflow:
        why = "number out of range (integers have 64 bits, others are doubles)";
        break;
    default:
        break;
    }
    return tidings_fail(err, TIDINGS_E_PARSE, "line %d column %d: %s", e->line, e->column, why);
}

int jv_parse(struct tidings_str text, unsigned max_depth, struct json **ret_root,
             struct tidings_error *err)
{
    int rc = judge_text(text, max_depth, err);
    if (rc < 0) {
        return rc;
    }
    json_error_t e;
    json_t *root = json_loadb(text.ptr, text.len,
                              JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &e);
    if (!root) {
        return fail_syntax(&e, err);
    }
    *ret_root = wrap(root);
    return 0;
}

struct json *jv_ref(struct json *v)
{
    return wrap(json_incref(unwrap(v)));
}

void jv_unref(struct json *v)
{
    json_decref(unwrap(v));
}

enum jv_type jv_type(const struct json *v)
{
    static const enum jv_type types[] = {
        [JSON_OBJECT] = JV_OBJECT, [JSON_ARRAY] = JV_ARRAY, [JSON_STRING] = JV_STRING,
        [JSON_INTEGER] = JV_INT,   [JSON_REAL] = JV_REAL,   [JSON_TRUE] = JV_TRUE,
        [JSON_FALSE] = JV_FALSE,   [JSON_NULL] = JV_NULL,
    };
    return v ? types[json_typeof(unwrap(v))] : JV_NULL;
}

bool jv_is(const struct json *v, enum jv_type type)
{
    return v && jv_type(v) == type;
}

struct json *jv_get(const struct json *v, const char *key)
{
    return wrap(json_object_get(unwrap(v), key));
}

struct tidings_str jv_str(const struct json *v)
{
    if (!jv_is(v, JV_STRING)) {
        return tidings_strn("", 0);
    }
    return tidings_strn(json_string_value(unwrap(v)), json_string_length(unwrap(v)));
}

int64_t jv_int(const struct json *v)
{
    return json_integer_value(unwrap(v));
}

double jv_real(const struct json *v)
{
    return json_number_value(unwrap(v));
}

bool jv_is_true(const struct json *v)
{
    return jv_is(v, JV_TRUE);
}

size_t jv_count(const struct json *v)
{
    return jv_is(v, JV_OBJECT) ? json_object_size(unwrap(v)) : json_array_size(unwrap(v));
}

struct json *jv_at(const struct json *v, size_t index)
{
    return wrap(json_array_get(unwrap(v), index));
}

void *jv_next(struct json *object, void *position, struct tidings_str *ret_key,
              struct json **ret_value)
{
    json_t *o = unwrap(object);
    void *next = position ? json_object_iter_next(o, position) : json_object_iter(o);
    if (next) {
        *ret_key = tidings_strn(json_object_iter_key(next), json_object_iter_key_len(next));
        *ret_value = wrap(json_object_iter_value(next));
    }
    return next;
}
