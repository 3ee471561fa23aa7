/* SPDX-License-Identifier: MIT
 *
 * The effect of the token configuration on a server: the identity that its pages receive, and the
 * metadata that tells clients where to get tokens.
 */
#include "security/dpop.h"
#include "server/auth_setup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/served.h"

/* A token file with one line; returns the token. */
static char *make_tokens(const char *name, char path[64])
{
    char *token = NULL, *line = NULL;
    struct tidings_error err = {0, ""};
    snprintf(path, 64, "/tmp/tidings-tokens-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(
        tidings_token_create(tidings_str(name), tidings_str("a b"), &token, &line, &err), 0);
    assert_int_equal(write(fd, line, strlen(line)), (ssize_t)strlen(line));
    assert_int_equal(write(fd, "\n", 1), 1);
    close(fd);
    tidings_free(line);
    return token;
}

static void page(void *user, const struct tidings_http_request *request,
                 struct tidings_http_response *response)
{
    (void)user;
    char text[300];
    snprintf(text, sizeof(text), "[%.*s]", STR_ARG(request->principal));
    tidings_http_reply(response, 200, "text/plain", tidings_str(text));
}

static void program_pages_require_token_and_receive_its_subject(void **state)
{
    (void)state;
    char path[64], head[300];
    struct tidings_error err = {0, ""};
    char *token = make_tokens("alice", path);
    assert_int_equal(tidings_server_add_route(served(), "/page", page, NULL, &err), 0);
    served_set("auth-tokens", path);
    served_run();
    assert_non_null(strstr(served_http("GET /page HTTP/1.1", ""), "HTTP/1.1 401 "));
    snprintf(head, sizeof(head), "GET /page HTTP/1.1\r\nAuthorization: Bearer %s", token);
    assert_non_null(strstr(served_http(head, ""), "[alice]"));
    unlink(path);
    tidings_free(token);
}

static void address_identifies_no_user_without_tokens(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    assert_int_equal(tidings_server_add_route(served(), "/page", page, NULL, &err), 0);
    served_run();
    assert_non_null(strstr(served_http("GET /page HTTP/1.1", ""), "[]"));
}

/* ---- metadata for clients -------------------------------------------------------------------- */

static void describe(const char *const *settings, const char *url, struct oauth_setup *a,
                     struct config *c)
{
    struct tidings_error err = {0, ""};
    memset(a, 0, sizeof(*a));
    assert_int_equal(config_init(c, NULL), 0);
    for (size_t i = 0; settings[i]; i += 2) {
        assert_int_equal(config_set(c, settings[i], settings[i + 1], CONFIG_FLAG, NULL), 0);
    }
    int rc = oauth_setup_open(a, c, url, NULL, &err);
    if (rc == TIDINGS_E_UNSUPPORTED) {
        config_deinit(c);
        skip(); /* a build without signature verification */
    }
    if (rc < 0) {
        fail_msg("%s", err.text);
    }
}

static void assert_str(struct tidings_str s, const char *expected)
{
    if (!str_eq(s, tidings_str(expected))) {
        fail_msg("'%.*s' is not '%s'", STR_ARG(s), expected);
    }
}

/* Keys from a file, so the server fetches nothing. */
static const char keys[] =
    "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"1\",\"use\":\"sig\","
    "\"x\":\"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4\","
    "\"y\":\"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM\"}]}"; /* RFC 7517 A.1 */

static void metadata_url_derives_from_resource(void **state)
{
    (void)state;
    char path[] = "/tmp/tidings-keys-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, keys, sizeof(keys) - 1) > 0);
    close(fd);
    const struct {
        const char *issuer, *resource, *url, *place, *server;
    } rows[] = {
        {"https://as.example", "https://files.example/mcp",
         "https://files.example/.well-known/oauth-protected-resource/mcp", "/mcp",
         "https://as.example/.well-known/oauth-authorization-server"},
        {"https://as.example/realms/a/", "https://files.example",
         "https://files.example/.well-known/oauth-protected-resource", "",
         "https://as.example/.well-known/oauth-authorization-server/realms/a"},
        {"https://as.example/", "https://files.example:8443/a/b/",
         "https://files.example:8443/.well-known/oauth-protected-resource/a/b", "/a/b",
         "https://as.example/.well-known/oauth-authorization-server"},
        {"https://as.example", NULL, "http://127.0.0.1:7/.well-known/oauth-protected-resource/mcp",
         "/mcp", "https://as.example/.well-known/oauth-authorization-server"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct oauth_setup a;
        struct config c;
        const char *const settings[] = {"auth-issuer",
                                        rows[i].issuer,
                                        "auth-jwks",
                                        path,
                                        "auth-scope",
                                        "x",
                                        "auth-scope",
                                        "y",
                                        rows[i].resource ? "auth-resource" : NULL,
                                        rows[i].resource,
                                        NULL};
        describe(settings, "http://127.0.0.1:7/mcp", &a, &c);
        assert_str(a.http.metadata_url, rows[i].url);
        assert_str(a.http.resource_path, rows[i].place);
        assert_str(a.http.server_url, rows[i].server);
        assert_str(a.http.scope, "x y");
        char expected[1024];
        snprintf(expected, sizeof(expected),
                 "{\"resource\":\"%s\",\"authorization_servers\":[\"%s\"],"
                 "\"scopes_supported\":[\"x\",\"y\"],\"bearer_methods_supported\":[\"header\"],"
                 "\"dpop_signing_alg_values_supported\":" DPOP_ALGORITHMS_JSON "}",
                 rows[i].resource ? rows[i].resource : "http://127.0.0.1:7/mcp", rows[i].issuer);
        assert_str(a.http.metadata, expected);
        oauth_setup_close(&a);
        config_deinit(&c);
    }
    unlink(path);
}

static void issuer_requires_server_name_unless_keys_are_a_file(void **state)
{
    (void)state;
    struct oauth_setup a = {.scopes = NULL};
    struct config c;
    struct tidings_error err = {0, ""};
    char path[64];
    tidings_free(make_tokens("alice", path));
    assert_int_equal(config_init(&c, NULL), 0);
    config_set(&c, "auth-issuer", "https://as.example", CONFIG_FLAG, NULL);
    assert_int_equal(oauth_setup_open(&a, &c, NULL, NULL, &err), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "--auth-resource"));
    config_deinit(&c);
    const char *const settings[] = {"auth-tokens", path, NULL};
    describe(settings, NULL, &a, &c);
    assert_str(a.http.metadata, "");
    assert_str(a.http.metadata_url, "");
    assert_str(a.http.scope, "");
    oauth_setup_close(&a);
    config_deinit(&c);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED_BOTH(program_pages_require_token_and_receive_its_subject),
        SERVED_BOTH(address_identifies_no_user_without_tokens),
        cmocka_unit_test(metadata_url_derives_from_resource),
        cmocka_unit_test(issuer_requires_server_name_unless_keys_are_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
