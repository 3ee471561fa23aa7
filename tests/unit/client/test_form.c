/* SPDX-License-Identifier: MIT
 *
 * The fields of forms from servers, and the input of users.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/asker.h"
#include "support/fake_transport.h"

/* ---- fields ---------------------------------------------------------------------------------- */

struct typing {
    const char *text, *value; /* NULL: refused */
    char shown[512];
};

static int type_in(void *user, const struct tidings_field *f)
{
    struct typing *t = user;
    struct tidings_error err = {0};
    snprintf(t->shown, sizeof(t->shown), "%.*s|%.*s|%.*s|%d|%d|%zu|%.*s", (int)f->name.len,
             f->name.ptr, (int)f->title.len, f->title.ptr, (int)f->description.len,
             f->description.ptr, f->type, f->is_required, f->choice_count, (int)f->preset.len,
             f->preset.ptr);
    for (size_t i = 0; i < f->choice_count; i++) {
        size_t len = strlen(t->shown);
        snprintf(t->shown + len, sizeof(t->shown) - len, "|%.*s=%.*s", (int)f->choices[i].value.len,
                 f->choices[i].value.ptr, (int)f->choices[i].title.len, f->choices[i].title.ptr);
    }
    char *value = tidings_field_read(f, tidings_str(t->text), &err);
    if (t->value) {
        assert_non_null(value);
        assert_string_equal(value, t->value);
    } else {
        assert_null(value);
        assert_true(err.code == TIDINGS_E_INVALID && err.text[0] != '\0');
    }
    tidings_free(value);
    return 0;
}

static struct typing *typing;

static int read_fields(struct asker *a, struct tidings_question *q)
{
    (void)a;
    assert_int_equal(tidings_question_fields(q, type_in, typing), 0);
    tidings_question_decline(q);
    return 0;
}

#define COLOURS                                                                                    \
    "\"oneOf\":[{\"const\":\"r\",\"title\":\"Red\"},{\"const\":\"g\",\"title\":\"Green\"}]"

static void form_input_is_parsed_by_field_type(void **state)
{
    static const struct {
        const char *field, *text, *value, *shown;
    } rows[] = {
        {"{\"type\":\"string\"}", "a \"b\"", "\"a \\\"b\\\"\"", "f|f||0|0|0|"},
        {"{\"type\":\"string\",\"minLength\":3}", "ab", NULL, "f|f||0|0|0|"},
        {"{\"type\":\"string\",\"format\":\"email\"}", "nobody", NULL, "f|f||0|0|0|"},
        {"{\"type\":\"string\",\"format\":\"email\"}", "a@b.org", "\"a@b.org\"", "f|f||0|0|0|"},
        {"{\"type\":\"integer\",\"title\":\"T\",\"description\":\"D\",\"default\":4}", " 12 ", "12",
         "f|T|D|2|0|0|4"},
        {"{\"type\":\"integer\"}", "1.5", NULL, "f|f||2|0|0|"},
        {"{\"type\":\"integer\"}", "0x10", NULL, "f|f||2|0|0|"},
        {"{\"type\":\"number\",\"maximum\":2}", "1.5", "1.5", "f|f||1|0|0|"},
        {"{\"type\":\"number\",\"maximum\":2}", "3", NULL, "f|f||1|0|0|"},
        {"{\"type\":\"boolean\"}", "Yes", "true", "f|f||3|0|0|"},
        {"{\"type\":\"boolean\"}", "n", "false", "f|f||3|0|0|"},
        {"{\"type\":\"boolean\"}", "maybe", NULL, "f|f||3|0|0|"},
        {"{\"type\":\"string\",\"enum\":[\"x\",\"y\"],\"enumNames\":[\"An X\"]}", "2", "\"y\"",
         "f|f||4|0|2||x=An X|y=y"},
        {"{\"type\":\"string\"," COLOURS "}", "green", "\"g\"", "f|f||4|0|2||r=Red|g=Green"},
        {"{\"type\":\"string\"," COLOURS "}", "3", NULL, "f|f||4|0|2||r=Red|g=Green"},
        {"{\"type\":\"array\",\"items\":{\"anyOf\":[{\"const\":\"r\",\"title\":\"Red\"},{\"const\":"
         "\"g\"}]},\"maxItems\":2}",
         "1, g", "[\"r\",\"g\"]", "f|f||5|0|2||r=Red|g=g"},
        {"{\"type\":\"array\",\"items\":{\"enum\":[\"r\"]},\"minItems\":1}", "", NULL,
         "f|f||5|0|1||r=r"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char params[1024];
        struct tidings_error err;
        struct typing t = {.text = rows[i].text, .value = rows[i].value};
        snprintf(params, sizeof(params), FORM_OF("\"f\":%s"), rows[i].field);
        struct asker a = {.is_modern = true,
                          .method = "elicitation/create",
                          .params = params,
                          .answer = read_fields};
        typing = &t;
        assert_int_equal(asker_run(&a, &err), 0);
        assert_string_equal(t.shown, rows[i].shown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(form_input_is_parsed_by_field_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
