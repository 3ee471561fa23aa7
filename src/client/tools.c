/* SPDX-License-Identifier: MIT
 *
 * Finds `x-mcp-header` in the input schemas of tools, and writes the header fields of their calls.
 */
#include "client/tools.h"

#include "base/encode.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/client_internal.h"
#include "client/json_api.h"
#include "formats/json.h"

/* -------------------------------------------------------------------------------------------------
 * Keeps the output schemas of a server's tools and checks results against them.
 */

#define SCHEMA_COST 7000000u /* of compiling one, in steps: 18 ms */

struct tool_schema {
    char *text;
    struct json_schema *schema; /* NULL: not compiled yet, or … */
    bool is_useless;            /* … it cannot be */
    size_t name_len;
    char name[];
};

struct tool_schemas {
    struct map by_name;
    size_t bytes;
    bool is_listed; /* the whole list was requested */
};

static void tool_schema_free(struct tool_schema *t)
{
    schema_destroy(t->schema);
    mem_free(t->text);
    mem_free(t);
}

void tool_schemas_forget(struct tidings_client *c)
{
    struct tool_schemas *all = c->tool_schemas;
    struct tool_schema *t;
    size_t at = 0;
    c->tool_schemas = NULL;
    while (all && (t = map_next(&all->by_name, &at)) != NULL) {
        tool_schema_free(t);
    }
    if (all) {
        map_deinit(&all->by_name);
        mem_free(all);
    }
}

static struct tool_schemas *tool_schemas_of(struct tidings_client *c)
{
    if (!c->tool_schemas) {
        c->tool_schemas = mem_zalloc(sizeof(*c->tool_schemas));
        if (c->tool_schemas) {
            map_init(&c->tool_schemas->by_name);
        }
    }
    return c->tool_schemas;
}

static void tool_schemas_drop(struct tool_schemas *all, struct tidings_str name)
{
    struct tool_schema *t = map_find(&all->by_name, name);
    if (t) {
        map_remove(&all->by_name, name);
        all->bytes -= strlen(t->text);
        tool_schema_free(t);
    }
}

void tool_schemas_note(struct tidings_client *c, struct json *tool)
{
    struct tidings_str name = jv_str(jv_get(tool, "name"));
    struct json *output = jv_get(tool, "outputSchema");
    struct tool_schemas *all = tool_schemas_of(c);
    size_t len = 0;
    if (!all || name.len == 0) {
        return;
    }
    tool_schemas_drop(all, name);
    char *text =
        output && all->by_name.count < TOOL_SCHEMAS_MAX ? json_text_of(c, output, &len) : NULL;
    struct tool_schema *t =
        text && len <= TOOL_SCHEMAS_BYTES - all->bytes ? mem_zalloc(sizeof(*t) + name.len) : NULL;
    if (!t) {
        mem_free(text);
        return;
    }
    t->text = text;
    t->name_len = name.len;
    memcpy(t->name, name.ptr, name.len);
    if (map_put(&all->by_name, tidings_strn(t->name, name.len), t, NULL) < 0) {
        tool_schema_free(t);
        return;
    }
    all->bytes += len;
}

void tool_schemas_complete(struct tidings_client *c)
{
    if (tool_schemas_of(c)) {
        c->tool_schemas->is_listed = true;
    }
}

static void tool_schema_compile(struct tool_schema *t)
{
    const struct schema_options options = {.max_cost = SCHEMA_COST};
    struct json *root = NULL;
    t->is_useless = json_parse_lenient(tidings_str(t->text), &root, NULL, NULL) < 0 ||
                    schema_compile(root, &options, &t->schema, NULL) < 0;
    jv_unref(root);
}

enum schema_verdict tool_schemas_check(struct tidings_client *c, struct tidings_str tool,
                                       struct json *content, struct schema_error *e)
{
    struct tool_schema *t = c->tool_schemas ? map_find(&c->tool_schemas->by_name, tool) : NULL;
    if (t && !t->schema && !t->is_useless) {
        tool_schema_compile(t);
    }
    if (!t || t->is_useless) {
        return SCHEMA_VALID;
    }
    if (!content) {
        *e = (struct schema_error){.text = "there is no structuredContent"};
        return SCHEMA_NOT_VALID;
    }
    uint64_t steps = schema_max_steps(t->schema);
    return schema_check_within(t->schema, content, e, &steps);
}

bool tool_schemas_is_complete(const struct tidings_client *c)
{
    return c->tool_schemas && c->tool_schemas->is_listed;
}

/* ---------------------------------------------------------------------------------------------- */

#define TOOL_HEADERS_SAFE 9007199254740991.0 /* beyond, numbers are not the same everywhere */

struct tool_header {
    char *name;    /* of the field, without Mcp-Param- */
    char *pointer; /* to the argument: names of arguments may have U+0000 in them */
    size_t pointer_len;
};

struct tool_declares {
    struct tool_header headers[TOOL_HEADERS_LINES];
    size_t count;
    struct tidings_error fault; /* code 0: none */
    size_t name_len;
    char name[];
};

