/* SPDX-License-Identifier: MIT
 *
 * Ranges, compared with a model that reads one byte at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "formats/http_fields.h"

#define BYTES TIDINGS_UNIT_BYTES
#define LINES TIDINGS_UNIT_LINES

/* ---- the model ------------------------------------------------------------------------------- */

/* The number of units in `whole`, and the start of the n-th (n = count: the end). */
static int64_t unit_begin(struct tidings_str whole, enum tidings_unit unit, int64_t n,
                          int64_t *ret_count)
{
    int64_t count = 0, begin = -1;
    bool fresh = true;
    for (size_t i = 0; i < whole.len; i++) {
        if (fresh) {
            begin = count == n ? (int64_t)i : begin;
            count++;
        }
        fresh = unit == BYTES || whole.ptr[i] == '\n';
    }
    *ret_count = count;
    return n == count ? (int64_t)whole.len : begin;
}

static bool model(const struct tidings_range *r, struct tidings_str whole, size_t *from, size_t *to)
{
    int64_t count, unused;
    (void)unit_begin(whole, r->unit, 0, &count);
    int64_t first = r->last > 0 ? (r->last < count ? count - r->last : 0) : r->from;
    int64_t end = r->last > 0 || r->to < 0 || r->to > count ? count : r->to;
    if (first > count) {
        return false;
    }
    *from = (size_t)unit_begin(whole, r->unit, first, &unused);
    *to = (size_t)unit_begin(whole, r->unit, end, &unused);
    return true;
}

static uint64_t state_of_chance = 88172645463325252u;

static size_t chance(size_t n)
{
    state_of_chance ^= state_of_chance << 13;
    state_of_chance ^= state_of_chance >> 7;
    state_of_chance ^= state_of_chance << 17;
    return (size_t)(state_of_chance >> 24) % n;
}

static size_t random_text(char *text)
{
    static const char *const pieces[] = {"a", "\n", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    size_t len = 0;
    for (size_t i = chance(24); i > 0; i--) {
        const char *piece = pieces[chance(5)];
        memcpy(text + len, piece, strlen(piece));
        len += strlen(piece);
    }
    return len;
}

static struct tidings_range random_range(void)
{
    struct tidings_range r = {chance(2) ? BYTES : LINES, 0, -1, 0};
    if (chance(3) == 0) {
        r.last = 1 + (int64_t)chance(40);
        return r;
    }
    r.from = (int64_t)chance(40);
    r.to = chance(3) == 0 ? -1 : r.from + (int64_t)chance(30);
    return r;
}

static void ranges_match_the_model(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100000; i++) {
        char text[128];
        struct tidings_str whole = {text, random_text(text)};
        struct tidings_range r = random_range();
        struct tidings_error err;
        size_t from = 0, to = 0, model_from = 0, model_to = 0;
        bool good = byte_range_find(&r, whole, &from, &to, &err) == 0;
        assert_int_equal(good, model(&r, whole, &model_from, &model_to));
        if (good) {
            assert_int_equal(from, model_from);
            assert_int_equal(to, model_to);
        } else {
            assert_int_equal(err.code, TIDINGS_E_INVALID);
        }
    }
}

static void text_is_cut_at_characters_so_that_neighbours_meet(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        char text[128];
        struct tidings_str whole = {text, random_text(text)};
        char joined[128];
        size_t len = 0;
        for (size_t at = 0; at < whole.len;) {
            size_t next = at + 1 + chance(9);
            size_t from = at, to = next < whole.len ? next : whole.len;
            assert_true(byte_range_fit_text(whole, &from, &to));
            assert_true(str_is_utf8(tidings_strn(text + from, to - from)));
            memcpy(joined + len, text + from, to - from);
            len += to - from;
            at = next;
        }
        assert_int_equal(len, whole.len);
        assert_memory_equal(joined, text, len);
    }
}

/* A reader with only a window of the content gets the same result. */
static void window_with_margins_is_enough_to_find_the_boundaries(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 50000; i++) {
        char text[128];
        struct tidings_str whole = {text, random_text(text)};
        size_t from = chance(whole.len + 1), to = from + chance(whole.len - from + 1);
        size_t begin = from > BYTE_RANGE_MARGIN ? from - BYTE_RANGE_MARGIN : 0;
        size_t end = to + BYTE_RANGE_MARGIN < whole.len ? to + BYTE_RANGE_MARGIN : whole.len;
        size_t window_from = from - begin, window_to = to - begin;
        assert_true(
            byte_range_fit_text(tidings_strn(text + begin, end - begin), &window_from, &window_to));
        assert_true(byte_range_fit_text(whole, &from, &to));
        assert_int_equal(begin + window_from, from);
        assert_int_equal(begin + window_to, to);
    }
}

static void binary_data_is_not_adjusted(void **state)
{
    (void)state;
    static const char bytes[] = "\x80\x80\x80\x80\x80\xff\x00\x01";
    for (size_t from = 0; from < sizeof(bytes); from++) {
        for (size_t to = from + 1; to < sizeof(bytes); to++) {
            size_t a = from, b = to;
            if (!byte_range_fit_text(tidings_strn(bytes, sizeof(bytes)), &a, &b)) {
                assert_int_equal(a, from);
                assert_int_equal(b, to);
            }
            assert_true(a <= b);
        }
    }
}

static void line_search_in_pieces_matches_the_whole(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        char text[128];
        struct tidings_str whole = {text, random_text(text)};
        int64_t wanted = (int64_t)chance(12), left = wanted, in_pieces = wanted;
        size_t expected = byte_range_skip_lines(whole, &left);
        size_t at = 0;
        while (at < whole.len && in_pieces > 0) {
            size_t n = 1 + chance(7);
            n = n < whole.len - at ? n : whole.len - at;
            at += byte_range_skip_lines(tidings_strn(text + at, n), &in_pieces);
        }
        assert_int_equal(at, expected);
        assert_int_equal(in_pieces, left);
    }
}

static void invalid_ranges_are_rejected_with_a_reason(void **state)
{
    (void)state;
    static const struct tidings_range rows[] = {
        {BYTES, -1, -1, 0}, {BYTES, 0, -2, 0}, {BYTES, 5, 4, 0},
        {LINES, 0, -1, -1}, {LINES, 1, -1, 1}, {LINES, 0, 3, 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tidings_error err = {0};
        size_t from, to;
        int64_t a, b;
        assert_int_equal(byte_range_check(&rows[i], &err), TIDINGS_E_INVALID);
        assert_true(err.text[0]);
        assert_int_equal(byte_range_find(&rows[i], STR("abc"), &from, &to, NULL),
                         TIDINGS_E_INVALID);
        assert_int_equal(byte_range_clip(&rows[i], 3, &a, &b, NULL), TIDINGS_E_INVALID);
    }
    struct tidings_range far = {BYTES, INT64_MAX, -1, 0};
    struct tidings_error err;
    size_t from, to;
    assert_int_equal(byte_range_find(&far, STR("abc"), &from, &to, &err), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "there are 3"));
    far = (struct tidings_range){LINES, 0, INT64_MAX, 0};
    assert_int_equal(byte_range_find(&far, STR("a\nb"), &from, &to, &err), 0);
    assert_int_equal(to, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_match_the_model),
        cmocka_unit_test(text_is_cut_at_characters_so_that_neighbours_meet),
        cmocka_unit_test(window_with_margins_is_enough_to_find_the_boundaries),
        cmocka_unit_test(binary_data_is_not_adjusted),
        cmocka_unit_test(line_search_in_pieces_matches_the_whole),
        cmocka_unit_test(invalid_ranges_are_rejected_with_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
