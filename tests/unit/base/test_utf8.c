/* SPDX-License-Identifier: MIT
 *
 * UTF-8 in pieces: wherever they are cut the verdict is that of the whole, and a text is given up
 * at the first byte after which nothing could make it right.
 */
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
    size_t good; /* bytes before the one that no UTF-8 has there; all of them: none is */
    bool is_complete;
} rows[] = {
    {"", 0, true},
    {"plain text that is longer than a word", 37, true},
    {"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5", 11, true},
    {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8, true},
    {"\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf", 9, true},
    {"\xf4", 1, false},
    {"abcdefgh\xe2\x82", 10, false},
    {"\xce\xba\xf4\x90\x80\x80", 3, false}, /* above U+10FFFF: known at the second byte */
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

static void it_is_given_up_at_the_byte_that_decides_it(void **state)
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

static void wherever_it_is_cut_the_verdict_is_that_of_the_whole(void **state)
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

/* All first bytes with all second ones. */
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
        cmocka_unit_test(it_is_given_up_at_the_byte_that_decides_it),
        cmocka_unit_test(wherever_it_is_cut_the_verdict_is_that_of_the_whole),
        cmocka_unit_test(every_byte_pair_gets_same_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
