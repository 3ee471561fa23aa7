/* SPDX-License-Identifier: MIT
 *
 * The official JSON-Schema-Test-Suite: every mandatory case of draft 2020-12. It is not in this
 * repository: $TIDINGS_DATA/json-schema holds it (`tests/draft2020-12`, `remotes`). Without it this
 * program is skipped; test_schema.c has our own cases. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "formats/schema.h"

#define REMOTE "http://localhost:1234/"
#define MAX_DOCUMENTS 200

static struct {
    struct schema_document documents[MAX_DOCUMENTS];
    char uris[MAX_DOCUMENTS][600];
    size_t n_documents;
    unsigned cases, failures;
} suite;

static struct json *load(const char *path)
{
    char *text = malloc(1u << 20);
    FILE *file = fopen(path, "rb");
    assert_non_null(text);
    assert_non_null(file);
    size_t len = fread(text, 1, 1u << 20, file);
    fclose(file);
    struct json *v = NULL;
    struct tidings_error err = {0};
    if (jv_parse(tidings_strn(text, len), JSON_MAX_DEPTH, &v, &err) < 0) {
        fail_msg("%s: %s", path, err.text);
    }
    free(text);
    return v;
}

static void load_remotes(const char *folder, const char *relative)
{
    char path[1024], below[512];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, relative);
    DIR *dir = opendir(path);
    if (!dir) {
        fail_msg("%s: no such folder", path);
        return;
    }
    for (struct dirent *d; (d = readdir(dir)) != NULL;) {
        bool is_root = relative[0] == '\0';
        if (d->d_name[0] == '.' ||
            (is_root && d->d_type == DT_DIR && strncmp(d->d_name, "draft", 5) == 0 &&
             strcmp(d->d_name, "draft2020-12") != 0)) {
            continue; /* other drafts */
        }
        (void)snprintf(below, sizeof(below), "%s%s%s", relative, is_root ? "" : "/", d->d_name);
        if (d->d_type == DT_DIR) {
            load_remotes(folder, below);
        } else if (str_ends(tidings_str(d->d_name), STR(".json"))) {
            size_t i = suite.n_documents++;
            assert_true(i < MAX_DOCUMENTS);
            (void)snprintf(path, sizeof(path), "%s/%s", folder, below);
            (void)snprintf(suite.uris[i], sizeof(suite.uris[i]), REMOTE "%s", below);
            suite.documents[i].uri = tidings_str(suite.uris[i]);
            suite.documents[i].root = load(path);
        }
    }
    closedir(dir);
}

static void run_group(const char *file, struct json *group)
{
    const struct schema_options options = {.documents = suite.documents,
                                           .n_documents = suite.n_documents};
    struct json_schema *schema = NULL;
    struct tidings_error err = {0};
    struct json *tests = jv_get(group, "tests");
    if (schema_compile(jv_get(group, "schema"), &options, &schema, &err) < 0) {
        print_error("%s: %.*s: %s\n", file, STR_ARG(jv_str(jv_get(group, "description"))),
                    err.text);
    }
    for (size_t i = 0; i < jv_count(tests); i++) {
        struct json *test = jv_at(tests, i);
        struct schema_error why = {"", "", ""};
        bool expected = jv_is_true(jv_get(test, "valid"));
        suite.cases++;
        bool valid = schema && schema_validate(schema, jv_get(test, "data"), &why);
        bool is_told = !schema || valid == (why.text[0] == '\0');
        if (!schema || valid != expected || !is_told) {
            suite.failures++;
            print_error("%s: %.*s: %.*s: %s expected; %s at '%s' of '%s'\n", file,
                        STR_ARG(jv_str(jv_get(group, "description"))),
                        STR_ARG(jv_str(jv_get(test, "description"))),
                        expected ? "valid" : "invalid", why.text, why.schema_path,
                        why.instance_path);
        }
    }
    schema_destroy(schema);
}

static void official_suite_mandatory_cases_pass(void **state)
{
    (void)state;
    const char *data = getenv("TIDINGS_DATA");
    char folder[512], path[1024];
    (void)snprintf(folder, sizeof(folder), "%s/json-schema/remotes", data);
    load_remotes(folder, "");
    (void)snprintf(folder, sizeof(folder), "%s/json-schema/tests/draft2020-12", data);
    DIR *dir = opendir(folder);
    if (!dir) {
        fail_msg("%s: no such folder", folder);
        return;
    }
    for (struct dirent *d; (d = readdir(dir)) != NULL;) {
        if (str_ends(tidings_str(d->d_name), STR(".json"))) {
            (void)snprintf(path, sizeof(path), "%s/%s", folder, d->d_name);
            struct json *groups = load(path);
            for (size_t i = 0; i < jv_count(groups); i++) {
                run_group(d->d_name, jv_at(groups, i));
            }
            jv_unref(groups);
        }
    }
    closedir(dir);
    for (size_t i = 0; i < suite.n_documents; i++) {
        jv_unref(suite.documents[i].root);
    }
    print_message("%u cases, %u failures\n", suite.cases, suite.failures);
    assert_true(suite.cases >= 1200);
    assert_int_equal(suite.failures, 0);
}

int main(void)
{
    const char *data = getenv("TIDINGS_DATA");
    if (!data || !data[0]) {
        print_message("skipped: TIDINGS_DATA does not name a folder with json-schema/tests\n");
        return 77; /* distinct from a pass */
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(official_suite_mandatory_cases_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
