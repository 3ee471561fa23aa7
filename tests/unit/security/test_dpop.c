/* SPDX-License-Identifier: MIT
 *
 * Proofs of possession: the rules for a valid proof, each violation, and single use, even by
 * several threads at once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "formats/json.h"
#include "security/dpop.h"
#include "support/jose.h"

#define NOW INT64_C(1800000000000)
#define TOKEN "the-token"
/* Its SHA-256, in base64url. */
#define ATH "wqc_z2HfvcrceaELozCy7162b8Cmc17Wm3lrs8l7l64"
#define GOOD                                                                                       \
    "\"jti\":\"1\",\"htm\":\"POST\",\"htu\":\"https://host/"                                       \
    "mcp\",\"iat\":1800000000,\"ath\":\"" ATH "\""

static struct dpop *open_dpop(enum dpop_mode mode)
{
    struct dpop *d = NULL;
    assert_int_equal(dpop_create(&d, STR("https://host"), STR("/mcp"), mode, NULL), 0);
    return d;
}

/* `jwk` NULL: the key's own. */
static const char *check(const struct dpop *d, const struct jose_key *key, const char *type,
                         const char *jwk, const char *claims, struct dpop_proof *ret)
{
    char header[2048];
    struct buf own, text;
    buf_init(&own, 4096);
    buf_init(&text, 16384);
    jose_put_jwk(&own, key, "");
    snprintf(header, sizeof(header), "{\"alg\":\"ES256\",\"typ\":\"%s\",\"jwk\":%s}", type,
             jwk ? jwk : own.ptr);
    jose_put_token(&text, key, header, claims);
    struct dpop_request r = {
        .proof = buf_str(&text), .method = STR("POST"), .path = STR("/mcp"), .token = STR(TOKEN)};
    const char *why = dpop_check(d, &r, NOW, ret);
    buf_deinit(&own);
    buf_deinit(&text);
    return why;
}

