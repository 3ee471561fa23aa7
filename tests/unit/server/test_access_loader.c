/* SPDX-License-Identifier: MIT
 *
 * Loading of access rules from the configuration and their file. Their effect is tested in worker.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "server/auth_setup.h"

static const char *write_file(const char *text)
{
    static char path[64];
    snprintf(path, sizeof(path), "/tmp/tidings-access-%d.json", (int)getpid());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
    return path;
}

static void rules_load_from_configuration_and_file(void **state)
{
    (void)state;
    struct config c;
    struct tidings_error err = {0};
    struct access_rules *rules = NULL;
    assert_int_equal(config_init(&c, NULL), 0);
    assert_int_equal(access_load(&c, &rules, &err), 0);
    assert_null(rules); /* without rules every client may do everything */
    const char *text =
        "{\"access\": [{\"principal\": \"ada\", \"uri\": \"FILE:///srv/docs/**\","
        " \"allow\": [\"list\", \"read\"]},"
        " {\"by\": \"certificate\", \"allow\": [\"write\"]}, {\"principal\": \"anonymous\","
        " \"uri\": \"app:///x/\", \"allow\": [\"read\"]}]}";
    assert_int_equal(config_load_text(&c, "tidings.json", tidings_str(text), &err), 0);
    const char *path =
        write_file("[ // a comment\n {\"scope\":\"a:b\",\"uri\":\"app:///{id}\","
                   "\"allow\":[\"subscribe\",]}, {\"principal\":\"authenticated\","
                   "\"uri\":\"app:///one/\",\"match\":\"literal\",\"allow\":\"read\",},]");
    assert_int_equal(config_set(&c, "access-file", path, CONFIG_FLAG, &err), 0);
    assert_int_equal(access_load(&c, &rules, &err), 0);
    unlink(path);
    assert_int_equal(rules->count, 5);
    const struct access_rule *r = rules->at;
    assert_int_equal(r[0].whom, ACCESS_NAMED);
    assert_true(str_eq(r[0].name, STR("ada")));
    assert_int_equal(r[0].kind, PATTERN_GLOB);
    assert_true(str_eq(r[0].uri, STR("file:///srv/docs/**")));
    assert_int_equal(r[0].ops, 1u << ACCESS_LIST | 1u << ACCESS_READ);
    assert_int_equal(r[1].whom, ACCESS_AUTHENTICATED);
    assert_int_equal(r[1].kinds, 1u << PRINCIPAL_CERTIFICATE);
    assert_int_equal(r[1].uri.len, 0);
    assert_int_equal(r[2].whom, ACCESS_ANONYMOUS);
    assert_int_equal(r[2].kind, PATTERN_CONTAINER);
    assert_int_equal(r[3].whom, ACCESS_ANYBODY);
    assert_int_equal(r[3].kind, PATTERN_TEMPLATE);
    assert_true(str_eq(r[3].scope, STR("a:b")));
    assert_int_equal(r[4].whom, ACCESS_AUTHENTICATED);
    assert_int_equal(r[4].kind, PATTERN_LITERAL);
    assert_int_equal(r[4].ops, 1u << ACCESS_READ);
    access_rules_unref(rules);
    config_deinit(&c);
}

static void empty_rules_file_allows_nothing(void **state)
{
    (void)state;
    struct config c;
    struct tidings_error err = {0};
    struct access_rules *rules = NULL;
    assert_int_equal(config_init(&c, NULL), 0);
    const char *path = write_file("{\"access\": []}");
    assert_int_equal(config_set(&c, "access-file", path, CONFIG_FLAG, &err), 0);
    assert_int_equal(access_load(&c, &rules, &err), 0);
    assert_non_null(rules);
    assert_int_equal(rules->count, 0);
    access_rules_unref(rules);
    unlink(path);
    assert_int_equal(access_load(&c, &rules, &err), TIDINGS_E_NOTFOUND);
    assert_non_null(strstr(err.text, path));
    assert_null(rules);
    config_deinit(&c);
}

static void invalid_rule_is_reported_with_reason(void **state)
{
    (void)state;
    static const struct {
        const char *rule, *says;
    } rows[] = {
        {"[]", "a rule is an object"},
        {"{}", "allow: is missing"},
        {"{\"allow\":[]}", "allow: must be"},
        {"{\"allow\":[\"look\"]}", "list, read, subscribe and write"},
        {"{\"allow\":\"look\"}", "allow: must be"},
        {"{\"allow\":{\"read\":1}}", "allow: must be"},
        {"{\"allow\":[\"read\"],\"who\":1}", "accepted: principal, by, scope, uri, match, allow"},
        {"{\"allow\":[\"read\"],\"principal\":7}", "principal: must be a string"},
        {"{\"allow\":[\"read\"],\"principal\":\"\"}", "principal: must be a string"},
        {"{\"allow\":[\"read\"],\"scope\":[]}", "scope: must be a string"},
        {"{\"allow\":[\"read\"],\"by\":\"name\"}", "token, certificate or user"},
        {"{\"allow\":[\"read\"],\"by\":\"token\",\"principal\":\"anonymous\"}", "has proved"},
        {"{\"allow\":[\"read\"],\"uri\":\"a:///\",\"match\":\"regex\"}", "match: must be"},
        {"{\"allow\":[\"read\"],\"match\":\"glob\"}", "which is missing"},
        {"{\"allow\":[\"read\"],\"uri\":\"no uri\"}", "uri: "},
        {"{\"allow\":[\"read\"],\"uri\":\"a:///[z-a]\"}", "uri: "},
        {"{\"allow\":[\"read\"],\"uri\":\"a:///{\"}", "uri: "},
        {"{\"allow\":[\"read\"],", "line 1"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tidings_error err = {0};
        int rc = access_rule_check(tidings_str(rows[i].rule), &err);
        if (rc >= 0 || !strstr(err.text, rows[i].says)) {
            fail_msg("%s: '%s'", rows[i].rule, err.text);
        }
    }
    struct config c;
    struct tidings_error err = {0};
    struct access_rules *rules = NULL;
    assert_int_equal(config_init(&c, NULL), 0);
    const char *path = write_file("[{\"allow\":[\"read\"]},{\"allow\":[\"reed\"]}]");
    assert_int_equal(config_set(&c, "access-file", path, CONFIG_FLAG, &err), 0);
    assert_true(access_load(&c, &rules, &err) < 0);
    assert_non_null(strstr(err.text, "rule 2: allow"));
    unlink(path);
    config_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_load_from_configuration_and_file),
        cmocka_unit_test(empty_rules_file_allows_nothing),
        cmocka_unit_test(invalid_rule_is_reported_with_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
