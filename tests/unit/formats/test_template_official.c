/* SPDX-License-Identifier: MIT
 *
 * Every published RFC 6570 case, from support/template_cases.c. If TIDINGS_DATA names a folder with
 * the publication (uritemplate-test) below uritemplate, the test runs that copy too, and our list
 * must contain each of its cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <stdio.h>

#include <cmocka.h>

#include "formats/json.h"
#include "formats/uri_template.h"
#include "support/template_cases.h"

#define MAX_VARIABLES 64u
#define MAX_ITEMS 512u

/* The variables of one group of cases, in the form for template_expand. */
struct group {
    struct template_variable variables[MAX_VARIABLES];
    struct tidings_str items[MAX_ITEMS];
    char numbers[MAX_ITEMS][32];
    size_t count, item_count, number_count;
};

static struct tidings_str text_of(struct group *g, const struct json *v)
{
    if (jv_is(v, JV_STRING)) {
        return jv_str(v);
    }
    assert_in_range(g->number_count, 0, MAX_ITEMS - 1);
    char *out = g->numbers[g->number_count++];
    snprintf(out, sizeof(g->numbers[0]), "%.10g", jv_real(v));
    return tidings_str(out);
}

static void add_item(struct group *g, struct tidings_str item)
{
    assert_in_range(g->item_count, 0, MAX_ITEMS - 1);
    g->items[g->item_count++] = item;
}

static void add_variable(struct group *g, struct tidings_str name, struct json *value)
{
    assert_in_range(g->count, 0, MAX_VARIABLES - 1);
    struct template_variable *v = &g->variables[g->count++];
    *v = (struct template_variable){.name = name, .items = g->items + g->item_count};
    if (jv_is(value, JV_ARRAY)) {
        v->type = TEMPLATE_LIST;
        v->count = jv_count(value);
        for (size_t i = 0; i < v->count; i++) {
            add_item(g, text_of(g, jv_at(value, i)));
        }
    } else if (jv_is(value, JV_OBJECT)) {
        struct tidings_str key;
        struct json *item;
        v->type = TEMPLATE_PAIRS;
        v->count = jv_count(value);
        for (void *at = NULL; (at = jv_next(value, at, &key, &item));) {
            add_item(g, key);
            add_item(g, text_of(g, item));
        }
    } else if (jv_type(value) != JV_NULL) {
        v->type = TEMPLATE_STRING;
        v->string = text_of(g, value);
    }
}

/* `expected`: a string, an array of accepted strings, or false for "must fail". */
static bool is_expected(const struct json *expected, int rc, struct tidings_str got)
{
    if (jv_is(expected, JV_FALSE)) {
        return rc < 0;
    }
    if (rc < 0 || jv_is(expected, JV_STRING)) {
        return rc == 0 && str_eq(got, jv_str(expected));
    }
    for (size_t i = 0; i < jv_count(expected); i++) {
        if (str_eq(got, jv_str(jv_at(expected, i)))) {
            return true;
        }
    }
    return false;
}

/* Compile and expand into `out`, which is initialised here. */
static int expand(struct tidings_str text, const struct template_variable *variables, size_t count,
                  struct buf *out)
{
    struct uri_template *t = NULL;
    buf_init(out, 1u << 16);
    int rc = template_create(text, &t, NULL);
    if (rc == 0) {
        rc = template_expand(t, variables, count, out, NULL);
    }
    template_destroy(t);
    return rc;
}

static void published_cases_expand_or_are_rejected(void **state)
{
    (void)state;
    size_t failed = 0;
    for (size_t i = 0; i < template_case_count; i++) {
        const struct template_case *row = &template_cases[i];
        struct buf out;
        int rc = expand(tidings_str(row->text), row->variables, row->variable_count, &out);
        bool ok = row->expansion ? rc == 0 && str_eq(buf_str(&out), tidings_str(row->expansion))
                                 : rc == TIDINGS_E_INVALID;
        if (!ok) {
            print_error("'%s': %d '%.*s', expected '%s'\n", row->text, rc, STR_ARG(buf_str(&out)),
                        row->expansion ? row->expansion : "a refusal");
        }
        failed += !ok;
        buf_deinit(&out);
    }
    assert_int_equal(failed, 0);
    assert_in_range(template_case_count, 200, 600);
}

/* Returns true if one of our rows is this published case: the same template with an accepted
 * result. */
static bool is_covered(struct tidings_str text, const struct json *expected)
{
    for (size_t i = 0; i < template_case_count; i++) {
        const char *ours = template_cases[i].expansion;
        if (str_eq(tidings_str(template_cases[i].text), text) &&
            is_expected(expected, ours ? 0 : TIDINGS_E_INVALID, tidings_str(ours))) {
            return true;
        }
    }
    return false;
}

static bool run_case(const struct group *g, const struct json *row)
{
    struct tidings_str text = jv_str(jv_at(row, 0));
    struct buf out;
    int rc = expand(text, g->variables, g->count, &out);
    bool ok = is_expected(jv_at(row, 1), rc, buf_str(&out));
    if (!ok) {
        print_error("'%.*s': %d '%.*s'\n", STR_ARG(text), rc, STR_ARG(buf_str(&out)));
    } else if (!is_covered(text, jv_at(row, 1))) {
        print_error("'%.*s' is missing from template_cases.c\n", STR_ARG(text));
        ok = false;
    }
    buf_deinit(&out);
    return ok;
}

static struct json *load(const char *folder, const char *file)
{
    static char text[1u << 17];
    char path[4096];
    snprintf(path, sizeof(path), "%s/uritemplate/%s", folder, file);
    FILE *f = fopen(path, "rb");
    if (!f) {
        fail_msg("cannot open '%s'", path);
        return NULL;
    }
    size_t len = fread(text, 1, sizeof(text), f);
    fclose(f);
    struct json *root = NULL;
    struct tidings_error err = {0};
    if (jv_parse(tidings_strn(text, len), JSON_MAX_DEPTH, &root, &err) < 0) {
        fail_msg("'%s': %s", path, err.text);
    }
    return root;
}

static void published_cases_pass_and_are_all_in_our_list(void **state)
{
    (void)state;
    static const char *const files[] = {"spec-examples.json", "spec-examples-by-section.json",
                                        "extended-tests.json", "negative-tests.json"};
    const char *folder = getenv("TIDINGS_DATA");
    if (!folder || !folder[0]) {
        skip();
    }
    size_t total = 0, failed = 0;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct json *root = load(folder, files[i]), *group;
        struct tidings_str title;
        for (void *at = NULL; (at = jv_next(root, at, &title, &group));) {
            static struct group g;
            memset(&g, 0, sizeof(g));
            struct tidings_str name;
            struct json *value;
            for (void *v = NULL; (v = jv_next(jv_get(group, "variables"), v, &name, &value));) {
                add_variable(&g, name, value);
            }
            const struct json *cases = jv_get(group, "testcases");
            for (size_t k = 0; k < jv_count(cases); k++) {
                failed += !run_case(&g, jv_at(cases, k));
                total++;
            }
        }
        jv_unref(root);
    }
    print_message("%zu published cases\n", total);
    assert_int_equal(failed, 0);
    assert_true(total >= 270);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_cases_expand_or_are_rejected),
        cmocka_unit_test(published_cases_pass_and_are_all_in_our_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