static void proof_is_valid_for_one_request(void **state)
{
    static const struct {
        const char *claims, *why; /* NULL: it is valid */
    } cases[] = {
        {"{" GOOD "}", NULL},
        {"{\"jti\":\"1\",\"htm\":\"POST\",\"htu\":\"HTTPS://HOST:443/"
         "mcp?a=b#c\",\"iat\":1799999941,"
         "\"ath\":\"" ATH "\"}",
         NULL},
        {"{\"jti\":\"1\",\"htm\":\"POST\",\"htu\":\"https://host/mcp\",\"iat\":1800000059.5,"
         "\"ath\":\"" ATH "\"}",
         NULL},
        {"{\"htm\":\"POST\",\"htu\":\"https://host/mcp\",\"iat\":1800000000,\"ath\":\"" ATH "\"}",
         "jti"},
        {"{\"jti\":\"\",\"htm\":\"POST\",\"htu\":\"https://host/mcp\",\"iat\":1800000000,\"ath\":"
         "\"" ATH "\"}",
         "jti"},
        {"{\"jti\":\"1\",\"htm\":\"GET\",\"htu\":\"https://host/mcp\",\"iat\":1800000000,\"ath\":"
         "\"" ATH "\"}",
         "htm"},
        {"{\"jti\":\"1\",\"htm\":\"post\",\"htu\":\"https://host/mcp\",\"iat\":1800000000,\"ath\":"
         "\"" ATH "\"}",
         "htm"},
        {"{\"jti\":\"1\",\"htm\":\"POST\",\"htu\":\"https://host/mcp/\",\"iat\":1800000000,"
         "\"ath\":\"" ATH "\"}",
         "htu"},
        {"{\"jti\":\"1\",\"htm\":\"POST\",\"htu\":\"http://host/mcp\",\"iat\":1800000000,\"ath\":"
         "\"" ATH "\"}",
         "htu"},
        {"{\"jti\":\"1\",\"htm\":\"POST\",\"htu\":\"https://host.evil/mcp\",\"iat\":1800000000,"
         "\"ath\":\"" ATH "\"}",
         "htu"},
        {"{\"jti\":\"1\",\"htm\":\"POST\",\"htu\":\"/mcp\",\"iat\":1800000000,\"ath\":\"" ATH "\"}",
         "htu"},
        {"{\"jti\":\"1\",\"htm\":\"POST\",\"htu\":7,\"iat\":1800000000,\"ath\":\"" ATH "\"}",
         "htu"},
        {"{\"jti\":\"1\",\"htm\":\"POST\",\"htu\":\"https://host/mcp\",\"iat\":1799999939,\"ath\":"
         "\"" ATH "\"}",
         "iat"},
        {"{\"jti\":\"1\",\"htm\":\"POST\",\"htu\":\"https://host/mcp\",\"iat\":1800000061,\"ath\":"
         "\"" ATH "\"}",
         "iat"},
        {"{\"jti\":\"1\",\"htm\":\"POST\",\"htu\":\"https://host/mcp\",\"iat\":\"1800000000\","
         "\"ath\":\"" ATH "\"}",
         "iat"},
        {"{\"jti\":\"1\",\"htm\":\"POST\",\"htu\":\"https://host/mcp\",\"iat\":1e300,\"ath\":"
         "\"" ATH "\"}",
         "iat"},
        {"{\"jti\":\"1\",\"htm\":\"POST\",\"htu\":\"https://host/mcp\",\"iat\":1800000000}", "ath"},
        {"{\"jti\":\"1\",\"htm\":\"POST\",\"htu\":\"https://host/mcp\",\"iat\":1800000000,\"ath\":"
         "\"x\"}",
         "ath"},
        {"[]", "not a JWT"},
    };
    struct dpop *d = open_dpop(DPOP_ACCEPT);
    struct jose_key *key = jose_key_create("ES256");
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dpop_proof proof;
        const char *why = check(d, key, "dpop+jwt", NULL, cases[i].claims, &proof);
        if (cases[i].why ? !why || !strstr(why, cases[i].why) : why != NULL) {
            fail_msg("%s: %s", cases[i].claims, why ? why : "good");
        }
        assert_int_equal(proof.key[0] != '\0', why == NULL);
    }
    jose_key_destroy(key);
    dpop_destroy(d);
}

/* A proxy publishes this server below another path, or at another address. */
static void proof_names_the_public_address_behind_a_proxy(void **state)
{
    static const struct {
        const char *resource, *path, *named; /* paths: of the resource, the request, the proof */
        bool is_good;
    } cases[] = {
        {"/below/mcp", "/mcp", "/below/mcp", true},
        {"/below/mcp", "/resource", "/below/resource", true},
        {"/below/mcp", "/mcp", "/mcp", true},
        {"/below/mcp", "/mcp", "/below/resource", false},
        {"/below/mcp", "/mcp", "/other/mcp", false},
        {"/below/mcp", "/resource", "/below/mcp", false},
        {"/api", "/mcp", "/api", true},
        {"/api", "/resource", "/api", false},
        {"/api", "/mcp", "/api/mcp", false},
        {"", "/mcp", "/", true},
        {"", "/mcp", "", true},
        {"", "/resource", "/", false},
    };
    struct jose_key *key = jose_key_create("ES256");
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dpop *d = NULL;
        struct dpop_proof proof;
        char header[1024], claims[512];
        struct buf own, text;
        buf_init(&own, 4096);
        buf_init(&text, 16384);
        jose_put_jwk(&own, key, "");
        snprintf(header, sizeof(header), "{\"alg\":\"ES256\",\"typ\":\"dpop+jwt\",\"jwk\":%s}",
                 own.ptr);
        snprintf(claims, sizeof(claims),
                 "{\"jti\":\"1\",\"htm\":\"POST\",\"htu\":\"https://host%s\","
                 "\"iat\":1800000000,\"ath\":\"" ATH "\"}",
                 cases[i].named);
        jose_put_token(&text, key, header, claims);
        assert_int_equal(
            dpop_create(&d, STR("https://host"), tidings_str(cases[i].resource), DPOP_ACCEPT, NULL),
            0);
        const struct dpop_request r = {.proof = buf_str(&text),
                                       .method = STR("POST"),
                                       .path = tidings_str(cases[i].path),
                                       .token = STR(TOKEN)};
        const char *why = dpop_check(d, &r, NOW, &proof);
        if ((why == NULL) != cases[i].is_good) {
            fail_msg("%s %s %s: %s", cases[i].resource, cases[i].path, cases[i].named,
                     why ? why : "good");
        }
        dpop_destroy(d);
        buf_deinit(&own);
        buf_deinit(&text);
    }
    jose_key_destroy(key);
}

