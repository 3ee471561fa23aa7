/* SPDX-License-Identifier: MIT
 *
 * The bump allocator: alignment, zeroing, its maximum, reset.
 */
#include "base/mem.h"

#include <setjmp.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/fail_alloc.h"

static void pieces_are_aligned_zeroed_and_distinct(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 3, 16, 17, 0, 100, 3000, 2500, 1, 70000, 8, 5000};
    static const char zeros[70000];
    struct arena a;
    arena_init(&a, 1 << 20);
    for (int round = 0; round < 3; round++) {
        unsigned char *pieces[sizeof sizes / sizeof sizes[0]];
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            pieces[i] = arena_alloc(&a, sizes[i]);
            assert_non_null(pieces[i]);
            assert_int_equal((uintptr_t)pieces[i] % alignof(max_align_t), 0);
            assert_memory_equal(pieces[i], zeros, sizes[i]);
            memset(pieces[i], (int)i + 1, sizes[i]);
        }
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            for (size_t k = 0; k < sizes[i]; k++) {
                assert_int_equal(pieces[i][k], i + 1);
            }
        }
        arena_reset(&a); /* used memory must be zeroed again */
    }
    arena_deinit(&a);
}

static void arena_keeps_its_limit_and_reset_restores_it(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 10000);
    assert_null(arena_alloc(&a, 10001));
    assert_null(arena_alloc(&a, SIZE_MAX));
    for (int round = 0; round < 2; round++) {
        size_t count = 0;
        while (arena_alloc(&a, 100)) {
            count++;
            assert_true(count <= 100);
        }
        assert_in_range(count, 80, 100);
        assert_null(arena_alloc(&a, 2000));
        arena_reset(&a);
    }
    assert_non_null(arena_alloc(&a, 10000));
    assert_null(arena_alloc(&a, 1));
    arena_deinit(&a);
}

static void reset_keeps_one_small_block(void **state)
{
    (void)state;
    struct arena a;
    fail_alloc_start(0);
    arena_init(&a, 1 << 20);
    assert_int_equal(fail_alloc_live(), 0);
    for (int i = 0; i < 300; i++) {
        assert_non_null(arena_alloc(&a, 1000));
    }
    assert_non_null(arena_alloc(&a, 100000));
    assert_true(fail_alloc_live() > 5);
    arena_reset(&a);
    assert_int_equal(fail_alloc_live(), 1);
    fail_alloc_start(1);
    assert_non_null(arena_alloc(&a, 1000)); /* without an allocation */
    assert_false(fail_alloc_stop());
    arena_deinit(&a);
    assert_int_equal(fail_alloc_live(), 0);
    arena_deinit(&a);
    fail_alloc_end();
}

static void dup_is_nul_terminated(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 100);
    struct tidings_str s = arena_dup(&a, STR("a\0b"));
    assert_int_equal(s.len, 3);
    assert_memory_equal(s.ptr, "a\0b", 4);
    s = arena_dup(&a, tidings_strn(NULL, 0));
    assert_non_null(s.ptr);
    assert_string_equal(s.ptr, "");
    s = arena_dup(&a, tidings_strn("x", 0));
    assert_string_equal(s.ptr, "");
    char large[200] = {0};
    assert_null(arena_dup(&a, tidings_strn(large, sizeof large)).ptr);
    arena_deinit(&a);
}

static void failed_allocation_returns_null(void **state)
{
    (void)state;
    bool reached = true;
    for (long n = 1; reached; n++) {
        struct arena a;
        arena_init(&a, 1 << 20);
        fail_alloc_start(n);
        bool failed = false;
        for (int i = 0; i < 20; i++) {
            failed = !arena_alloc(&a, i % 5 ? 1500 : 9000) || failed;
        }
        reached = fail_alloc_stop();
        assert_int_equal(failed, reached);
        assert_non_null(arena_alloc(&a, 10));
        arena_deinit(&a);
        assert_int_equal(fail_alloc_live(), 0);
        assert_true(n < 100);
    }
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_zeroed_and_distinct),
        cmocka_unit_test(arena_keeps_its_limit_and_reset_restores_it),
        cmocka_unit_test(reset_keeps_one_small_block),
        cmocka_unit_test(dup_is_nul_terminated),
        cmocka_unit_test(failed_allocation_returns_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
