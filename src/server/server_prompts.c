/* SPDX-License-Identifier: MIT
 *
 * Registering prompts and completions: everything about one is checked and encoded here, once; the
 * hub puts the registrations of all threads in order. Arguments are judged by a schema made from
 * their table.
 */
#include <tidings/prompt.h>

#include "base/error.h"
#include "base/str.h"
#include "catalog/meta_keys.h"
#include "handler/completion.h"
#include "server/feature_row.h"
#include "server/server_private.h"

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

/* Every required one is there, and all are strings, known or not. */
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

struct span { /* of bytes in a text */
    size_t begin, end;
};

/* The row of prompts/list; *description gets where that value is in it. */
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
