/* SPDX-License-Identifier: MIT
 *
 * Files read whole: bounded, and nothing but files.
 */
#include "base/whole_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/tmp/test_whole_file.XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (unsigned i = 0; i < 10000; i++) {
        assert_int_equal(write(fd, "x", 1), 1);
    }
    close(fd);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

static void a_file_is_read_whole(void **state)
{
    (void)state;
    struct buf out;
    struct tidings_error err = {0, ""};
    buf_init(&out, 20000);
    buf_putc(&out, 'a');
    assert_int_equal(whole_file_read(path, 10000, &out, &err), 0);
    assert_int_equal(out.len, 10001);
    buf_deinit(&out);
}

static void one_byte_too_many_is_refused(void **state)
{
    (void)state;
    struct buf out;
    struct tidings_error err = {0, ""};
    buf_init(&out, 20000);
    assert_int_equal(whole_file_read(path, 9999, &out, &err), TIDINGS_E_LIMIT);
    assert_non_null(strstr(err.text, "': larger than 9999 bytes"));
    buf_deinit(&out);
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    struct buf out;
    struct tidings_error err = {0, ""};
    buf_init(&out, 20000);
    assert_int_equal(whole_file_read("/tmp", 100, &out, &err), TIDINGS_E_INVALID);
    assert_string_equal(err.text, "'/tmp': not a regular file");
    assert_int_equal(whole_file_read("/tmp/there/is/none", 100, &out, &err), TIDINGS_E_NOTFOUND);
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_whole),
        cmocka_unit_test(one_byte_too_many_is_refused),
        cmocka_unit_test(what_is_no_file_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