static void proof_is_signed_with_the_key_it_contains(void **state)
{
    struct dpop *d = open_dpop(DPOP_ACCEPT);
    struct jose_key *key = jose_key_create("ES256"), *other = jose_key_create("ES256");
    struct dpop_proof proof, second;
    struct buf jwk;
    (void)state;
    buf_init(&jwk, 4096);
    jose_put_jwk(&jwk, other, "");
    assert_string_equal(check(d, key, "dpop+jwt", jwk.ptr, "{" GOOD "}", &proof),
                        "the signature of the proof is wrong");
    buf_clear(&jwk);
    jose_put_jwk(&jwk, key, "\"d\":\"AAAA\""); /* it would reveal the private key */
    assert_non_null(check(d, key, "dpop+jwt", jwk.ptr, "{" GOOD "}", &proof));
    assert_non_null(
        check(d, key, "dpop+jwt", "{\"kty\":\"oct\",\"k\":\"AAAA\"}", "{" GOOD "}", &proof));
    assert_non_null(check(d, key, "dpop+jwt", "null", "{" GOOD "}", &proof));
    assert_non_null(check(d, key, "JWT", NULL, "{" GOOD "}", &proof));
    /* The same key has one name, whatever other members it has. */
    buf_clear(&jwk);
    jose_put_jwk(&jwk, key, "\"kid\":\"x\",\"use\":\"sig\"");
    assert_null(check(d, key, "dpop+jwt", jwk.ptr, "{" GOOD "}", &proof));
    assert_null(check(d, key, "dpop+jwt", NULL, "{" GOOD "}", &second));
    assert_string_equal(proof.key, second.key);
    assert_int_equal(strlen(proof.key), DPOP_KEY_TEXT - 1);
    assert_null(check(d, other, "dpop+jwt", NULL, "{" GOOD "}", &second));
    assert_string_not_equal(proof.key, second.key);
    assert_true(proof.id != second.id);
    buf_deinit(&jwk);
    jose_key_destroy(key);
    jose_key_destroy(other);
    dpop_destroy(d);
}

static void nonce_is_accepted_only_if_issued_here_and_young(void **state)
{
    struct dpop *d = open_dpop(DPOP_NONCE), *another = open_dpop(DPOP_NONCE);
    struct jose_key *key = jose_key_create("ES256");
    char nonce[DPOP_NONCE_TEXT], claims[512];
    static const struct {
        int64_t age_ms;
        bool is_good;
    } cases[] = {{0, true}, {150000, true}, {300000, false}, {-150000, false}};
    struct dpop_proof proof;
    (void)state;
    assert_null(check(d, key, "dpop+jwt", NULL, "{" GOOD "}", &proof));
    assert_true(proof.wants_nonce);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(dpop_put_nonce(d, NOW - cases[i].age_ms, nonce));
        snprintf(claims, sizeof(claims), "{" GOOD ",\"nonce\":\"%s\"}", nonce);
        assert_null(check(d, key, "dpop+jwt", NULL, claims, &proof));
        assert_int_equal(proof.wants_nonce, !cases[i].is_good);
        assert_null(check(another, key, "dpop+jwt", NULL, claims, &proof));
        assert_true(proof.wants_nonce);
    }
    struct dpop *none = open_dpop(DPOP_ACCEPT);
    assert_false(dpop_put_nonce(none, NOW, nonce));
    dpop_destroy(none);
    jose_key_destroy(key);
    dpop_destroy(d);
    dpop_destroy(another);
}

