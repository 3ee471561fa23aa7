/* SPDX-License-Identifier: MIT
 *
 * Registering tools: everything about one is checked and encoded here, once; the hub puts the
 * registrations of all threads in order. The server's own tools take the same road.
 */
#include "server/server_tools.h"

#include "base/error.h"
#include "base/str.h"
#include "catalog/meta_keys.h"
#include "handler/header_params.h"
#include "server/feature_row.h"
#include "server/server_private.h"
#include "json/write.h"

#define VALIDATE_STEPS 500000u /* arguments come from strangers */

/* ---- the row --------------------------------------------------------------------------------- */

/* Write the schema into the row and compile it; `ret_params` (may be NULL) gets what headers
 * repeat. */
static int put_schema(struct jw *w, const char *key, struct tidings_str text,
                      struct json_schema **ret, struct header_params **ret_params,
                      struct tidings_error *err)
{
    struct json *schema = NULL;
    int rc = row_read_json(text, key, JV_OBJECT, &schema, err);
    if (rc < 0) {
        return rc;
    }
    if (!str_eq(jv_str(jv_get(schema, "type")), STR("object"))) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "%s: /type must be \"object\"", key);
    }
    if (rc == 0) {
        struct schema_options options = {.max_steps = VALIDATE_STEPS};
        rc = schema_compile(schema, &options, ret, err);
        rc = rc == 0 && ret_params ? header_params_create(schema, ret_params, err) : rc;
        rc = rc < 0 ? error_wrap(err, rc, "%s", key) : 0;
    }
    if (rc == 0) {
        jw_key(w, tidings_str(key));
        jw_value(w, schema);
    }
    jv_unref(schema);
    return rc;
}

/* ---- registering ----------------------------------------------------------------------------- */

struct schemas {
    struct json_schema *input, *output;
    struct header_params *header_params; /* of the input */
};

/* The row of tools/list. */
static int tools_put_row(struct buf *out, const struct tidings_tool *about, struct schemas *schemas,
                         struct tidings_error *err)
{
    static const struct tidings_str any = {"{\"type\":\"object\"}", 17};
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("name"), about->name);
    row_put_text(&w, STR("title"), about->title);
    row_put_text(&w, STR("description"), about->description);
    int rc = row_put_json(&w, "icons", about->icons, JV_ARRAY, err);
    if (rc == 0) {
        rc = put_schema(&w, "inputSchema", about->input_schema.len > 0 ? about->input_schema : any,
                        &schemas->input, &schemas->header_params, err);
    }
    if (rc == 0 && about->output_schema.len > 0) {
        rc = put_schema(&w, "outputSchema", about->output_schema, &schemas->output, NULL, err);
    }
    if (rc == 0) {
        rc = row_put_json(&w, "annotations", about->annotations, JV_OBJECT, err);
    }
    if (rc == 0) {
        rc = row_put_json(&w, "_meta", about->meta, JV_OBJECT, err);
    }
    if (rc == 0) {
        jw_end_object(&w);
        rc = buf_check(out, "the description", "shorten it", err);
    }
    return rc;
}

#define TASK_TTL_MAX_MS (UINT64_C(30) * 24 * 3600 * 1000)
static int tools_check_task(const struct tidings_tool *about, struct tidings_error *err)
{
    if ((unsigned)about->task > TIDINGS_TASK_REQUIRED ||
        (about->begins_task && about->task == TIDINGS_TASK_NEVER)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "task must be one of TIDINGS_TASK_NEVER, _OPTIONAL and _REQUIRED, and "
                            "begins_task is for the last two");
    }
    return about->task_ttl_ms > TASK_TTL_MAX_MS
               ? tidings_fail(err, TIDINGS_E_INVALID, "task_ttl_ms may be at most 30 days")
               : 0;
}

int server_tools_add_for(struct tidings_server *s, const struct tidings_tool *about,
                         tidings_call_fn handler, void *user, struct tidings_str uri,
                         struct tidings_error *err)
{
    int rc = server_check_open(s, err);
    if (rc == 0 && (!about || !handler)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "a tool needs a name and a handler");
    }
    rc = rc < 0 ? rc : RESERVED_CHECK(about, err);
    rc = rc < 0 ? rc : feature_check_name(about->name, err);
    rc = rc < 0 ? rc : tools_check_task(about, err);
    rc = rc < 0 ? rc : meta_check(about->meta, ROW_BYTES, ROW_DEPTH, err);
    if (rc < 0) {
        return rc;
    }
    struct buf row;
    struct schemas schemas = {NULL, NULL, NULL};
    struct feature *f = NULL;
    buf_init(&row, ROW_BYTES);
    rc = tools_put_row(&row, about, &schemas, err);
    if (rc == 0) {
        f = feature_create(FEATURE_TOOL, about->name, buf_str(&row));
        rc = f ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    buf_deinit(&row);
    if (!f) {
        schema_destroy(schemas.input);
        schema_destroy(schemas.output);
        header_params_destroy(schemas.header_params);
        return error_wrap(err, rc, "tool '%.*s'", STR_ARG(about->name));
    }
    f->input = schemas.input;
    f->output = schemas.output;
    f->header_params = schemas.header_params;
    f->writes = uri;
    f->task = about->task;
    f->begins_task = about->begins_task;
    f->task_ttl_ms = about->task_ttl_ms;
    feature_set_handler(f, handler, user, about->timeout_ms, about->is_blocking);
    return hub_add_feature(s->hub, f, err);
}

int tidings_server_add_tool(struct tidings_server *s, const struct tidings_tool *about,
                            tidings_call_fn handler, void *user, struct tidings_error *err)
{
    struct tidings_error own = {0, ""};
    return server_note(s, __func__,
                       server_tools_add_for(s, about, handler, user, STR_EMPTY, err ? err : &own),
                       &own);
}

int tidings_server_set_call_hooks(struct tidings_server *s, const struct tidings_call_hooks *hooks,
                                  struct tidings_error *err)
{
    int rc = server_check_new(s, err);
    rc = rc == 0 && hooks ? RESERVED_CHECK(hooks, err) : rc;
    if (rc < 0) {
        return rc;
    }
    s->call_hooks = hooks ? *hooks : (struct tidings_call_hooks){0};
    hub_set_call_hooks(s->hub, hooks ? &s->call_hooks : NULL);
    return 0;
}

int tidings_server_remove_tool(struct tidings_server *s, struct tidings_str name,
                               struct tidings_error *err)
{
    int rc = server_check(s, err);
    return rc < 0 ? rc : hub_remove_feature(s->hub, FEATURE_TOOL, name, err);
}
