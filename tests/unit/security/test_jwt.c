/* SPDX-License-Identifier: MIT
 *
 * JWTs at a cache: each defect has its own error, and no defective token is accepted. */
#include "security/jwt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/loop.h"
#include "base/time.h"
#include "security/auth.h"
#include "support/jose.h"

#define NOW 1800000000
#define GOOD                                                                                       \
    "\"iss\":\"https://as.test\",\"aud\":\"https://h.test/"                                        \
    "mcp\",\"sub\":\"alice\",\"exp\":1800000100"
#define HEAD "{\"alg\":\"ES256\",\"kid\":\"1\",\"typ\":\"at+jwt\"}"

static struct fixture {
    struct clock_fake clock;
    struct jose_key *key;
    char path[64];
    struct loop *loop;
    struct mailbox *mailbox;
    struct auth *auth;
    struct token_cache *cache;
    struct buf token;
} f;

static void write_set(const struct jose_key *key)
{
    struct buf set;
    buf_init(&set, 65536);
    jose_put_set(&set, key, "\"kid\":\"1\"");
    FILE *file = fopen(f.path, "w");
    assert_non_null(file);
    fputs(set.ptr, file);
    fclose(file);
    buf_deinit(&set);
}

static void open_cache(const struct auth_options *options)
{
    struct tidings_error err = {0, ""};
    if (auth_open(&f.auth, options, &err) < 0) {
        fail_msg("%s", err.text);
    }
    f.cache = auth_create_cache(f.auth, f.mailbox, NULL, &err);
    assert_non_null(f.cache);
}

static void close_cache(void)
{
    token_cache_destroy(f.cache);
    auth_close(f.auth);
    f.cache = NULL;
    f.auth = NULL;
}

static int set_up(void **state)
{
    (void)state;
    static const char *const audiences[] = {"https://h.test/mcp", "other"};
    f.clock = (struct clock_fake){.wall_ms = NOW * 1000LL};
    clock_set_fake(&f.clock);
    f.key = jose_key_create("ES256");
    snprintf(f.path, sizeof(f.path), "/tmp/test_jwt.XXXXXX");
    close(mkstemp(f.path));
    write_set(f.key);
    f.loop = loop_create(NULL);
    f.mailbox = mailbox_create(f.loop, &f, NULL);
    buf_init(&f.token, 65536);
    const struct auth_issuer issuers[] = {{"https://as.test", f.path}};
    open_cache(&(struct auth_options){.issuers = issuers,
                                      .issuer_count = 1,
                                      .audiences = audiences,
                                      .audience_count = 2,
                                      .leeway_ms = 60000});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_cache();
    mailbox_close(f.mailbox);
    mailbox_unref(f.mailbox);
    loop_destroy(f.loop);
    buf_deinit(&f.token);
    jose_key_destroy(f.key);
    unlink(f.path);
    clock_set_fake(NULL);
    return 0;
}

static struct auth_answer ask_text(struct tidings_str token)
{
    struct auth_answer answer = {.outcome = AUTH_UNAVAILABLE};
    struct pending_token *pending = NULL;
    assert_true(token_cache_ask(f.cache, token, &answer, &pending, NULL, NULL));
    return answer;
}

static struct auth_answer ask(const struct jose_key *key, const char *header, const char *claims)
{
    buf_clear(&f.token);
    jose_put_token(&f.token, key, header, claims);
    return ask_text(buf_str(&f.token));
}

static void valid_token_gives_its_principal(void **state)
{
    (void)state;
    struct auth_answer answer =
        ask(f.key, HEAD, "{" GOOD ",\"scope\":\"read  write\",\"scp\":[\"read\",\"more\"]}");
    assert_int_equal(answer.outcome, AUTH_OK);
    assert_true(str_eq(answer.identity->name, STR("alice")));
    assert_int_equal(answer.identity->scope_count, 3);
    assert_true(str_eq(answer.identity->scopes[0], STR("read")));
    assert_true(str_eq(answer.identity->scopes[1], STR("write")));
    assert_true(str_eq(answer.identity->scopes[2], STR("more")));
    assert_int_equal(answer.identity->expires_ms, 1800000160000);
    assert_int_equal(answer.identity->kind, AUTH_BY_JWT);
}