static void proof_is_rejected_if_reused_until_it_expires(void **state)
{
    struct dpop *d = open_dpop(DPOP_ACCEPT);
    struct dpop_proof proof = {.id = UINT64_C(0x123456789abcdef0), .until_ms = NOW + 60000};
    struct dpop_proof beside = {.id = UINT64_C(0x223456789abcdef0), .until_ms = NOW + 60000};
    (void)state;
    assert_int_equal(dpop_use(d, &proof, STR("ada"), NOW), DPOP_FRESH);
    assert_int_equal(dpop_use(d, &proof, STR("ada"), NOW), DPOP_USED);
    assert_int_equal(dpop_use(d, &beside, STR("ada"), NOW), DPOP_FRESH); /* in the next slot */
    assert_int_equal(dpop_use(d, &proof, STR("ada"), NOW + 60000), DPOP_USED);
    assert_int_equal(dpop_use(d, &beside, STR("ada"), NOW + 60000), DPOP_USED);
    assert_int_equal(dpop_use(d, &proof, STR("ada"), NOW + 200000), DPOP_FRESH); /* forgotten */
    dpop_destroy(d);
}

static void proofs_are_rejected_without_capacity(void **state)
{
    struct dpop *d = open_dpop(DPOP_ACCEPT);
    struct dpop_proof proof = {.until_ms = NOW + 60000};
    (void)state;
    for (uint64_t i = 1; i <= 32; i++) {
        proof.id = i << 32;
        assert_int_equal(dpop_use(d, &proof, STR("ada"), NOW), DPOP_FRESH);
    }
    proof.id = UINT64_C(33) << 32;
    assert_int_equal(dpop_use(d, &proof, STR("ada"), NOW), DPOP_FULL);
    proof.id = UINT64_C(5) << 32;
    assert_int_equal(dpop_use(d, &proof, STR("ada"), NOW), DPOP_USED);
    proof.id = UINT64_C(33) << 32;
    assert_int_equal(dpop_use(d, &proof, STR("ada"), NOW + 200000), DPOP_FRESH);
    dpop_destroy(d);
}

/* Entries hold 24 bits of the time: an old one must not become valid again when they wrap. */
static void expired_proofs_take_no_space(void **state)
{
    const int64_t later = NOW + INT64_C(120) * 86400 * 1000;
    struct dpop *d = open_dpop(DPOP_ACCEPT);
    struct dpop_proof proof = {.until_ms = NOW + 60000};
    (void)state;
    for (uint64_t i = 1; i <= 32; i++) {
        proof.id = i << 32;
        assert_int_equal(dpop_use(d, &proof, STR("ada"), NOW), DPOP_FRESH);
    }
    proof = (struct dpop_proof){.id = UINT64_C(33) << 32, .until_ms = later + 60000};
    assert_int_equal(dpop_use(d, &proof, STR("ada"), later), DPOP_FRESH);
    assert_int_equal(dpop_use(d, &proof, STR("ada"), later), DPOP_USED);
    dpop_destroy(d);
}

