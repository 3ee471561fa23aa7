/* SPDX-License-Identifier: MIT
 *
 * Files that name servers: formats of hosts and editors, variable substitution, and reasons for
 * unusable entries.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/target.h"

static const char *variable(const char *name)
{
    return strcmp(name, "SET") == 0     ? "value"
           : strcmp(name, "EMPTY") == 0 ? ""
           : strcmp(name, "HOME") == 0  ? "/home/ada"
                                        : NULL;
}

static const struct servers_context context = {"f.json", "/project", variable, NULL};

/* The server "a" as one string, or the error message. */
static const char *find(const char *file)
{
    static char out[1024];
    struct target t = {0};
    struct tidings_error err = {0, ""};
    size_t n = 0;
    int rc = servers_find(&context, tidings_str(file), "a", &t, &err);
    if (rc < 0) {
        assert_int_equal(rc, err.code);
        snprintf(out, sizeof(out), "%s", err.text);
    } else {
        assert_int_equal(rc, 0);
        n += (size_t)snprintf(out, sizeof(out), "%s", t.url ? t.url : "");
        const struct texts *all[] = {&t.command, &t.env, &t.headers};
        for (size_t i = 0; i < 3; i++) {
            for (size_t k = 0; k < all[i]->count; k++) {
                n += (size_t)snprintf(out + n, sizeof(out) - n, "|%s", all[i]->items[k]);
            }
            assert_true(all[i]->count == 0 || all[i]->items[all[i]->count] == NULL);
        }
        snprintf(out + n, sizeof(out) - n, "%s%s", t.directory ? "@" : "",
                 t.directory ? t.directory : "");
    }
    target_deinit(&t);
    return out;
}

static void files_of_hosts_and_editors_are_parsed(void **state)
{
    (void)state;
    assert_string_equal(
        find("{\"mcpServers\":{\"b\":{\"command\":\"x\"},\"a\":{\"command\":\"npx\","
             "\"args\":[\"-y\",\"server\"],\"env\":{\"K\":\"v\",\"N\":7}}}}"),
        "|npx|-y|server|K=v|N=7");
    assert_string_equal(
        find("{\"servers\":{\"a\":{\"type\":\"http\",\"url\":\"https://x/mcp\",\"headers\":"
             "{\"Authorization\":\"Bearer t\"},\"unknown\":[1]}}}"),
        "https://x/mcp|Authorization: Bearer t");
    assert_string_equal(find("{\"servers\":{\"a\":{\"command\":\"x\",\"args\":\"y z\"}}}"),
                        "|x|y z");
    assert_string_equal(
        find("// of the project\n{\"servers\": {\"a\": {\"command\": \"x\", /* here */\n"
             "\"cwd\": \"${workspaceFolder}/sub\",},},}"),
        "|x@/project/sub");
}

static const char *expanded(const char *text)
{
    char file[512];
    snprintf(file, sizeof(file), "{\"mcpServers\":{\"a\":{\"url\":\"%s\"}}}", text);
    return find(file);
}

static void variables_are_replaced(void **state)
{
    (void)state;
    assert_string_equal(expanded("${SET}"), "value");
    assert_string_equal(expanded("a${env:SET}b${SET}"), "avaluebvalue");
    assert_string_equal(expanded("${UNSET:-x${y}"), "x${y");
    assert_string_equal(expanded("${UNSET:-}"), "");
    assert_string_equal(expanded("${EMPTY:-x}"), "x");
    assert_string_equal(expanded("${SET:-x}"), "value");
    assert_string_equal(expanded("${userHome}"), "/home/ada");
    assert_string_equal(expanded("$SET ${SET"), "$SET ${SET");
    assert_string_equal(expanded("${UNSET}"),
                        "f.json: server 'a': the variable 'UNSET' is not set");
}

static void used_variables_are_recorded(void **state)
{
    (void)state;
    struct target t = {0};
    struct tidings_error err = {0, ""};
    const char *file =
        "{\"servers\": {\"a\": {\"url\": \"${SET}${env:SET}${UNSET:-x}\", \"headers\": "
        "{\"h\": \"${workspaceFolder}${userHome}\"}}}}";
    assert_int_equal(servers_find(&context, tidings_str(file), "a", &t, &err), 0);
    assert_int_equal(t.variables.count, 2);
    assert_string_equal(t.variables.items[0], "SET");
    assert_string_equal(t.variables.items[1], "userHome");
    assert_string_equal(t.entry, "{\"url\":\"${SET}${env:SET}${UNSET:-x}\",\"headers\":"
                                 "{\"h\":\"${workspaceFolder}${userHome}\"}}");
    target_deinit(&t);
}

