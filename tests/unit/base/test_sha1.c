/* SPDX-License-Identifier: MIT
 *
 * SHA-1 against the examples of FIPS 180 and every length around a block.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/hash.h"

static const char *hex(struct tidings_str bytes)
{
    static char out[2 * SHA1_BYTES + 1];
    unsigned char digest[SHA1_BYTES];
    sha1(bytes, digest);
    for (size_t i = 0; i < SHA1_BYTES; i++) {
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
    }
    return out;
}

static void known_messages_have_their_digests(void **state)
{
    (void)state;
    static char million[1000000];
    memset(million, 'a', sizeof(million));
    assert_string_equal(hex(tidings_str("")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    assert_string_equal(hex(tidings_str("abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_string_equal(
        hex(tidings_str("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
        "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    assert_string_equal(hex(tidings_strn(million, sizeof(million))),
                        "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

/* Padding errors occur at the end of a block. Digests made with sha1sum of n times 'x'. */
static void messages_around_a_block_are_padded_correctly(void **state)
{
    (void)state;
    static const struct {
        size_t len;
        const char *digest;
    } cases[] = {
        {1, "11f6ad8ec52a2984abaafd7c3b516503785c2072"},
        {55, "cef734ba81a024479e09eb5a75b6ddae62e6abf1"},
        {56, "901305367c259952f4e7af8323f480d59f81335b"},
        {57, "025ecbd5d70f8fb3c5457cd96bab13fda305dc59"},
        {63, "0ddc4e0cccd9a12850deb5abb0853a4425559fec"},
        {64, "bb2fa3ee7afb9f54c6dfb5d021f14b1ffe40c163"},
        {65, "78c741ddc482e4cdf8c474a0876347a0905b6233"},
        {119, "4300320394f7ee239bcdce7d3b8bcee173a0cd5c"},
        {120, "ceb2821639c4b6dcb10bce0e522ca2e608ce056d"},
        {127, "e463484d274607e1897d4099497cbf2aedcf8206"},
        {128, "150fa3fbdc899bd0b8f95a9fb6027f564d953762"},
    };
    char text[128];
    memset(text, 'x', sizeof(text));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_string_equal(hex(tidings_strn(text, cases[i].len)), cases[i].digest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_messages_have_their_digests),
        cmocka_unit_test(messages_around_a_block_are_padded_correctly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
