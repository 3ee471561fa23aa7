/* SPDX-License-Identifier: MIT */
#include "support/asking.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define DEADLINE_S 60

static int compose(const struct asking *a, char *out, size_t room)
{
    char body[1024];
    snprintf(
        body, sizeof(body),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{\"uri\":\"%s\",\"_meta\":{"
        "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
        "\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
        a->method, a->uri);
    return snprintf(out, room,
                    "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n"
                    "Content-Type: application/json\r\n"
                    "Accept: application/json, text/event-stream\r\n"
                    "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\nMcp-Name: %s\r\n"
                    "Content-Length: %zu\r\n\r\n%s",
                    a->port, a->method, a->uri, strlen(body), body);
}

/* A failure here shows as an empty answer, because cmocka's checks belong to the test's own
 * thread. */
static void *ask(void *arg)
{
    struct asking *a = arg;
    char request[4096];
    int n = compose(a, request, sizeof(request));
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)a->port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = DEADLINE_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 &&
        send(fd, request, (size_t)n, MSG_NOSIGNAL) == n) {
        size_t len = 0;
        ssize_t got;
        while ((got = recv(fd, a->answer + len, sizeof(a->answer) - 1 - len, 0)) > 0) {
            len += (size_t)got;
        }
        a->answer[len] = '\0';
    }
    close(fd);
    (void)eventfd_write(a->done, 1);
    return NULL;
}

void asking_begin(struct asking *a, int port, const char *method, const char *uri)
{
    *a = (struct asking){.port = port, .method = method, .uri = uri};
    a->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(a->done >= 0);
    assert_int_equal(pthread_create(&a->thread, NULL, ask, a), 0);
}

int asking_step(struct asking *a, struct tidings_server *server)
{
    struct tidings_error err = {0, ""};
    int rc;
    while ((rc = tidings_server_turn(server, &err)) > 0) {
        struct pollfd ready[] = {{.fd = tidings_server_fd(server), .events = POLLIN},
                                 {.fd = a->done, .events = POLLIN}};
        (void)poll(ready, 2, tidings_server_timeout_ms(server));
        if (ready[1].revents) {
            return rc;
        }
    }
    if (rc < 0) {
        fail_msg("%s", err.text);
    }
    return rc;
}

const char *asking_end(struct asking *a)
{
    pthread_join(a->thread, NULL);
    close(a->done);
    return a->answer;
}

int asking_port(const char *url)
{
    int port = 0;
    return sscanf(url, "http://127.0.0.1:%d/mcp", &port) == 1 ? port : -1;
}
