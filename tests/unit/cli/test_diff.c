/* SPDX-License-Identifier: MIT
 *
 * Text differences: in the format of diff -u, minimal, and correct when applied to the old text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
/* cmocka replaces these if UNIT_TESTING is set; stream buffers belong to libc. */
#undef malloc
#undef free

#include "cli/watch_output.h"
#include "support/patching.h"

static char *diff(const char *before, const char *after, int *ret)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    *ret = diff_write(out, tidings_str(before), tidings_str(after));
    fclose(out);
    return text;
}

static void expect(const char *before, const char *after, const char *wanted)
{
    int rc = 0;
    char *text = diff(before, after, &rc);
    assert_string_equal(text, wanted);
    assert_int_equal(rc, wanted[0] ? 1 : 0);
    free(text);
}

static void diff_is_empty_if_inputs_are_equal(void **state)
{
    (void)state;
    expect("", "", "");
    expect("a\nb\n", "a\nb\n", "");
    expect("a", "a", "");
}

static void hunks_contain_added_and_removed_lines(void **state)
{
    (void)state;
    expect("", "a\n", "@@ -0,0 +1 @@\n+a\n");
    expect("a\n", "", "@@ -1 +0,0 @@\n-a\n");
    expect("1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\nx\n6\n", "@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+x\n 6\n");
    expect("a\nb\nc\n", "b\nc\nd\n", "@@ -1,3 +1,3 @@\n-a\n b\n c\n+d\n");
}

static void missing_final_newline_is_reported(void **state)
{
    (void)state;
    expect("a\n", "a", "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n");
    expect("a", "a\nb",
           "@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n\\ No newline at end "
           "of file\n");
}

static void distant_edits_form_separate_hunks(void **state)
{
    (void)state;
    expect("a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n",
           "@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n");
    expect("a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n",
           "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n");
}

static void excessive_difference_is_rejected(void **state)
{
    (void)state;
    char before[8 * DIFF_EDITS_MAX] = "", after[8 * DIFF_EDITS_MAX] = "";
    size_t a = 0, b = 0;
    int rc = 0;
    for (int i = 0; i < DIFF_EDITS_MAX / 2; i++) {
        a += (size_t)snprintf(before + a, sizeof(before) - a, "a%d\n", i);
        b += (size_t)snprintf(after + b, sizeof(after) - b, "b%d\n", i);
    }
    free(diff(before, after, &rc));
    assert_int_equal(rc, 1);
    snprintf(after + b, sizeof(after) - b, "one more\n");
    free(diff(before, after, &rc));
    assert_int_equal(rc, TIDINGS_E_LIMIT);

    char *many = malloc(DIFF_LINES_MAX + 2);
    memset(many, '\n', DIFF_LINES_MAX + 1);
    many[DIFF_LINES_MAX + 1] = '\0';
    free(diff(many, "a", &rc));
    assert_int_equal(rc, TIDINGS_E_LIMIT);
    free(many);
}

static void random_diffs_reproduce_the_new_text(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (int round = 0; round < 3000; round++) {
        char texts[2][64];
        for (int t = 0; t < 2; t++) {
            size_t len = 0;
            for (seed = seed * 1664525u + 1013904223u; len < (seed >> 8) % 60; len++) {
                uint32_t r = (seed ^ (uint32_t)len * 2654435761u) * 2246822519u;
                texts[t][len] = "ab\n\n"[(r >> 16) % 4];
            }
            texts[t][len] = '\0';
        }
        int rc = 0;
        char *text = diff(texts[0], texts[1], &rc);
        char *made = patching_apply(tidings_str(texts[0]), tidings_str(text));
        assert_non_null(made);
        assert_string_equal(made, texts[1]);
        free(made);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(diff_is_empty_if_inputs_are_equal),
        cmocka_unit_test(hunks_contain_added_and_removed_lines),
        cmocka_unit_test(missing_final_newline_is_reported),
        cmocka_unit_test(distant_edits_form_separate_hunks),
        cmocka_unit_test(excessive_difference_is_rejected),
        cmocka_unit_test(random_diffs_reproduce_the_new_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
