/* SPDX-License-Identifier: MIT
 *
 * The registrations and announcements of the program: resources, templates, mounts, HTTP routes,
 * changes, and its own subscriptions. All may come from any thread; the hub serializes them.
 */
#include "server/registry.h"

#include <tidings/prompt.h>
#include <tidings/server.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/catalog/resource.h"
#include "engine/protocol/feature.h"
#include "formats/http_fields.h"
#include "formats/json_write.h"
#include "formats/uri.h"
#include "server/local_subscription.h"
#include "server/server_internal.h"
#include "server/setup.h"
#include "store/change.h"

/* -------------------------------------------------------------------------------------------------
 * The rows of tools/list and prompts/list: the common part of the descriptions of tools and
 * prompts, from strings of the program that are validated first.
 */

#define ROW_BYTES (4u << 20) /* of one row */
#define ROW_DEPTH 64u        /* nesting of its JSON values */

/* -------------------------------------------------------------------------------------------------
 * The rows of tools/list and prompts/list. JSON from the program is parsed and printed again, so
 * that lists are well-formed and compact.
 */

static int row_read_json(struct tidings_str text, const char *what, enum jv_type type,
                         struct json **ret, struct tidings_error *err)
{
    int rc = jv_parse(text, ROW_DEPTH, ret, err);
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

/* The same, written as the member `key`; nothing if `text` is empty. */
static int row_put_json(struct jw *w, const char *key, struct tidings_str text, enum jv_type type,
                        struct tidings_error *err)
{
    struct json *value = NULL;
    if (text.len == 0) {
        return 0;
    }
    int rc = row_read_json(text, key, type, &value, err);
    if (rc == 0) {
        jw_key(w, tidings_str(key));
        jw_value(w, value);
        jv_unref(value);
    }
    return rc;
}

/* A string member; nothing if `text` is empty. */
static void row_put_text(struct jw *w, struct tidings_str key, struct tidings_str text)
{
    if (text.len > 0) {
        jw_put_string(w, key, text);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Registers tools: each is validated and encoded here, once; the hub serializes the registrations
 * of all threads. The server's own tools are registered in the same way.
 */

#define VALIDATE_STEPS 500000u /* arguments are untrusted */

/* ---- the row --------------------------------------------------------------------------------- */

/* Write the schema into the row and compile it; `ret_params` (may be NULL) gets the parameters that
 * headers repeat. */
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
    s->registry.call_hooks = hooks ? *hooks : (struct tidings_call_hooks){0};
    s->shared->call_hooks = hooks ? &s->registry.call_hooks : NULL;
    return 0;
}

int tidings_server_remove_tool(struct tidings_server *s, struct tidings_str name,
                               struct tidings_error *err)
{
    int rc = server_check(s, err);
    return rc < 0 ? rc : hub_remove_feature(s->hub, FEATURE_TOOL, name, err);
}

/* -------------------------------------------------------------------------------------------------
 * Registers prompts and completions: each is validated and encoded here, once; the hub serializes
 * the registrations of all threads. Arguments are validated by a schema that is built from their
 * table.
 */

#define MAX_ARGUMENTS 64u
#define MAX_ARGUMENT_NAME 128u

/* ---- arguments ------------------------------------------------------------------------------- */

static int prompts_check_arguments(const struct tidings_prompt *about, struct tidings_error *err)
{
    if (about->argument_count > MAX_ARGUMENTS) {
        return tidings_fail(err, TIDINGS_E_INVALID, "at most %u arguments", MAX_ARGUMENTS);
    }
    if (about->argument_count > 0 && !about->arguments) {
        return tidings_fail(err, TIDINGS_E_INVALID, "`arguments` is NULL, and there are %zu",
                            about->argument_count);
    }
    for (size_t i = 0; i < about->argument_count; i++) {
        struct tidings_str name = tidings_str(about->arguments[i].name);
        if (name.len == 0 || name.len > MAX_ARGUMENT_NAME || !str_is_utf8(name)) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "argument %zu needs a name of 1 to %u bytes of UTF-8", i + 1,
                                MAX_ARGUMENT_NAME);
        }
        for (size_t k = 0; k < i; k++) {
            if (str_eq(name, tidings_str(about->arguments[k].name))) {
                return tidings_fail(err, TIDINGS_E_INVALID, "there are two arguments '%.*s'",
                                    STR_ARG(name));
            }
        }
    }
    return 0;
}

