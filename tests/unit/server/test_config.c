/* SPDX-License-Identifier: MIT
 *
 * The configuration table: spellings, sources and their order, limits, and errors with a location.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "formats/json.h"
#include "server/config.h"
#include "server/config_internal.h"
#include "support/fail_alloc.h"

static void assert_value(const struct config *c, const char *name, const char *expected)
{
    struct buf b;
    buf_init(&b, 65536);
    assert_int_equal(config_get(c, name, &b), 0);
    assert_string_equal(b.ptr ? b.ptr : "", expected);
    buf_deinit(&b);
}

static void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part)) {
        fail_msg("'%s' does not contain '%s'", text, part);
    }
}

static int load(struct config *c, const char *text, struct tidings_error *err)
{
    return config_load_text(c, "tidings.json", tidings_str(text), err);
}

static void defaults_equal_their_table_rows(void **state)
{
    (void)state;
    struct config c;
    assert_int_equal(config_init(&c, NULL), 0);
    for (size_t i = 0; i < config_row_count; i++) {
        assert_value(&c, config_rows[i].name, config_rows[i].value);
    }
    assert_int_equal(c.max_read, 16777216);
    assert_int_equal(c.keepalive_ms, 15000);
    assert_int_equal(c.session_timeout_ms, 1800000);
    assert_int_equal(c.watch_quiet_ms, 10);
    assert_int_equal(c.protocol_max, 0);
    assert_string_equal(c.log_level, "info");
    assert_int_equal(c.http.port, 7777);
    assert_true(c.list_changed);
    config_deinit(&c);
}

static void option_spellings_derive_from_row_name(void **state)
{
    (void)state;
    char s[CONFIG_NAME_MAX];
    const struct config_row *row = config_find(STR("max-uris-per-listen"), CONFIG_AS_NAME);
    config_spell(row, CONFIG_AS_FLAG, s);
    assert_string_equal(s, "--max-uris-per-listen");
    config_spell(row, CONFIG_AS_VARIABLE, s);
    assert_string_equal(s, "TIDINGS_MAX_URIS_PER_LISTEN");
    config_spell(row, CONFIG_AS_KEY, s);
    assert_string_equal(s, "maxUrisPerListen");
    assert_string_equal(config_find(STR("mounts"), CONFIG_AS_KEY)->name, "mount");
}

static void change_content_values_parse_with_units(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *shown;
    } cases[] = {
        {"max-read", "2048", "2k"},
        {"max-read", "3M", "3m"},
        {"max-read", "1025", "1025"},
        {"max-read", "1g", "1g"},
        {"keepalive", "30", "30s"},
        {"keepalive", "1500ms", "1500ms"},
        {"keepalive", "2m", "2m"},
        {"session-timeout", "2H", "2h"},
        {"drain", "0", "0s"},
        {"stdio", "yes", "true"},
        {"list-changed", "OFF", "false"},
        {"http", "9000", "127.0.0.1:9000"},
        {"http", "[::1]:80", "[::1]:80"},
        {"http", "localhost:0", "127.0.0.1:0"},
        {"log-level", "warn", "warn"},
        {"protocol-max", "2025-06-18", "2025-06-18"},
        {"profile", "erlmcp", "erlmcp"},
        {"title", "Grüße", "Grüße"},
        {"allow-origin", "https://a:1", "https://a:1"},
        {"allow-host", "[fd00::1]:80", "[fd00::1]:80"},
        {"publish", "app:///notes/", "app:///notes/"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config c;
        struct tidings_error err = {0};
        assert_int_equal(config_init(&c, NULL), 0);
        if (config_set(&c, cases[i].name, cases[i].value, CONFIG_FLAG, &err) < 0) {
            fail_msg("%s=%s: %s", cases[i].name, cases[i].value, err.text);
        }
        assert_value(&c, cases[i].name, cases[i].shown);
        config_deinit(&c);
    }
}

static void invalid_value_error_lists_accepted_values(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *expected;
    } cases[] = {
        {"page-size", "1001", "--page-size: '1001' is out of range (accepted: 1 to 1000)"},
        {"page-size", "0", "(accepted: 1 to 1000)"},
        {"page-size", "-1", "is not a number"},
        {"page-size", "10k", "is not a number"},
        {"page-size", "", "is not a number"},
        {"page-size", "99999999999999999999", "is not a number"},
        {"max-read", "17179869184g", "is not a size"},
        {"max-read", "1t", "is not a size (accepted: 1k to 1g, in bytes or with k, m, g)"},
        {"keepalive", "1d", "(accepted: 1s to 1h, in seconds or with ms, s, m, h)"},
        {"keepalive", "500ms", "out of range"},
        {"watch-quiet", "10", "out of range (accepted: 1ms to 1s"},
        {"log-level", "loud", "(accepted: off, error, warn, info, debug; then areas"},
        {"log-level", "info,shop=debug", "'shop' is not a log area (accepted: server, "},
        {"log-format", "xml", "(accepted: text, json, logfmt, journal)"},
        {"protocol-max", "2025", "(accepted: 2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26, "},
        {"profile", "strict", "(accepted: none, gateway, erlmcp, lumenize)"},
        {"stdio", "maybe", "(accepted: true or false)"},
        {"http", "127.0.0.1:65536", "has no port from 0 to 65535"},
        {"http", "example.org:80", "has no numeric address"},
        {"http", "::1:80", "is not an address"},
        {"http", "[::1]", "is not an address"},
        {"http", "[127.0.0.1]:80", "has no numeric address"},
        {"http", ":80", "is not an address"},
        {"http", "", "no port"},
        {"mount", "./data", "is not a mount"},
        {"mount", "data=./data", "is not a mount"},
        {"mount", "file://data/=", "is not a mount"},
        {"mount", "file:///a/../b/=./data", "--mount: 'file:///a/../b/'"},
        {"mount", "x://a/?q=./data", "--mount: 'x://a/?q'"},
        {"allow-origin", "https://a/b", "is not an origin"},
        {"allow-origin", "*", "is not an origin"},
        {"allow-host", "a/b", "is not a host"},
        {"publish", "app:///notes", "is not a prefix"},
        {"publish", "App:///", "must be written 'app:///'"},
        {"publish", "notes/", "scheme"},
        {"exclude", "[a", "--exclude: '[a'"},
        {"name", "a\nb", "--name: 'a?b' holds control characters"},
        {"name", "\xff", "invalid bytes"},
        {"page-sise", "1", "unknown option 'page-sise', did you mean 'page-size'?"},
        {"colour", "1", "unknown option 'colour'"},
    };
    struct config c;
    assert_int_equal(config_init(&c, NULL), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tidings_error err = {0};
        int rc = config_set(&c, cases[i].name, cases[i].value, CONFIG_FLAG, &err);
        if (rc != TIDINGS_E_INVALID) {
            fail_msg("%s=%s: %d '%s'", cases[i].name, cases[i].value, rc, err.text);
        }
        assert_contains(err.text, cases[i].expected);
    }
    for (size_t i = 0; i < config_row_count; i++) {
        assert_value(&c, config_rows[i].name, config_rows[i].value);
    }
    config_deinit(&c);
}

static void higher_source_wins_in_any_order(void **state)
{
    (void)state;
    static const char *const flag[] = {"TIDINGS_PAGE_SIZE=20", NULL};
    char *environment[2];
    memcpy(environment, flag, sizeof(flag));
    static const char order[6][4] = {"ffe", "fef", "eff", "Ffe", "eFf", "feF"};
    for (size_t i = 0; i < 6; i++) {
        struct config c;
        assert_int_equal(config_init(&c, NULL), 0);
        bool flagged = false;
        for (const char *p = order[i]; *p; p++) {
            if (*p == 'f') {
                assert_int_equal(load(&c, "{\"pageSize\": 30}", NULL), 0);
            } else if (*p == 'e') {
                assert_int_equal(config_load_env(&c, environment, NULL), 0);
            } else {
                assert_int_equal(config_set(&c, "page-size", "10", CONFIG_FLAG, NULL), 0);
                flagged = true;
            }
        }
        assert_value(&c, "page-size", flagged ? "10" : "20");
        config_deinit(&c);
    }
}

static void lists_accumulate_within_a_source_and_keep_default(void **state)
{
    (void)state;
    struct config c;
    assert_int_equal(config_init(&c, NULL), 0);
    assert_int_equal(load(&c, "{\"exclude\": [\"*.o\", \"*.a\"]}", NULL), 0);
    assert_value(&c, "exclude", ".git,*.o,*.a");
    assert_int_equal(config_set(&c, "exclude", "*.tmp", CONFIG_FLAG, NULL), 0);
    assert_value(&c, "exclude", ".git,*.tmp");
    assert_int_equal(load(&c, "{\"exclude\": [\"*.late\"]}", NULL), 0);
    assert_value(&c, "exclude", ".git,*.tmp");
    assert_int_equal(config_set(&c, "exclude", "", CONFIG_FLAG, NULL), 0);
    assert_value(&c, "exclude", "");
    assert_int_equal(config_set(&c, "exclude", "*.log", CONFIG_FLAG, NULL), 0);
    assert_value(&c, "exclude", "*.log");
    config_deinit(&c);
}

static void file_accepts_comments_and_every_option(void **state)
{
    (void)state;
    static const char text[] = "// first\n"
                               "{ /* a\n   b */ \"http\": \"[::1]:8080\", // c \" d\n"
                               "  \"title\": \"not // a /* comment\",\n"
                               "  \"maxRead\": \"1m\", \"maxBody\": 2048, \"keepalive\": 5,\n"
                               "  \"stdio\": true, \"allowOrigin\": [\"https://app.example\"],\n"
                               "  \"mounts\": [{\"uri\": \"file://data\", \"path\": \"/srv/data/\","
                               " \"exclude\": [\"*.bak\"]}, {\"path\": \"/srv/./b c\"}]\n"
                               "}\n// last";
    struct config c;
    struct tidings_error err = {0};
    assert_int_equal(config_init(&c, NULL), 0);
    if (load(&c, text, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_value(&c, "http", "[::1]:8080");
    assert_value(&c, "title", "not // a /* comment");
    assert_value(&c, "max-read", "1m");
    assert_value(&c, "max-body", "2k");
    assert_value(&c, "keepalive", "5s");
    assert_value(&c, "stdio", "true");
    assert_value(&c, "allow-origin", "https://app.example");
    assert_int_equal(c.mount_count, 2);
    assert_string_equal(c.mounts[0].uri, "file://data/");
    assert_string_equal(c.mounts[0].path, "/srv/data");
    assert_string_equal(c.mounts[0].exclude.items[0], "*.bak");
    assert_string_equal(c.mounts[1].uri, "file:///srv/b%20c/");
    assert_string_equal(c.mounts[1].path, "/srv/b c");
    config_deinit(&c);
}

static void file_accepts_common_syntax_variants(void **state)
{
    (void)state;
    struct config c;
    struct tidings_error err = {0};
    assert_int_equal(config_init(&c, NULL), 0);
    assert_int_equal(load(&c,
                          "{\"publish\": \"app:///\", // one\n"
                          "\"exclude\": [\"*.tmp\", \"*.bak\",],\n"
                          "\"mounts\": [{\"path\": \"/a\", \"exclude\": \"*.o\",},],\n}",
                          &err),
                     0);
    assert_value(&c, "publish", "app:///");
    assert_string_equal(c.mounts[0].exclude.items[0], "*.o");
    config_deinit(&c);
}

static void file_errors_name_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"{\n\n\"pageSize\": 5000}", "tidings.json:3: pageSize: '5000' is out of range"},
        {"{\n\"pageSize\": \"5\"}", "tidings.json:2: pageSize: wrong type"},
        {"{\n\"stdio\":\n\"true\"}", "tidings.json:2: stdio: wrong type"},
        {"{\n\"keepalive\": 0.5}", "tidings.json:2: keepalive: wrong type"},
        {"{\"pageSize\": -5}", "tidings.json:1: pageSize: '-5' is not a number"},
        {"{\"title\": {\"pageSize\": 1},\n\"pagesize\": 1}", "tidings.json:1: title: wrong type"},
        {"{\"title\": \"\\\"pagesize\\\"\",\n \"pagesize\": 1}",
         "tidings.json:2: unknown key 'pagesize', did you mean 'pageSize'?"},
        {"/*\n\n*/{\"x\":1}", "tidings.json:3: unknown key 'x'"},
        {"{\n\"title\": \"a\",,\n}", "tidings.json:3: "},
        {"{\n\"exclude\": 7}",
         "tidings.json:2: exclude: wrong type of value (accepted: an array of "},
        {"{\"title\": \"a\"\n\"name\": \"b\"}", "tidings.json:2: "},
        {"{\n/* never", "tidings.json:2: the comment is never closed"},
        {"[1]", "tidings.json:1: the file must hold one JSON object"},
        {"", "tidings.json:1: "},
        {"{\"name\": \"a\\u0000b\"}", "tidings.json:1: name: holds a NUL"},
        {"{\"mounts\": 1}", "tidings.json:1: mounts: wrong type"},
        {"{\"mounts\": [{\"path\": \"/a\"},\n {\"path\": \"/b\",\n  \"pth\": 1}]}",
         "tidings.json:3: mounts: pth: unknown key (accepted: type, uri, path, exclude, nodes, "
         "options, "
         "limits)"},
        {"{\"mounts\": [\n{\"path\": \"/a\"},\n 7]}", "tidings.json:3: mounts: a mount is"},
        {"{\"mounts\": [\n{\"uri\": \"x://y/\"}]}", "tidings.json:2: mounts: path: "},
        {"{\"mounts\": [{\"path\": \"/a\"},\n{\"path\": \"/a/\"}]}",
         "tidings.json:2: mounts: 'file:///a/' is mounted twice"},
        {"{\"mounts\": [{\"path\": \"/a\",\n\"exclude\": [\"[\"]}]}",
         "tidings.json:2: mounts: exclude: '['"},
        {"{\"mounts\": [{\"path\": \"/a\",\n\"options\": 7}]}",
         "tidings.json:2: mounts: options: must be an object"},
        {"{\"mounts\": [{\"path\": \"/a\",\n\"options\": {\"window\": 7}}]}",
         "tidings.json:2: mounts: options: unknown option 'window'"},
        {"{\"mounts\": [{\"path\": \"/a\",\n\"limits\": {\"match\": \"glob\"}}]}",
         "tidings.json:2: mounts: limits: option 'match' must be an array"},
        {"{\n\"subscriptions\": {}}", "tidings.json:2: subscriptions: wrong type"},
        {"{\"subscriptions\": [{},\n{\"url\": 1}]}",
         "tidings.json:2: subscriptions: unknown key 'url' (accepted: uri, options, limits)"},
        {"{\"subscriptions\": [\n{\"uri\": \"a b\"}]}", "tidings.json:2: subscriptions: uri: "},
        {"{\"subscriptions\": [\n{\"limits\": {\"rateMs\": -1}}]}",
         "tidings.json:2: subscriptions: option 'rateMs' must be"},
        {"{\"pageSize\": 1, \"pageSize\": 2}", "tidings.json:1: "},
        {"{\"x\": [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}", "tidings.json"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config c;
        struct tidings_error err = {0};
        assert_int_equal(config_init(&c, NULL), 0);
        assert_true(load(&c, cases[i].text, &err) < 0);
        if (strncmp(err.text, cases[i].expected, strlen(cases[i].expected)) != 0) {
            fail_msg("%zu: '%s' does not begin with '%s'", i, err.text, cases[i].expected);
        }
        config_deinit(&c);
    }
}