struct tool_headers {
    struct map by_name;
};

static void tool_declares_free(struct tool_declares *d)
{
    for (size_t i = 0; i < d->count; i++) {
        mem_free(d->headers[i].name);
        mem_free(d->headers[i].pointer);
    }
    mem_free(d);
}

void tool_headers_forget(struct tidings_client *c)
{
    struct tool_headers *all = c->tool_headers;
    struct tool_declares *d;
    size_t at = 0;
    c->tool_headers = NULL;
    while (all && (d = map_next(&all->by_name, &at)) != NULL) {
        tool_declares_free(d);
    }
    if (all) {
        map_deinit(&all->by_name);
        mem_free(all);
    }
}

/* ---- what a schema declares ------------------------------------------------------------------ */

/* RFC 9110, 5.6.2. */
static bool is_field_name(struct tidings_str s)
{
    bool is_fit = s.len > 0 && s.len <= 128;
    for (size_t i = 0; is_fit && i < s.len; i++) {
        unsigned char ch = (unsigned char)s.ptr[i];
        is_fit = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
                 (ch != '\0' && strchr("!#$%&'*+-.^_`|~", ch));
    }
    return is_fit;
}

static int tool_headers_fault(struct tool_declares *d, const char *what)
{
    return tidings_fail(&d->fault, TIDINGS_E_PARSE,
                        "the tool '%.60s' is left out: its x-mcp-header %s", d->name, what);
}

static int tool_headers_add(struct tool_declares *d, struct json *schema, struct buf *path)
{
    struct json *given = jv_get(schema, "x-mcp-header");
    struct tidings_str name = jv_str(given), type = jv_str(jv_get(schema, "type"));
    if (!jv_is(given, JV_STRING) || !is_field_name(name)) {
        return tool_headers_fault(d, "is not a header field name");
    }
    if (!str_eq(type, STR("string")) && !str_eq(type, STR("integer")) &&
        !str_eq(type, STR("boolean"))) {
        return tool_headers_fault(d, "is on something other than a string, integer or boolean");
    }
    for (size_t i = 0; i < d->count; i++) {
        if (str_eq_nocase(name, tidings_str(d->headers[i].name))) {
            return tool_headers_fault(d, "is duplicated");
        }
    }
    if (d->count >= TOOL_HEADERS_LINES || path->failed) {
        return tool_headers_fault(d, "occurs too often, or too deep");
    }
    struct tool_header *h = &d->headers[d->count++];
    *h = (struct tool_header){
        .name = str_dup(name), .pointer = str_dup(buf_str(path)), .pointer_len = path->len};
    return h->name && h->pointer ? 0 : tidings_fail(&d->fault, TIDINGS_E_NOMEM, "out of memory");
}

static int tool_headers_scan(struct tool_declares *d, struct json *schema, struct buf *path,
                             bool is_reachable);

/* Below a keyword through which no argument can be found: a schema, several, or several by name. */
static int tool_headers_scan_other(struct tool_declares *d, struct json *value, bool has_names,
                                   struct buf *path)
{
    struct tidings_str key;
    struct json *one;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < (jv_is(value, JV_ARRAY) ? jv_count(value) : 0); i++) {
        rc = tool_headers_scan(d, jv_at(value, i), path, false);
    }
    if (rc < 0 || !jv_is(value, JV_OBJECT)) {
        return rc;
    }
    if (!has_names) {
        return tool_headers_scan(d, value, path, false);
    }
    for (void *at = NULL; rc == 0 && (at = jv_next(value, at, &key, &one)) != NULL;) {
        rc = tool_headers_scan(d, one, path, false);
    }
    return rc;
}

static void tool_headers_put_key(struct buf *path, struct tidings_str key)
{
    buf_putc(path, '/');
    for (size_t i = 0; i < key.len; i++) {
        if (key.ptr[i] == '~' || key.ptr[i] == '/') {
            buf_puts(path, key.ptr[i] == '~' ? STR("~0") : STR("~1"));
        } else {
            buf_putc(path, key.ptr[i]);
        }
    }
}

/* The argument that `path` leads to, and those below it. */
static int tool_headers_scan(struct tool_declares *d, struct json *schema, struct buf *path,
                             bool is_reachable)
{
    static const char *const others[] = {
        "$defs",
        "definitions",
        "patternProperties",
        "dependentSchemas",
        "items",
        "prefixItems",
        "contains",
        "additionalProperties",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
        "oneOf",
        "anyOf",
        "allOf",
        "not",
        "if",
        "then",
        "else",
    };
    struct json *properties = jv_get(schema, "properties"), *one;
    struct tidings_str key;
    int rc = 0;
    if (jv_get(schema, "x-mcp-header")) {
        rc = is_reachable && path->len > 0
                 ? tool_headers_add(d, schema, path)
                 : tool_headers_fault(d, "is not on an argument, or not on one that is always one");
    }
    for (void *at = NULL; rc == 0 && (at = jv_next(properties, at, &key, &one)) != NULL;) {
        size_t len = path->len;
        tool_headers_put_key(path, key);
        rc = tool_headers_scan(d, one, path, is_reachable);
        if (!path->failed) {
            path->len = len;
            path->ptr[len] = '\0';
        }
    }
    for (size_t i = 0; rc == 0 && i < sizeof(others) / sizeof(others[0]); i++) {
        rc = tool_headers_scan_other(d, jv_get(schema, others[i]), i < 4, path);
    }
    return rc;
}

