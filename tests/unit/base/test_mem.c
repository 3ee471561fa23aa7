/* SPDX-License-Identifier: MIT
 *
 * The allocator table, also through the public functions.
 */
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <tidings/provider.h>

#include "support/fail_alloc.h"

static void version_matches_the_build(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof(text), "%d.%d.%d", TIDINGS_VERSION / 10000, TIDINGS_VERSION / 100 % 100,
             TIDINGS_VERSION % 100);
    assert_string_equal(tidings_version(), text);
#if TIDINGS_VERSION < TIDINGS_VERSION_NUMBER(0, 1, 0)
    fail();
#endif
}

static void zero_byte_allocation_succeeds(void **state)
{
    (void)state;
    void *p = mem_alloc(0);
    void *q = mem_zalloc(0);
    assert_non_null(p);
    assert_non_null(q);
    p = mem_realloc(p, 0);
    assert_non_null(p);
    mem_free(p);
    mem_free(q);
    mem_free(NULL);
}

static void zalloc_is_zeroed_with_any_allocator(void **state)
{
    (void)state;
    static const char zeros[500];
    for (int own = 0; own < 2; own++) {
        if (own) {
            fail_alloc_start(0);
        }
        char *p = mem_zalloc(sizeof zeros);
        assert_non_null(p);
        assert_memory_equal(p, zeros, sizeof zeros);
        mem_free(p);
    }
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
}

static void replaced_allocator_gets_every_call(void **state)
{
    (void)state;
    fail_alloc_start(4);
    void *a = mem_alloc(1);
    void *b = tidings_alloc(2);
    a = mem_realloc(a, 100);
    assert_int_equal(fail_alloc_live(), 2);
    assert_null(mem_zalloc(3));
    assert_true(fail_alloc_stop());
    void *c = mem_realloc(NULL, 5);
    assert_int_equal(fail_alloc_live(), 3);
    mem_free(a);
    tidings_free(b);
    mem_free(c);
    tidings_free(NULL);
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
}

static void incomplete_allocator_is_rejected(void **state)
{
    (void)state;
    fail_alloc_start(0);
    tidings_set_allocator(fail_alloc_alloc, NULL, NULL);
    void *p = mem_alloc(10);
    assert_int_equal(fail_alloc_live(), 0);
    mem_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_matches_the_build),
        cmocka_unit_test(zero_byte_allocation_succeeds),
        cmocka_unit_test(zalloc_is_zeroed_with_any_allocator),
        cmocka_unit_test(replaced_allocator_gets_every_call),
        cmocka_unit_test(incomplete_allocator_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
