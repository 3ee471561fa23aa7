/* SPDX-License-Identifier: MIT
 *
 * Valid Authorization headers, and the spelling of challenges. */
#include "formats/http_fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static enum bearer_result find(const char *text, struct tidings_str *token, const char **why)
{
    static struct http_request req;
    struct http_fault fault;
    size_t scanned = 0;
    assert_true(http_parse_head(text, strlen(text), &scanned, &req, &fault) > 0);
    return bearer_find(&req, token, why);
}

static void only_one_well_formed_bearer_token_is_accepted(void **state)
{
    (void)state;
    static const struct {
        const char *field;
        enum bearer_result result;
        const char *token;
    } rows[] = {
        {"Bearer abc", BEARER_TOKEN, "abc"},
        {"bEARER  a.b-c_d~e+f/g==  ", BEARER_TOKEN, "a.b-c_d~e+f/g=="},
        {"Bearer", BEARER_BAD, ""},
        {"Bearer ", BEARER_BAD, ""},
        {"Bearer =", BEARER_BAD, ""},
        {"Bearer a=b", BEARER_BAD, ""},
        {"Bearer a b", BEARER_BAD, ""},
        {"Bearer a,b", BEARER_BAD, ""},
        {"Bearer a, Bearer b", BEARER_BAD, ""},
        {"Bearer \"a\"", BEARER_BAD, ""},
        {"Bearer \xc3\xa4", BEARER_BAD, ""},
        {"", BEARER_BAD, ""},
        {"Basic YTpi", BEARER_NONE, ""},
        {"DPoP abc", BEARER_BOUND, "abc"},
        {"dpop  abc", BEARER_BOUND, "abc"},
        {"DPoP a b", BEARER_BAD, ""},
        {"DPoPx abc", BEARER_NONE, ""},
        {"Bearerabc", BEARER_NONE, ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tidings_str token = STR_EMPTY;
        const char *why = NULL;
        enum bearer_result r = bearer_parse(tidings_str(rows[i].field), &token, &why);
        if (r != rows[i].result || !str_eq(token, tidings_str(rows[i].token)) ||
            (r == BEARER_BAD && !why)) {
            fail_msg("'%s': %d '%.*s'", rows[i].field, (int)r, STR_ARG(token));
        }
    }
}

static void overlong_token_is_rejected(void **state)
{
    (void)state;
    static char field[8 + BEARER_TOKEN_MAX];
    memset(field, 'a', sizeof(field));
    memcpy(field, "Bearer ", 7);
    struct tidings_str token;
    const char *why = NULL;
    struct tidings_str longest = {field, 7 + BEARER_TOKEN_MAX};
    assert_int_equal(bearer_parse(longest, &token, &why), BEARER_TOKEN);
    assert_int_equal(bearer_parse(tidings_strn(field, sizeof(field)), &token, &why), BEARER_BAD);
    assert_string_equal(why, "the token is too long");
}

static void repeated_fields_and_query_tokens_are_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        enum bearer_result result;
    } rows[] = {
        {"GET /mcp HTTP/1.1\r\nHost: h\r\n\r\n", BEARER_NONE},
        {"GET /mcp HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a\r\n\r\n", BEARER_TOKEN},
        {"GET /mcp HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a\r\nauthorization: Bearer a\r\n"
         "\r\n",
         BEARER_BAD},
        {"GET /mcp HTTP/1.1\r\nHost: h\r\nAuthorization: Basic YTpi\r\n"
         "Authorization: Bearer a\r\n\r\n",
         BEARER_BAD},
        {"GET /mcp?access_token=a HTTP/1.1\r\nHost: h\r\n\r\n", BEARER_BAD},
        {"GET /mcp?x=1&access_token=a HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a\r\n\r\n",
         BEARER_BAD},
        {"GET /mcp?access%5ftoken=a HTTP/1.1\r\nHost: h\r\n\r\n", BEARER_BAD},
        {"GET /mcp?%61ccess_toke%6E HTTP/1.1\r\nHost: h\r\n\r\n", BEARER_BAD},
        {"GET /mcp?access_tokens=a HTTP/1.1\r\nHost: h\r\n\r\n", BEARER_NONE},
        {"GET /mcp?access_toke=a HTTP/1.1\r\nHost: h\r\n\r\n", BEARER_NONE},
        {"GET /mcp?uri=x%3Faccess_token=a HTTP/1.1\r\nHost: h\r\n\r\n", BEARER_NONE},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tidings_str token;
        const char *why = NULL;
        enum bearer_result r = find(rows[i].request, &token, &why);
        if (r != rows[i].result || (r == BEARER_BAD && !why)) {
            fail_msg("%s: %d", rows[i].request, (int)r);
        }
    }
}

