/* SPDX-License-Identifier: MIT
 *
 * SHA-256 and HMAC against the published vectors (FIPS 180-4 examples, RFC 4231).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <tidings/file.h>

#include "base/hash.h"

static const char *hex(const unsigned char *bytes)
{
    static char text[2 * SHA256_BYTES + 1];
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
    return text;
}

static void published_digests_are_computed(void **state)
{
    (void)state;
    static const struct {
        const char *text, *digest;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sha256 s;
        unsigned char out[SHA256_BYTES];
        sha256_init(&s);
        sha256_put(&s, rows[i].text, strlen(rows[i].text));
        sha256_end(&s, out);
        assert_string_equal(hex(out), rows[i].digest);
        char text[TIDINGS_DIGEST_MAX];
        tidings_digest(tidings_str(rows[i].text), text);
        assert_string_equal(text, rows[i].digest);
    }
}

static void sha256_of_a_million_bytes_ignores_pieces(void **state)
{
    (void)state;
    char piece[997];
    memset(piece, 'a', sizeof(piece));
    struct sha256 s;
    unsigned char out[SHA256_BYTES];
    sha256_init(&s);
    for (size_t left = 1000000, n = 1; left > 0; n = n % sizeof(piece) + 1) {
        size_t take = n < left ? n : left;
        sha256_put(&s, piece, take);
        left -= take;
    }
    sha256_end(&s, out);
    assert_string_equal(hex(out),
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void published_macs_are_computed(void **state)
{
    (void)state;
    struct hmac256 h;
    unsigned char out[SHA256_BYTES], key[20];
    memset(key, 0x0b, sizeof(key));
    hmac256_init(&h, key, sizeof(key));
    hmac256_put(&h, "Hi There", 8);
    hmac256_end(&h, out);
    assert_string_equal(hex(out),
                        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    hmac256_init(&h, (const unsigned char *)"Jefe", 4);
    hmac256_put(&h, "what do ya want for nothing?", 28);
    hmac256_end(&h, out);
    assert_string_equal(hex(out),
                        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_digests_are_computed),
        cmocka_unit_test(sha256_of_a_million_bytes_ignores_pieces),
        cmocka_unit_test(published_macs_are_computed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
