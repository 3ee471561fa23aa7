/* SPDX-License-Identifier: MIT
 *
 * The program's view of a question, and its answers.
 */
#include "client/questions.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "client/client_internal.h"
#include "client/json_api.h"
#include "client/requests.h"
#include "client/subscriptions.h"
#include "formats/json_write.h"
#include "formats/schema.h"

/* -------------------------------------------------------------------------------------------------
 * Reads the forms of elicitation: their fields, and whether the values are valid.
 */

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
                                "a choice of the form field '%.*s' is not a string",
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
        return tidings_fail(err, TIDINGS_E_PARSE, "the form is not an object with fields");
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

static int form_validate(struct json *schema, struct tidings_str text, struct tidings_error *err)
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
        return tidings_fail(err, TIDINGS_E_INVALID, "the form input is not a JSON object%s%s",
                            why.text[0] ? ": " : "", why.text);
    }
    for (void *at = NULL; rc == 0 && (at = jv_next(given, at, &name, &value)) != NULL;) {
        if (!jv_get_str(fields, name)) {
            rc = tidings_fail(err, TIDINGS_E_INVALID, "the form has no field '%.*s'",
                              STR_ARG_MAX(name, 60));
        }
    }
    if (rc == 0 && form_put(fields, given, out) < 0) {
        rc = tidings_fail(err, out->failed, "the form input is too large");
    }
    rc = rc == 0 ? form_validate(schema, buf_str(out), err) : rc;
    jv_unref(given);
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * Reads the text that a person typed into a field of a form.
 */

#define FORM_READ_MAX 65536u
#define FORM_READ_COST 1000000u

static const struct tidings_field_choice *form_find_choice(const struct tidings_field *f,
                                                           struct tidings_str text)
{
    uint64_t number;
    for (size_t i = 0; i < f->choice_count; i++) {
        if (str_eq(f->choices[i].value, text)) {
            return &f->choices[i];
        }
    }
    for (size_t i = 0; i < f->choice_count; i++) {
        if (str_eq_nocase(f->choices[i].title, text)) {
            return &f->choices[i];
        }
    }
    bool is_number = str_to_u64(text, &number) && number >= 1 && number <= f->choice_count;
    return is_number ? &f->choices[number - 1] : NULL;
}

static int form_no_choice(const struct tidings_field *f, struct tidings_str text,
                          struct tidings_error *err)
{
    return tidings_fail(
        err, TIDINGS_E_INVALID,
        "'%.*s' is not among the choices: give one of them, or its number, 1 to %zu",
        text.len < 60 ? (int)text.len : 60, text.ptr, f->choice_count);
}

static int form_read_choices(const struct tidings_field *f, struct tidings_str text, struct jw *w,
                             struct tidings_error *err)
{
    struct tidings_str rest = text;
    jw_begin_array(w);
    while (rest.len > 0) {
        struct tidings_str one = str_trim(str_cut(rest, ',', &rest, NULL), " \t");
        const struct tidings_field_choice *choice = form_find_choice(f, one);
        if (!choice && one.len > 0) {
            return form_no_choice(f, one, err);
        }
        if (choice) {
            jw_string(w, choice->value);
        }
    }
    jw_end_array(w);
    return 0;
}

static int form_read_boolean(struct tidings_str text, struct jw *w, struct tidings_error *err)
{
    static const char *const words[] = {"yes", "y", "true", "no", "n", "false"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (str_eq_nocase(text, tidings_str(words[i]))) {
            jw_bool(w, i < 3);
            return 0;
        }
    }
    return tidings_fail(err, TIDINGS_E_INVALID, "'%.*s' is neither yes nor no",
                        text.len < 60 ? (int)text.len : 60, text.ptr);
}