/* All required arguments must be present, and all must be strings, known or not. */
static int compile_arguments(const struct tidings_prompt *about, struct json_schema **ret,
                             struct tidings_error *err)
{
    struct buf text;
    struct jw w;
    struct json *root = NULL;
    buf_init(&text, ROW_BYTES);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_put_raw(&w, STR("additionalProperties"), STR("{\"type\":\"string\"}"));
    jw_key(&w, STR("required"));
    jw_begin_array(&w);
    for (size_t i = 0; i < about->argument_count; i++) {
        if (about->arguments[i].is_required) {
            jw_string(&w, tidings_str(about->arguments[i].name));
        }
    }
    jw_end_array(&w);
    jw_end_object(&w);
    int rc = text.failed ? tidings_fail(err, text.failed, "the arguments do not fit")
                         : jv_parse(buf_str(&text), JSON_MAX_DEPTH, &root, err);
    if (rc == 0) {
        rc = schema_compile(root, NULL, ret, err);
    }
    jv_unref(root);
    buf_deinit(&text);
    return rc;
}

/* ---- the row --------------------------------------------------------------------------------- */

static void put_arguments(struct jw *w, const struct tidings_prompt *about)
{
    if (about->argument_count == 0) {
        return;
    }
    jw_key(w, STR("arguments"));
    jw_begin_array(w);
    for (size_t i = 0; i < about->argument_count; i++) {
        const struct tidings_argument *a = &about->arguments[i];
        jw_begin_object(w);
        jw_put_string(w, STR("name"), tidings_str(a->name));
        row_put_text(w, STR("title"), tidings_str(a->title));
        row_put_text(w, STR("description"), tidings_str(a->description));
        jw_put_bool(w, STR("required"), a->is_required);
        jw_end_object(w);
    }
    jw_end_array(w);
}

struct span { /* a byte range of a buffer */
    size_t begin, end;
};

/* The row of prompts/list; *description gets the position of that value in it. */
static int prompts_put_row(struct buf *out, const struct tidings_prompt *about,
                           struct span *description, struct tidings_error *err)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("name"), about->name);
    row_put_text(&w, STR("title"), about->title);
    if (about->description.len > 0) {
        jw_key(&w, STR("description"));
        description->begin = out->len;
        jw_string(&w, about->description);
        description->end = out->len;
    }
    put_arguments(&w, about);
    int rc = row_put_json(&w, "icons", about->icons, JV_ARRAY, err);
    if (rc == 0) {
        rc = row_put_json(&w, "_meta", about->meta, JV_OBJECT, err);
    }
    if (rc == 0) {
        jw_end_object(&w);
        rc = buf_check(out, "the description", "shorten it", err);
    }
    return rc;
}

static int prompts_create(const struct tidings_prompt *about, struct feature **ret,
                          struct tidings_error *err)
{
    struct buf row;
    struct span description = {0, 0};
    struct json_schema *input = NULL;
    struct feature *f = NULL;
    buf_init(&row, ROW_BYTES);
    int rc = prompts_check_arguments(about, err);
    rc = rc < 0 ? rc : meta_check(about->meta, ROW_BYTES, ROW_DEPTH, err);
    rc = rc < 0 ? rc : prompts_put_row(&row, about, &description, err);
    rc = rc < 0 ? rc : compile_arguments(about, &input, err);
    if (rc == 0) {
        f = feature_create(FEATURE_PROMPT, about->name, buf_str(&row));
        rc = f ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    buf_deinit(&row);
    if (!f) {
        schema_destroy(input);
        return error_wrap(err, rc, "prompt '%.*s'", STR_ARG(about->name));
    }
    f->description_json =
        tidings_strn(f->row.ptr + description.begin, description.end - description.begin);
    f->input = input;
    *ret = f;
    return 0;
}

static int prompts_add(struct tidings_server *s, const struct tidings_prompt *about,
                       tidings_call_fn handler, void *user, struct tidings_error *err)
{
    struct feature *f = NULL;
    int rc = server_check_open(s, err);
    if (rc == 0 && (!about || !handler)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "a prompt needs a name and a handler");
    }
    rc = rc < 0 ? rc : RESERVED_CHECK(about, err);
    rc = rc < 0 ? rc : feature_check_name(about->name, err);
    rc = rc < 0 ? rc : prompts_create(about, &f, err);
    if (!f) {
        return rc;
    }
    feature_set_handler(f, handler, user, about->timeout_ms, about->is_blocking);
    return hub_add_feature(s->hub, f, err);
}

