/* SPDX-License-Identifier: MIT
 *
 * Wycheproof's vectors of signed tokens and key sets (tests/data/wycheproof_jws.tsv), judged like a
 * token that a server receives. Their payloads are not claims, so the test replaces the claims when
 * it reads the token, and checks the signature over the original payload. Every token that
 * Wycheproof calls invalid must be rejected. Among the
 * valid tokens, the server rejects shared secrets and keys that declare another algorithm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/encode.h"
#include "base/mem.h"
#include "security/jwt.h"

#define KEYS_MAX 64u
#define TESTS_MAX 402u /* in a file */
#define LINE_BYTES 1024
#define SIGNATURES 401u
#define KEY_SETS 26u
#define CLAIMS ".eyJzdWIiOiJhIn0." /* {"sub":"a"} */

struct vectors {
    char *names[KEYS_MAX], *sets[KEYS_MAX];
    size_t key_count;
    char *begins[2][TESTS_MAX]; /* of the tokens, up to their last dot */
    unsigned counts[2], taken, secret, purpose;
};

static bool is_verified(struct tidings_str set_text, const struct jwt *t, struct tidings_str bytes)
{
    struct jwks *set = NULL;
    uint64_t proof = 0;
    if (jwks_parse(&set, STR("x"), set_text, NULL) < 0) {
        return false;
    }
    enum jwks_result result =
        jwks_verify(set, t->kid, t->algorithm, bytes, buf_str(&t->signature), &proof);
    shared_value_unref(jwks_value(set));
    return result == JWKS_GOOD;
}

static bool is_taken(struct tidings_str set_text, struct tidings_str token)
{
    struct tidings_str rest, signature;
    struct buf bytes, readable;
    struct jwt t;
    bool has_payload = false, has_signature = false, has_more = false, is_good = false;
    struct tidings_str head = str_cut(token, '.', &rest, &has_payload);
    struct tidings_str payload = str_cut(rest, '.', &signature, &has_signature);
    (void)str_cut(signature, '.', &rest, &has_more);
    if (!has_payload || !has_signature || has_more) {
        assert_non_null(jwt_parse(&t, token));
        return false;
    }
    buf_init(&bytes, LINE_BYTES);
    buf_init(&readable, 2 * LINE_BYTES);
    buf_puts(&readable, head);
    buf_puts(&readable, STR(CLAIMS));
    buf_puts(&readable, signature);
    if (base64url_decode(&bytes, payload) == 0 && jwt_parse(&t, buf_str(&readable)) == NULL) {
        is_good = is_verified(set_text, &t, tidings_strn(token.ptr, head.len + 1 + payload.len));
        jwt_deinit(&t);
    }
    buf_deinit(&bytes);
    buf_deinit(&readable);
    return is_good;
}

/* The key set without its algorithm attributes. */
static void put_without_alg(struct buf *out, struct tidings_str set)
{
    const char *at = strstr(set.ptr, "\"alg\":\"");
    assert_non_null(at);
    const char *end = strchr(at, ',');
    assert_non_null(end);
    buf_put(out, set.ptr, (size_t)(at - set.ptr));
    buf_puts(out, tidings_str(end + 1));
    buf_putc(out, '\0');
    out->len--;
}

static void check_verdict(struct vectors *v, struct tidings_str about, struct tidings_str says,
                          struct tidings_str ours, struct tidings_str set, struct tidings_str token)
{
    bool is_good = is_taken(set, token);
    assert_true(str_eq(says, STR("valid")) || str_eq(ours, STR("refused")));
    assert_true(str_eq(says, STR("invalid")) || !str_eq(ours, STR("refused")));
    if (is_good != str_eq(ours, STR("taken"))) {
        fail_msg("%.*s is %s", STR_ARG(about), is_good ? "taken" : "refused");
    }
    if (str_eq(ours, STR("secret"))) {
        assert_non_null(strstr(set.ptr, "\"kty\":\"oct\""));
        v->secret++;
    } else if (str_eq(ours, STR("purpose"))) {
        struct buf other;
        buf_init(&other, LINE_BYTES);
        put_without_alg(&other, set);
        assert_true(is_taken(buf_str(&other), token)); /* it has no other defect */
        buf_deinit(&other);
        v->purpose++;
    }
    v->taken += is_good;
}