/* Only JSON syntax, so "0x1" and "nan" are invalid. */
static int form_read_number(struct tidings_str text, struct jw *w, struct tidings_error *err)
{
    struct json *value = NULL;
    int rc = jv_parse(text, 1, &value, NULL);
    if (rc < 0 || !jv_is_number(value)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "'%.*s' is not a number",
                          text.len < 60 ? (int)text.len : 60, text.ptr);
    } else {
        jw_value(w, value);
    }
    jv_unref(value);
    return rc;
}

static int form_read_value(const struct tidings_field *f, struct tidings_str text, struct jw *w,
                           struct tidings_error *err)
{
    const struct tidings_field_choice *choice;
    struct tidings_str word = str_trim(text, " \t");
    switch (f->type) {
    case TIDINGS_FIELD_TEXT:
        jw_string(w, text);
        return 0;
    case TIDINGS_FIELD_NUMBER:
    case TIDINGS_FIELD_INTEGER:
        return form_read_number(word, w, err);
    case TIDINGS_FIELD_BOOLEAN:
        return form_read_boolean(word, w, err);
    case TIDINGS_FIELD_CHOICE:
        choice = form_find_choice(f, word);
        if (!choice) {
            return form_no_choice(f, word, err);
        }
        jw_string(w, choice->value);
        return 0;
    case TIDINGS_FIELD_CHOICES:
        return form_read_choices(f, word, w, err);
    }
    return tidings_fail(err, TIDINGS_E_INVALID, "there is no such type of field");
}

/* Validates against the schema of that field only. */
static int form_validate_field(const struct tidings_field *f, struct tidings_str text,
                               struct tidings_error *err)
{
    const struct schema_options options = {.assert_format = true, .max_cost = FORM_READ_COST};
    struct json *root = NULL, *value = NULL;
    struct json_schema *schema = NULL;
    struct schema_error e = {.text = ""};
    int rc = json_parse_lenient(f->schema, &root, NULL, err);
    rc = rc == 0 ? schema_compile(root, &options, &schema, err) : rc;
    rc = rc == 0 ? jv_parse(text, JSON_MAX_DEPTH, &value, err) : rc;
    if (rc == 0 && !schema_validate(schema, value, &e)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "%.200s", e.text);
    }
    jv_unref(value);
    schema_destroy(schema);
    jv_unref(root);
    return rc;
}

char *tidings_field_read(const struct tidings_field *field, struct tidings_str text,
                         struct tidings_error *err)
{
    struct buf out;
    struct jw w;
    buf_init(&out, FORM_READ_MAX);
    jw_init(&w, &out);
    int rc = form_read_value(field, text, &w, err);
    if (rc == 0 && out.failed) {
        rc = tidings_fail(err, out.failed, "that is too long");
    }
    rc = rc == 0 && field->schema.len > 0 ? form_validate_field(field, buf_str(&out), err) : rc;
    if (rc < 0) {
        buf_deinit(&out);
        return NULL;
    }
    return buf_detach(&out, NULL);
}

/* ---------------------------------------------------------------------------------------------- */

#define ANSWER_REFUSED (-1) /* the code in the specification's examples for a user's refusal */

/* ---- what is asked --------------------------------------------------------------------------- */

enum tidings_question_kind tidings_question_kind(const struct tidings_question *q)
{
    return q->kind;
}

struct tidings_str tidings_question_params(struct tidings_question *q)
{
    if (!q->text) {
        q->text = q->params ? json_text_of(q->client, q->params, NULL) : str_dup(STR("{}"));
    }
    return tidings_str(q->text);
}

struct tidings_str tidings_question_message(const struct tidings_question *q)
{
    return jv_str(jv_get(q->params, "message"));
}

struct tidings_str tidings_question_url(const struct tidings_question *q)
{
    return q->kind == TIDINGS_QUESTION_URL ? jv_str(jv_get(q->params, "url")) : STR_EMPTY;
}

