/* SPDX-License-Identifier: MIT
 *
 * The growing buffer: contents, its maximum, and an error that stays set. */
#include "base/str.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/encode.h"
#include "base/mem.h"
#include "support/fail_alloc.h"

static void buffer_appends_and_stays_terminated(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1000);
    assert_null(b.ptr);
    assert_string_equal(buf_str(&b).ptr, "");
    assert_int_equal(buf_put(&b, NULL, 0), 0);
    assert_int_equal(buf_puts(&b, STR("ab")), 0);
    assert_int_equal(buf_putc(&b, 'c'), 0);
    assert_int_equal(buf_putf(&b, "%d-%s", 4, "x"), 0);
    assert_int_equal(buf_putu(&b, UINT64_MAX), 0);
    assert_int_equal(buf_putc(&b, ' '), 0);
    assert_int_equal(buf_puti(&b, INT64_MIN), 0);
    assert_int_equal(buf_puti(&b, 0), 0);
    assert_string_equal(b.ptr, "abc4-x18446744073709551615 -92233720368547758080");
    assert_int_equal(b.len, strlen(b.ptr));
    buf_deinit(&b);
    assert_null(b.ptr);
    assert_int_equal(buf_puts(&b, STR("again")), 0);
    assert_string_equal(b.ptr, "again");
    buf_deinit(&b);
}

static void buffer_grows_to_its_maximum_and_not_beyond(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1000);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(buf_putc(&b, (char)('a' + i % 26)), 0);
    }
    assert_true(b.cap <= 1001);
    assert_int_equal(buf_putc(&b, 'x'), TIDINGS_E_LIMIT);
    assert_int_equal(b.len, 1000);
    assert_int_equal(b.failed, TIDINGS_E_LIMIT);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(b.ptr[i], 'a' + i % 26);
    }
    buf_deinit(&b);
}

static void error_stays_until_cleared(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 4);
    assert_int_equal(buf_puts(&b, STR("abc")), 0);
    assert_int_equal(buf_puts(&b, STR("de")), TIDINGS_E_LIMIT);
    assert_int_equal(buf_putc(&b, 'd'), TIDINGS_E_LIMIT); /* would fit, but a piece is missing */
    assert_int_equal(buf_putf(&b, "d"), TIDINGS_E_LIMIT);
    assert_int_equal(base64_put(&b, STR("")), TIDINGS_E_LIMIT);
    assert_string_equal(b.ptr, "abc");
    buf_clear(&b);
    assert_int_equal(b.failed, 0);
    assert_string_equal(buf_str(&b).ptr, "");
    assert_int_equal(buf_puts(&b, STR("wxyz")), 0);
    assert_string_equal(b.ptr, "wxyz");
    buf_deinit(&b);
}

static void printf_that_does_not_fit_changes_nothing(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100);
    assert_int_equal(buf_puts(&b, STR("abc")), 0);
    assert_int_equal(buf_putf(&b, "%0*d", 97, 7), 0);
    assert_int_equal(b.len, 100);
    assert_int_equal(b.ptr[99], '7');
    assert_int_equal(buf_putf(&b, "%d", 1), TIDINGS_E_LIMIT);
    assert_int_equal(b.len, 100);
    assert_int_equal(b.ptr[100], '\0');
    buf_clear(&b);
    assert_int_equal(buf_puts(&b, STR("abc")), 0);
    assert_int_equal(buf_putf(&b, "%0*d", 98, 7), TIDINGS_E_LIMIT);
    assert_string_equal(b.ptr, "abc");
    buf_deinit(&b);
}

static void extreme_sizes_are_rejected(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, SIZE_MAX);
    assert_int_equal(buf_puts(&b, STR("abc")), 0);
    assert_int_equal(buf_reserve(&b, SIZE_MAX), TIDINGS_E_LIMIT);
    assert_string_equal(b.ptr, "abc");
    buf_deinit(&b);
    buf_init(&b, 0);
    assert_int_equal(buf_put(&b, "", 0), 0);
    assert_int_equal(buf_putc(&b, 'x'), TIDINGS_E_LIMIT);
    buf_deinit(&b);
}