/* However many proofs one principal uses, others have space. */
static void principal_cannot_use_all_space(void **state)
{
    const int64_t begin = (NOW / 128000 + 1) * 128000; /* of a share */
    struct dpop *d = open_dpop(DPOP_ACCEPT);
    uint64_t next = 1;
    unsigned fresh_ones = 0, refused = 0;
    (void)state;
    for (unsigned i = 0; i < 2 * DPOP_SHARE; i++) {
        struct dpop_proof proof = {.id = next++ * UINT64_C(0x9e3779b97f4a7c15),
                                   .until_ms = begin + 120000};
        fresh_ones += dpop_use(d, &proof, STR("mallory"), begin) == DPOP_FRESH;
    }
    assert_int_equal(fresh_ones, DPOP_SHARE);
    for (unsigned i = 0; i < 1000; i++) {
        struct dpop_proof proof = {.id = next++ * UINT64_C(0x9e3779b97f4a7c15),
                                   .until_ms = begin + 120000};
        char name[16];
        snprintf(name, sizeof(name), "ada%u", i);
        refused += dpop_use(d, &proof, tidings_str(name), begin) != DPOP_FRESH;
    }
    assert_true(refused < 20); /* with the same share: 1 in 1024 */
    struct dpop_proof again = {.id = next++ * UINT64_C(0x9e3779b97f4a7c15),
                               .until_ms = begin + 248000};
    assert_int_equal(dpop_use(d, &again, STR("mallory"), begin + 128000), DPOP_FRESH);
    dpop_destroy(d);
}

#define THREADS 4
#define ROUNDS 20000

static atomic_int fresh[ROUNDS];

static void *use_all(void *arg)
{
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct dpop_proof proof = {.id = (i + 1) * UINT64_C(0x9e3779b97f4a7c15),
                                   .until_ms = NOW + 60000};
        fresh[i] += dpop_use(arg, &proof, STR("ada"), NOW) == DPOP_FRESH;
    }
    return NULL;
}

static void proof_is_used_by_only_one_of_several_threads(void **state)
{
    struct dpop *d = open_dpop(DPOP_ACCEPT);
    pthread_t threads[THREADS];
    (void)state;
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, use_all, d), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (size_t i = 0; i < ROUNDS; i++) {
        assert_int_equal(fresh[i], 1);
    }
    dpop_destroy(d);
}

static void token_is_bound_only_by_the_name_of_a_key(void **state)
{
    static const struct {
        const char *claims;
        bool is_good, is_bound;
    } cases[] = {
        {"{}", true, false},
        {"{\"cnf\":{\"jkt\":\"" ATH "\"}}", true, true},
        {"{\"cnf\":{\"jkt\":\"short\"}}", false, false},
        {"{\"cnf\":{\"x5t#S256\":\"" ATH "\"}}", false, false},
        {"{\"cnf\":{\"jkt\":\"" ATH "\",\"x5t#S256\":\"" ATH "\"}}", false, false},
        {"{\"cnf\":{}}", false, false},
        {"{\"cnf\":null}", false, false},
        {"{\"cnf\":\"" ATH "\"}", false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct json *claims = NULL;
        char key[DPOP_KEY_TEXT];
        assert_int_equal(jv_parse(tidings_str(cases[i].claims), 8, &claims, NULL), 0);
        assert_int_equal(dpop_read_binding(claims, key) == NULL, cases[i].is_good);
        assert_int_equal(key[0] != '\0', cases[i].is_bound);
        jv_unref(claims);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proof_is_valid_for_one_request),
        cmocka_unit_test(proof_names_the_public_address_behind_a_proxy),
        cmocka_unit_test(proof_is_signed_with_the_key_it_contains),
        cmocka_unit_test(nonce_is_accepted_only_if_issued_here_and_young),
        cmocka_unit_test(proof_is_rejected_if_reused_until_it_expires),
        cmocka_unit_test(proofs_are_rejected_without_capacity),
        cmocka_unit_test(expired_proofs_take_no_space),
        cmocka_unit_test(principal_cannot_use_all_space),
        cmocka_unit_test(proof_is_used_by_only_one_of_several_threads),
        cmocka_unit_test(token_is_bound_only_by_the_name_of_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
