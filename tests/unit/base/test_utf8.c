/* SPDX-License-Identifier: MIT
 *
 * UTF-8 in pieces: the verdict is the same for every split, and a text is rejected at the first
 * byte after which it can no longer be valid. */
#include "base/str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *text;
    size_t good; /* bytes before the first invalid one; all of them if none is invalid */
    bool is_complete;
} rows[] = {
    {"", 0, true},
    {"plain text that is longer than a word", 37, true},
    {"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5", 11, true},
    {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8, true},
    {"\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf", 9, true},
    {"\xf4", 1, false},
    {"abcdefgh\xe2\x82", 10, false},
    {"\xce\xba\xf4\x90\x80\x80", 3, false}, /* above U+10FFFF: detected at the second byte */
    {"\xed\xa0\x80", 1, false},             /* a surrogate */
    {"\xe0\x9f\xbf", 1, false},             /* overlong */
    {"\xf0\x8f\xbf\xbf", 1, false},
    {"\xc0\x80", 0, false},
    {"\xc1\xbf", 0, false},
    {"\x80", 0, false},
    {"\xfe", 0, false},
    {"\xf5\x80\x80\x80", 0, false},
    {"a\xce"
     "a",
     2, false},
    {"abcdefghijklmnop\xff", 16, false},
};

static void text_is_rejected_at_the_deciding_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tidings_str text = tidings_str(rows[i].text);
        struct utf8_pieces u = {0};
        size_t good = 0;
        while (good < text.len && utf8_pieces_add(&u, tidings_strn(text.ptr + good, 1))) {
            good++;
        }
        assert_int_equal(good, rows[i].good);
        if (good == text.len) {
            assert_int_equal(utf8_pieces_end(&u), rows[i].is_complete);
        }
    }
}

static void verdict_is_the_same_for_every_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "12345%s67890", rows[i].text);
        for (size_t a = 0; a <= strlen(text); a++) {
            for (size_t b = a; b <= strlen(text); b++) {
                struct utf8_pieces u = {0};
                bool ok = utf8_pieces_add(&u, tidings_strn(text, a)) &&
                          utf8_pieces_add(&u, tidings_strn(text + a, b - a)) &&
                          utf8_pieces_add(&u, tidings_str(text + b)) && utf8_pieces_end(&u);
                assert_int_equal(ok, str_is_utf8(tidings_str(text)));
            }
        }
    }
}

/* All first bytes with all second bytes. */
static void every_byte_pair_gets_same_verdict(void **state)
{
    (void)state;
    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            char text[4] = {(char)a, (char)b, (char)0x80, (char)0x80};
            for (size_t len = 1; len <= 4; len++) {
                struct utf8_pieces u = {0};
                bool ok = utf8_pieces_add(&u, tidings_strn(text, 1)) &&
                          utf8_pieces_add(&u, tidings_strn(text + 1, len - 1));
                assert_int_equal(ok && utf8_pieces_end(&u), str_is_utf8(tidings_strn(text, len)));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_rejected_at_the_deciding_byte),
        cmocka_unit_test(verdict_is_the_same_for_every_split),
        cmocka_unit_test(every_byte_pair_gets_same_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
