/* SPDX-License-Identifier: MIT
 *
 * Reads what a person typed into a field of a form.
 */
#include "base/str.h"
#include "client/form.h"
#include "json/schema.h"
#include "json/write.h"

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

/* As JSON has it, so that "0x1" and "nan" are none. */
static int form_read_number(struct tidings_str text, struct jw *w, struct tidings_error *err)
{
    struct json *value = NULL;
    int rc = jv_parse(text, 1, &value, NULL);
    if (rc < 0 || !jv_is_number(value)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "'%.*s' is no number",
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

/* Against the schema of that field alone. */
static int form_judge_field(const struct tidings_field *f, struct tidings_str text,
                            struct tidings_error *err)
{
    const struct schema_options options = {.assert_format = true, .max_cost = FORM_READ_COST};
    struct json *root = NULL, *value = NULL;
    struct json_schema *schema = NULL;
    struct schema_error e = {.text = ""};
    int rc = jv_parse_peer(f->schema, &root, NULL, err);
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
    rc = rc == 0 && field->schema.len > 0 ? form_judge_field(field, buf_str(&out), err) : rc;
    if (rc < 0) {
        buf_deinit(&out);
        return NULL;
    }
    return buf_detach(&out, NULL);
}
