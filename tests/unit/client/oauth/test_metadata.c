/* SPDX-License-Identifier: MIT
 *
 * Metadata of servers and of authorization servers: which is accepted, and which is rejected.
 */
#include "client/oauth/documents.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define SERVER "https://a.test/mcp"

static int read_resource(const char *text, const char *preferred, struct resource_metadata *m,
                         struct tidings_error *err)
{
    struct issuer_choice choice = {.preferred = preferred};
    return resource_metadata_read(tidings_str(text), SERVER, &choice, m, err);
}

static void resource_metadata_is_rejected_for_another_resource(void **state)
{
    static const char *const others[] = {
        "{\"resource\":\"https://evil.test/mcp\",\"authorization_servers\":[\"https://as.test\"]}",
        "{\"resource\":\"https://a.test/mcp/other\",\"authorization_servers\":[\"https://"
        "as.test\"]}",
        "{\"authorization_servers\":[\"https://as.test\"]}",
        "{\"resource\":7,\"authorization_servers\":[\"https://as.test\"]}",
        "{\"resource\":\"" SERVER "\"}",
        "{\"resource\":\"" SERVER "\",\"authorization_servers\":[\"http://as.test\"]}",
        "{\"resource\":\"" SERVER "\",\"authorization_servers\":[\"javascript:x\"]}",
        "{\"resource\":\"" SERVER "\",\"authorization_servers\":\"https://as.test\"}",
        "[]",
        "{",
        "",
    };
    struct resource_metadata m = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct tidings_error err = {0};
        if (read_resource(others[i], NULL, &m, &err) >= 0 || err.code >= 0) {
            fail_msg("accepted: %s", others[i]);
        }
        assert_null(m.resource);
    }
}

/* Each scope is compared with all before it, so many repeats must not take long. */
static void repeated_scopes_are_limited(void **state)
{
    static const char head[] = "{\"resource\":\"" SERVER "\",\"authorization_servers\":["
                               "\"https://as.test\"],\"scopes_supported\":[\"a\"";
    struct resource_metadata m = {0};
    (void)state;
    for (int many = 0; many < 2; many++) {
        struct tidings_error err = {0};
        struct buf text;
        buf_init(&text, 1 << 20);
        buf_puts(&text, STR(head));
        buf_puts(&text, many ? STR("") : STR(",\""));
        for (int i = 0; i < 20000; i++) {
            buf_puts(&text, many ? STR(",\"a\"") : STR("a "));
        }
        buf_puts(&text, many ? STR("]}") : STR("\"]}"));
        assert_int_equal(read_resource(text.ptr, NULL, &m, &err), TIDINGS_E_LIMIT);
        assert_string_equal(err.text, "the server's metadata names too many scopes");
        buf_deinit(&text);
    }
}

static void first_allowed_issuer_is_selected(void **state)
{
    static const char text[] = "{\"resource\":\"https://a.test\",\"authorization_servers\":["
                               "\"http://plain.test\",\"https://one.test\",\"https://two.test\"],"
                               "\"scopes_supported\":[\"a\",\"b c\",7,\"d\\u001b\"],"
                               "\"dpop_bound_access_tokens_required\":true}";
    struct resource_metadata m = {0};
    struct tidings_error err = {0};
    (void)state;
    assert_int_equal(read_resource(text, NULL, &m, &err), 0);
    assert_string_equal(m.issuer, "https://one.test");
    assert_string_equal(m.resource, "https://a.test");
    assert_string_equal(m.scopes, "a b c");
    assert_true(m.wants_proof);
    resource_metadata_deinit(&m);
    assert_int_equal(read_resource(text, "https://two.test", &m, &err), 0);
    assert_string_equal(m.issuer, "https://two.test");
    resource_metadata_deinit(&m);
    assert_int_equal(read_resource(text, "https://gone.test", &m, &err), 0);
    assert_string_equal(m.issuer, "https://one.test");
    resource_metadata_deinit(&m);
}

#define ISSUER "https://as.test/t"
#define GOOD                                                                                       \
    "\"issuer\":\"" ISSUER "\",\"authorization_endpoint\":\"https://as.test/a\","                  \
    "\"token_endpoint\":\"https://as.test/t\""

