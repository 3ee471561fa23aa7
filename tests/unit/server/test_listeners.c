/* SPDX-License-Identifier: MIT
 *
 * Listeners through the public interface: sockets from the program, their names, and a retry after
 * a failed start.
 */
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <tidings/server.h>

static struct tidings_server *server;

static int set_up(void **state)
{
    (void)state;
    server = tidings_server_create(NULL);
    return server ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tidings_server_destroy(server);
    return 0;
}

static int listening(uint16_t *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

/* Sends one request as a line and returns its answer. */
static void ask(uint16_t port)
{
    static const char request[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char answer[1024];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(write(fd, request, sizeof(request) - 1), sizeof(request) - 1);
    ssize_t n;
    while ((n = recv(fd, answer, sizeof(answer) - 1, MSG_DONTWAIT)) < 0) {
        struct pollfd ready = {.fd = tidings_server_fd(server), .events = POLLIN};
        (void)poll(&ready, 1, 10);
        assert_int_equal(tidings_server_turn(server, NULL), 1);
    }
    answer[n > 0 ? n : 0] = '\0';
    assert_non_null(strstr(answer, "\"id\":1"));
    close(fd);
}

static void server_accepts_on_program_socket(void **state)
{
    (void)state;
    uint16_t port;
    char url[64];
    int fd = listening(&port);
    assert_int_equal(tidings_server_add_socket(server, TIDINGS_LISTENER_LINES, fd, NULL), 0);
    assert_int_equal(tidings_server_start(server, NULL), 0);
    snprintf(url, sizeof(url), "tcp://127.0.0.1:%u", port);
    assert_string_equal(tidings_server_address(server, 0), url);
    assert_null(tidings_server_address(server, 1)); /* and no default besides */
    ask(port);
    assert_int_equal(tidings_server_finish(server, NULL), 0);
    assert_null(tidings_server_address(server, 0));
}

static void nonlistening_descriptor_is_rejected_and_left_open(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(tidings_server_add_socket(server, TIDINGS_LISTENER_HTTP, fd, &err),
                     TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "does not listen"));
    assert_int_equal(close(fd), 0);
    assert_int_equal(tidings_server_add_socket(server, TIDINGS_LISTENER_HTTP, 999, &err),
                     TIDINGS_E_INVALID);
    assert_int_equal(tidings_server_add_socket(server, (enum tidings_listener)7, 0, &err),
                     TIDINGS_E_INVALID);
}

static void failed_start_can_retry_with_same_socket(void **state)
{
    (void)state;
    uint16_t port;
    struct tidings_error err = {0};
    int fd = listening(&port);
    assert_int_equal(tidings_server_add_socket(server, TIDINGS_LISTENER_LINES, fd, NULL), 0);
    assert_int_equal(tidings_server_set(server, "unix", "/nowhere/at/all", NULL), 0);
    assert_int_equal(tidings_server_start(server, &err), TIDINGS_E_NOTFOUND);
    assert_non_null(strstr(err.text, "/nowhere/at"));
    assert_int_equal(tidings_server_set(server, "unix", "", NULL), 0);
    assert_int_equal(tidings_server_start(server, &err), 0);
    ask(port);
    assert_int_equal(tidings_server_add_socket(server, TIDINGS_LISTENER_LINES, fd, &err),
                     TIDINGS_E_INVALID); /* it has started */
}

static void unused_socket_is_closed_with_server(void **state)
{
    (void)state;
    uint16_t port;
    int fd = listening(&port);
    assert_int_equal(tidings_server_add_socket(server, TIDINGS_LISTENER_HTTP, fd, NULL), 0);
    tidings_server_destroy(server);
    server = NULL;
    assert_int_equal(close(fd), -1);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(server_accepts_on_program_socket),
        CASE(nonlistening_descriptor_is_rejected_and_left_open),
        CASE(failed_start_can_retry_with_same_socket),
        CASE(unused_socket_is_closed_with_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