static void relative_directories_resolve_from_file_folder(void **state)
{
    (void)state;
    struct config c;
    assert_int_equal(config_init(&c, NULL), 0);
    assert_int_equal(config_load_text(&c, "/etc/tidings/tidings.json",
                                      STR("{\"mounts\":[{\"path\":\"./notes\"}]}"), NULL),
                     0);
    assert_string_equal(c.mounts[0].path, "/etc/tidings/notes");
    config_deinit(&c);
}

static void environment_is_read_and_its_errors_are_reported(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *expected; /* NULL: accepted */
    } cases[] = {
        {"TIDINGS_PAGE_SIZE=7", NULL},
        {"TIDINGS_EXCLUDE=*.a, *.b", NULL},
        {"TIDINGS_MOUNT=file://a/=/a,file://b/=/b", NULL},
        {"TIDINGS_PAGE_SIZE=", NULL},
        {"TIDINGS_HOME=/x", NULL},
        {"TIDINGS_PORT=tcp://10.0.0.1:80", NULL},
        {"TIDINGS_CONFIG=/nowhere", NULL},
        {"OTHER_PAGE_SIZE=x", NULL},
        {"TIDINGS_PAGE_SIZE=x", "TIDINGS_PAGE_SIZE: 'x' is not a number"},
        {"TIDINGS_PAGESIZE=7",
         "unknown variable 'TIDINGS_PAGESIZE', did you mean 'TIDINGS_PAGE_SIZE'?"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config c;
        struct tidings_error err = {0};
        char variable[128];
        snprintf(variable, sizeof(variable), "%s", cases[i].variable);
        char *environment[] = {variable, NULL};
        assert_int_equal(config_init(&c, NULL), 0);
        int rc = config_load_env(&c, environment, &err);
        if ((rc == 0) != (cases[i].expected == NULL)) {
            fail_msg("%s: %d '%s'", cases[i].variable, rc, err.text);
        }
        if (cases[i].expected) {
            assert_string_equal(strncmp(err.text, cases[i].expected, strlen(cases[i].expected)) == 0
                                    ? cases[i].expected
                                    : err.text,
                                cases[i].expected);
        }
        if (i == 1) {
            assert_value(&c, "exclude", ".git,*.a,*.b");
        }
        if (i == 2) {
            assert_value(&c, "mount", "file://a/=/a,file://b/=/b");
        }
        config_deinit(&c);
    }
}

