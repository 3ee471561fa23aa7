/* SPDX-License-Identifier: MIT
 *
 * Key sets: the keys that are accepted or skipped, and the key that verifies a token. */
#include "security/jwt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/fail_alloc.h"
#include "support/jose.h"

static struct jose_key *rsa, *ec, *ed;

static int set_up(void **state)
{
    (void)state;
    rsa = jose_key_create("RS256");
    ec = jose_key_create("ES256");
    ed = jose_key_create("EdDSA");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    jose_key_destroy(rsa);
    jose_key_destroy(ec);
    jose_key_destroy(ed);
    return 0;
}

static int parse(struct jwks **ret, const struct buf *text, struct tidings_error *err)
{
    return jwks_parse(ret, STR("https://as.test"), buf_str(text), err);
}

static void drop(struct jwks *set)
{
    shared_value_unref(jwks_value(set));
}

static uint64_t proof; /* of the key that last verified a token */

static enum jwks_result verify(const struct jwks *set, const char *kid,
                               enum signature_algorithm algorithm, const struct jose_key *key)
{
    struct buf sig;
    struct tidings_str name = kid ? tidings_str(kid) : (struct tidings_str){NULL, 0};
    buf_init(&sig, 1024);
    jose_sign(&sig, key, STR("bytes"));
    enum jwks_result result =
        jwks_verify(set, name, algorithm, STR("bytes"), buf_str(&sig), &proof);
    buf_deinit(&sig);
    return result;
}

static void begin(struct buf *text)
{
    buf_init(text, JWKS_MAX + 1024);
    buf_puts(text, STR("{\"keys\":["));
}

static void key_is_found_by_name_and_algorithm(void **state)
{
    (void)state;
    struct buf text;
    struct jwks *set = NULL;
    struct tidings_error err = {0, ""};
    begin(&text);
    jose_put_jwk(&text, rsa, "\"kid\":\"r\",\"use\":\"sig\"");
    buf_putc(&text, ',');
    jose_put_jwk(&text, ec, "\"kid\":\"e\",\"alg\":\"ES256\",\"key_ops\":[\"verify\"]");
    buf_putc(&text, ',');
    jose_put_jwk(&text, ed, "\"kid\":\"d\"");
    buf_puts(&text, STR("]}"));
    assert_int_equal(parse(&set, &text, &err), 0);
    assert_int_equal(jwks_count(set), 3);
    assert_true(str_eq(jwks_value(set)->key, STR("https://as.test")));
    assert_int_equal(verify(set, "r", SIGNATURE_RS256, rsa), JWKS_GOOD);
    assert_int_equal(verify(set, "e", SIGNATURE_ES256, ec), JWKS_GOOD);
    assert_int_equal(verify(set, "d", SIGNATURE_EDDSA, ed), JWKS_GOOD);
    assert_int_equal(verify(set, NULL, SIGNATURE_EDDSA, ed), JWKS_GOOD);
    assert_int_equal(verify(set, "r", SIGNATURE_RS384, rsa), JWKS_BAD);
    assert_int_equal(verify(set, "r", SIGNATURE_ES256, ec), JWKS_UNFIT);
    assert_int_equal(verify(set, "e", SIGNATURE_ES384, ec), JWKS_UNFIT);
    assert_int_equal(verify(set, "x", SIGNATURE_RS256, rsa), JWKS_NO_KEY);
    assert_int_equal(verify(set, "", SIGNATURE_RS256, rsa), JWKS_NO_KEY);
    assert_int_equal(verify(set, NULL, SIGNATURE_ES384, ec), JWKS_NO_KEY);
    drop(set);
    buf_deinit(&text);
}

static void empty_set_is_valid_and_verifies_nothing(void **state)
{
    (void)state;
    struct jwks *set = NULL;
    assert_int_equal(jwks_parse(&set, STR("i"), STR("{\"keys\":[]}"), NULL), 0);
    assert_int_equal(jwks_count(set), 0);
    assert_int_equal(verify(set, NULL, SIGNATURE_RS256, rsa), JWKS_NO_KEY);
    assert_false(jwks_has(set, 0));
    drop(set);
}

/* The proof of the only key in the set. */
static uint64_t proof_of(const char *issuer, const struct jose_key *key, const char *members)
{
    struct buf text;
    struct jwks *set = NULL;
    begin(&text);
    jose_put_jwk(&text, key, members);
    buf_puts(&text, STR("]}"));
    assert_int_equal(jwks_parse(&set, tidings_str(issuer), buf_str(&text), NULL), 0);
    assert_int_equal(verify(set, NULL, SIGNATURE_ES256, key), JWKS_GOOD);
    assert_true(proof != 0 && proof >> (64 - JWKS_PROOF_SPARE) == 0);
    assert_true(jwks_has(set, proof));
    assert_false(jwks_has(set, proof + 1));
    drop(set);
    buf_deinit(&text);
    return proof;
}