int tidings_question_fields(struct tidings_question *q, tidings_field_fn fn, void *user)
{
    return q->kind == TIDINGS_QUESTION_FORM
               ? form_each(jv_get(q->params, "requestedSchema"), fn, user)
               : TIDINGS_E_INVALID;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void question_send(struct tidings_question *q, struct tidings_str result)
{
    if (q->id) {
        requests_reply(q->client, q->id, result);
    } else if (q->round) {
        input_round_answered(q->round, q->index, result);
    }
}

static void question_send_error(struct tidings_question *q, const char *reason)
{
    if (q->id) {
        requests_reply_error(q->client, q->id, ANSWER_REFUSED, reason);
    } else if (q->round) {
        input_round_refused(q->round, reason);
    }
}

static void question_release(struct tidings_question *q);

/* It is answered. The callback of a round may withdraw its other questions. */
static void question_finish(struct tidings_question *q, struct tidings_str result,
                            const char *reason)
{
    struct tidings_question answered = *q;
    if (q->state == QUESTION_LEAVING) {
        return; /* and gone as soon as on_withdrawn returns */
    }
    q->id = NULL;
    question_release(q);
    if (reason) {
        question_send_error(&answered, reason);
    } else {
        question_send(&answered, result);
    }
    jv_unref(answered.id);
}

/* ---- answers --------------------------------------------------------------------------------- */

int tidings_question_accept(struct tidings_question *q, struct tidings_str content,
                            struct tidings_error *err)
{
    struct buf filled, out;
    int rc = 0;
    if (q->kind != TIDINGS_QUESTION_FORM && q->kind != TIDINGS_QUESTION_URL) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "only a form or an address is accepted: use tidings_question_answer");
    }
    if (q->kind == TIDINGS_QUESTION_URL && content.len > 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "there is nothing to fill in");
    }
    buf_init(&filled, q->client->settings.max_bytes);
    buf_init(&out, q->client->settings.max_bytes);
    if (q->kind == TIDINGS_QUESTION_FORM) {
        rc = form_complete(jv_get(q->params, "requestedSchema"), content, &filled, err);
    }
    buf_puts(&out, STR("{\"action\":\"accept\""));
    if (q->kind == TIDINGS_QUESTION_FORM) {
        buf_puts(&out, STR(",\"content\":"));
        buf_puts(&out, buf_str(&filled));
    }
    buf_putc(&out, '}');
    if (rc == 0 && out.failed) {
        rc = tidings_fail(err, out.failed, "the form input is too large");
    }
    if (rc == 0) {
        question_finish(q, buf_str(&out), NULL);
    }
    buf_deinit(&filled);
    buf_deinit(&out);
    return rc;
}

static void question_say_no(struct tidings_question *q, struct tidings_str result)
{
    bool is_asked = q->kind == TIDINGS_QUESTION_FORM || q->kind == TIDINGS_QUESTION_URL;
    question_finish(q, result, is_asked ? NULL : "the user rejected the request");
}

void tidings_question_decline(struct tidings_question *q)
{
    question_say_no(q, STR("{\"action\":\"decline\"}"));
}

void tidings_question_cancel(struct tidings_question *q)
{
    question_say_no(q, STR("{\"action\":\"cancel\"}"));
}

void tidings_question_refuse(struct tidings_question *q, const char *reason)
{
    question_finish(q, STR_EMPTY, reason && reason[0] ? reason : "the user rejected the request");
}

static const char *question_check_roots(const struct json *result)
{
    struct json *roots = jv_get(result, "roots");
    bool are_good = jv_is(roots, JV_ARRAY);
    for (size_t i = 0; are_good && i < jv_count(roots); i++) {
        are_good = str_starts(jv_str(jv_get(jv_at(roots, i), "uri")), STR("file://"));
    }
    return are_good ? NULL : "'roots' must be an array of objects with a 'uri' that is file://…";
}