/* argv without its const; the parser never writes to the strings. */
static int run_args(struct config *c, const char *const *args, struct tidings_error *err)
{
    char *argv[8] = {0};
    int argc = 0;
    while (args[argc]) {
        memcpy(&argv[argc], &args[argc], sizeof(argv[0]));
        argc++;
    }
    return config_args(c, argc, argv, NULL, err);
}

static void arguments_accept_every_form(void **state)
{
    (void)state;
    struct config c;
    struct tidings_error err = {0};
    assert_int_equal(config_init(&c, NULL), 0);
    const char *const args[] = {"--no-config", "--page-size",       "5",    "--keepalive=2s",
                                "--stdio",     "--no-list-changed", "/tmp", NULL};
    if (run_args(&c, args, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_value(&c, "page-size", "5");
    assert_value(&c, "keepalive", "2s");
    assert_true(c.stdio);
    assert_false(c.list_changed);
    assert_string_equal(c.mounts[0].uri, "file:///tmp/");
    assert_false(config_wants_http(&c));
    assert_int_equal(config_set(&c, "http", "127.0.0.1:0", CONFIG_FLAG, NULL), 0);
    assert_true(config_wants_http(&c));
    config_deinit(&c);
}

static void invalid_arguments_are_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *args[4];
        const char *expected;
    } cases[] = {
        {{"--page-size"}, "--page-size needs a value"},
        {{"--pagesize=3"}, "unknown option '--pagesize', did you mean '--page-size'?"},
        {{"-x"}, "unknown option '-x'"},
        {{"--no-page-size"}, "unknown option '--no-page-size'"},
        {{"--config", "/nowhere/x.json"}, "--config: open '/nowhere/x.json'"},
        {{"--no-config", "a", "./a/."}, "directory './a/.': "},
        {{"--no-config", "--", "--http", ""}, "a directory needs a name"},
        {{"--no-config", "--http=0.0.0.0:80"}, "--http: '0.0.0.0' can be reached"},
        {{"--no-config", "--http=[::]:80"}, "add --allow-remote"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config c;
        struct tidings_error err = {0};
        const char *args[5] = {0};
        memcpy(args, cases[i].args, sizeof(cases[i].args));
        assert_int_equal(config_init(&c, NULL), 0);
        assert_true(run_args(&c, args, &err) < 0);
        assert_contains(err.text, cases[i].expected);
        config_deinit(&c);
    }
}

static void remote_address_is_served_if_allowed(void **state)
{
    (void)state;
    struct config c;
    assert_int_equal(config_init(&c, NULL), 0);
    const char *const args[] = {"--no-config", "--http=0.0.0.0:80", "--allow-remote", NULL};
    assert_int_equal(run_args(&c, args, NULL), 0);
    config_deinit(&c);
}

static void relative_directory_becomes_absolute(void **state)
{
    (void)state;
    struct config c;
    char cwd[4096], expected[8192];
    assert_non_null(getcwd(cwd, sizeof(cwd)));
    assert_int_equal(config_init(&c, NULL), 0);
    assert_int_equal(config_add_dir(&c, "./x//y/", CONFIG_FLAG, NULL), 0);
    snprintf(expected, sizeof(expected), "%s/x/y", cwd);
    assert_string_equal(c.mounts[0].path, expected);
    assert_int_equal(config_add_dir(&c, "/", CONFIG_FLAG, NULL), 0);
    assert_string_equal(c.mounts[1].uri, "file:///");
    assert_string_equal(c.mounts[1].path, "/");
    assert_int_equal(config_add_dir(&c, "/no/such/../dir", CONFIG_FLAG, NULL), TIDINGS_E_NOTFOUND);
    config_deinit(&c);
}

static void printed_configuration_round_trips(void **state)
{
    (void)state;
    struct config c, again;
    struct buf first, second;
    struct tidings_error err = {0};
    buf_init(&first, 65536);
    buf_init(&second, 65536);
    assert_int_equal(config_init(&c, NULL), 0);
    assert_int_equal(config_init(&again, NULL), 0);
    assert_int_equal(config_set(&c, "exclude", "", CONFIG_FLAG, NULL), 0);
    assert_int_equal(config_set(&c, "exclude", "*.o", CONFIG_FLAG, NULL), 0);
    assert_int_equal(config_set(&c, "keepalive", "1500ms", CONFIG_ENVIRONMENT, NULL), 0);
    assert_int_equal(config_set(&c, "title", "a \"b\"", CONFIG_FLAG, NULL), 0);
    assert_int_equal(config_add_dir(&c, "/tmp/a b", CONFIG_FLAG, NULL), 0);
    assert_int_equal(load(&c, "\n{\"pageSize\": 9}", NULL), 0);
    assert_int_equal(config_print(&c, &first), 0);
    assert_contains(first.ptr, "environment TIDINGS_KEEPALIVE\n");
    assert_contains(first.ptr, "// tidings.json:2\n");
    assert_contains(first.ptr, "// flag\n");
    assert_contains(first.ptr, "// default\n");
    if (load(&again, first.ptr, &err) < 0) {
        fail_msg("%s\n%s", err.text, first.ptr);
    }
    for (size_t i = 0; i < config_row_count; i++) {
        struct buf value;
        buf_init(&value, 65536);
        assert_int_equal(config_get(&c, config_rows[i].name, &value), 0);
        assert_value(&again, config_rows[i].name, value.ptr ? value.ptr : "");
        buf_deinit(&value);
    }
    buf_deinit(&first);
    buf_deinit(&second);
    config_deinit(&c);
    config_deinit(&again);
}

static void json_configuration_has_every_value_and_origin(void **state)
{
    (void)state;
    struct config c;
    struct buf out;
    buf_init(&out, 65536);
    assert_int_equal(config_init(&c, NULL), 0);
    assert_int_equal(config_set(&c, "title", "a \"b\"", CONFIG_FLAG, NULL), 0);
    assert_int_equal(load(&c, "\n{\"pageSize\": 9}", NULL), 0);
    assert_int_equal(config_json(&c, &out), 0);
    struct json *whole = NULL;
    assert_int_equal(jv_parse(buf_str(&out), 8, &whole, NULL), 0);
    struct json *settings = jv_get(whole, "settings"), *origins = jv_get(whole, "origins");
    for (size_t i = 0; i < config_row_count; i++) {
        char key[CONFIG_NAME_MAX];
        config_spell(&config_rows[i], CONFIG_AS_KEY, key);
        assert_non_null(jv_get(settings, key));
        assert_non_null(jv_get(origins, key));
    }
    assert_true(str_eq(jv_str(jv_get(settings, "title")), STR("a \"b\"")));
    assert_true(str_eq(jv_str(jv_get(origins, "title")), STR("flag")));
    assert_true(str_eq(jv_str(jv_get(origins, "pageSize")), STR("tidings.json:2")));
    assert_true(str_eq(jv_str(jv_get(origins, "http")), STR("default")));
    jv_unref(whole);
    buf_deinit(&out);
    config_deinit(&c);
}

/* Fails every allocation in turn: expects a clean error, no leak, and no double free.
 */
static void allocation_failure_is_reported_without_leak(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        struct config c;
        fail_alloc_start(n);
        int rc = config_init(&c, NULL);
        if (rc == 0) {
            rc =
                load(&c, "{\"exclude\":[\"a\"],\"mounts\":[{\"path\":\"/a\",\"exclude\":[\"b\"]}]}",
                     NULL);
        }
        bool reached = fail_alloc_stop();
        config_deinit(&c);
        assert_int_equal(fail_alloc_live(), 0);
        if (!reached) {
            assert_int_equal(rc, 0);
            break;
        }
        assert_true(rc < 0);
    }
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_equal_their_table_rows),
        cmocka_unit_test(option_spellings_derive_from_row_name),
        cmocka_unit_test(change_content_values_parse_with_units),
        cmocka_unit_test(invalid_value_error_lists_accepted_values),
        cmocka_unit_test(higher_source_wins_in_any_order),
        cmocka_unit_test(lists_accumulate_within_a_source_and_keep_default),
        cmocka_unit_test(file_accepts_comments_and_every_option),
        cmocka_unit_test(file_accepts_common_syntax_variants),
        cmocka_unit_test(file_errors_name_the_line),
        cmocka_unit_test(relative_directories_resolve_from_file_folder),
        cmocka_unit_test(environment_is_read_and_its_errors_are_reported),
        cmocka_unit_test(arguments_accept_every_form),
        cmocka_unit_test(invalid_arguments_are_rejected),
        cmocka_unit_test(remote_address_is_served_if_allowed),
        cmocka_unit_test(relative_directory_becomes_absolute),
        cmocka_unit_test(printed_configuration_round_trips),
        cmocka_unit_test(json_configuration_has_every_value_and_origin),
        cmocka_unit_test(allocation_failure_is_reported_without_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
