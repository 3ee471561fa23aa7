/* SPDX-License-Identifier: MIT
 *
 * The published RFC 6570 cases (uritemplate-test), unmodified. They are not part of this
 * repository: TIDINGS_DATA names a folder that holds its JSON files below uritemplate; without it
 * the test is skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <stdio.h>

#include <cmocka.h>

#include "uri/template.h"
#include "json/json.h"

#define MAX_VARIABLES 64u
#define MAX_ITEMS 512u

/* The variables of one group of cases, as template_expand wants them. */
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

/* `expected`: a string, an array of acceptable ones, or false for "must fail". */
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

static bool run_case(const struct group *g, const struct json *row)
{
    struct tidings_str text = jv_str(jv_at(row, 0));
    struct tidings_error err = {0};
    struct uri_template *t = NULL;
    struct buf out;
    buf_init(&out, 1u << 16);
    int rc = template_create(text, &t, &err);
    if (rc == 0) {
        rc = template_expand(t, g->variables, g->count, &out, &err);
    }
    bool ok = is_expected(jv_at(row, 1), rc, buf_str(&out));
    if (!ok) {
        print_error("'%.*s': '%.*s' %s\n", STR_ARG(text), STR_ARG(buf_str(&out)), err.text);
    }
    buf_deinit(&out);
    template_destroy(t);
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

static void every_published_case_expands_or_fails_as_printed(void **state)
{
    (void)state;
    static const char *const files[] = {"spec-examples.json", "spec-examples-by-section.json",
                                        "extended-tests.json", "negative-tests.json"};
    const char *folder = getenv("TIDINGS_DATA");
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
    assert_true(total >= 250);
}

int main(void)
{
    const char *data = getenv("TIDINGS_DATA");
    if (!data || !data[0]) {
        print_message("skipped: TIDINGS_DATA does not name a folder with uritemplate/*.json\n");
        return 77; /* told apart from passing */
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_published_case_expands_or_fails_as_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