static const char *question_check_sample(const struct json *result)
{
    struct json *content = jv_get(result, "content");
    struct tidings_str role = jv_str(jv_get(result, "role"));
    bool has_content = jv_is(content, JV_OBJECT) || jv_is(content, JV_ARRAY);
    return !str_eq(role, STR("assistant")) && !str_eq(role, STR("user"))
               ? "'role' must be assistant or user"
           : !jv_is(jv_get(result, "model"), JV_STRING) ? "'model' must be a string"
           : !has_content                               ? "'content' must be an object or an array"
                                                        : NULL;
}

int tidings_question_answer(struct tidings_question *q, struct tidings_str result,
                            struct tidings_error *err)
{
    struct json *root = NULL;
    struct tidings_error why = {0};
    if (q->kind == TIDINGS_QUESTION_FORM || q->kind == TIDINGS_QUESTION_URL) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "a form or an address is accepted, declined or cancelled");
    }
    int rc = jv_parse(result, JSON_MAX_DEPTH, &root, &why);
    const char *wrong = rc < 0                                 ? why.text
                        : !jv_is(root, JV_OBJECT)              ? "it is not an object"
                        : q->kind == TIDINGS_QUESTION_SAMPLING ? question_check_sample(root)
                                                               : question_check_roots(root);
    char *text = wrong ? NULL : json_text_of(q->client, root, NULL);
    jv_unref(root);
    if (!text) {
        return tidings_fail(err, wrong ? TIDINGS_E_INVALID : TIDINGS_E_LIMIT, "the answer: %s",
                            wrong ? wrong : "it is too large");
    }
    question_finish(q, tidings_str(text), NULL);
    mem_free(text);
    return 0;
}

void tidings_client_roots_changed(struct tidings_client *c)
{
    if (c && c->stage == STAGE_READY && c->era == TIDINGS_ERA_LEGACY && c->handlers.on_roots) {
        requests_notify(c, "notifications/roots/list_changed");
    }
}

/* -------------------------------------------------------------------------------------------------
 * Receives questions of the server, as requests or as parts of a round, and notifies the program.
 */

#define ANSWER_MS 600000u
#define URL_MAX 8192u
#define UNCAUSED_PERIOD_MS 60000u /* for one more question that no request led to */

/* ---- what can be asked ----------------------------------------------------------------------- */

static tidings_question_fn question_handler(const struct tidings_client *c,
                                            enum tidings_question_kind kind)
{
    const struct tidings_question_handlers *h = &c->handlers;
    return kind == TIDINGS_QUESTION_FORM       ? h->on_form
           : kind == TIDINGS_QUESTION_URL      ? h->on_url
           : kind == TIDINGS_QUESTION_SAMPLING ? h->on_sampling
                                               : h->on_roots;
}

bool question_is_offered(const struct tidings_client *c)
{
    const struct tidings_question_handlers *h = &c->handlers;
    return h->on_form || h->on_url || h->on_sampling || h->on_roots;
}

void question_put_capabilities(const struct tidings_client *c, struct jw *w)
{
    const struct tidings_question_handlers *h = &c->handlers;
    jw_begin_object(w);
    if (h->on_form || h->on_url) {
        jw_key(w, STR("elicitation"));
        jw_begin_object(w);
        if (h->on_form) {
            jw_put_raw(w, STR("form"), STR("{}"));
        }
        if (h->on_url) {
            jw_put_raw(w, STR("url"), STR("{}"));
        }
        jw_end_object(w);
    }
    if (h->on_sampling) {
        jw_put_raw(w, STR("sampling"), h->sampling_tools ? STR("{\"tools\":{}}") : STR("{}"));
    }
    if (h->on_roots) {
        jw_put_raw(w, STR("roots"),
                   c->era == TIDINGS_ERA_LEGACY ? STR("{\"listChanged\":true}") : STR("{}"));
    }
    jw_end_object(w);
}

