/* SPDX-License-Identifier: MIT
 *
 * The edit distance of words, compared with its plain definition. */
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

static void known_words_have_their_distances(void **state)
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

/* All words of up to five letters from an alphabet of two, with each limit. */
static void distance_matches_the_definition_up_to_the_limit(void **state)
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

/* Two strings, each at the end of readable memory. */
static void distance_reads_nothing_after_the_strings(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *ends[2];
    for (size_t i = 0; i < 2; i++) {
        char *at = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(at != MAP_FAILED);
        assert_int_equal(mprotect(at + page, page, PROT_NONE), 0);
        ends[i] = at + page;
    }
    for (size_t n = 0; n < 6; n++) {
        for (size_t m = 0; m < 6; m++) {
            struct tidings_str a = tidings_strn(memset(ends[0] - n, 'a', n), n);
            struct tidings_str b = tidings_strn(memset(ends[1] - m, 'a', m), m);
            unsigned d = (unsigned)(n > m ? n - m : m - n);
            assert_int_equal(edit_distance(a, b, 3), d < 4 ? d : 4);
        }
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(munmap(ends[i] - page, 2 * page), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_words_have_their_distances),
        cmocka_unit_test(distance_matches_the_definition_up_to_the_limit),
        cmocka_unit_test(distance_reads_nothing_after_the_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
