/* SPDX-License-Identifier: MIT
 *
 * Reading complete files: limited in size, regular files only, and none that an untrusted user can
 * write. */
#include "base/file.h"

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

static void file_is_read_completely(void **state)
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

static void file_above_the_limit_is_rejected(void **state)
{
    (void)state;
    struct buf out;
    struct tidings_error err = {0, ""};
    buf_init(&out, 20000);
    assert_int_equal(whole_file_read(path, 9999, &out, &err), TIDINGS_E_LIMIT);
    assert_non_null(strstr(err.text, "': larger than 9999 bytes"));
    buf_deinit(&out);
}

static void special_files_are_rejected(void **state)
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

/* 0, or the code; the message must contain `says`. */
static int read_as(enum tidings_file_from from, const char *name, const char *says)
{
    struct tidings_error err = {0, ""};
    size_t len = 0;
    char *text = tidings_file_read(name, from, 20000, &len, &err);
    if (text) {
        assert_int_equal(len, 10000);
        assert_int_equal(text[len], '\0');
        tidings_free(text);
        return 0;
    }
    if (!strstr(err.text, says) || !strstr(err.text, name)) {
        fail_msg("'%s' does not say '%s'", err.text, says);
    }
    return err.code;
}

static void file_that_all_users_can_write_is_rejected(void **state)
{
    (void)state;
    struct buf out;
    struct tidings_error err = {0, ""};
    buf_init(&out, 20000);
    assert_int_equal(chmod(path, 0602), 0);
    assert_int_equal(whole_file_read(path, 10000, &out, &err), TIDINGS_E_DENIED);
    assert_int_equal(whole_file_read_found(path, 10000, &out, &err), TIDINGS_E_DENIED);
    assert_int_equal(out.len, 0);
    assert_int_equal(read_as(TIDINGS_FILE_NAMED, path, "any user can write it (mode 0602)"),
                     TIDINGS_E_DENIED);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(read_as(TIDINGS_FILE_NAMED, path, ""), 0);
    assert_int_equal(read_as(TIDINGS_FILE_FOUND, path, ""), 0);
    buf_deinit(&out);
}

static void found_file_must_belong_to_the_user(void **state)
{
    (void)state;
    char link[80];
    if (geteuid() != 0) {
        skip();
    }
    snprintf(link, sizeof(link), "%s.link", path);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(read_as(TIDINGS_FILE_FOUND, link, ""), 0);
    assert_int_equal(lchown(link, 65534, 65534), 0);
    assert_int_equal(read_as(TIDINGS_FILE_FOUND, link, "belongs to another user (number 65534)"),
                     TIDINGS_E_DENIED);
    assert_int_equal(unlink(link), 0);

    assert_int_equal(chown(path, 65534, 65534), 0);
    assert_int_equal(read_as(TIDINGS_FILE_FOUND, path, "belongs to another user (number 65534)"),
                     TIDINGS_E_DENIED);
    assert_int_equal(read_as(TIDINGS_FILE_NAMED, path, ""), 0);
    assert_int_equal(chown(path, 0, 0), 0);
}

static void file_that_another_group_can_write_is_rejected(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(chmod(path, 0664), 0);
    assert_int_equal(read_as(TIDINGS_FILE_FOUND, path, ""), 0); /* the owner's group */
    assert_int_equal(chown(path, 0, 50), 0);
    assert_int_equal(read_as(TIDINGS_FILE_FOUND, path, "its group (number 50) can write it"),
                     TIDINGS_E_DENIED);
    assert_int_equal(read_as(TIDINGS_FILE_NAMED, path, ""), 0);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(read_as(TIDINGS_FILE_FOUND, path, ""), 0);
    assert_int_equal(chown(path, 0, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_is_read_completely),
        cmocka_unit_test(file_above_the_limit_is_rejected),
        cmocka_unit_test(special_files_are_rejected),
        cmocka_unit_test(file_that_all_users_can_write_is_rejected),
        cmocka_unit_test(found_file_must_belong_to_the_user),
        cmocka_unit_test(file_that_another_group_can_write_is_rejected),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
