/* SPDX-License-Identifier: MIT
 *
 * Creating a server without enough descriptors returns an error.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include <tidings/tidings.h>

static struct tidings_server *create_with(rlim_t descriptors, struct tidings_error *err)
{
    struct rlimit before, limited;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limited = (struct rlimit){.rlim_cur = descriptors, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limited), 0);
    struct tidings_server *s = tidings_server_create(err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    return s;
}

static void server_creation_fails_without_descriptors(void **state)
{
    (void)state;
    int used = open("/dev/null", O_RDONLY);
    assert_true(used >= 0);
    close(used);
    struct tidings_server *s = NULL;
    unsigned failed = 0;
    for (; !s && failed < 100; failed++) {
        struct tidings_error err = {0, ""};
        s = create_with((rlim_t)used + failed, &err);
        assert_true(s || err.text[0] != '\0');
    }
    assert_in_range(failed, 2, 99);
    tidings_server_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(server_creation_fails_without_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
