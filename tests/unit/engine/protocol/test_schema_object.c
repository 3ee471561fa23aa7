/* SPDX-License-Identifier: MIT
 *
 * Schemas from a table of members: the result validates as expected, and an invalid row is reported
 * by number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <tidings/schema.h>

#include "base/str.h"
#include "support/fail_alloc.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const char *const colours[] = {"red", "green", NULL};
static const struct tidings_schema_field all[] = {
    {.name = "s", .description = "a \"string\"", .is_required = true},
    {.name = "i", .type = TIDINGS_SCHEMA_INTEGER, .rules = "{\"minimum\":1,\"default\":3}"},
    {.name = "n", .type = TIDINGS_SCHEMA_NUMBER, .is_required = true},
    {.name = "b", .type = TIDINGS_SCHEMA_BOOLEAN},
    {.name = "l", .type = TIDINGS_SCHEMA_STRINGS, .choices = colours},
    {.name = "o", .type = TIDINGS_SCHEMA_OBJECT},
    {.name = "a", .type = TIDINGS_SCHEMA_ANY, .rules = "{\"type\":[\"null\",\"string\"]}"},
    {.name = "c", .choices = colours},
};

static void schema_supports_every_type(void **state)
{
    (void)state;
    char *schema = tidings_schema_object(all, COUNT(all), NULL);
    assert_string_equal(schema,
                        "{\"type\":\"object\",\"properties\":{"
                        "\"s\":{\"type\":\"string\",\"description\":\"a \\\"string\\\"\"},"
                        "\"i\":{\"type\":\"integer\",\"minimum\":1,\"default\":3},"
                        "\"n\":{\"type\":\"number\"},"
                        "\"b\":{\"type\":\"boolean\"},"
                        "\"l\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"enum\":["
                        "\"red\",\"green\"]}},"
                        "\"o\":{\"type\":\"object\"},"
                        "\"a\":{\"type\":[\"null\",\"string\"]},"
                        "\"c\":{\"type\":\"string\",\"enum\":[\"red\",\"green\"]}},"
                        "\"required\":[\"s\",\"n\"],\"additionalProperties\":false}");
    tidings_free(schema);
    schema = tidings_schema_object(NULL, 0, NULL);
    assert_string_equal(schema,
                        "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}");
    tidings_free(schema);
}

static void invalid_row_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        struct tidings_schema_field rows[2];
        int code;
        const char *says;
    } cases[] = {
        {{{.name = "a"}, {.name = "a"}}, TIDINGS_E_INVALID, "'a' stands twice"},
        {{{.name = "a"}, {0}}, TIDINGS_E_INVALID, "row 1 has no name"},
        {{{.name = ""}, {0}}, TIDINGS_E_INVALID, "row 0 has no name"},
        {{{.name = "a", .type = (enum tidings_schema_type)7}, {.name = "b"}},
         TIDINGS_E_INVALID,
         "'a' has no known type"},
        {{{.name = "a", .type = TIDINGS_SCHEMA_NUMBER, .choices = colours}, {.name = "b"}},
         TIDINGS_E_INVALID,
         "'a' has choices, but is not a string"},
        {{{.name = "a", .rules = "[]"}, {.name = "b"}},
         TIDINGS_E_PARSE,
         "the rules of 'a' are not a JSON object"},
        {{{.name = "a", .rules = "{"}, {.name = "b"}}, TIDINGS_E_PARSE, "the rules of 'a': line 1"},
        {{{.name = "a", .rules = "{\"enum\":[]}"}, {.name = "b"}},
         TIDINGS_E_INVALID,
         "the rules of 'a' say 'enum'"},
        {{{.name = "a", .type = TIDINGS_SCHEMA_STRINGS, .rules = "{\"items\":{}}"}, {.name = "b"}},
         TIDINGS_E_INVALID,
         "the rules of 'a' say 'items'"},
        {{{.name = "a", .type = TIDINGS_SCHEMA_ANY, .rules = "{\"description\":\"\"}"},
          {.name = "b"}},
         TIDINGS_E_INVALID,
         "the rules of 'a' say 'description'"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct tidings_error err = {0, ""};
        assert_null(tidings_schema_object(cases[i].rows, 2, &err));
        assert_int_equal(err.code, cases[i].code);
        if (!strstr(err.text, cases[i].says)) {
            fail_msg("'%s' does not say '%s'", err.text, cases[i].says);
        }
    }
}

static void oversized_schema_is_refused(void **state)
{
    (void)state;
    static char description[(1u << 20) + 1];
    memset(description, 'x', sizeof(description) - 1);
    struct tidings_schema_field row = {.name = "a", .description = description};
    struct tidings_error err = {0, ""};
    assert_null(tidings_schema_object(&row, 1, &err));
    assert_int_equal(err.code, TIDINGS_E_LIMIT);
}

static void failed_allocation_leaks_no_schema(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        struct tidings_error err = {0, ""};
        fail_alloc_start(n);
        char *schema = tidings_schema_object(all, COUNT(all), &err);
        if (schema) {
            tidings_free(schema);
            assert_int_equal(fail_alloc_live(), 0);
            assert_true(n > 3);
            return;
        }
        assert_int_equal(err.code, TIDINGS_E_NOMEM);
        assert_int_equal(fail_alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schema_supports_every_type),
        cmocka_unit_test(invalid_row_is_refused_by_name),
        cmocka_unit_test(oversized_schema_is_refused),
        cmocka_unit_test(failed_allocation_leaks_no_schema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
