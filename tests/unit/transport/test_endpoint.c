/* SPDX-License-Identifier: MIT
 *
 * Listening sockets: the owner of the path, the conditions of a takeover, and the error messages.
 * */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/listener.h"

static char folder[] = "/tmp/tidings-endpoint-XXXXXX";
static char path[64];

static int set_up(void **state)
{
    (void)state;
    memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/s", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static int open_at(struct endpoint *e, const char *where, struct tidings_error *err)
{
    struct endpoint_address at = {.option = "--unix PATH", .path = where, .mode = 0640};
    return endpoint_open(e, &at, err);
}

static int connect_to(const char *where)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof(to.sun_path), "%s", where);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = connect(fd, (struct sockaddr *)&to, sizeof(to));
    close(fd);
    return rc;
}

static bool exists(const char *where)
{
    struct stat st;
    return lstat(where, &st) == 0;
}

static void socket_has_its_permissions_and_is_removed_with_its_server(void **state)
{
    (void)state;
    struct endpoint e;
    struct stat st;
    assert_int_equal(open_at(&e, path, NULL), 0);
    assert_true(e.is_unix);
    assert_true(endpoint_is_local(&e));
    assert_string_equal(e.path, path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(connect_to(path), 0);
    endpoint_close(&e);
    assert_false(exists(path));
    endpoint_close(&e);
}

static void socket_of_a_dead_server_is_replaced(void **state)
{
    (void)state;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 1), 0);
    close(fd); /* killed: the file stays */
    assert_int_equal(connect_to(path), -1);
    struct endpoint e;
    assert_int_equal(open_at(&e, path, NULL), 0);
    assert_int_equal(connect_to(path), 0);
    endpoint_close(&e);
}

static void socket_of_a_running_server_is_not_replaced(void **state)
{
    (void)state;
    struct endpoint e, second;
    struct tidings_error err = {0};
    assert_int_equal(open_at(&e, path, NULL), 0);
    assert_int_equal(open_at(&second, path, &err), TIDINGS_E_EXISTS);
    assert_non_null(strstr(err.text, "a server is listening on"));
    assert_non_null(strstr(err.text, "--unix PATH"));
    assert_int_equal(connect_to(path), 0);
    endpoint_close(&e);
}

static void file_other_than_a_socket_is_left_unchanged(void **state)
{
    (void)state;
    struct endpoint e;
    struct tidings_error err = {0};
    FILE *file = fopen(path, "we");
    fclose(file);
    assert_int_equal(open_at(&e, path, &err), TIDINGS_E_EXISTS);
    assert_non_null(strstr(err.text, "is not a socket"));
    assert_true(exists(path));
}

static void socket_of_a_successor_is_left_unchanged(void **state)
{
    (void)state;
    struct endpoint first, second;
    assert_int_equal(open_at(&first, path, NULL), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(open_at(&second, path, NULL), 0);
    endpoint_close(&first);
    assert_int_equal(connect_to(path), 0);
    endpoint_close(&second);
    assert_false(exists(path));
}

static void errors_say_what_to_do(void **state)
{
    (void)state;
    struct endpoint e;
    struct tidings_error err = {0};
    char deep[80], endless[200];
    snprintf(deep, sizeof(deep), "%s/none/s", folder);
    assert_int_equal(open_at(&e, deep, &err), TIDINGS_E_NOTFOUND);
    assert_non_null(strstr(err.text, "/none'; create it, or choose another path with --unix PATH"));
    memset(endless, 'x', sizeof(endless) - 1);
    endless[sizeof(endless) - 1] = '\0';
    assert_int_equal(open_at(&e, endless, &err), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "1 to 107 bytes"));

    struct endpoint_address at = {.option = "--tcp ADDR:PORT", .host = "127.0.0.1"};
    assert_int_equal(endpoint_open(&e, &at, &err), 0);
    assert_true(e.port > 0);
    at.port = e.port;
    struct endpoint second;
    assert_int_equal(endpoint_open(&second, &at, &err), TIDINGS_E_EXISTS);
    assert_non_null(strstr(err.text, "choose another with --tcp ADDR:PORT"));
    endpoint_close(&e);
}

static void passed_socket_must_listen(void **state)
{
    (void)state;
    struct endpoint e, taken;
    struct tidings_error err = {0};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct endpoint_address at = {.fd = pair[0]};
    assert_int_equal(endpoint_open(&e, &at, &err), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "does not listen"));
    assert_int_equal(write(pair[0], "", 1), 1); /* still open */
    close(pair[0]);
    close(pair[1]);

    assert_int_equal(open_at(&e, path, NULL), 0);
    at.fd = e.fd;
    assert_int_equal(endpoint_open(&taken, &at, &err), 0);
    assert_string_equal(taken.path, path);
    assert_int_not_equal(taken.fd, e.fd);
    endpoint_close(&taken);
    assert_true(exists(path)); /* its creator removes it */
    assert_int_equal(connect_to(path), 0);
    endpoint_close(&e);
    assert_false(exists(path));
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(socket_has_its_permissions_and_is_removed_with_its_server),
        CASE(socket_of_a_dead_server_is_replaced),
        CASE(socket_of_a_running_server_is_not_replaced),
        CASE(file_other_than_a_socket_is_left_unchanged),
        CASE(socket_of_a_successor_is_left_unchanged),
        CASE(errors_say_what_to_do),
        CASE(passed_socket_must_listen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