int tidings_server_add_prompt(struct tidings_server *s, const struct tidings_prompt *about,
                              tidings_call_fn handler, void *user, struct tidings_error *err)
{
    struct tidings_error own = {0, ""};
    return server_note(s, __func__, prompts_add(s, about, handler, user, err ? err : &own), &own);
}

int tidings_server_remove_prompt(struct tidings_server *s, struct tidings_str name,
                                 struct tidings_error *err)
{
    int rc = server_check(s, err);
    return rc < 0 ? rc : hub_remove_feature(s->hub, FEATURE_PROMPT, name, err);
}

/* ---- completions ----------------------------------------------------------------------------- */

static int set_completion(struct tidings_server *s, const char *what, struct tidings_str name,
                          tidings_complete_fn fn, void *user, struct tidings_error *err)
{
    if (!s || name.len == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a completion needs a server and a %s", what);
    }
    struct buf key;
    buf_init(&key, COMPLETE_KEY_MAX);
    complete_put_key(&key, what, name);
    int rc = key.failed ? tidings_fail(err, key.failed, "the name of the %s is too long", what) : 0;
    if (rc == 0 && !fn) {
        rc = hub_remove_feature(s->hub, FEATURE_COMPLETION, buf_str(&key), err);
    } else if (rc == 0) {
        struct feature *f = feature_create(FEATURE_COMPLETION, buf_str(&key), STR_EMPTY);
        if (f) {
            f->complete = fn;
            f->user = user;
            rc = hub_add_feature(s->hub, f, err);
        } else {
            rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
    }
    buf_deinit(&key);
    return rc;
}

int tidings_server_complete_prompt(struct tidings_server *s, struct tidings_str prompt,
                                   tidings_complete_fn fn, void *user, struct tidings_error *err)
{
    return set_completion(s, COMPLETE_PROMPT, prompt, fn, user, err);
}

int tidings_server_complete_template(struct tidings_server *s, struct tidings_str uri_template,
                                     tidings_complete_fn fn, void *user, struct tidings_error *err)
{
    return set_completion(s, COMPLETE_TEMPLATE, uri_template, fn, user, err);
}

/* ---------------------------------------------------------------------------------------------- */

/* Rejects entries that would be accepted but cannot be intended. */
static int check_entry(const struct tidings_resource *about, bool is_template, tidings_read_fn read,
                       struct tidings_error *err)
{
    if (!about || !read || about->name.len == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "a resource needs a URI, a name and a read function");
    }
    bool has_variable = str_find(about->uri, '{') >= 0;
    if (has_variable != is_template) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            is_template
                                ? "'%.*s' has no variable: tidings_server_add_resource adds it"
                                : "'%.*s' is a template: tidings_server_add_template adds it",
                            STR_ARG_MAX(about->uri, 120));
    }
    if (about->mime_type.len > 0 && !http_is_media_type(about->mime_type)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%.*s' is not a media type, such as \"text/plain\"",
                            STR_ARG_MAX(about->mime_type, 60));
    }
    return 0;
}