static struct tool_declares *tool_declares_create(struct tidings_str name)
{
    struct tool_declares *d = mem_zalloc(sizeof(*d) + name.len + 1);
    if (d) {
        d->name_len = name.len;
        memcpy(d->name, name.ptr, name.len);
    }
    return d;
}

static void tool_headers_keep(struct tidings_client *c, struct tool_declares *d)
{
    struct tidings_str name = tidings_strn(d->name, d->name_len);
    struct tool_headers *all = c->tool_headers;
    if (!all && (all = mem_zalloc(sizeof(*all))) != NULL) {
        map_init(&all->by_name);
        c->tool_headers = all;
    }
    struct tool_declares *before = all ? map_remove(&all->by_name, name) : NULL;
    if (before) {
        tool_declares_free(before);
    }
    bool is_worth = d->count > 0 || d->fault.code < 0;
    if (!all || !is_worth || all->by_name.count >= TOOL_HEADERS_MAX ||
        map_put(&all->by_name, name, d, NULL) < 0) {
        tool_declares_free(d);
    }
}

bool tool_headers_matter(const struct tidings_client *c)
{
    return c->era == TIDINGS_ERA_MODERN && c->transport->ops->has_exchanges;
}

int tool_headers_note(struct tidings_client *c, struct json *tool, struct tidings_error *err)
{
    struct tidings_str name = jv_str(jv_get(tool, "name"));
    if (!tool_headers_matter(c) || name.len == 0) {
        return 0;
    }
    struct buf path;
    struct tool_declares *d = tool_declares_create(name);
    if (!d) {
        return 0;
    }
    buf_init(&path, TOOL_HEADERS_PATH);
    int rc = tool_headers_scan(d, jv_get(tool, "inputSchema"), &path, true);
    buf_deinit(&path);
    if (rc < 0 && err) {
        *err = d->fault;
    }
    tool_headers_keep(c, d);
    return rc == TIDINGS_E_PARSE ? rc : 0;
}

static const struct tool_declares *tool_headers_find(const struct tidings_client *c,
                                                     struct tidings_str tool)
{
    return c->tool_headers ? map_find(&c->tool_headers->by_name, tool) : NULL;
}

int tool_headers_check(const struct tidings_client *c, struct tidings_str tool,
                       struct tidings_error *err)
{
    const struct tool_declares *d = tool_headers_find(c, tool);
    return d && d->fault.code < 0 ? tidings_fail(err, d->fault.code, "%s", d->fault.text) : 0;
}

/* ---- the lines of a call --------------------------------------------------------------------- */

void tool_headers_put_value(struct buf *out, struct tidings_str value)
{
    bool is_plain = value.len > 0 && !str_starts(value, STR("=?base64?")) && value.ptr[0] != ' ' &&
                    value.ptr[value.len - 1] != ' ';
    for (size_t i = 0; is_plain && i < value.len; i++) {
        is_plain = value.ptr[i] >= ' ' && value.ptr[i] <= '~';
    }
    if (is_plain) {
        buf_puts(out, value);
        return;
    }
    buf_puts(out, STR("=?base64?"));
    base64_put(out, value);
    buf_puts(out, STR("?="));
}

/* Returns false if a field cannot have that value. */
static bool tool_headers_can_say(const struct json *value)
{
    double number = jv_real(value);
    bool is_safe = number >= -TOOL_HEADERS_SAFE && number <= TOOL_HEADERS_SAFE;
    return jv_is(value, JV_STRING) || jv_is_bool(value) ||
           (jv_is_number(value) && is_safe && (double)(int64_t)number == number);
}

void tool_headers_put(const struct tidings_client *c, struct tidings_str tool,
                      struct json *arguments, struct buf *out)
{
    const struct tool_declares *d = tool_headers_matter(c) ? tool_headers_find(c, tool) : NULL;
    for (size_t i = 0; d && i < d->count; i++) {
        const struct tool_header *h = &d->headers[i];
        struct json *value = jv_point(arguments, tidings_strn(h->pointer, h->pointer_len));
        if (!value || !tool_headers_can_say(value)) {
            continue;
        }
        buf_putf(out, "Mcp-Param-%s: ", h->name);
        if (jv_is(value, JV_STRING)) {
            tool_headers_put_value(out, jv_str(value));
        } else if (jv_is_bool(value)) {
            buf_puts(out, jv_is_true(value) ? STR("true") : STR("false"));
        } else {
            buf_puti(out, (int64_t)jv_real(value));
        }
        buf_putc(out, '\n');
    }
}