static void check_challenge(const struct bearer_challenge *c, const char *expected)
{
    struct buf out;
    buf_init(&out, 4096);
    assert_int_equal(bearer_put_challenge(&out, c), 0);
    assert_string_equal(out.ptr, expected);
    buf_deinit(&out);
}

static void challenge_names_its_parts_and_quotes_them(void **state)
{
    (void)state;
    struct bearer_challenge c = {.metadata = STR("https://h/.well-known/oauth-protected-resource"),
                                 .scope = STR("a b")};
    check_challenge(&c, "WWW-Authenticate: Bearer scope=\"a b\", "
                        "resource_metadata=\"https://h/.well-known/oauth-protected-resource\"\r\n");
    c = (struct bearer_challenge){.error = STR("invalid_token"),
                                  .description = STR("say \"no\\\r\nX: y\xc3\xa4")};
    check_challenge(&c, "WWW-Authenticate: Bearer error=\"invalid_token\", "
                        "error_description=\"say \\\"no\\\\??X: y??\"\r\n");
    c = (struct bearer_challenge){.scope = STR_EMPTY};
    check_challenge(&c, "WWW-Authenticate: Bearer\r\n");
}

static void challenge_describes_the_refusal(void **state)
{
    (void)state;
    static const struct {
        const char *field, *text;
    } rows[] = {
        {"", "the server wants a good token (HTTP 401)"},
        {"Basic realm=\"Bearer\"", "the server wants a good token (HTTP 401)"},
        {"Bearer", "the server wants a good token (HTTP 401)"},
        {"bearer error=invalid_token", "the server wants a good token (HTTP 401); invalid_token"},
        {"Basic realm=\"a, Bearer scope=b\", Bearer Scope = \"c d\" ,error=\"e\", Digest scope=f",
         "the server wants a good token (HTTP 401); scope wanted: c d; e"},
        {"Negotiate YQ==, Bearer scope=\"a\", scope=\"b\", error_description=\"say \\\"no\\\\\"",
         "the server wants a good token (HTTP 401); scope wanted: a; say \"no\\"},
        {"Bearer resource_metadata=\"https://h/m\", error=\"x\", error_description=\"y\"",
         "the server wants a good token (HTTP 401); see https://h/m; y"},
        {"Bearer resource_metadata=\"javascript:x\", scope=\"\x1b[2J\xc2\x9b\n",
         "the server wants a good token (HTTP 401); scope wanted: ?[2J???"},
        {"Bearer error=\"\\", "the server wants a good token (HTTP 401); \\"},
        {"Bearer =, = x \"", "the server wants a good token (HTTP 401)"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tidings_error err = {0};
        assert_int_equal(bearer_refused(401, tidings_str(rows[i].field), &err), TIDINGS_E_DENIED);
        assert_string_equal(err.text, rows[i].text);
    }
}

static void overlong_challenge_is_cut(void **state)
{
    (void)state;
    char field[1000];
    struct tidings_error err = {0};
    memset(field, 'a', sizeof(field));
    memcpy(field, "Bearer scope=\"", 14);
    bearer_refused(403, tidings_strn(field, sizeof(field)), &err);
    assert_int_equal(strlen(err.text),
                     strlen("the server denies access (HTTP 403); scope wanted: ") + 80);
    memcpy(field, "Bearer resource_metadata=\"https://", 34);
    bearer_refused(403, tidings_strn(field, sizeof(field)), &err);
    assert_string_equal(err.text, "the server denies access (HTTP 403)");
}

static void scopes_are_visible_characters_without_quotes(void **state)
{
    (void)state;
    assert_true(bearer_is_scope(STR("res:read")));
    assert_true(bearer_is_scope(STR("https://x/y!~")));
    assert_false(bearer_is_scope(STR("")));
    assert_false(bearer_is_scope(STR("a b")));
    assert_false(bearer_is_scope(STR("a\"")));
    assert_false(bearer_is_scope(STR("a\\")));
    assert_false(bearer_is_scope(STR("\xc3\xa4")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_one_well_formed_bearer_token_is_accepted),
        cmocka_unit_test(overlong_token_is_rejected),
        cmocka_unit_test(repeated_fields_and_query_tokens_are_rejected),
        cmocka_unit_test(challenge_names_its_parts_and_quotes_them),
        cmocka_unit_test(challenge_describes_the_refusal),
        cmocka_unit_test(overlong_challenge_is_cut),
        cmocka_unit_test(scopes_are_visible_characters_without_quotes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