static int add_entry(struct tidings_server *s, const struct tidings_resource *about,
                     bool is_template, tidings_read_fn read, void *user, struct tidings_error *err)
{
    int rc = server_check_open(s, err);
    rc = rc < 0 ? rc : check_entry(about, is_template, read, err);
    if (rc < 0) {
        return rc;
    }
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    struct tidings_resource copy = *about;
    rc = is_template ? 0 : uri_canonical(about->uri, &canonical, err);
    if (rc < 0) {
        error_wrap(err, rc, "'%.*s'", STR_ARG_MAX(about->uri, 80));
    } else if (!is_template) {
        copy.uri = buf_str(&canonical);
    }
    if (rc == 0) {
        rc = is_template ? server_publish_check_template(&s->publishing, copy.uri, err)
                         : server_publish_reserve(&s->publishing, copy.uri, err);
    }
    struct catalog_entry *entry =
        rc < 0 ? NULL : catalog_entry_create(&copy, is_template, read, user, err);
    if (rc == 0) {
        rc = entry ? hub_add_entry(s->hub, entry, err) : TIDINGS_E_INVALID;
        if (rc < 0 && rc != TIDINGS_E_EXISTS && !is_template) {
            published_release(s->publishing.published, copy.uri);
        }
    }
    buf_deinit(&canonical);
    return rc;
}

int tidings_server_add_resource(struct tidings_server *s, const struct tidings_resource *about,
                                tidings_read_fn read, void *user, struct tidings_error *err)
{
    struct tidings_error own = {0, ""};
    return server_note(s, __func__, add_entry(s, about, false, read, user, err ? err : &own), &own);
}

int tidings_server_add_template(struct tidings_server *s, const struct tidings_resource *about,
                                tidings_read_fn read, void *user, struct tidings_error *err)
{
    struct tidings_error own = {0, ""};
    return server_note(s, __func__, add_entry(s, about, true, read, user, err ? err : &own), &own);
}

int tidings_server_remove(struct tidings_server *s, struct tidings_str uri,
                          struct tidings_error *err)
{
    int rc = server_check(s, err);
    rc = rc < 0 ? rc : hub_remove_entry(s->hub, uri, err);
    if (rc == 0) {
        published_release(s->publishing.published, uri);
    }
    return rc;
}

static int set_children(struct tidings_server *s, struct tidings_str uri, tidings_children_fn fn,
                        void *user, struct tidings_error *err)
{
    if (!fn) {
        return hub_remove_feature(s->hub, FEATURE_CHILDREN, uri, err);
    }
    struct feature *f = feature_create(FEATURE_CHILDREN, uri, STR_EMPTY);
    if (!f) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    f->children = fn;
    f->user = user;
    return hub_add_feature(s->hub, f, err);
}

int tidings_server_on_children(struct tidings_server *s, struct tidings_str uri,
                               tidings_children_fn fn, void *user, struct tidings_error *err)
{
    int rc = server_check_open(s, err);
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    rc = rc < 0 ? rc : uri_canonical(uri, &canonical, err);
    rc = rc < 0 ? rc : set_children(s, buf_str(&canonical), fn, user, err);
    buf_deinit(&canonical);
    return rc;
}

int tidings_server_on_watch(struct tidings_server *s, struct tidings_str uri,
                            const struct tidings_watch_hook *hook, struct tidings_error *err)
{
    int rc = server_check_open(s, err);
    if (rc < 0) {
        return rc;
    }
    if (uri.len == 0 || uri.len > URI_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a watch hook needs a URI or a template");
    }
    if (hook && RESERVED_CHECK(hook, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (hook && !hook->watch) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a watch hook needs its function 'watch'");
    }
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    bool is_template = str_find(uri, '{') >= 0;
    rc = is_template ? 0 : uri_canonical(uri, &canonical, err);
    struct tidings_str text = is_template ? uri : buf_str(&canonical);
    struct watch_hook *h = NULL;
    if (rc == 0 && hook) {
        h = watch_hook_create(text, hook->watch, hook->unwatch, hook->user);
        rc = h ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc == 0) {
        rc = hub_set_hook(s->hub, text, h, err);
    }
    buf_deinit(&canonical);
    return rc;
}

static int add_mount(struct tidings_server *s, const struct tidings_provider_ops *ops,
                     struct tidings_str prefix, struct tidings_str config,
                     struct tidings_error *err)
{
    int rc = server_check_open(s, err);
    if (rc < 0) {
        return rc;
    }
    if (server_state(s) != SERVER_NEW) {
        return tidings_fail(err, TIDINGS_E_BUSY, "mount '%.*s' before the server runs",
                            STR_ARG(prefix));
    }
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    rc = uri_canonical(prefix, &canonical, err);
    if (rc == 0 && canonical.ptr[canonical.len - 1] != '/') {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "the prefix '%.*s' must end in '/'",
                          STR_ARG(prefix));
    }
    if (rc == 0) {
        hub_hold(s->hub);
        rc = builtin_mount(s->hub, ops, buf_str(&canonical), config, err);
        hub_release(s->hub);
    }
    buf_deinit(&canonical);
    return rc;
}

