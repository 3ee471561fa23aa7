/* SPDX-License-Identifier: MIT
 *
 * Wycheproof's vectors of ECDSA signatures in the JWS form, r followed by s
 * (tests/data/wycheproof_ecdsa.tsv): numbers that are out of range or too long. */
#include "security/signature.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"

#define CASES 184u
#define LINE_BYTES 1024

static const struct {
    const char *name;
    enum signature_algorithm algorithm;
} curves[] = {{"P-256", SIGNATURE_ES256}, {"P-384", SIGNATURE_ES384}, {"P-521", SIGNATURE_ES512}};
static struct public_key *keys[3];

static size_t curve_of(struct tidings_str name)
{
    for (size_t i = 0; i < 3; i++) {
        if (str_eq(tidings_str(curves[i].name), name)) {
            return i;
        }
    }
    fail_msg("no curve is named %.*s", STR_ARG(name));
    return 0;
}

/* Decode hexadecimal bytes. */
static struct tidings_str unhex(struct tidings_str text, char *out)
{
    assert_true(text.len % 2 == 0 && text.len / 2 <= LINE_BYTES);
    for (size_t i = 0; i < text.len / 2; i++) {
        char digits[3] = {text.ptr[2 * i], text.ptr[2 * i + 1], '\0'};
        out[i] = (char)strtoul(digits, NULL, 16);
    }
    return tidings_strn(out, text.len / 2);
}

static void make_key(struct tidings_str rest)
{
    char x[LINE_BYTES], y[LINE_BYTES];
    struct tidings_str name = str_cut(rest, '\t', &rest, NULL);
    struct tidings_str first = unhex(str_cut(rest, '\t', &rest, NULL), x);
    assert_int_equal(public_key_ec(&keys[curve_of(name)], name, first, unhex(rest, y), NULL), 0);
}

/* Returns true if the line is a case. */
static bool check_line(struct tidings_str line)
{
    char message[LINE_BYTES], signature[LINE_BYTES];
    struct tidings_str rest, about;
    struct tidings_str kind = str_cut(line, '\t', &rest, NULL);
    if (str_eq(kind, STR("key"))) {
        make_key(rest);
        return false;
    }
    size_t curve = curve_of(kind);
    (void)str_cut(rest, '\t', &rest, NULL);
    about = str_cut(rest, '\t', &rest, NULL);
    bool is_valid = str_eq(str_cut(rest, '\t', &rest, NULL), STR("valid"));
    struct tidings_str bytes = unhex(str_cut(rest, '\t', &rest, NULL), message);
    bool is_good =
        signature_is_good(keys[curve], curves[curve].algorithm, bytes, unhex(rest, signature));
    if (is_good != is_valid) {
        fail_msg("%s: %.*s is %s", curves[curve].name, STR_ARG(about),
                 is_good ? "taken" : "refused");
    }
    return true;
}

static void every_vector_gets_expected_verdict(void **state)
{
    (void)state;
    char line[LINE_BYTES];
    unsigned cases = 0;
    FILE *file = fopen(TEST_DATA "wycheproof_ecdsa.tsv", "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        struct tidings_str text = tidings_strn(line, strcspn(line, "\n"));
        assert_true(line[text.len] == '\n');
        cases += text.len > 0 && line[0] != '#' && check_line(text);
    }
    fclose(file);
    for (size_t i = 0; i < 3; i++) {
        public_key_destroy(keys[i]);
    }
    assert_int_equal(cases, CASES);
    print_message("Wycheproof: %u ECDSA signatures\n", cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_gets_expected_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