static void issuer_metadata_is_rejected_for_another_issuer(void **state)
{
    static const char *const bad[] = {
        "{}",
        "{\"issuer\":\"https://as.test\",\"token_endpoint\":\"https://as.test/t\"}",
        "{\"issuer\":\"https://as.test/t/\",\"token_endpoint\":\"https://as.test/t\"}",
        "{\"issuer\":\"HTTPS://as.test/t\",\"token_endpoint\":\"https://as.test/t\"}",
        "{\"issuer\":\"" ISSUER "\"}",
        "{\"issuer\":\"" ISSUER "\",\"token_endpoint\":\"http://as.test/t\"}",
        "{" GOOD ",\"registration_endpoint\":\"http://as.test/r\"}",
        "{" GOOD ",\"registration_endpoint\":\"file:///r\"}",
        "{\"issuer\":\"" ISSUER "\",\"token_endpoint\":\"https://as.test/t\","
        "\"authorization_endpoint\":\"javascript:alert(1)\"}",
        "{" GOOD ",\"revocation_endpoint\":\"https://as.test/\\u001b[2J\"}",
        "null",
    };
    struct server_metadata m = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tidings_error err = {0};
        if (server_metadata_read(tidings_str(bad[i]), ISSUER, &m, &err) >= 0) {
            fail_msg("accepted: %s", bad[i]);
        }
        for (const char *p = err.text; *p; p++) {
            assert_true(*p >= ' ' && *p <= '~'); /* no terminal obeys it */
        }
    }
}

static void issuer_metadata_is_parsed(void **state)
{
    struct server_metadata m = {0};
    struct tidings_error err = {0};
    (void)state;
    assert_int_equal(server_metadata_read(STR("{" GOOD "}"), ISSUER, &m, &err), 0);
    assert_false(m.has_s256 || m.sends_issuer || m.takes_client_urls || m.takes_proofs);
    assert_int_equal(m.auth_methods, 0);
    server_metadata_deinit(&m);
    assert_int_equal(
        server_metadata_read(
            STR("{" GOOD ",\"code_challenge_methods_supported\":[\"plain\",\"S256\"],"
                "\"authorization_response_iss_parameter_supported\":true,"
                "\"client_id_metadata_document_supported\":true,"
                "\"dpop_signing_alg_values_supported\":[\"RS256\",\"ES256\"],"
                "\"token_endpoint_auth_methods_supported\":[\"none\",\"client_secret_post\",\"x\"],"
                "\"scopes_supported\":[\"offline_access\"]}"),
            ISSUER, &m, &err),
        0);
    assert_true(m.has_s256 && m.sends_issuer && m.takes_client_urls && m.takes_proofs);
    assert_int_equal(m.auth_methods, CLIENT_AUTH_NONE | CLIENT_AUTH_POST);
    assert_string_equal(m.scopes, "offline_access");
    server_metadata_deinit(&m);
    assert_int_equal(
        server_metadata_read(STR("{" GOOD ",\"code_challenge_methods_supported\":[\"plain\"]}"),
                             ISSUER, &m, &err),
        0);
    assert_false(m.has_s256);
    server_metadata_deinit(&m);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void token_responses_are_parsed(void **state)
{
    struct token_answer a;
    struct tidings_error err = {0};
    (void)state;
    assert_int_equal(token_answer_read(200,
                                       STR("{\"access_token\":\"t\",\"token_type\":\"bearer\","
                                           "\"expires_in\":\"60\",\"refresh_token\":\"r\","
                                           "\"scope\":\"a b\"}"),
                                       false, &a, &err),
                     0);
    assert_string_equal(a.access, "t");
    assert_string_equal(a.refresh, "r");
    assert_string_equal(a.scope, "a b");
    assert_int_equal(a.expires_s, 60);
    assert_false(a.is_bound);
    token_answer_deinit(&a);
    assert_int_equal(token_answer_read(200,
                                       STR("{\"access_token\":\"t\",\"token_type\":\"DPoP\","
                                           "\"expires_in\":1e300}"),
                                       false, &a, &err),
                     0);
    assert_true(a.is_bound && a.expires_s > 0);
    token_answer_deinit(&a);
}

static void invalid_token_response_is_rejected(void **state)
{
    static const char *const bad[] = {
        "{\"token_type\":\"Bearer\"}",
        "{\"access_token\":\"t\"}",
        "{\"access_token\":\"t\",\"token_type\":\"mac\"}",
        "{\"access_token\":\"\",\"token_type\":\"Bearer\"}",
        "{\"access_token\":\"a b\",\"token_type\":\"Bearer\"}",
        "{\"access_token\":\"a\\r\\nX: y\",\"token_type\":\"Bearer\"}",
        "{\"access_token\":7,\"token_type\":\"Bearer\"}",
        "{\"access_token\":\"t\",\"token_type\":\"Bearer\",\"refresh_token\":\"\\u0000\"}",
        "{\"access_token\":\"t\",\"token_type\":\"Bearer\",\"scope\":\"\\u001b\"}",
        "[]",
        "",
    };
    struct token_answer a;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tidings_error err = {0};
        if (token_answer_read(200, tidings_str(bad[i]), false, &a, &err) >= 0) {
            fail_msg("accepted: %s", bad[i]);
        }
        token_answer_deinit(&a);
    }
}

