/* SPDX-License-Identifier: MIT
 *
 * Slices.
 */
#include "base/str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/fail_alloc.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
static const struct tidings_str null_slice = {NULL, 0};

static void assert_str(struct tidings_str got, const char *want)
{
    assert_int_equal(got.len, strlen(want));
    assert_true(got.len == 0 || memcmp(got.ptr, want, got.len) == 0);
}

static void slices_are_equal_by_bytes(void **state)
{
    (void)state;
    assert_true(str_eq(STR("abc"), STR("abc")));
    assert_false(str_eq(STR("abc"), STR("abC")));
    assert_false(str_eq(STR("abc"), STR("ab")));
    assert_true(str_eq(null_slice, STR("")));
    assert_true(str_eq(STR("a\0b"), STR("a\0b")));
    assert_false(str_eq(STR("a\0b"), STR("a\0c")));
    assert_true(str_eq_nocase(STR("Content-TYPE"), STR("content-type")));
    assert_false(str_eq_nocase(STR("@"), STR("`"))); /* differ by the same bit as the other pair */
    assert_false(str_eq_nocase(STR("[x"), STR("{x")));
    assert_false(str_eq_nocase(STR("a"), STR("ab")));
    assert_true(str_eq_nocase(null_slice, STR("")));
}

static void slices_are_ordered_by_bytes_and_shorter_first(void **state)
{
    (void)state;
    static const struct {
        struct tidings_str a, b;
        int order;
    } rows[] = {
        {{"a", 1}, {"b", 1}, -1}, {{"b", 1}, {"a", 1}, 1},        {{"a", 1}, {"ab", 2}, -1},
        {{"ab", 2}, {"a", 1}, 1}, {{"a", 1}, {"a", 1}, 0},        {{NULL, 0}, {"a", 1}, -1},
        {{"", 0}, {NULL, 0}, 0},  {{"\x7f", 1}, {"\x80", 1}, -1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        int order = str_cmp(rows[i].a, rows[i].b);
        assert_int_equal((order > 0) - (order < 0), rows[i].order);
    }
}

static void starts_and_ends_are_compared_by_bytes(void **state)
{
    (void)state;
    assert_true(str_starts(STR("file:///a"), STR("file:")));
    assert_true(str_starts(STR("a"), null_slice));
    assert_true(str_starts(null_slice, null_slice));
    assert_false(str_starts(STR("fil"), STR("file")));
    assert_true(str_ends(STR("a.md"), STR(".md")));
    assert_true(str_ends(null_slice, STR("")));
    assert_false(str_ends(STR("md"), STR(".md")));
    assert_false(str_ends(STR("a.mdx"), STR(".md")));
}

static void trim_removes_blanks_at_both_ends_and_no_nul(void **state)
{
    (void)state;
    assert_str(str_trim(STR(" \t a b\t "), " \t"), "a b");
    assert_str(str_trim(STR("   "), " "), "");
    assert_str(str_trim(null_slice, " "), "");
    assert_int_equal(str_trim(STR("\0a\0"), " ").len, 3);
}

static void skip_stops_at_the_end(void **state)
{
    (void)state;
    assert_str(str_skip(STR("abc"), 1), "bc");
    assert_str(str_skip(STR("abc"), 3), "");
    assert_str(str_skip(STR("abc"), 99), "");
    assert_str(str_skip(null_slice, 5), "");
}

static void cut_splits_at_the_first_separator(void **state)
{
    (void)state;
    static const struct {
        const char *s, *before, *rest;
        bool found;
    } rows[] = {
        {"k=v", "k", "v", true}, {"k=v=w", "k", "v=w", true}, {"=", "", "", true},
        {"k", "k", "", false},   {"", "", "", false},         {"k=", "k", "", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct tidings_str rest;
        bool found;
        assert_str(str_cut(tidings_str(rows[i].s), '=', &rest, &found), rows[i].before);
        assert_str(rest, rows[i].rest);
        assert_int_equal(found, rows[i].found);
        assert_str(str_cut(tidings_str(rows[i].s), '=', &rest, NULL), rows[i].before);
    }
    struct tidings_str both = STR("a,b");
    assert_str(str_cut(both, ',', &both, NULL), "a"); /* the rest may replace what is cut */
    assert_str(both, "b");
    assert_int_equal(str_find(STR("abcb"), 'b'), 1);
    assert_int_equal(str_find(STR("abc"), 'x'), -1);
    assert_int_equal(str_find(null_slice, 'x'), -1);
}

static void dup_copies_or_reports(void **state)
{
    (void)state;
    fail_alloc_start(2);
    char *copy = str_dup(STR("a\0b"));
    assert_non_null(copy);
    assert_memory_equal(copy, "a\0b", 4);
    mem_free(copy);
    assert_null(str_dup(STR("x")));
    assert_true(fail_alloc_stop());
    copy = str_dup(null_slice);
    assert_string_equal(copy, "");
    mem_free(copy);
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
}

static void number_parsing_is_strict(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_unsigned, is_signed;
        uint64_t u;
        int64_t i;
    } rows[] = {
        {"0", true, true, 0, 0},
        {"007", true, true, 7, 7},
        {"9223372036854775807", true, true, INT64_MAX, INT64_MAX},
        {"9223372036854775808", true, false, (uint64_t)INT64_MAX + 1, 0},
        {"18446744073709551615", true, false, UINT64_MAX, 0},
        {"18446744073709551616", false, false, 0, 0},
        {"99999999999999999999", false, false, 0, 0},
        {"-1", false, true, 0, -1},
        {"-0", false, true, 0, 0},
        {"-9223372036854775808", false, true, 0, INT64_MIN},
        {"-9223372036854775809", false, false, 0, 0},
        {"", false, false, 0, 0},
        {"-", false, false, 0, 0},
        {"--1", false, false, 0, 0},
        {"+1", false, false, 0, 0},
        {" 1", false, false, 0, 0},
        {"1 ", false, false, 0, 0},
        {"0x1", false, false, 0, 0},
        {"1.0", false, false, 0, 0},
        {"\xD9\xA1", false, false, 0, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t u = 77;
        int64_t s = 77;
        assert_int_equal(str_to_u64(tidings_str(rows[i].text), &u), rows[i].is_unsigned);
        assert_int_equal(str_to_i64(tidings_str(rows[i].text), &s), rows[i].is_signed);
        assert_true(u == (rows[i].is_unsigned ? rows[i].u : 77));
        assert_true(s == (rows[i].is_signed ? rows[i].i : 77));
    }
}

static void hash_depends_on_every_byte_the_length_and_the_seed(void **state)
{
    (void)state;
    char bytes[40] = {0};
    for (size_t len = 0; len <= sizeof bytes; len++) {
        uint64_t h = str_hash(tidings_strn(bytes, len), 1);
        assert_true(h == str_hash(tidings_strn(bytes, len), 1));
        assert_true(h != str_hash(tidings_strn(bytes, len), 2));
        if (len > 0) {
            assert_true(h != str_hash(tidings_strn(bytes, len - 1), 1));
        }
        for (size_t i = 0; i < len; i++) {
            bytes[i] ^= 1;
            assert_true(h != str_hash(tidings_strn(bytes, len), 1));
            bytes[i] ^= 1;
        }
    }
}

static void hash_spreads_similar_keys(void **state)
{
    (void)state;
    enum { BUCKETS = 1024, KEYS = 16 * BUCKETS };
    unsigned low[BUCKETS] = {0}, high[BUCKETS] = {0};
    for (unsigned i = 0; i < KEYS; i++) {
        char key[48];
        int n = snprintf(key, sizeof key, "file:///docs/%u/note.md", i);
        uint64_t h = str_hash(tidings_strn(key, (size_t)n), 42);
        low[h % BUCKETS]++;
        high[h >> 54]++;
    }
    for (unsigned i = 0; i < BUCKETS; i++) {
        assert_in_range(low[i], 1, 48); /* 16 expected, deviation 4 */
        assert_in_range(high[i], 1, 48);
    }
}

static void utf8_check_is_strict(void **state)
{
    (void)state;
    static const struct {
        struct tidings_str s;
        bool valid;
    } rows[] = {
        {{NULL, 0}, true},
        {{"plain ascii, longer than eight bytes", 36}, true},
        {{"\0", 1}, true},
        {{"\x7F", 1}, true},
        {{"\xC2\x80", 2}, true},
        {{"\xDF\xBF", 2}, true},
        {{"\xE0\xA0\x80", 3}, true},
        {{"\xED\x9F\xBF", 3}, true},
        {{"\xEE\x80\x80", 3}, true},
        {{"\xEF\xBF\xBF", 3}, true},
        {{"\xF0\x90\x80\x80", 4}, true},
        {{"\xF4\x8F\xBF\xBF", 4}, true},
        {{"\x80", 1}, false},
        {{"\xBF", 1}, false},
        {{"\xC0\x80", 2}, false},         /* overlong */
        {{"\xC1\xBF", 2}, false},         /* overlong */
        {{"\xE0\x9F\xBF", 3}, false},     /* overlong */
        {{"\xF0\x8F\xBF\xBF", 4}, false}, /* overlong */
        {{"\xED\xA0\x80", 3}, false},     /* surrogate */
        {{"\xED\xBF\xBF", 3}, false},     /* surrogate */
        {{"\xF4\x90\x80\x80", 4}, false}, /* above U+10FFFF */
        {{"\xF5\x80\x80\x80", 4}, false},
        {{"\xFF", 1}, false},
        {{"\xC2", 1}, false},
        {{"\xE2\x82", 2}, false},
        {{"\xF0\x9F\x98", 3}, false},
        {{"\xE2\x28\xA1", 3}, false},
        {{"\xE2\x82\x28", 3}, false},
        {{"\xF0\x9F\x28\x80", 4}, false},
        {{"\xC2\xC2", 2}, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        /* At every offset to the eight-byte steps, with ASCII on both sides. */
        for (size_t pad = 0; pad < 17; pad++) {
            char text[64];
            memset(text, 'x', sizeof text);
            if (rows[i].s.len) {
                memcpy(text + pad, rows[i].s.ptr, rows[i].s.len);
            }
            size_t end = pad + rows[i].s.len;
            assert_int_equal(str_is_utf8(tidings_strn(text, end)), rows[i].valid);
            assert_int_equal(str_is_utf8(tidings_strn(text, end + 9)), rows[i].valid);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_are_equal_by_bytes),
        cmocka_unit_test(slices_are_ordered_by_bytes_and_shorter_first),
        cmocka_unit_test(starts_and_ends_are_compared_by_bytes),
        cmocka_unit_test(trim_removes_blanks_at_both_ends_and_no_nul),
        cmocka_unit_test(skip_stops_at_the_end),
        cmocka_unit_test(cut_splits_at_the_first_separator),
        cmocka_unit_test(dup_copies_or_reports),
        cmocka_unit_test(number_parsing_is_strict),
        cmocka_unit_test(hash_depends_on_every_byte_the_length_and_the_seed),
        cmocka_unit_test(hash_spreads_similar_keys),
        cmocka_unit_test(utf8_check_is_strict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