static void every_algorithm_is_accepted(void **state)
{
    (void)state;
    static const char *const names[] = {"RS256", "RS384", "RS512", "PS256", "PS384",
                                        "PS512", "ES256", "ES384", "EdDSA"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct jose_key *key = jose_key_create(names[i]);
        struct auth_files *files = NULL;
        char header[64];
        write_set(key);
        assert_int_equal(auth_load_files(f.auth, &files, NULL), 0);
        auth_put_files(f.auth, files);
        snprintf(header, sizeof(header), "{\"alg\":\"%s\"}", names[i]);
        assert_int_equal(ask(key, header, "{" GOOD "}").outcome, AUTH_OK);
        jose_key_destroy(key);
    }
}

static void wrong_claims_have_their_own_errors(void **state)
{
    (void)state;
#define BUT(what) "{\"iss\":\"https://as.test\"," what "}"
    static const struct {
        const char *claims, *says; /* NULL: it is valid */
    } cases[] = {
        {"{" GOOD "}", NULL},
        {"{" GOOD ",\"iss2\":1}", NULL},
        {"{\"iss\":\"https://as.test/\",\"aud\":\"other\",\"sub\":\"a\",\"exp\":1800000100}",
         "the issuer of the token is not trusted here"},
        {"{\"aud\":\"other\",\"sub\":\"a\",\"exp\":1800000100}",
         "the issuer of the token is not trusted here"},
        {"{\"iss\":[\"https://as.test\"],\"aud\":\"other\",\"sub\":\"a\",\"exp\":1800000100}",
         "the issuer of the token is not trusted here"},
        {BUT("\"aud\":\"other\",\"sub\":\"a\""), "the token has no expiry"},
        {BUT("\"aud\":\"other\",\"sub\":\"a\",\"exp\":null"), "the token's expiry is not a date"},
        {BUT("\"aud\":\"other\",\"sub\":\"a\",\"exp\":\"1800000100\""),
         "the token's expiry is not a date"},
        {BUT("\"aud\":\"other\",\"sub\":\"a\",\"exp\":-1"), "the token's expiry is not a date"},
        {BUT("\"aud\":\"other\",\"sub\":\"a\",\"exp\":1e300"), "the token's expiry is not a date"},
        {BUT("\"aud\":\"other\",\"sub\":\"a\",\"exp\":9223372036854775807"),
         "the token's expiry is not a date"},
        {BUT("\"aud\":\"other\",\"sub\":\"a\",\"exp\":1799999940"), "the token has expired"},
        {BUT("\"aud\":\"other\",\"sub\":\"a\",\"exp\":1799999941"), NULL},
        {BUT("\"aud\":\"other\",\"sub\":\"a\",\"exp\":1799999940.5"), NULL},
        {BUT("\"aud\":\"other\",\"sub\":\"a\",\"exp\":1800000100,\"nbf\":1800000060"), NULL},
        {BUT("\"aud\":\"other\",\"sub\":\"a\",\"exp\":1800000100,\"nbf\":1800000061"),
         "the token is not valid yet"},
        {BUT("\"aud\":\"other\",\"sub\":\"a\",\"exp\":1800000100,\"nbf\":\"0\""),
         "the token is not valid yet"},
        {BUT("\"aud\":\"other\",\"sub\":\"a\",\"exp\":1800000100,\"iat\":1800000061"),
         "the token was issued in the future"},
        {BUT("\"aud\":[\"x\",\"other\"],\"sub\":\"a\",\"exp\":1800000100"), NULL},
        {BUT("\"aud\":[\"x\"],\"sub\":\"a\",\"exp\":1800000100"),
         "the token is for another audience"},
        {BUT("\"aud\":\"https://h.test/mcp/\",\"sub\":\"a\",\"exp\":1800000100"),
         "the token is for another audience"},
        {BUT("\"aud\":{\"other\":1},\"sub\":\"a\",\"exp\":1800000100"),
         "the token is for another audience"},
        {BUT("\"sub\":\"a\",\"exp\":1800000100"), "the token is for another audience"},
        {BUT("\"aud\":\"other\",\"exp\":1800000100"), "the token has no subject"},
        {BUT("\"aud\":\"other\",\"exp\":1800000100,\"client_id\":\"c\""), NULL},
        {BUT("\"aud\":\"other\",\"exp\":1800000100,\"sub\":\"\",\"client_id\":\"c\""),
         "the token has no subject"},
        {BUT("\"aud\":\"other\",\"exp\":1800000100,\"sub\":\"a\\u0000b\""),
         "the token has no subject"},
        {BUT("\"aud\":\"other\",\"exp\":1800000100,\"sub\":7"), "the token has no subject"},
        {BUT("\"aud\":\"other\",\"exp\":1800000100,\"sub\":\"a\",\"scope\":\"a\\\"b\""),
         "the scopes of the token are malformed or too many"},
        {BUT("\"aud\":\"other\",\"exp\":1800000100,\"sub\":\"a\",\"scp\":[7]"),
         "the scopes of the token are malformed or too many"},
        {BUT("\"aud\":\"other\",\"exp\":1800000100,\"sub\":\"a\",\"scope\":{}"),
         "the scopes of the token are malformed or too many"},
        {BUT("\"aud\":\"other\",\"exp\":1800000100,\"sub\":\"a\",\"cnf\":{\"jkt\":\"x\"}"),
         "the token is bound to something else than a key by its jkt"},
        {"{" GOOD ",\"sub\":\"bob\"}", "a part of the token cannot be read"},
        {"[]", "a part of the token cannot be read"},
        {"{" GOOD, "a part of the token cannot be read"},
        {"{" GOOD "} ", NULL},
        {"{" GOOD "}x", "a part of the token cannot be read"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct auth_answer answer = ask(f.key, HEAD, cases[i].claims);
        if (cases[i].says) {
            if (answer.outcome != AUTH_INVALID || strcmp(answer.description, cases[i].says) != 0) {
                fail_msg("%s: %d %s", cases[i].claims, (int)answer.outcome, answer.description);
            }
        } else if (answer.outcome != AUTH_OK) {
            fail_msg("%s: %s", cases[i].claims, answer.description);
        }
    }
}

static void wrong_headers_have_their_own_errors(void **state)
{
    (void)state;
    static const struct {
        const char *header, *says;
    } cases[] = {
        {"{\"alg\":\"ES256\"}", NULL},
        {"{\"alg\":\"ES256\",\"typ\":\"JWT\"}", NULL},
        {"{\"alg\":\"ES256\",\"typ\":\"application/AT+jwt\"}", NULL},
        {"{\"alg\":\"ES256\",\"jku\":\"https://evil.test\",\"jwk\":{},\"x5u\":\"x\"}", NULL},
        {"{\"alg\":\"none\"}", "the algorithm of the token is not accepted"},
        {"{\"alg\":\"NONE\"}", "the algorithm of the token is not accepted"},
        {"{\"alg\":\"HS256\"}", "the algorithm of the token is not accepted"},
        {"{\"alg\":\"HS512\",\"kid\":\"1\"}", "the algorithm of the token is not accepted"},
        {"{\"alg\":[\"ES256\"]}", "the algorithm of the token is not accepted"},
        {"{}", "the algorithm of the token is not accepted"},
        {"{\"alg\":\"ES256\",\"crit\":[\"b64\"],\"b64\":false}",
         "the token needs an extension that is not known here"},
        {"{\"alg\":\"ES256\",\"crit\":[]}", "the token needs an extension that is not known here"},
        {"{\"alg\":\"ES256\",\"typ\":\"dpop+jwt\"}", "the token is not an access token"},
        {"{\"alg\":\"ES256\",\"typ\":7}", "the token is not an access token"},
        {"{\"alg\":\"ES256\",\"kid\":7}", "the token names its key in no way that is known here"},
        {"{\"alg\":\"ES256\",\"kid\":\"2\"}", "the key of the token is not known"},
        {"{\"alg\":\"RS256\",\"kid\":\"1\"}", "the key of the token is not for its algorithm"},
        {"{\"alg\":\"ES384\",\"kid\":\"1\"}", "the key of the token is not for its algorithm"},
        {"{\"alg\":\"RS256\"}", "the key of the token is not known"},
        {"{\"alg\":\"none\",\"alg\":\"ES256\"}", "a part of the token cannot be read"},
        {"\"ES256\"", "a part of the token cannot be read"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct auth_answer answer = ask(f.key, cases[i].header, "{" GOOD "}");
        if (cases[i].says) {
            if (answer.outcome != AUTH_INVALID || strcmp(answer.description, cases[i].says) != 0) {
                fail_msg("%s: %d %s", cases[i].header, (int)answer.outcome, answer.description);
            }
        } else if (answer.outcome != AUTH_OK) {
            fail_msg("%s: %s", cases[i].header, answer.description);
        }
    }
}

static void key_of_the_same_name_does_not_verify(void **state)
{
    (void)state;
    struct jose_key *forged = jose_key_create("ES256");
    struct auth_answer answer = ask(forged, HEAD, "{" GOOD "}");
    assert_int_equal(answer.outcome, AUTH_INVALID);
    assert_string_equal(answer.description, "the signature of the token is wrong");
    jose_key_destroy(forged);
}

/* A valid token with any single character changed or removed is rejected. */
static void changed_token_is_rejected(void **state)
{
    (void)state;
    struct buf token;
    buf_init(&token, 65536);
    jose_put_token(&token, f.key, HEAD, "{" GOOD "}");
    for (size_t i = 0; i < token.len; i++) {
        char before = token.ptr[i];
        token.ptr[i] = before == 'A' ? 'B' : 'A';
        assert_int_not_equal(ask_text(buf_str(&token)).outcome, AUTH_OK);
        token.ptr[i] = '.';
        if (before != '.') {
            assert_int_not_equal(ask_text(buf_str(&token)).outcome, AUTH_OK);
        }
        token.ptr[i] = before;
        assert_int_not_equal(ask_text(tidings_strn(token.ptr, i)).outcome, AUTH_OK);
    }
    buf_putc(&token, '=');
    assert_int_equal(ask_text(buf_str(&token)).outcome, AUTH_INVALID);
    assert_int_equal(token_cache_counts(f.cache)->verified, 0);
    token.ptr[token.len - 1] = '.';
    assert_int_equal(ask_text(buf_str(&token)).outcome, AUTH_INVALID);
    assert_int_equal(ask_text(tidings_strn(token.ptr, token.len - 1)).outcome, AUTH_OK);
    buf_deinit(&token);
}

static void cached_identity_ends_with_the_token(void **state)
{
    (void)state;
    assert_int_equal(ask(f.key, HEAD, "{" GOOD "}").outcome, AUTH_OK);
    f.clock.wall_ms = 1800000159999;
    assert_int_equal(ask_text(buf_str(&f.token)).outcome, AUTH_OK);
    assert_int_equal(token_cache_counts(f.cache)->remembered, 1);
    f.clock.wall_ms++;
    struct auth_answer answer = ask_text(buf_str(&f.token));
    assert_int_equal(answer.outcome, AUTH_INVALID);
    assert_string_equal(answer.description, "the token has expired");
}

static unsigned released;

static void on_release(void *attached)
{
    (void)attached;
    released++;
}

static void cache_keeps_up_to_its_limit_of_tokens(void **state)
{
    (void)state;
    struct buf first;
    buf_init(&first, 65536);
    token_cache_destroy(f.cache);
    f.cache = auth_create_cache(f.auth, f.mailbox, on_release, NULL);
    released = 0;
    for (unsigned i = 0; i <= TOKEN_CACHE_MAX; i++) {
        char claims[256];
        snprintf(claims, sizeof(claims), "{" GOOD ",\"jti\":%u}", i);
        struct auth_answer answer = ask(f.key, HEAD, claims);
        assert_int_equal(answer.outcome, AUTH_OK);
        answer.identity->attached = &f;
        if (i == 0) {
            buf_puts(&first, buf_str(&f.token));
        } else if (i == 1000) { /* used again: another one is the oldest now */
            assert_int_equal(ask_text(buf_str(&first)).outcome, AUTH_OK);
        }
    }
    assert_int_equal(released, 1);
    assert_int_equal(token_cache_counts(f.cache)->remembered, 1);
    assert_ptr_equal(ask_text(buf_str(&first)).identity->attached, &f);
    assert_int_equal(token_cache_counts(f.cache)->remembered, 2);
    buf_deinit(&first);
}

static void names_include_the_issuer_if_there_are_several(void **state)
{
    (void)state;
    static const char *const audiences[] = {"https://h.test/mcp"};
    const struct auth_issuer issuers[] = {{"https://as.test", f.path}, {"https://b.test", f.path}};
    close_cache();
    open_cache(&(struct auth_options){
        .issuers = issuers, .issuer_count = 2, .audiences = audiences, .audience_count = 1});
    struct auth_answer answer = ask(f.key, HEAD, "{" GOOD "}");
    assert_int_equal(answer.outcome, AUTH_OK);
    assert_true(str_eq(answer.identity->name, STR("https://as.test alice")));
    assert_int_equal(answer.identity->expires_ms, 1800000100000);
}

static void invalid_settings_are_explained(void **state)
{
    (void)state;
    static const char *const audiences[] = {"a"};
    static const struct {
        const char *issuer, *jwks, *says;
    } cases[] = {
        {"as.test", NULL, "the issuer 'as.test' must be a URL with https"},
        {"http://as.test", NULL, "the issuer 'http://as.test' must be a URL"},
        {"http://127.0.0.1.evil.test", NULL, "must be a URL"},
        {"http://localhost@evil.test", NULL, "must be a URL"},
        {"http://localhost:80@evil.test/", NULL, "must be a URL"},
        {"https://", NULL, "must be a URL"},
        {"https://a b", NULL, "must be a URL"},
        {"https://as.test", "http://as.test/jwks", "the key set 'http://as.test/jwks' must be"},
        {"https://as.test", "/no/such/file", "key set: open '/no/such/file'"},
        {"https://as.test", "/dev/null", "key set: '/dev/null': not a regular file"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct auth *auth = NULL;
        struct tidings_error err = {0, ""};
        const struct auth_issuer issuer = {cases[i].issuer, cases[i].jwks};
        const struct auth_options options = {
            .issuers = &issuer, .issuer_count = 1, .audiences = audiences, .audience_count = 1};
        assert_true(auth_open(&auth, &options, &err) < 0);
        if (!strstr(err.text, cases[i].says)) {
            fail_msg("%s: %s", cases[i].issuer, err.text);
        }
    }
    struct auth *auth = NULL;
    struct tidings_error err = {0, ""};
    const struct auth_issuer two[] = {{"https://as.test", f.path}, {"https://as.test", f.path}};
    struct auth_options options = {.issuers = two, .issuer_count = 1};
    assert_int_equal(auth_open(&auth, &options, &err), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "need an audience"));
    options.issuer_count = 2;
    options.audiences = audiences;
    options.audience_count = 1;
    assert_int_equal(auth_open(&auth, &options, &err), TIDINGS_E_INVALID);
    assert_string_equal(err.text, "the issuer 'https://as.test' is named twice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(valid_token_gives_its_principal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_algorithm_is_accepted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_claims_have_their_own_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_headers_have_their_own_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(key_of_the_same_name_does_not_verify, set_up, tear_down),
        cmocka_unit_test_setup_teardown(changed_token_is_rejected, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cached_identity_ends_with_the_token, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cache_keeps_up_to_its_limit_of_tokens, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_include_the_issuer_if_there_are_several, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(invalid_settings_are_explained, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
