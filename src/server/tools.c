/* SPDX-License-Identifier: MIT
 *
 * Registering tools: everything about one is checked and encoded here, once; the hub puts the
 * registrations of all threads in order. The server's own tools take the same road.
 */
#include <tidings/tool.h>

#include "base/error.h"
#include "base/str.h"
#include "server/server_private.h"
#include "json/write.h"

#define TEXT_DEPTH 64u         /* nesting of the JSON texts of a tool */
#define ROW_BYTES (4u << 20)   /* of all of them */
#define VALIDATE_STEPS 500000u /* arguments come from strangers */

/* ---- the JSON texts -------------------------------------------------------------------------- */

/* Parse `text`, which must be of that type. */
static int read_json(struct tidings_str text, const char *what, enum jv_type type,
                     struct json **ret, struct tidings_error *err)
{
    int rc = jv_parse(text, TEXT_DEPTH, ret, err);
    if (rc < 0) {
        return error_wrap(err, rc, "%s", what);
    }
    if (!jv_is(*ret, type)) {
        jv_unref(*ret);
        return tidings_fail(err, TIDINGS_E_INVALID, "%s must be a JSON %s", what,
                            type == JV_ARRAY ? "array" : "object");
    }
    return 0;
}

static int put_json(struct jw *w, const char *key, struct tidings_str text, enum jv_type type,
                    struct tidings_error *err)
{
    struct json *value = NULL;
    if (text.len == 0) {
        return 0;
    }
    int rc = read_json(text, key, type, &value, err);
    if (rc == 0) {
        jw_key(w, tidings_str(key));
        jw_value(w, value);
        jv_unref(value);
    }
    return rc;
}

/* Write the schema into the row and compile it. */
static int put_schema(struct jw *w, const char *key, struct tidings_str text,
                      struct json_schema **ret, struct tidings_error *err)
{
    struct json *schema = NULL;
    int rc = read_json(text, key, JV_OBJECT, &schema, err);
    if (rc < 0) {
        return rc;
    }
    if (!str_eq(jv_str(jv_get(schema, "type")), STR("object"))) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "%s: /type must be \"object\"", key);
    }
    if (rc == 0) {
        struct schema_options options = {.max_steps = VALIDATE_STEPS};
        rc = schema_compile(schema, &options, ret, err);
        rc = rc < 0 ? error_wrap(err, rc, "%s", key) : 0;
    }
    if (rc == 0) {
        jw_key(w, tidings_str(key));
        jw_value(w, schema);
    }
    jv_unref(schema);
    return rc;
}

/* ---- _meta ----------------------------------------------------------------------------------- */

/* A prefix whose second label is "mcp" or "modelcontextprotocol" belongs to the protocol. */
static bool is_reserved(struct tidings_str key)
{
    struct tidings_str prefix = str_cut(key, '/', &key, NULL), rest;
    if (key.len == 0) {
        return false; /* no prefix */
    }
    (void)str_cut(prefix, '.', &rest, NULL);
    struct tidings_str second = str_cut(rest, '.', &rest, NULL);
    return str_eq(second, STR("mcp")) || str_eq(second, STR("modelcontextprotocol"));
}

static int check_meta(struct tidings_str text, struct tidings_error *err)
{
    struct json *meta = NULL;
    if (text.len == 0) {
        return 0;
    }
    int rc = read_json(text, "_meta", JV_OBJECT, &meta, err);
    if (rc < 0) {
        return rc;
    }
    struct tidings_str key;
    struct json *value = NULL;
    void *at = jv_next(meta, NULL, &key, &value);
    for (; at && rc == 0; at = jv_next(meta, at, &key, &value)) {
        if (is_reserved(key)) {
            rc = tidings_fail(err, TIDINGS_E_INVALID,
                              "_meta: the prefix of '%.*s' is reserved by the protocol",
                              (int)(key.len < 64 ? key.len : 64), key.ptr);
        }
    }
    jv_unref(meta);
    return rc;
}

/* ---- registering ----------------------------------------------------------------------------- */

struct schemas {
    struct json_schema *input, *output;
};

static void put_text(struct jw *w, struct tidings_str key, struct tidings_str text)
{
    if (text.len > 0) {
        jw_put_string(w, key, text);
    }
}

/* The row of tools/list. */
static int put_row(struct buf *out, const struct tidings_tool *about, struct schemas *schemas,
                   struct tidings_error *err)
{
    static const struct tidings_str any = {"{\"type\":\"object\"}", 17};
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("name"), about->name);
    put_text(&w, STR("title"), about->title);
    put_text(&w, STR("description"), about->description);
    int rc = put_json(&w, "icons", about->icons, JV_ARRAY, err);
    if (rc == 0) {
        rc = put_schema(&w, "inputSchema", about->input_schema.len > 0 ? about->input_schema : any,
                        &schemas->input, err);
    }
    if (rc == 0 && about->output_schema.len > 0) {
        rc = put_schema(&w, "outputSchema", about->output_schema, &schemas->output, err);
    }
    if (rc == 0) {
        rc = put_json(&w, "annotations", about->annotations, JV_OBJECT, err);
    }
    if (rc == 0) {
        rc = put_json(&w, "_meta", about->meta, JV_OBJECT, err);
    }
    if (rc == 0) {
        jw_end_object(&w);
        rc = out->failed ? tidings_fail(err, out->failed, "the description does not fit") : 0;
    }
    return rc;
}

int tidings_server_add_tool(struct tidings_server *s, const struct tidings_tool *about,
                            tidings_call_fn handler, void *user, struct tidings_error *err)
{
    if (!s || !about || !handler) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a tool needs a server, a name and a handler");
    }
    int rc = feature_check_name(about->name, err);
    rc = rc < 0 ? rc : check_meta(about->meta, err);
    if (rc < 0) {
        return rc;
    }
    struct buf row;
    struct schemas schemas = {NULL, NULL};
    struct feature *f = NULL;
    buf_init(&row, ROW_BYTES);
    rc = put_row(&row, about, &schemas, err);
    if (rc == 0) {
        f = feature_create(FEATURE_TOOL, about->name, buf_str(&row));
        rc = f ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    buf_deinit(&row);
    if (rc < 0) {
        schema_destroy(schemas.input);
        schema_destroy(schemas.output);
        return error_wrap(err, rc, "tool '%.*s'", STR_ARG(about->name));
    }
    f->input = schemas.input;
    f->output = schemas.output;
    f->handler = handler;
    f->user = user;
    f->timeout_ms = about->timeout_ms;
    f->is_blocking = about->is_blocking;
    return hub_add_feature(s->hub, f, err);
}

int tidings_server_remove_tool(struct tidings_server *s, struct tidings_str name,
                               struct tidings_error *err)
{
    return hub_remove_feature(s->hub, FEATURE_TOOL, name, err);
}
