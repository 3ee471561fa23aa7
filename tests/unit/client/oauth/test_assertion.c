/* SPDX-License-Identifier: MIT
 *
 * Signed assertions verify, have the expected claims, and are unique.
 */
#include "client/oauth/documents.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/encode.h"
#include "formats/json.h"
#include "security/signature.h"

/* The parts of a JWT: header, payload, and signed text. */
struct parts {
    struct json *header, *payload;
    struct tidings_str text;
    struct buf signature, decoded[2];
};

static void take_apart(struct parts *p, const struct buf *jwt)
{
    struct tidings_str rest, header = str_cut(buf_str(jwt), '.', &rest, NULL);
    struct tidings_str payload = str_cut(rest, '.', &rest, NULL);
    p->text = tidings_strn(jwt->ptr, header.len + 1 + payload.len);
    buf_init(&p->signature, 4096);
    buf_init(&p->decoded[0], 4096);
    buf_init(&p->decoded[1], 4096);
    assert_int_equal(base64url_decode(&p->signature, rest), 0);
    assert_int_equal(base64url_decode(&p->decoded[0], header), 0);
    assert_int_equal(base64url_decode(&p->decoded[1], payload), 0);
    assert_int_equal(jv_parse(buf_str(&p->decoded[0]), 8, &p->header, NULL), 0);
    assert_int_equal(jv_parse(buf_str(&p->decoded[1]), 8, &p->payload, NULL), 0);
}

static void drop_parts(struct parts *p)
{
    jv_unref(p->header);
    jv_unref(p->payload);
    buf_deinit(&p->signature);
    buf_deinit(&p->decoded[0]);
    buf_deinit(&p->decoded[1]);
}

static struct public_key *public_of(const struct json *jwk)
{
    struct buf x, y;
    struct public_key *key = NULL;
    buf_init(&x, 64);
    buf_init(&y, 64);
    assert_int_equal(base64url_decode(&x, jv_str(jv_get(jwk, "x"))), 0);
    assert_int_equal(base64url_decode(&y, jv_str(jv_get(jwk, "y"))), 0);
    assert_int_equal(public_key_ec(&key, STR("P-256"), buf_str(&x), buf_str(&y), NULL), 0);
    buf_deinit(&x);
    buf_deinit(&y);
    return key;
}

static void proofs_verify_and_are_unique(void **state)
{
    struct private_key *key = NULL;
    struct buf one, two;
    struct parts a, b;
    struct proof proof = {
        .method = "POST", .url = "https://a.test/mcp?x=1", .token = "token", .nonce = "n1"};
    (void)state;
    buf_init(&one, 8192);
    buf_init(&two, 8192);
    assert_int_equal(private_key_generate(&key, NULL), 0);
    assert_int_equal(proof_put(&one, key, &proof), 0);
    assert_int_equal(proof_put(&two, key, &proof), 0);
    take_apart(&a, &one);
    take_apart(&b, &two);
    assert_true(str_eq(jv_str(jv_get(a.header, "typ")), STR("dpop+jwt")));
    assert_true(str_eq(jv_str(jv_get(a.payload, "htu")), STR("https://a.test/mcp")));
    assert_true(str_eq(jv_str(jv_get(a.payload, "htm")), STR("POST")));
    assert_true(str_eq(jv_str(jv_get(a.payload, "nonce")), STR("n1")));
    /* printf token | openssl dgst -sha256 -binary | basenc --base64url */
    assert_true(str_eq(jv_str(jv_get(a.payload, "ath")),
                       STR("PEaenWxYddN6Q_NT1PiOYfz4EsZu7jRXRlpAsNpBU-A")));
    assert_false(str_eq(jv_str(jv_get(a.payload, "jti")), jv_str(jv_get(b.payload, "jti"))));
    assert_null(jv_get(jv_get(a.header, "jwk"), "d"));
    struct public_key *public = public_of(jv_get(a.header, "jwk"));
    assert_true(signature_is_good(public, SIGNATURE_ES256, a.text, buf_str(&a.signature)));
    assert_false(signature_is_good(public, SIGNATURE_ES256, a.text, buf_str(&b.signature)));
    public_key_destroy(public);
    drop_parts(&a);
    drop_parts(&b);
    buf_deinit(&one);
    buf_deinit(&two);
    private_key_destroy(key);
}

static void key_round_trips_as_text(void **state)
{
    struct private_key *key = NULL, *again = NULL;
    struct buf pem, one, two;
    struct tidings_error err = {0};
    (void)state;
    buf_init_secret(&pem, 8192);
    buf_init(&one, 512);
    buf_init(&two, 512);
    assert_int_equal(private_key_generate(&key, NULL), 0);
    assert_int_equal(private_key_put_pem(key, &pem), 0);
    assert_int_equal(private_key_read(&again, buf_str(&pem), NULL), 0);
    assert_int_equal(private_key_put_jwk(key, &one), 0);
    assert_int_equal(private_key_put_jwk(again, &two), 0);
    assert_string_equal(one.ptr, two.ptr);
    assert_string_equal(private_key_algorithm(again), "ES256");
    private_key_destroy(key);
    private_key_destroy(again);
    again = NULL;
    assert_int_equal(private_key_read(&again, STR("no key"), &err), TIDINGS_E_INVALID);
    assert_int_equal(private_key_read(&again, STR(""), &err), TIDINGS_E_INVALID);
    assert_null(again);
    buf_deinit(&pem);
    buf_deinit(&one);
    buf_deinit(&two);
}

static void assertions_name_issuer_and_audience(void **state)
{
    struct private_key *key = NULL;
    struct buf jwt;
    struct parts p;
    (void)state;
    buf_init(&jwt, 8192);
    assert_int_equal(private_key_generate(&key, NULL), 0);
    assert_int_equal(assertion_put(&jwt, key, "me", "https://as.test"), 0);
    take_apart(&p, &jwt);
    assert_true(str_eq(jv_str(jv_get(p.payload, "iss")), STR("me")));
    assert_true(str_eq(jv_str(jv_get(p.payload, "sub")), STR("me")));
    assert_true(str_eq(jv_str(jv_get(p.payload, "aud")), STR("https://as.test")));
    assert_int_equal(jv_int(jv_get(p.payload, "exp")) - jv_int(jv_get(p.payload, "iat")), 60);
    drop_parts(&p);
    buf_deinit(&jwt);
    private_key_destroy(key);
}

/* RFC 7636, appendix B. */
static void challenge_matches_the_rfc_example(void **state)
{
    struct buf out;
    char one[RANDOM_TEXT_MAX], two[RANDOM_TEXT_MAX];
    (void)state;
    buf_init(&out, 64);
    assert_int_equal(pkce_put_challenge(&out, "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"), 0);
    assert_string_equal(out.ptr, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    buf_deinit(&out);
    assert_int_equal(random_text(one), 0);
    assert_int_equal(random_text(two), 0);
    assert_int_equal(strlen(one), 43);
    assert_string_not_equal(one, two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proofs_verify_and_are_unique),
        cmocka_unit_test(key_round_trips_as_text),
        cmocka_unit_test(assertions_name_issuer_and_audience),
        cmocka_unit_test(challenge_matches_the_rfc_example),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
