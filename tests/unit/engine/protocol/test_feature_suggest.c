/* SPDX-License-Identifier: MIT
 *
 * The suggested names for an unknown name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/protocol/feature.h"

/* Ascending names. */
static struct feature_list *make_list(const char *const *names, size_t count)
{
    struct feature_list *list = calloc(1, sizeof(*list) + count * sizeof(list->at[0]));
    assert_non_null(list);
    list->count = count;
    for (size_t i = 0; i < count; i++) {
        list->at[i] = calloc(1, sizeof(struct feature));
        assert_non_null(list->at[i]);
        list->at[i]->name = tidings_str(names[i]);
    }
    return list;
}

static void free_list(struct feature_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->at[i]);
    }
    free(list);
}

/* "add,adds" */
static const char *suggested(const struct feature_list *list, const char *name)
{
    static char text[512];
    struct tidings_str near[FEATURE_SUGGESTIONS];
    size_t count = feature_suggest(list, tidings_str(name), near);
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(text);
        snprintf(text + len, sizeof(text) - len, "%s%.*s", i ? "," : "", STR_ARG(near[i]));
    }
    return text;
}

static void nearest_names_are_suggested_first_and_at_most_three(void **state)
{
    (void)state;
    static const char *const names[] = {"abcd", "abce", "abcf", "abcdef", "subtract", "zzzz"};
    struct feature_list *list = make_list(names, 6);
    assert_string_equal(suggested(list, "abcx"), "abcd,abce,abcf");
    assert_string_equal(suggested(list, "abcdex"), "abcdef,abcd,abce");
    assert_string_equal(suggested(list, "subtrakt"), "subtract");
    assert_string_equal(suggested(list, "sbtrct"), "subtract");
    assert_string_equal(suggested(list, "sbrct"), ""); /* more than half of it */
    assert_string_equal(suggested(list, "yyyy"), "");  /* no output remains */
    assert_string_equal(suggested(list, "z"), "");
    assert_string_equal(suggested(list, ""), "");
    assert_string_equal(suggested(NULL, "abcd"), "");
    free_list(list);
}

/* A hundred thousand tools, and a name of a megabyte. */
static void suggestion_cost_is_bounded(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    static char text[COUNT][12];
    const char **names = malloc(COUNT * sizeof(*names));
    assert_non_null(names);
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(text[i], sizeof(text[i]), "tool%06zu", i);
        names[i] = text[i];
    }
    struct feature_list *list = make_list(names, COUNT);
    assert_string_equal(suggested(list, "tool050000x"), "tool050000,tool050001,tool050002");
    /* Names far down in the list are not compared. */
    assert_string_equal(suggested(list, "ool050000"), "tool000000,tool000001,tool000002");
    char *huge = malloc((1u << 20) + 1);
    assert_non_null(huge);
    memset(huge, 't', 1u << 20);
    huge[1u << 20] = '\0';
    assert_string_equal(suggested(list, huge), "");
    free(huge);
    free(names);
    free_list(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest_names_are_suggested_first_and_at_most_three),
        cmocka_unit_test(suggestion_cost_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