static void consume_drops_from_the_front(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100);
    buf_consume(&b, 5);
    assert_int_equal(buf_puts(&b, STR("abcdef")), 0);
    buf_consume(&b, 2);
    assert_string_equal(b.ptr, "cdef");
    buf_consume(&b, 0);
    assert_string_equal(b.ptr, "cdef");
    buf_consume(&b, 99);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.ptr, "");
    buf_deinit(&b);
}

static void detach_transfers_the_memory(void **state)
{
    (void)state;
    struct buf b;
    size_t len = 9;
    buf_init(&b, 100);
    assert_null(buf_detach(&b, &len));
    assert_int_equal(len, 0);
    assert_int_equal(buf_puts(&b, STR("abc")), 0);
    char *p = buf_detach(&b, &len);
    assert_string_equal(p, "abc");
    assert_int_equal(len, 3);
    assert_null(b.ptr);
    assert_int_equal(buf_puts(&b, STR("new")), 0);
    assert_string_equal(p, "abc");
    mem_free(p);
    buf_deinit(&b);
}

static void failed_allocation_keeps_the_contents(void **state)
{
    (void)state;
    bool reached = true;
    for (long n = 1; reached; n++) {
        struct buf b;
        buf_init(&b, 100000);
        fail_alloc_start(n);
        size_t before = 0;
        int rc = 0;
        for (int i = 0; i < 500 && rc == 0; i++) {
            before = b.len;
            rc = i % 2 ? buf_puts(&b, STR("0123456789")) : buf_putf(&b, "%010d", i);
        }
        reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        assert_int_equal(b.failed, rc);
        assert_int_equal(b.len, reached ? before : 5000);
        assert_true(b.len == 0 || b.ptr[b.len] == '\0');
        buf_deinit(&b);
        assert_int_equal(fail_alloc_live(), 0);
        assert_true(n < 100);
    }
    fail_alloc_end();
}

static void limit_and_failed_allocation_are_distinguished(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct buf b;
    buf_init(&b, 100);
    assert_int_equal(buf_check(&b, "the answer", "ask for less", &err), 0);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(buf_puts(&b, STR("0123456789")), 0);
    }
    assert_int_equal(buf_check(&b, "the answer", "ask for less", &err), 0);
    assert_int_equal(buf_putc(&b, 'x'), TIDINGS_E_LIMIT);
    assert_int_equal(buf_check(&b, "the answer", "ask for less", &err), TIDINGS_E_LIMIT);
    assert_string_equal(err.text, "the answer is larger than 100 bytes; ask for less");
    assert_int_equal(buf_check(&b, "the answer", NULL, &err), TIDINGS_E_LIMIT);
    assert_string_equal(err.text, "the answer is larger than 100 bytes");
    buf_deinit(&b);
    fail_alloc_start(1);
    assert_int_equal(buf_putc(&b, 'x'), TIDINGS_E_NOMEM);
    assert_true(fail_alloc_stop());
    assert_int_equal(buf_check(&b, "the answer", "ask for less", &err), TIDINGS_E_NOMEM);
    assert_int_equal(err.code, TIDINGS_E_NOMEM);
    assert_string_equal(err.text, "the answer ran out of memory; try again later");
    buf_deinit(&b);
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffer_appends_and_stays_terminated),
        cmocka_unit_test(buffer_grows_to_its_maximum_and_not_beyond),
        cmocka_unit_test(error_stays_until_cleared),
        cmocka_unit_test(printf_that_does_not_fit_changes_nothing),
        cmocka_unit_test(extreme_sizes_are_rejected),
        cmocka_unit_test(consume_drops_from_the_front),
        cmocka_unit_test(detach_transfers_the_memory),
        cmocka_unit_test(failed_allocation_keeps_the_contents),
        cmocka_unit_test(limit_and_failed_allocation_are_distinguished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
