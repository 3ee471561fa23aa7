/* SPDX-License-Identifier: MIT
 *
 * Fairness, turn by turn: a server that the program steps, a client that has sent a flood, and a
 * client with one request.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <tidings/server.h>

#include "engine/protocol/channel.h"

enum { FLOOD = 400 };

static struct tidings_server *server;
static int port;

static void on_ready(void *user, const char *url)
{
    (void)user;
    const char *colon = strrchr(url, ':');
    port = colon ? (int)strtol(colon + 1, NULL, 10) : 0;
}

static void start(const char *door)
{
    struct tidings_error err = {0, ""};
    server = tidings_server_create(&err);
    assert_non_null(server);
    assert_int_equal(tidings_server_set(server, door, "127.0.0.1:0", &err), 0);
    tidings_server_on_ready(server, on_ready, NULL);
    if (tidings_server_start(server, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static void turn(void)
{
    assert_true(tidings_server_turn(server, NULL) > 0);
}

static int teardown(void **state)
{
    (void)state;
    tidings_server_destroy(server);
    return 0;
}

static int connect_client(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

static const char *request(bool is_http)
{
    static const char body[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}";
    static char text[512];
    if (is_http) { /* an error, answered like any other request */
        snprintf(text, sizeof(text),
                 "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 "Content-Length: %zu\r\n\r\n%s",
                 sizeof(body) - 1, body);
    } else {
        snprintf(text, sizeof(text), "%s\n", body);
    }
    return text;
}

static void send_all(int fd, const char *text, size_t times)
{
    for (size_t i = 0; i < times; i++) {
        assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
    }
}

/* The number of answers since the last call. */
static size_t answers(int fd)
{
    static char bytes[1 << 20];
    size_t n = 0;
    ssize_t len = recv(fd, bytes, sizeof(bytes) - 1, MSG_DONTWAIT);
    bytes[len > 0 ? len : 0] = '\0';
    for (const char *at = bytes; (at = strstr(at, "\"jsonrpc\"")) != NULL; at++) {
        n++;
    }
    return n;
}

static void check_turns(const char *door)
{
    bool is_http = strcmp(door, "http") == 0;
    start(door);
    int flooder = connect_client(), quiet = connect_client();
    for (int i = 0; i < 10; i++) { /* both are let in */
        turn();
    }
    send_all(flooder, request(is_http), FLOOD);
    send_all(quiet, request(is_http), 1);
    size_t told = 0, turns = 0, quiet_after = 0;
    for (; told < FLOOD; turns++) {
        assert_true(turns < 10 * FLOOD);
        turn();
        size_t now = answers(flooder);
        assert_in_range(now, 0, CHANNEL_QUANTUM);
        told += now;
        if (quiet_after == 0 && answers(quiet) > 0) {
            quiet_after = turns + 1;
        }
    }
    assert_in_range(quiet_after, 1, 5);
    assert_in_range(turns, FLOOD / CHANNEL_QUANTUM, 10 * FLOOD);
    close(flooder);
    close(quiet);
}

static void pipelined_requests_are_answered_over_several_turns(void **state)
{
    (void)state;
    check_turns("http");
}

static void lines_are_answered_over_several_turns(void **state)
{
    (void)state;
    check_turns("tcp");
}

/* The loop must not sleep while a client waits for its next turn. */
static void host_timeout_is_zero_while_work_remains(void **state)
{
    (void)state;
    start("tcp");
    int flooder = connect_client();
    for (int i = 0; i < 10; i++) {
        turn();
    }
    send_all(flooder, request(false), FLOOD);
    size_t told = 0;
    for (size_t turns = 0; told < FLOOD; turns++) {
        assert_true(turns < 10 * FLOOD);
        struct pollfd ready = {.fd = tidings_server_fd(server), .events = POLLIN};
        int timeout = tidings_server_timeout_ms(server);
        assert_true(poll(&ready, 1, 0) > 0 || timeout == 0);
        turn();
        told += answers(flooder);
    }
    close(flooder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(pipelined_requests_are_answered_over_several_turns, teardown),
        cmocka_unit_test_teardown(lines_are_answered_over_several_turns, teardown),
        cmocka_unit_test_teardown(host_timeout_is_zero_while_work_remains, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