static void interactive_inputs_are_rejected(void **state)
{
    (void)state;
    assert_non_null(strstr(expanded("${input:key}"), "${input:key}"));
    assert_non_null(strstr(expanded("${input:key}"), "${env:NAME}"));
    assert_non_null(
        strstr(find("{\"servers\":{\"a\":{\"command\":\"x\",\"envFile\":\".env\"}}}"), "envFile"));
}

static void unusable_entry_is_rejected_with_reason(void **state)
{
    (void)state;
    const struct {
        const char *file, *why;
    } rows[] = {
        {"{\n\n!}", "line 3"},
        {"[]", "mcpServers"},
        {"{\"mcpServers\":[]}", "mcpServers"},
        {"{\"mcpServers\":{}}", "no server 'a'"},
        {"{\"mcpServers\":{\"a\":{}}}", "'command' or a 'url'"},
        {"{\"mcpServers\":{\"a\":7}}", "'command' or a 'url'"},
        {"{\"mcpServers\":{\"a\":{\"command\":\"x\",\"url\":\"y\"}}}", "'command' or a 'url'"},
        {"{\"mcpServers\":{\"a\":{\"command\":\"x\",\"args\":7}}}", "'args' must be a list"},
        {"{\"mcpServers\":{\"a\":{\"command\":\"x\",\"env\":\"K\"}}}", "'env' must be an object"},
        {"{\"mcpServers\":{\"a\":{\"command\":\"x\",\"env\":[1]}}}", "'env' must be an object"},
        {"{\"mcpServers\":{\"a\":{\"command\":\"x\",\"env\":{\"K\":null}}}}",
         "'K' must be a string"},
        {"{\"mcpServers\":{\"a\":{\"command\":\"x\",\"cwd\":7}}}", "'cwd' must be a string"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *text = find(rows[i].file);
        if (!strstr(text, rows[i].why) || !strstr(text, "f.json")) {
            fail_msg("%s: %s", rows[i].file, text);
        }
    }
}

static void oversized_lists_and_strings_are_rejected(void **state)
{
    (void)state;
    static char file[64 * 1024];
    size_t n = (size_t)snprintf(file, sizeof(file),
                                "{\"mcpServers\":{\"a\":{\"command\":\"x\","
                                "\"args\":[1");
    for (unsigned i = 0; i < TEXTS_MAX; i++) {
        n += (size_t)snprintf(file + n, sizeof(file) - n, ",1");
    }
    snprintf(file + n, sizeof(file) - n, "]}}}");
    assert_non_null(strstr(find(file), "1000"));

    n = (size_t)snprintf(file, sizeof(file), "{\"mcpServers\":{\"a\":{\"url\":\"");
    memset(file + n, 'x', SERVERS_TEXT_MAX);
    snprintf(file + n + SERVERS_TEXT_MAX, sizeof(file) - n - SERVERS_TEXT_MAX, "\"}}}");
    assert_non_null(strstr(find(file), "longer than"));
}

static void hear(void *user, const struct servers_entry *e)
{
    char *out = user;
    size_t n = strlen(out);
    snprintf(out + n, 256 - n, "%s %s %s;", e->name.ptr, e->kind, e->what.ptr);
}

static void entries_are_listed_in_file_order(void **state)
{
    (void)state;
    char out[256] = "";
    struct tidings_error err = {0, ""};
    const char *file = "{\"servers\":{\"a\":{\"url\":\"${UNSET}\"},\"b\":{\"command\":\"x\","
                       "\"args\":[\"y z\",1]},\"c\":[],\"d\":{\"command\":\"v\",\"args\":\"w\"}}}";
    assert_int_equal(servers_each(&context, tidings_str(file), hear, out, &err), 0);
    assert_string_equal(out, "a url ${UNSET};b command x y z 1;c unusable ;d command v w;");
    assert_int_equal(servers_each(&context, tidings_str("{"), hear, out, &err), TIDINGS_E_PARSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_hosts_and_editors_are_parsed),
        cmocka_unit_test(variables_are_replaced),
        cmocka_unit_test(used_variables_are_recorded),
        cmocka_unit_test(interactive_inputs_are_rejected),
        cmocka_unit_test(unusable_entry_is_rejected_with_reason),
        cmocka_unit_test(oversized_lists_and_strings_are_rejected),
        cmocka_unit_test(entries_are_listed_in_file_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
