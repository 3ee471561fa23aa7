/* SPDX-License-Identifier: MIT
 *
 * Reads the forms of elicitation: which fields there are, and whether they were filled in as asked.
 */
#include "client/form.h"

#include "base/mem.h"
#include "json/schema.h"
#include "json/write.h"

#define FORM_COST 1000000u /* of compiling a form, in steps: 2 ms */
#define FORM_MAX_BYTES 262144u

/* ---- fields ---------------------------------------------------------------------------------- */

/* Where the choices of a field are, NULL: it has none. Those of `enum` are strings; others are
 * objects with `const` and perhaps `title`. */
static struct json *form_choices(struct json *field)
{
    struct json *items = jv_get(field, "items");
    struct json *at = items ? items : field;
    struct json *list = jv_get(at, "enum");
    list = list ? list : jv_get(at, "oneOf");
    return list ? list : jv_get(at, "anyOf");
}

/* Negative: a person cannot be asked for it. */
static int form_type(struct json *field)
{
    struct tidings_str type = jv_str(jv_get(field, "type"));
    struct json *choices = form_choices(field);
    if (str_eq(type, STR("array"))) {
        return choices && jv_get(field, "items") ? (int)TIDINGS_FIELD_CHOICES : -1;
    }
    if (choices && (type.len == 0 || str_eq(type, STR("string")))) {
        return TIDINGS_FIELD_CHOICE;
    }
    return str_eq(type, STR("string"))    ? (int)TIDINGS_FIELD_TEXT
           : str_eq(type, STR("number"))  ? (int)TIDINGS_FIELD_NUMBER
           : str_eq(type, STR("integer")) ? (int)TIDINGS_FIELD_INTEGER
           : str_eq(type, STR("boolean")) ? (int)TIDINGS_FIELD_BOOLEAN
                                          : -1;
}

static struct tidings_str choice_value(struct json *choice)
{
    return jv_is(choice, JV_STRING) ? jv_str(choice) : jv_str(jv_get(choice, "const"));
}

static int form_check_field(struct tidings_str name, struct json *field, struct tidings_error *err)
{
    struct json *choices = form_choices(field);
    if (!jv_is(field, JV_OBJECT) || form_type(field) < 0) {
        return tidings_fail(err, TIDINGS_E_PARSE,
                            "the field '%.*s' of the form is neither text, a number, yes or no, "
                            "nor a choice",
                            STR_ARG_MAX(name, 60));
    }
    if (choices && (!jv_is(choices, JV_ARRAY) || jv_count(choices) == 0 ||
                    jv_count(choices) > FORM_MAX_CHOICES)) {
        return tidings_fail(err, TIDINGS_E_PARSE,
                            "the field '%.*s' of the form has no choices, or more than %u",
                            STR_ARG_MAX(name, 60), FORM_MAX_CHOICES);
    }
    for (size_t i = 0; i < jv_count(choices); i++) {
        struct json *one = jv_at(choices, i);
        if (!jv_is(one, JV_STRING) && !jv_is(jv_get(one, "const"), JV_STRING)) {
            return tidings_fail(err, TIDINGS_E_PARSE,
                                "a choice of the field '%.*s' of the form is no text",
                                STR_ARG_MAX(name, 60));
        }
    }
    return 0;
}

static int form_compile(struct json *schema, struct json_schema **ret, struct tidings_error *err)
{
    const struct schema_options options = {.assert_format = true, .max_cost = FORM_COST};
    return schema_compile(schema, &options, ret, err);
}

int form_check(struct json *schema, struct tidings_error *err)
{
    struct json *fields = jv_get(schema, "properties"), *field;
    struct tidings_str name;
    struct json_schema *compiled = NULL;
    struct tidings_error why = {0};
    if (!str_eq(jv_str(jv_get(schema, "type")), STR("object")) || !jv_is(fields, JV_OBJECT)) {
        return tidings_fail(err, TIDINGS_E_PARSE, "the form is no object with fields");
    }
    if (jv_count(fields) > FORM_MAX_FIELDS) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "the form has more than %u fields",
                            FORM_MAX_FIELDS);
    }
    for (void *at = NULL; (at = jv_next(fields, at, &name, &field)) != NULL;) {
        int rc = form_check_field(name, field, err);
        if (rc < 0) {
            return rc;
        }
    }
    if (form_compile(schema, &compiled, &why) < 0) {
        return tidings_fail(err, TIDINGS_E_PARSE, "the form's schema: %s", why.text);
    }
    schema_destroy(compiled);
    return 0;
}

/* ---- telling of them ------------------------------------------------------------------------- */

static bool is_named_in(struct json *list, struct tidings_str name)
{
    for (size_t i = 0; i < jv_count(list); i++) {
        if (str_eq(jv_str(jv_at(list, i)), name)) {
            return true;
        }
    }
    return false;
}

/* JSON text to be released, empty: there is no value. */
static struct tidings_str form_text_of(struct json *value, struct buf *out)
{
    struct jw w;
    buf_init(out, FORM_MAX_BYTES);
    if (value) {
        jw_init(&w, out);
        jw_value(&w, value);
    }
    return out->failed ? STR_EMPTY : buf_str(out);
}

