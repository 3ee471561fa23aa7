/* SPDX-License-Identifier: MIT
 *
 * Finding the properties of a tool's schema that HTTP headers repeat, and comparing requests with
 * them.
 */
#include "handler/header_params.h"

#include "base/mem.h"
#include "base/str.h"
#include "dialect/dialect.h"
#include "wire/http_chars.h"
#include "json/pointer.h"
#include "json/write.h"

#define KEY "x-mcp-header"
#define PREFIX "mcp-param-"
#define MAX_ROWS 64u /* a request has room for no more headers */
#define NAME_BYTES 128u
#define POINTER_BYTES 1024u

struct header_param {
    char header[sizeof(PREFIX) + NAME_BYTES]; /* lower case */
    char pointer[POINTER_BYTES];
};

struct header_params {
    size_t count;
    struct header_param rows[];
};

/* ---- what a schema says ---------------------------------------------------------------------- */

struct scan {
    struct header_params *found; /* grows */
    struct tidings_error *err;
    struct buf pointer; /* to the property being looked at */
};

static int header_params_refuse(struct scan *s, const char *why)
{
    return tidings_fail(s->err, TIDINGS_E_INVALID, "%.*s: " KEY " %s",
                        (int)(s->pointer.len < 128 ? s->pointer.len : 128),
                        s->pointer.len > 0 ? s->pointer.ptr : "/", why);
}