static void proof_covers_the_key_and_its_attributes(void **state)
{
    (void)state;
    struct jose_key *other = jose_key_create("ES256");
    uint64_t first = proof_of("a", ec, "\"kid\":\"1\",\"use\":\"sig\"");
    assert_true(first == proof_of("a", ec, "\"use\":\"sig\",\"kid\":\"1\",\"x5t\":\"z\""));
    assert_true(first != proof_of("a", other, "\"kid\":\"1\",\"use\":\"sig\""));
    assert_true(first != proof_of("b", ec, "\"kid\":\"1\""));
    assert_true(first != proof_of("a", ec, "\"kid\":\"2\""));
    assert_true(first != proof_of("a", ec, "\"kid\":\"1\",\"alg\":\"ES256\""));
    assert_true(proof_of("a", ec, "\"kid\":\"\"") != proof_of("a", ec, "\"use\":\"sig\""));
    jose_key_destroy(other);
}

static void key_without_a_name_is_tried_for_every_token(void **state)
{
    (void)state;
    struct buf text;
    struct jwks *set = NULL;
    struct jose_key *other = jose_key_create("ES256");
    buf_init(&text, JWKS_MAX);
    jose_put_set(&text, ec, "");
    assert_int_equal(parse(&set, &text, NULL), 0);
    assert_int_equal(verify(set, "any", SIGNATURE_ES256, ec), JWKS_GOOD);
    assert_int_equal(verify(set, "any", SIGNATURE_ES256, other), JWKS_BAD);
    jose_key_destroy(other);
    drop(set);
    buf_deinit(&text);
}

static void two_keys_of_one_name_are_both_tried(void **state)
{
    (void)state;
    struct buf text;
    struct jwks *set = NULL;
    struct jose_key *other = jose_key_create("ES256");
    begin(&text);
    jose_put_jwk(&text, other, "\"kid\":\"1\"");
    buf_putc(&text, ',');
    jose_put_jwk(&text, ec, "\"kid\":\"1\"");
    buf_puts(&text, STR("]}"));
    assert_int_equal(parse(&set, &text, NULL), 0);
    assert_int_equal(verify(set, "1", SIGNATURE_ES256, ec), JWKS_GOOD);
    assert_int_equal(verify(set, "1", SIGNATURE_ES256, other), JWKS_GOOD);
    jose_key_destroy(other);
    drop(set);
    buf_deinit(&text);
}

/* As the only key, each makes the set useless; next to a valid key, it is skipped. */
static void keys_for_other_purposes_are_skipped(void **state)
{
    (void)state;
    static const struct {
        const char *more, *says;
    } cases[] = {
        {"\"use\":\"enc\"", "its use is not 'sig'"},
        {"\"use\":1", "its use is not 'sig'"},
        {"\"key_ops\":[\"sign\"]", "its key_ops have no 'verify'"},
        {"\"key_ops\":\"verify\"", "its key_ops have no 'verify'"},
        {"\"alg\":\"HS256\"", "its alg is not accepted"},
        {"\"alg\":\"none\"", "its alg is not accepted"},
        {"\"alg\":null", "its alg is not accepted"},
        {"\"alg\":\"RS256\"", "its alg is for another kind of key"},
        {"\"alg\":\"ES384\"", "its alg is for another kind of key"},
        {"\"d\":\"AAAA\"", "it contains the private key"},
        {"\"kid\":7", "its kid is not a string"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf text;
        struct jwks *set = NULL;
        struct tidings_error err = {0, ""};
        buf_init(&text, JWKS_MAX);
        jose_put_set(&text, ec, cases[i].more);
        assert_int_equal(parse(&set, &text, &err), TIDINGS_E_INVALID);
        if (!strstr(err.text, cases[i].says)) {
            fail_msg("%s: %s", cases[i].more, err.text);
        }
        buf_deinit(&text);
        begin(&text);
        jose_put_jwk(&text, ec, cases[i].more);
        buf_putc(&text, ',');
        jose_put_jwk(&text, ed, "");
        buf_puts(&text, STR("]}"));
        assert_int_equal(parse(&set, &text, &err), 0);
        assert_int_equal(jwks_count(set), 1);
        assert_int_equal(verify(set, NULL, SIGNATURE_ES256, ec), JWKS_NO_KEY);
        drop(set);
        buf_deinit(&text);
    }
}

static void key_set_is_rejected_if_malformed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int code;
    } cases[] = {
        {"", TIDINGS_E_PARSE},
        {"[]", TIDINGS_E_PARSE},
        {"{}", TIDINGS_E_PARSE},
        {"{\"keys\":{}}", TIDINGS_E_PARSE},
        {"{\"keys\":[],\"keys\":[]}", TIDINGS_E_PARSE},
        {"{\"keys\":[7]}", TIDINGS_E_INVALID},
        {"{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}", TIDINGS_E_INVALID},
        {"{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"AAAA\"}]}", TIDINGS_E_INVALID},
        {"{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}", TIDINGS_E_INVALID},
        {"{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB=\",\"e\":\"AQAB\"}]}", TIDINGS_E_INVALID},
        {"{\"keys\":[{\"kty\":\"RSA\"}]}", TIDINGS_E_INVALID},
        {"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-521\",\"x\":\"AA\",\"y\":\"AA\"}]}",
         TIDINGS_E_INVALID},
        {"[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]", TIDINGS_E_LIMIT},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct jwks *set = NULL;
        struct tidings_error err = {0, ""};
        int rc = jwks_parse(&set, STR("i"), tidings_str(cases[i].text), &err);
        if (rc != cases[i].code) {
            fail_msg("%s: %d %s", cases[i].text, rc, err.text);
        }
    }
}

