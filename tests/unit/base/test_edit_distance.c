/* SPDX-License-Identifier: MIT
 *
 * The distance of words, against the plain definition of it.
 */
#include "base/edit_distance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static unsigned plain(const char *a, const char *b)
{
    unsigned table[16][16];
    size_t n = strlen(a), m = strlen(b);
    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            unsigned d = (unsigned)(i + j);
            if (i > 0 && j > 0) {
                d = table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
                d = table[i - 1][j] + 1 < d ? table[i - 1][j] + 1 : d;
                d = table[i][j - 1] + 1 < d ? table[i][j - 1] + 1 : d;
            }
            table[i][j] = d;
        }
    }
    return table[n][m];
}

static void known_words_are_so_far_apart(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        unsigned distance;
    } rows[] = {
        {"", "", 0},
        {"", "abc", 3},
        {"", "abcd", 4},
        {"same", "same", 0},
        {"kitten", "sitting", 3},
        {"sunday", "saturday", 3},
        {"ad", "add", 1},
        {"abcd", "wxyz", 4},
        {"publish", "unpublish", 2},
        {"changes", "changes_since", 4},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(edit_distance(tidings_str(rows[i].a), tidings_str(rows[i].b), 3),
                         rows[i].distance);
    }
}

/* All words of up to five letters of two, with each limit. */
static void it_is_the_plain_definition_up_to_the_limit(void **state)
{
    (void)state;
    char a[8], b[8];
    for (unsigned x = 1; x < 64; x++) {
        for (unsigned y = 1; y < 64; y++) {
            size_t n = 0, m = 0;
            for (unsigned k = x; k > 1; k >>= 1) {
                a[n++] = (char)('a' + (k & 1));
            }
            for (unsigned k = y; k > 1; k >>= 1) {
                b[m++] = (char)('a' + (k & 1));
            }
            a[n] = b[m] = '\0';
            for (unsigned most = 0; most <= EDIT_DISTANCE_MAX; most++) {
                unsigned d = plain(a, b);
                unsigned got = edit_distance(tidings_str(a), tidings_str(b), most);
                if (got != (d <= most ? d : most + 1)) {
                    fail_msg("'%s' and '%s' at most %u: %u instead of %u", a, b, most, got, d);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_words_are_so_far_apart),
        cmocka_unit_test(it_is_the_plain_definition_up_to_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