int tidings_server_mount(struct tidings_server *s, const struct tidings_provider_ops *ops,
                         struct tidings_str prefix, struct tidings_str config,
                         struct tidings_error *err)
{
    struct tidings_error own = {0, ""};
    return server_note(s, __func__, add_mount(s, ops, prefix, config, err ? err : &own), &own);
}

int tidings_announce(struct tidings_server *s, const struct tidings_change *change,
                     struct tidings_error *err)
{
    int rc = server_check_open(s, err);
    if (rc == 0 && !change) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "a change needs a URI");
    }
    rc = rc < 0 ? rc : RESERVED_CHECK(change, err);
    /* Here, because only this caller gets the error: 0.1 to 0.5 us for small ones. */
    rc = rc < 0 ? rc : change_check_metadata(change->metadata, err);
    if (rc < 0) {
        return rc;
    }
    struct buf canonical, from;
    buf_init(&canonical, URI_MAX * 3);
    buf_init(&from, URI_MAX * 3);
    rc = uri_canonical(change->uri, &canonical, err);
    if (rc == 0 && change->from.len > 0) {
        rc = uri_canonical(change->from, &from, err);
    }
    if (rc == 0) {
        struct tidings_change copy = *change;
        copy.uri = buf_str(&canonical);
        copy.from = buf_str(&from);
        rc = hub_announce_shared(s->hub, &copy, err);
    }
    buf_deinit(&canonical);
    buf_deinit(&from);
    return rc;
}

int tidings_changed(struct tidings_server *s, struct tidings_str uri,
                    struct tidings_str metadata_json, struct tidings_error *err)
{
    struct tidings_change change;
    memset(&change, 0, sizeof(change));
    change.uri = uri;
    change.metadata = metadata_json;
    return tidings_announce(s, &change, err);
}

int tidings_changed_all(struct tidings_server *s, struct tidings_error *err)
{
    int rc = server_check_open(s, err);
    return rc < 0 ? rc : hub_announce_everything(s->hub, err);
}

int tidings_server_set_rate(struct tidings_server *s, struct tidings_str uri, uint64_t ms,
                            struct tidings_error *err)
{
    int rc = server_check_open(s, err);
    if (rc < 0) {
        return rc;
    }
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    rc = uri_canonical(uri, &canonical, err);
    if (rc == 0) {
        rc = hub_set_rate(s->hub, buf_str(&canonical), ms, err);
    }
    buf_deinit(&canonical);
    return rc;
}

struct tidings_subscription *
tidings_server_subscribe(struct tidings_server *s, struct tidings_str uri,
                         const struct tidings_subscribe_options *options, struct tidings_error *err)
{
    if (server_check_open(s, err) < 0) {
        return NULL;
    }
    struct tidings_error why;
    struct tidings_subscription *sub =
        inproc_subscription_create(&s->registry.inproc, uri, options, &why);
    if (!sub) {
        tidings_fail(err, why.code, "%s", why.text);
    }
    return sub;
}

int tidings_server_add_route(struct tidings_server *s, const char *path, tidings_route_fn fn,
                             void *user, struct tidings_error *err)
{
    if (server_check_new(s, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (!path || path[0] != '/' || !fn) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "a page needs a path that begins with '/' and "
                            "a function to call");
    }
    struct http_route *routes =
        mem_realloc(s->registry.routes, (s->registry.route_count + 1) * sizeof(struct http_route));
    if (!routes) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->registry.routes = routes;
    char *copy = str_dup(tidings_str(path));
    if (!copy) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->registry.routes[s->registry.route_count++] =
        (struct http_route){.path = copy, .fn = fn, .user = user};
    return 0;
}