static void number_of_keys_is_limited(void **state)
{
    (void)state;
    struct buf text;
    struct jwks *set = NULL;
    struct tidings_error err = {0, ""};
    begin(&text);
    for (unsigned i = 0; i < JWKS_KEYS_MAX; i++) {
        jose_put_jwk(&text, ed, "");
        buf_putc(&text, ',');
    }
    jose_put_jwk(&text, ed, "");
    buf_puts(&text, STR("]}"));
    assert_int_equal(parse(&set, &text, &err), TIDINGS_E_LIMIT);
    assert_string_equal(err.text, "more than 64 keys");
    buf_deinit(&text);
    begin(&text);
    jose_put_jwk(&text, ed, "");
    buf_puts(&text, STR("]}"));
    while (text.len <= JWKS_MAX) {
        buf_putc(&text, ' ');
    }
    assert_int_equal(parse(&set, &text, &err), TIDINGS_E_LIMIT);
    buf_deinit(&text);
}

/* A token without a key name costs a limited number of attempts. */
static void number_of_tried_keys_is_limited(void **state)
{
    (void)state;
    struct buf text;
    struct jwks *set = NULL;
    begin(&text);
    for (unsigned i = 0; i < JWKS_CANDIDATES_MAX; i++) {
        jose_put_jwk(&text, ec, "\"kid\":\"many\"");
        buf_putc(&text, ',');
    }
    struct jose_key *last = jose_key_create("ES256");
    jose_put_jwk(&text, last, "\"kid\":\"last\"");
    buf_puts(&text, STR("]}"));
    assert_int_equal(parse(&set, &text, NULL), 0);
    assert_int_equal(verify(set, NULL, SIGNATURE_ES256, last), JWKS_BAD);
    assert_int_equal(verify(set, "last", SIGNATURE_ES256, last), JWKS_GOOD);
    drop(set);
    jose_key_destroy(last);
    buf_deinit(&text);
}

static void failed_allocation_is_reported(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, JWKS_MAX);
    jose_put_set(&text, ec, "\"kid\":\"1\"");
    static char kept[4096]; /* the allocator changes below */
    size_t len = text.len;
    assert_true(len < sizeof(kept));
    memcpy(kept, text.ptr, len);
    buf_deinit(&text);
    for (long n = 1;; n++) {
        struct jwks *set = NULL;
        fail_alloc_start(n);
        int rc = jwks_parse(&set, STR("i"), tidings_strn(kept, len), NULL);
        bool reached = fail_alloc_stop();
        assert_int_equal(rc == 0, !reached);
        if (rc == 0) {
            drop(set);
        }
        assert_int_equal(fail_alloc_live(), 0);
        if (!reached) {
            break;
        }
    }
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_is_found_by_name_and_algorithm),
        cmocka_unit_test(empty_set_is_valid_and_verifies_nothing),
        cmocka_unit_test(proof_covers_the_key_and_its_attributes),
        cmocka_unit_test(key_without_a_name_is_tried_for_every_token),
        cmocka_unit_test(two_keys_of_one_name_are_both_tried),
        cmocka_unit_test(keys_for_other_purposes_are_skipped),
        cmocka_unit_test(key_set_is_rejected_if_malformed),
        cmocka_unit_test(number_of_keys_is_limited),
        cmocka_unit_test(number_of_tried_keys_is_limited),
        cmocka_unit_test(failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
