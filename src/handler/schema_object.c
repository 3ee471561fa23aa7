/* SPDX-License-Identifier: MIT
 *
 * The JSON Schema of an object, made of a table of its members (<tidings/schema.h>).
 */
#include <tidings/schema.h>

#include "base/error.h"
#include "base/str.h"
#include "json/json.h"
#include "json/write.h"

#define SCHEMA_TEXT_MAX (1u << 20)
#define RULES_MAX_DEPTH 64u

/* {"minimum":1}: its members, but none that the row says itself. */
static int schema_object_put_rules(struct jw *w, const struct tidings_schema_field *f,
                                   struct tidings_error *err)
{
    /* Of any value the row says neither its type nor its choices; only an array has items. */
    const char *const own[] = {"description", f->type == TIDINGS_SCHEMA_ANY ? NULL : "type",
                               f->type == TIDINGS_SCHEMA_ANY ? NULL : "enum",
                               f->type == TIDINGS_SCHEMA_STRINGS ? "items" : NULL};
    struct json *rules = NULL;
    struct tidings_error why = {0, ""};
    int rc = jv_parse(tidings_str(f->rules), RULES_MAX_DEPTH, &rules, &why);
    if (rc < 0) {
        return tidings_fail(err, rc, "the rules of '%.60s': %.160s", f->name, why.text);
    }
    if (!jv_is(rules, JV_OBJECT)) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "the rules of '%.60s' are no JSON object", f->name);
    }
    for (size_t i = 0; rc == 0 && i < sizeof(own) / sizeof(own[0]); i++) {
        if (own[i] && jv_get(rules, own[i])) {
            rc = tidings_fail(err, TIDINGS_E_INVALID,
                              "the rules of '%.60s' say '%s', which its row says", f->name, own[i]);
        }
    }
    struct tidings_str key;
    struct json *value;
    for (void *at = NULL; rc == 0 && (at = jv_next(rules, at, &key, &value)) != NULL;) {
        jw_key(w, key);
        jw_value(w, value);
    }
    jv_unref(rules);
    return rc;
}

static int schema_object_put_field(struct jw *w, const struct tidings_schema_field *f,
                                   struct tidings_error *err)
{
    static const char *const types[] = {"string", "integer", "number", "boolean",
                                        "array",  "object",  NULL};
    if ((size_t)f->type >= sizeof(types) / sizeof(types[0])) {
        return tidings_fail(err, TIDINGS_E_INVALID, "'%.60s' has no known type", f->name);
    }
    if (f->choices && f->type != TIDINGS_SCHEMA_STRING && f->type != TIDINGS_SCHEMA_STRINGS) {
        return tidings_fail(err, TIDINGS_E_INVALID, "'%.60s' has choices, but is no string",
                            f->name);
    }
    jw_key(w, tidings_str(f->name));
    jw_begin_object(w);
    if (types[f->type]) {
        jw_put_string(w, STR("type"), tidings_str(types[f->type]));
    }
    if (f->description) {
        jw_put_string(w, STR("description"), tidings_str(f->description));
    }
    if (f->type == TIDINGS_SCHEMA_STRINGS) {
        jw_key(w, STR("items"));
        jw_begin_object(w);
        jw_put_string(w, STR("type"), STR("string"));
    }
    if (f->choices) {
        jw_key(w, STR("enum"));
        jw_begin_array(w);
        for (const char *const *choice = f->choices; *choice; choice++) {
            jw_string(w, tidings_str(*choice));
        }
        jw_end_array(w);
    }
    if (f->type == TIDINGS_SCHEMA_STRINGS) {
        jw_end_object(w);
    }
    int rc = f->rules ? schema_object_put_rules(w, f, err) : 0;
    jw_end_object(w);
    return rc;
}

static int schema_object_check_name(const struct tidings_schema_field *fields, size_t i,
                                    struct tidings_error *err)
{
    if (!fields[i].name || !fields[i].name[0]) {
        return tidings_fail(err, TIDINGS_E_INVALID, "row %zu has no name", i);
    }
    for (size_t k = 0; k < i; k++) {
        if (strcmp(fields[k].name, fields[i].name) == 0) {
            return tidings_fail(err, TIDINGS_E_INVALID, "'%.60s' stands twice", fields[i].name);
        }
    }
    return 0;
}

static int schema_object_put(struct jw *w, const struct tidings_schema_field *fields, size_t count,
                             struct tidings_error *err)
{
    int rc = 0;
    size_t required = 0;
    jw_begin_object(w);
    jw_put_string(w, STR("type"), STR("object"));
    jw_key(w, STR("properties"));
    jw_begin_object(w);
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = schema_object_check_name(fields, i, err);
        rc = rc < 0 ? rc : schema_object_put_field(w, &fields[i], err);
        required += fields[i].is_required;
    }
    jw_end_object(w);
    if (rc == 0 && required > 0) {
        jw_key(w, STR("required"));
        jw_begin_array(w);
        for (size_t i = 0; i < count; i++) {
            if (fields[i].is_required) {
                jw_string(w, tidings_str(fields[i].name));
            }
        }
        jw_end_array(w);
    }
    jw_put_bool(w, STR("additionalProperties"), false);
    jw_end_object(w);
    return rc;
}

char *tidings_schema_object(const struct tidings_schema_field *fields, size_t count,
                            struct tidings_error *err)
{
    struct buf text;
    struct jw w;
    buf_init(&text, SCHEMA_TEXT_MAX);
    jw_init(&w, &text);
    int rc = fields || count == 0 ? schema_object_put(&w, fields, count, err)
                                  : tidings_fail(err, TIDINGS_E_INVALID,
                                                 "`fields` is NULL, and there are %zu", count);
    if (rc == 0 && text.failed) {
        rc = text.failed == TIDINGS_E_LIMIT
                 ? tidings_fail(err, TIDINGS_E_LIMIT, "the schema is longer than %u bytes",
                                SCHEMA_TEXT_MAX)
                 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc < 0) {
        buf_deinit(&text);
        return NULL;
    }
    char *result = buf_detach(&text, NULL);
    if (!result) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    return result;
}