int tidings_client_on_question(struct tidings_client *c,
                               const struct tidings_question_handlers *handlers,
                               struct tidings_error *err)
{
    static const struct tidings_question_handlers none = {0};
    const struct tidings_question_handlers *h = handlers ? handlers : &none;
    int rc = client_check(c, err);
    rc = rc == 0 ? RESERVED_CHECK(h, err) : rc;
    if (rc < 0) {
        return rc;
    }
    if (c->is_open || c->has_info) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "set the question callback before the client connects");
    }
    c->handlers = *h;
    c->handlers.timeout_ms = h->timeout_ms > 0 ? h->timeout_ms : ANSWER_MS;
    c->handlers.max_questions = h->max_questions > 0 ? h->max_questions : QUESTIONS_OF_REQUEST;
    if (c->handlers.max_questions > BUCKET_COUNT_MAX) {
        c->handlers.max_questions = BUCKET_COUNT_MAX;
    }
    return 0;
}

/* ---- is it one ------------------------------------------------------------------------------- */

/* Returns true if a browser may open it: not a local scheme, and not ambiguous. */
static bool is_web_address(struct tidings_str url)
{
    size_t scheme = str_starts(url, STR("https://")) ? 8 : str_starts(url, STR("http://")) ? 7 : 0;
    bool is_fit = scheme > 0 && url.len > scheme && url.len <= URL_MAX && url.ptr[scheme] != '/';
    for (size_t i = 0; is_fit && i < url.len; i++) {
        is_fit = url.ptr[i] > ' ' && url.ptr[i] <= '~' && !strchr("\"<>\\^`{|}", url.ptr[i]);
    }
    return is_fit;
}

static int question_kind_of(struct tidings_str method, struct json *params,
                            enum tidings_question_kind *ret, struct tidings_error *err)
{
    struct tidings_str mode = jv_str(jv_get(params, "mode"));
    if (str_eq(method, STR("sampling/createMessage"))) {
        *ret = TIDINGS_QUESTION_SAMPLING;
    } else if (str_eq(method, STR("roots/list"))) {
        *ret = TIDINGS_QUESTION_ROOTS;
    } else if (str_eq(method, STR("elicitation/create")) && str_eq(mode, STR("url"))) {
        *ret = TIDINGS_QUESTION_URL;
    } else if (str_eq(method, STR("elicitation/create")) &&
               (mode.len == 0 || str_eq(mode, STR("form")))) {
        *ret = TIDINGS_QUESTION_FORM;
    } else {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "'%.*s' is nothing a client can be asked",
                            STR_ARG_MAX(method, 60));
    }
    return 0;
}

/* TIDINGS_E_UNSUPPORTED: the client did not offer it; TIDINGS_E_PARSE, TIDINGS_E_LIMIT: it is
 * invalid. */
static int question_check(const struct tidings_client *c, struct tidings_str method,
                          struct json *params, enum tidings_question_kind *ret,
                          struct tidings_error *err)
{
    static const char *const names[] = {"a form to be filled in (elicitation)",
                                        "a visit to an address (elicitation.url)",
                                        "a completion of a model (sampling)", "roots"};
    int rc = question_kind_of(method, params, ret, err);
    if (rc < 0) {
        return rc;
    }
    if (!question_handler(c, *ret)) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "the server asks for %s, which this client did not offer", names[*ret]);
    }
    bool has_tools = jv_get(params, "tools") || jv_get(params, "toolChoice");
    if (*ret == TIDINGS_QUESTION_SAMPLING && has_tools && !c->handlers.sampling_tools) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "the server asks for sampling with tools, which this client did not "
                            "offer");
    }
    if (*ret == TIDINGS_QUESTION_URL && !is_web_address(jv_str(jv_get(params, "url")))) {
        return tidings_fail(
            err, TIDINGS_E_PARSE,
            "the server asks for a visit to an address that is not http:// or https://");
    }
    return *ret == TIDINGS_QUESTION_FORM ? form_check(jv_get(params, "requestedSchema"), err) : 0;
}

