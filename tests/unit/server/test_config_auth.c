/* SPDX-License-Identifier: MIT
 *
 * Consistency of the token configuration, and the listeners it permits. Other tests cover the files
 * themselves.
 */
#include "server/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ISSUER "auth-issuer", "https://as.example"
#define RESOURCE "auth-resource", "https://files.example/mcp"
#define TLS "tls-cert", "a.pem", "tls-key", "a.key"

struct row {
    const char *settings[14]; /* name, value, … */
    const char *said;         /* NULL: accepted */
};

static void check(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct config c;
        struct tidings_error err = {0};
        assert_int_equal(config_init(&c, NULL), 0);
        for (size_t j = 0; j < 14 && rows[i].settings[j]; j += 2) {
            assert_int_equal(
                config_set(&c, rows[i].settings[j], rows[i].settings[j + 1], CONFIG_FLAG, NULL), 0);
        }
        int rc = config_check(&c, &err);
        if ((rc < 0) != (rows[i].said != NULL) ||
            (rows[i].said && !strstr(err.text, rows[i].said))) {
            fail_msg("row %zu: %d '%s'", i, rc, err.text);
        }
        config_deinit(&c);
    }
}
#define CHECK(rows) check(rows, sizeof(rows) / sizeof((rows)[0]))

static void dependent_settings_require_their_base_setting(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {{"auth-jwks", "keys.json"}, "--auth-issuer whose keys"},
        {{"auth-audience", "files"}, "--auth-issuer whose tokens"},
        {{"auth-introspection", "https://as.example/i"}, "name the authorization server"},
        {{ISSUER, "auth-credentials", "c"}, "--auth-introspection where"},
        {{"auth-tokens", "t", "auth-ca", "ca.pem"}, "no --auth-issuer"},
        {{"auth-scope", "res:read"}, "add --auth-issuer or --auth-tokens"},
        {{RESOURCE}, "no token is required"},
        {{ISSUER, "auth-issuer", "https://b.example", "auth-jwks", "a.json"},
         "2 issuers and 1 sets of keys"},
        {{ISSUER, "auth-issuer", "https://b.example"}, NULL},
        {{ISSUER, "auth-scope", "offline_access"}, "leave it out"},
        {{ISSUER, "auth-jwks", "k.json", "auth-audience", "files", "auth-scope", "a",
          "auth-introspection", "https://as.example/i", "auth-credentials", "c"},
         NULL},
        {{"auth-tokens", "t", "auth-scope", "res:read"}, NULL},
    };
    CHECK(rows);
}

static void server_name_is_normalized_for_comparison(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {{ISSUER, "auth-resource", "https://files.example/mcp"}, NULL},
        {{ISSUER, "auth-resource", "https://files.example:8443"}, NULL},
        {{ISSUER, "auth-resource", "http://localhost:7777/mcp"}, NULL},
        {{ISSUER, "auth-resource", "http://[::1]:7777/mcp"}, NULL},
        {{ISSUER, "auth-resource", "http://files.example/mcp"}, "over https:// only"},
        {{ISSUER, "auth-resource", "http://127.0.0.1.evil.example/mcp"}, "over https:// only"},
        {{ISSUER, "auth-resource", "https://Files.example/mcp"}, "in lower case"},
        {{ISSUER, "auth-resource", "https://files.example/mcp#x"}, "without query and fragment"},
        {{ISSUER, "auth-resource", "https://files.example/mcp?x"}, "without query and fragment"},
        {{ISSUER, "auth-resource", "https:///mcp"}, "not the URL of an endpoint"},
        {{ISSUER, "auth-resource", "https://"}, "not the URL of an endpoint"},
        {{ISSUER, "auth-resource", "files.example"}, "not the URL of an endpoint"},
        {{ISSUER, "auth-resource", "https://u@files.example/"}, "not the URL of an endpoint"},
    };
    CHECK(rows);
}

static void remote_clients_need_tokens_and_tls(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {{"http", "0.0.0.0:0", ISSUER, RESOURCE}, NULL}, /* a proxy speaks TLS */
        {{"http", "0.0.0.0:0", ISSUER, RESOURCE, TLS}, NULL},
        {{"http", "0.0.0.0:0", "auth-tokens", "t", TLS}, NULL},
        {{"http", "0.0.0.0:0", ISSUER, TLS}, "name it with --auth-resource"},
        {{"http", "0.0.0.0:0", ISSUER}, "unencrypted"},
        {{"http", "0.0.0.0:0", "auth-tokens", "t"}, "unencrypted"},
        {{"http", "0.0.0.0:0", "auth-tokens", "t", "allow-remote", "true"}, "unencrypted"},
        {{"http", "127.0.0.1:0", "auth-tokens", "t"}, NULL},
    };
    CHECK(rows);
}

static void remote_writes_require_authentication(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {{"http", "0.0.0.0:0", "allow-remote", "true", "allow-write", "true"}, "ask for tokens"},
        {{"http", "0.0.0.0:0", ISSUER, RESOURCE, "allow-write", "true"}, NULL},
        {{"http", "0.0.0.0:0", TLS, "tls-client-ca", "ca.pem", "tls-client-auth", "require",
          "allow-write", "true"},
         NULL},
        {{"http", "0.0.0.0:0", TLS, "tls-client-ca", "ca.pem", "tls-client-auth", "request",
          "allow-remote", "true", "allow-write", "true"},
         "ask for tokens"},
    };
    CHECK(rows);
}

static void tokenless_listeners_require_client_certificate(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {{"tcp", "127.0.0.1:0", "auth-tokens", "t"}, "carries no token"},
        {{"tcp", "127.0.0.1:0", "auth-tokens", "t", TLS, "tls-client-ca", "ca.pem",
          "tls-client-auth", "require"},
         NULL},
        {{"unix", "/tmp/x", "auth-tokens", "t"}, NULL},
        {{"stdio", "true", "auth-tokens", "t"}, NULL},
        {{"http-unix", "/tmp/x", ISSUER, RESOURCE}, NULL},
    };
    CHECK(rows);
}

static void keys_load_from_relative_file_or_url(void **state)
{
    (void)state;
    struct config c;
    struct tidings_error err = {0};
    assert_int_equal(config_init(&c, NULL), 0);
    static const char text[] =
        "{\"authIssuer\": [\"https://a\", \"https://b\"],"
        " \"authJwks\": [\"keys.json\", \"https://b/keys\"], \"authTokens\": \"tokens\"}";
    assert_int_equal(config_load_text(&c, "/etc/t/tidings.json", tidings_str(text), &err), 0);
    assert_string_equal(c.auth_jwks.items[0], "/etc/t/keys.json");
    assert_string_equal(c.auth_jwks.items[1], "https://b/keys");
    assert_string_equal(c.auth_tokens, "/etc/t/tokens");
    config_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dependent_settings_require_their_base_setting),
        cmocka_unit_test(server_name_is_normalized_for_comparison),
        cmocka_unit_test(remote_clients_need_tokens_and_tls),
        cmocka_unit_test(remote_writes_require_authentication),
        cmocka_unit_test(tokenless_listeners_require_client_certificate),
        cmocka_unit_test(keys_load_from_relative_file_or_url),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