static void error_responses_become_messages(void **state)
{
    struct token_answer a;
    struct tidings_error err = {0};
    (void)state;
    assert_int_equal(token_answer_read(400,
                                       STR("{\"error\":\"invalid_grant\",\"error_description\":"
                                           "\"\\u001b]0;evil\\u0007 no\"}"),
                                       false, &a, &err),
                     TIDINGS_E_DENIED);
    assert_string_equal(a.error, "invalid_grant");
    assert_non_null(strstr(err.text, "invalid_grant: ?]0;evil? no"));
    assert_int_equal(token_answer_read(503, STR("<html>"), false, &a, &err), TIDINGS_E_BUSY);
    assert_int_equal(token_answer_read(401, STR(""), false, &a, &err), TIDINGS_E_DENIED);
    assert_string_equal(a.error, "");
}

static void registration_responses_are_parsed(void **state)
{
    struct registration r = {0};
    struct tidings_error err = {0};
    struct buf out;
    (void)state;
    assert_int_equal(
        registration_read(201,
                          STR("{\"client_id\":\"c\",\"client_secret\":\"s\","
                              "\"token_endpoint_auth_method\":\"client_secret_post\"}"),
                          &r, &err),
        0);
    assert_string_equal(r.client_id, "c");
    assert_int_equal(r.method, CLIENT_AUTH_POST);
    registration_deinit(&r);
    assert_int_equal(registration_read(201, STR("{}"), &r, &err), TIDINGS_E_PARSE);
    assert_int_equal(registration_read(201, STR("{\"client_id\":\"\"}"), &r, &err),
                     TIDINGS_E_PARSE);
    assert_int_equal(registration_read(400, STR("{\"error\":\"x\\u001b\"}"), &r, &err),
                     TIDINGS_E_DENIED);
    assert_null(strchr(err.text, 0x1b));
    buf_init(&out, 4096);
    struct registration_request q = {.client_name = "n\"",
                                     .redirect_uri = "http://127.0.0.1:1/callback",
                                     .method = CLIENT_AUTH_NONE,
                                     .grant = "authorization_code"};
    assert_int_equal(registration_put(&out, &q), 0);
    assert_string_equal(
        out.ptr, "{\"client_name\":\"n\\\"\",\"application_type\":\"native\",\"redirect_uris\":["
                 "\"http://127.0.0.1:1/callback\"],\"response_types\":[\"code\"],\"grant_types\":["
                 "\"authorization_code\",\"refresh_token\"],\"token_endpoint_auth_method\":"
                 "\"none\"}");
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resource_metadata_is_rejected_for_another_resource),
        cmocka_unit_test(repeated_scopes_are_limited),
        cmocka_unit_test(first_allowed_issuer_is_selected),
        cmocka_unit_test(issuer_metadata_is_rejected_for_another_issuer),
        cmocka_unit_test(issuer_metadata_is_parsed),
        cmocka_unit_test(token_responses_are_parsed),
        cmocka_unit_test(invalid_token_response_is_rejected),
        cmocka_unit_test(error_responses_become_messages),
        cmocka_unit_test(registration_responses_are_parsed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