/* ---- coming ---------------------------------------------------------------------------------- */

static void question_release(struct tidings_question *q)
{
    loop_timer_stop(&q->deadline);
    list_remove(&q->link);
    q->client->question_count--;
    jv_unref(q->params);
    jv_unref(q->id);
    mem_free(q->text);
    mem_free(q);
}

/* The server has its answer or no longer needs it; notifies the program. */
static void question_withdraw(struct tidings_question *q)
{
    loop_timer_stop(&q->deadline);
    jv_unref(q->id);
    q->id = NULL;
    q->round = NULL;
    if (q->state == QUESTION_NEW) {
        question_release(q);
    } else {
        q->state = QUESTION_WITHDRAWN;
    }
}

static void question_on_deadline(struct loop_timer *timer, void *user)
{
    struct tidings_question *q = user, late = *q;
    (void)timer;
    q->id = NULL;
    question_withdraw(q);
    if (late.kind == TIDINGS_QUESTION_FORM || late.kind == TIDINGS_QUESTION_URL) {
        question_send(&late, STR("{\"action\":\"cancel\"}"));
    } else {
        question_send_error(&late, "no answer in time");
    }
    jv_unref(late.id);
}

static struct tidings_question *question_create(struct tidings_client *c,
                                                enum tidings_question_kind kind,
                                                struct json *params, struct tidings_error *err)
{
    struct tidings_question *q = c->question_count < QUESTIONS_OPEN ? mem_zalloc(sizeof(*q)) : NULL;
    if (!q) {
        bool is_full = c->question_count >= QUESTIONS_OPEN;
        tidings_fail(err, is_full ? TIDINGS_E_LIMIT : TIDINGS_E_NOMEM,
                     is_full ? "the server asks more than %u things at once" : "out of memory",
                     QUESTIONS_OPEN);
        return NULL;
    }
    q->client = c;
    q->kind = kind;
    q->params = jv_ref(params);
    loop_timer_init(&q->deadline, c->loop, question_on_deadline, q);
    loop_timer_start(&q->deadline, c->handlers.timeout_ms, 0);
    list_append(&c->questions, &q->link);
    c->question_count++;
    return q;
}

static struct tidings_question *question_find(const struct tidings_client *c, const struct json *id)
{
    list_each (it, next, &c->questions) {
        struct tidings_question *q = list_entry(it, struct tidings_question, link);
        if (q->id && jv_equal(q->id, id)) {
            return q;
        }
    }
    return NULL;
}

/* Checks the number of questions. Each request allows a fixed number. Questions outside of requests
 * have the same limit, plus one more after each period: the roots may be requested from a client
 * that watches for months, and the number is always bounded. */
static int question_count(struct tidings_client *c, int64_t exchange, struct tidings_error *err)
{
    uint32_t max = c->handlers.max_questions;
    struct token_bucket_rule rule = {.count = 1, .burst = max, .period_ms = UNCAUSED_PERIOD_MS};
    unsigned count = requests_count_question(c, exchange);
    if (count > max) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "one request leads to more than %u questions",
                            max);
    }
    if (count == 0 && c->question_count < QUESTIONS_OPEN &&
        token_bucket_take(&c->uncaused, &rule, clock_monotonic_ms()) > 0) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "the server asked more than %u times without a request: once a minute "
                            "from now on",
                            max);
    }
    return 0;
}

void question_asked(struct tidings_client *c, struct tidings_str method, struct json *id,
                    struct json *params, int64_t exchange)
{
    struct tidings_error why = {0};
    enum tidings_question_kind kind;
    struct tidings_question *q = NULL;
    if (c->era != TIDINGS_ERA_LEGACY || question_find(c, id)) {
        return; /* modern servers send no requests; and a stream that continues may repeat one */
    }
    int rc = question_check(c, method, params, &kind, &why);
    rc = rc == 0 ? question_count(c, exchange, &why) : rc;
    if (rc == 0) {
        q = question_create(c, kind, params, &why);
    }
    if (q) {
        q->id = jv_ref(id);
        return;
    }
    requests_reply_error(c, id,
                         rc == TIDINGS_E_UNSUPPORTED ? -32601
                         : rc == TIDINGS_E_PARSE     ? -32602
                                                     : -32603,
                         why.text);
}