static void form_take_choices(struct json *field, struct tidings_field_choice *choices,
                              size_t count)
{
    struct json *list = form_choices(field), *names = jv_get(field, "enumNames");
    for (size_t i = 0; i < count; i++) {
        struct json *one = jv_at(list, i);
        struct tidings_str title = jv_str(jv_get(one, "title"));
        title = title.len > 0 ? title : jv_str(jv_at(names, i));
        choices[i].value = choice_value(one);
        choices[i].title = title.len > 0 ? title : choices[i].value;
    }
}

static int form_tell(struct json *schema, struct tidings_str name, struct json *field,
                     tidings_field_fn fn, void *user)
{
    struct tidings_str title = jv_str(jv_get(field, "title"));
    int type = form_type(field);
    bool has_choices = type == (int)TIDINGS_FIELD_CHOICE || type == (int)TIDINGS_FIELD_CHOICES;
    size_t count = has_choices ? jv_count(form_choices(field)) : 0;
    struct tidings_field_choice *choices = count > 0 ? mem_zalloc(count * sizeof(*choices)) : NULL;
    if (type < 0 || (count > 0 && !choices)) {
        return type < 0 ? 0 : TIDINGS_E_NOMEM;
    }
    if (choices) {
        form_take_choices(field, choices, count);
    }
    struct buf preset, text;
    struct tidings_field f = {.name = name,
                              .title = title.len > 0 ? title : name,
                              .description = jv_str(jv_get(field, "description")),
                              .type = (enum tidings_field_type)type,
                              .format = jv_str(jv_get(field, "format")),
                              .is_required = is_named_in(jv_get(schema, "required"), name),
                              .preset = form_text_of(jv_get(field, "default"), &preset),
                              .choices = choices,
                              .choice_count = count,
                              .schema = form_text_of(field, &text)};
    int rc = fn(user, &f);
    buf_deinit(&preset);
    buf_deinit(&text);
    mem_free(choices);
    return rc;
}

int form_each(struct json *schema, tidings_field_fn fn, void *user)
{
    struct json *fields = jv_get(schema, "properties"), *field;
    struct tidings_str name;
    int rc = 0;
    for (void *at = NULL; rc == 0 && (at = jv_next(fields, at, &name, &field)) != NULL;) {
        rc = form_tell(schema, name, field, fn, user);
    }
    return rc;
}

/* ---- what was filled in ---------------------------------------------------------------------- */

static int form_put(struct json *fields, struct json *given, struct buf *out)
{
    struct jw w;
    struct tidings_str name;
    struct json *field;
    jw_init(&w, out);
    jw_begin_object(&w);
    for (void *at = NULL; (at = jv_next(fields, at, &name, &field)) != NULL;) {
        struct json *value = jv_get_str(given, name);
        value = value ? value : jv_get(field, "default");
        if (value && !jv_is(value, JV_NULL)) {
            jw_key(&w, name);
            jw_value(&w, value);
        }
    }
    jw_end_object(&w);
    return out->failed;
}

static int form_judge(struct json *schema, struct tidings_str text, struct tidings_error *err)
{
    struct json_schema *compiled = NULL;
    struct json *value = NULL;
    struct schema_error e = {.text = ""};
    int rc = form_compile(schema, &compiled, err);
    rc = rc == 0 ? jv_parse(text, JSON_MAX_DEPTH, &value, err) : rc;
    if (rc == 0 && !schema_validate(compiled, value, &e)) {
        const char *where = e.instance_path[0] == '/' ? e.instance_path + 1 : e.instance_path;
        rc = tidings_fail(err, TIDINGS_E_INVALID, "%.60s%s%.150s", where, where[0] ? ": " : "",
                          e.text);
    }
    jv_unref(value);
    schema_destroy(compiled);
    return rc;
}

int form_complete(struct json *schema, struct tidings_str content, struct buf *out,
                  struct tidings_error *err)
{
    struct json *fields = jv_get(schema, "properties"), *given = NULL, *value;
    struct tidings_str name;
    struct tidings_error why = {0};
    int rc = jv_parse(content.len > 0 ? content : STR("{}"), JSON_MAX_DEPTH, &given, &why);
    if (rc < 0 || !jv_is(given, JV_OBJECT)) {
        jv_unref(given);
        return tidings_fail(err, TIDINGS_E_INVALID, "what is filled in is no JSON object%s%s",
                            why.text[0] ? ": " : "", why.text);
    }
    for (void *at = NULL; rc == 0 && (at = jv_next(given, at, &name, &value)) != NULL;) {
        if (!jv_get_str(fields, name)) {
            rc = tidings_fail(err, TIDINGS_E_INVALID, "the form has no field '%.*s'",
                              STR_ARG_MAX(name, 60));
        }
    }
    if (rc == 0 && form_put(fields, given, out) < 0) {
        rc = tidings_fail(err, out->failed, "what is filled in is too large");
    }
    rc = rc == 0 ? form_judge(schema, buf_str(out), err) : rc;
    jv_unref(given);
    return rc;
}