static int add_row(struct scan *s, struct json *property, struct tidings_str name)
{
    struct tidings_str type = jv_str(jv_get(property, "type"));
    if (name.len == 0 || name.len > NAME_BYTES || !http_all_are(name, HTTP_IS_TOKEN)) {
        return header_params_refuse(
            s, "must be a string of 1 to 128 characters that may stand in the name of a "
               "header");
    }
    if (!str_eq(type, STR("string")) && !str_eq(type, STR("integer")) &&
        !str_eq(type, STR("boolean"))) {
        return header_params_refuse(s, "needs the type string, integer or boolean");
    }
    size_t count = s->found ? s->found->count : 0;
    if (count == MAX_ROWS || s->pointer.len >= POINTER_BYTES) {
        return header_params_refuse(s, "stands too often, or too deep in the schema");
    }
    struct header_params *grown =
        mem_realloc(s->found, sizeof(*grown) + (count + 1) * sizeof(grown->rows[0]));
    if (!grown) {
        return tidings_fail(s->err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->found = grown;
    struct header_param *row = &grown->rows[count];
    memset(row, 0, sizeof(*row));
    memcpy(row->header, PREFIX, sizeof(PREFIX) - 1);
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        row->header[sizeof(PREFIX) - 1 + i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    memcpy(row->pointer, s->pointer.ptr, s->pointer.len);
    grown->count = count + 1;
    for (size_t i = 0; i < count; i++) {
        if (str_eq(tidings_str(grown->rows[i].header), tidings_str(row->header))) {
            return header_params_refuse(s, "names a header that is taken");
        }
    }
    return 0;
}

static int header_params_visit(struct scan *s, struct json *schema, bool is_reachable);

/* Everything below a value that no chain of `properties` leads to: it may not say it at all. */
static int visit_rest(struct scan *s, struct json *schema)
{
    struct tidings_str key;
    struct json *value = NULL;
    int rc = 0;
    if (jv_is(schema, JV_ARRAY)) {
        for (size_t i = 0; i < jv_count(schema) && rc == 0; i++) {
            rc = header_params_visit(s, jv_at(schema, i), false);
        }
        return rc;
    }
    void *at = jv_is(schema, JV_OBJECT) ? jv_next(schema, NULL, &key, &value) : NULL;
    for (; at && rc == 0; at = jv_next(schema, at, &key, &value)) {
        /* Values that are data, not schemas, may hold any key. */
        if (!str_eq(key, STR("const")) && !str_eq(key, STR("enum")) &&
            !str_eq(key, STR("default")) && !str_eq(key, STR("examples")) &&
            !str_eq(key, STR("properties"))) {
            rc = header_params_visit(s, value, false);
        }
    }
    return rc;
}

static void put_token(struct buf *out, struct tidings_str key)
{
    buf_putc(out, '/');
    for (size_t i = 0; i < key.len; i++) {
        if (key.ptr[i] == '~' || key.ptr[i] == '/') {
            buf_puts(out, key.ptr[i] == '~' ? STR("~0") : STR("~1"));
        } else {
            buf_putc(out, key.ptr[i]);
        }
    }
}

static int visit_properties(struct scan *s, struct json *properties, bool is_reachable)
{
    struct tidings_str key;
    struct json *value = NULL;
    int rc = 0;
    void *at = jv_is(properties, JV_OBJECT) ? jv_next(properties, NULL, &key, &value) : NULL;
    for (; at && rc == 0; at = jv_next(properties, at, &key, &value)) {
        size_t len = s->pointer.len;
        put_token(&s->pointer, key);
        rc = s->pointer.failed ? tidings_fail(s->err, s->pointer.failed, "properties are too deep")
                               : header_params_visit(s, value, is_reachable);
        s->pointer.len = len;
    }
    return rc;
}

/* Recursion is as deep as the schema, which its parser has bounded. */
static int header_params_visit(struct scan *s, struct json *schema, bool is_reachable)
{
    struct json *name = jv_get(schema, KEY);
    int rc = 0;
    if (name && (!is_reachable || s->pointer.len == 0)) {
        rc = header_params_refuse(s, "may stand only where a chain of 'properties' leads");
    } else if (name) {
        rc = add_row(s, schema, jv_str(name));
    }
    if (rc == 0) {
        rc = visit_properties(s, jv_get(schema, "properties"), is_reachable);
    }
    return rc == 0 ? visit_rest(s, schema) : rc;
}

int header_params_create(struct json *schema, struct header_params **ret, struct tidings_error *err)
{
    struct scan s = {.err = err};
    buf_init(&s.pointer, 64u * 1024u);
    int rc = header_params_visit(&s, schema, true);
    buf_deinit(&s.pointer);
    if (rc < 0) {
        mem_free(s.found);
        return rc;
    }
    *ret = s.found;
    return 0;
}

void header_params_destroy(struct header_params *m)
{
    mem_free(m);
}

/* ---- what a request says --------------------------------------------------------------------- */

/* Strings byte by byte, the others as JSON writes them; 7.0 is 7. */
static bool header_params_equals(struct tidings_str header, const struct json *value)
{
    if (jv_is(value, JV_STRING)) {
        return dialect_header_equals(header, jv_str(value));
    }
    int64_t given = 0;
    if (jv_is(value, JV_INT) || jv_is(value, JV_REAL)) {
        return str_to_i64(header, &given) &&
               (jv_is(value, JV_INT) ? given == jv_int(value) : (double)given == jv_real(value));
    }
    return (jv_is(value, JV_TRUE) && str_eq(header, STR("true"))) ||
           (jv_is(value, JV_FALSE) && str_eq(header, STR("false")));
}

bool header_params_holds(const struct header_params *m, struct json *arguments,
                         const struct http_request *req, struct tidings_error *err)
{
    for (size_t i = 0; m && i < m->count; i++) {
        const struct header_param *row = &m->rows[i];
        const struct json *value = jv_point(arguments, tidings_str(row->pointer));
        bool is_given = value && !jv_is(value, JV_NULL);
        unsigned count = 0;
        struct tidings_str header = http_header(req, row->header, &count);
        if (count > 1 || (count == 1) != is_given ||
            (is_given && !header_params_equals(header, value))) {
            tidings_fail(err, TIDINGS_E_INVALID, "the header %s %s the argument '%s' it repeats%s",
                         row->header, count == 0 ? "is missing beside" : "differs from",
                         row->pointer + 1, count > 1 ? ", or is there twice" : "");
            return false;
        }
    }
    return true;
}