int question_add(struct input_round *round, size_t index, struct tidings_str method,
                 struct json *params, struct tidings_error *err)
{
    enum tidings_question_kind kind;
    struct tidings_client *c = input_round_client(round);
    int rc = question_check(c, method, params, &kind, err);
    struct tidings_question *q = rc == 0 ? question_create(c, kind, params, err) : NULL;
    if (!q) {
        return rc < 0 ? rc : err->code;
    }
    q->round = round;
    q->index = index;
    return 0;
}

/* ---- going ----------------------------------------------------------------------------------- */

void question_withdraw_input_round(struct tidings_client *c, const struct input_round *round)
{
    list_each (it, next, &c->questions) {
        struct tidings_question *q = list_entry(it, struct tidings_question, link);
        if (q->round == round) {
            question_withdraw(q);
        }
    }
}

void question_cancelled(struct tidings_client *c, const struct json *id)
{
    struct tidings_question *q = question_find(c, id);
    if (q) {
        question_withdraw(q);
    }
}

void question_connection_lost(struct tidings_client *c)
{
    list_each (it, next, &c->questions) {
        struct tidings_question *q = list_entry(it, struct tidings_question, link);
        if (q->id) {
            question_withdraw(q);
        }
    }
}

/* ---- telling --------------------------------------------------------------------------------- */

static struct tidings_question *question_next(const struct tidings_client *c)
{
    list_each (it, next, &c->questions) {
        struct tidings_question *q = list_entry(it, struct tidings_question, link);
        if (q->state == QUESTION_NEW || q->state == QUESTION_WITHDRAWN) {
            return q;
        }
    }
    return NULL;
}

bool question_has_news(const struct tidings_client *c)
{
    return question_next(c) != NULL;
}

void question_deliver(struct tidings_client *c)
{
    struct tidings_question *q;
    while (!client_is_stopping(c) && (q = question_next(c)) != NULL) {
        if (q->state == QUESTION_NEW) {
            q->state = QUESTION_TOLD;
            question_handler(c, q->kind)(c->handlers.user, q);
            continue;
        }
        q->state = QUESTION_LEAVING;
        if (c->handlers.on_withdrawn) {
            c->handlers.on_withdrawn(c->handlers.user, q);
        }
        question_release(q);
    }
}

/* ---- life, and the stream -------------------------------------------------------------------- */

static void question_on_listen(struct loop_timer *timer, void *user)
{
    struct tidings_client *c = user;
    (void)timer;
    if (c->stage == STAGE_READY && c->era == TIDINGS_ERA_LEGACY) {
        (void)question_listen(c);
    }
}

void question_init(struct tidings_client *c)
{
    list_init(&c->questions);
    loop_timer_init(&c->question_listen, c->loop, question_on_listen, c);
}

void question_deinit(struct tidings_client *c)
{
    loop_timer_stop(&c->question_listen);
    list_each (it, next, &c->questions) {
        question_release(list_entry(it, struct tidings_question, link));
    }
}

bool question_listen(struct tidings_client *c)
{
    return question_is_offered(c) && c->transport->ops->stream &&
           c->transport->ops->stream(c->transport, NULL) == 0;
}

void question_stream_lost(struct tidings_client *c, const struct tidings_error *why)
{
    if (why->code != TIDINGS_E_UNSUPPORTED) { /* else there is none */
        loop_timer_start(&c->question_listen, settings_pause(&c->settings, c->question_listens++),
                         0);
    }
}