static struct tidings_str set_of(const struct vectors *v, struct tidings_str name)
{
    for (size_t i = 0; i < v->key_count; i++) {
        if (str_eq(tidings_str(v->names[i]), name)) {
            return tidings_str(v->sets[i]);
        }
    }
    fail_msg("no key set is named %.*s", STR_ARG(name));
    return STR_EMPTY;
}

/* The complete token. */
static void put_token(struct vectors *v, unsigned file, uint64_t number, struct tidings_str text,
                      struct buf *out)
{
    struct tidings_str rest;
    uint64_t other = 0;
    if (text.len > 0 && text.ptr[0] == '@') {
        assert_true(str_to_u64(str_cut(str_skip(text, 1), '.', &rest, NULL), &other));
        assert_true(other < number && v->begins[file][other]);
        buf_puts(out, tidings_str(v->begins[file][other]));
        buf_putc(out, '.');
        buf_puts(out, rest);
        return;
    }
    size_t len = text.len;
    while (len > 0 && text.ptr[len - 1] != '.') {
        len--;
    }
    buf_puts(out, text);
    v->begins[file][number] = len > 0 ? str_dup(tidings_strn(text.ptr, len - 1)) : NULL;
}

static void check_line(struct vectors *v, struct tidings_str line)
{
    struct tidings_str rest, columns[5];
    struct tidings_str kind = str_cut(line, '\t', &rest, NULL);
    if (str_eq(kind, STR("key"))) {
        assert_true(v->key_count < KEYS_MAX);
        v->names[v->key_count] = str_dup(str_cut(rest, '\t', &rest, NULL));
        v->sets[v->key_count++] = str_dup(rest);
        return;
    }
    for (size_t i = 0; i < 5; i++) { /* number, name, Wycheproof's verdict, our verdict, key set */
        columns[i] = str_cut(rest, '\t', &rest, NULL);
    }
    unsigned file = str_eq(kind, STR("jwk"));
    uint64_t number = 0;
    struct buf token;
    assert_true(str_to_u64(columns[0], &number) && number < TESTS_MAX);
    assert_int_equal(number, ++v->counts[file]);
    buf_init(&token, 2 * LINE_BYTES);
    put_token(v, file, number, rest, &token);
    check_verdict(v, tidings_strn(line.ptr, (size_t)(columns[2].ptr - line.ptr)), columns[2],
                  columns[3], set_of(v, columns[4]), buf_str(&token));
    buf_deinit(&token);
}

static void every_vector_matches_table(void **state)
{
    (void)state;
    static struct vectors v;
    char line[LINE_BYTES];
    FILE *file = fopen(TEST_DATA "wycheproof_jws.tsv", "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        struct tidings_str text = tidings_strn(line, strcspn(line, "\n"));
        assert_true(line[text.len] == '\n');
        if (text.len > 0 && line[0] != '#') {
            check_line(&v, text);
        }
    }
    fclose(file);
    for (size_t i = 0; i < KEYS_MAX; i++) {
        mem_free(v.names[i]);
        mem_free(v.sets[i]);
    }
    for (size_t i = 0; i < TESTS_MAX; i++) {
        mem_free(v.begins[0][i]);
        mem_free(v.begins[1][i]);
    }
    assert_int_equal(v.counts[0], SIGNATURES);
    assert_int_equal(v.counts[1], KEY_SETS);
    assert_int_equal(v.taken, 33);
    assert_int_equal(v.secret, 14);
    assert_int_equal(v.purpose, 4);
    print_message("Wycheproof: %u signatures, %u key sets; %u are taken\n", v.counts[0],
                  v.counts[1], v.taken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_matches_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
