/* SPDX-License-Identifier: MIT
 *
 * The least a server can do per request: epoll_wait, recv, send. It counts bytes instead of
 * parsing: after every REQUEST bytes on a connection it sends one canned answer of RESPONSE bytes.
 * What bench/requests takes beyond this is tidings' own.
 *
 *     baseline_http REQUEST RESPONSE
 *
 * It prints its address on standard error when it listens, and ends on SIGTERM.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "baseline.h"

enum { CONNECTIONS_MAX = 4096, EVENTS = 64 };

static size_t received[CONNECTIONS_MAX]; /* by descriptor: bytes of the current request */
static char answer[1 << 20];

/* An answer of exactly `size` bytes; the head's own length depends on the digits in it. */
static int build_answer(size_t size)
{
    int head = 0;
    size_t body = size;
    for (int i = 0; i < 3; i++) {
        head = snprintf(answer, sizeof(answer),
                        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\n\r\n",
                        body);
        if ((size_t)head > size || size > sizeof(answer)) {
            return -1;
        }
        body = size - (size_t)head;
    }
    memset(answer + head, 'x', body);
    return 0;
}

static void accept_all(int epoll, int listener)
{
    int fd;
    while ((fd = baseline_accept(listener)) >= 0) {
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
        if (fd >= CONNECTIONS_MAX || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
            close(fd);
            continue;
        }
        received[fd] = 0;
    }
}

static void serve(int fd, size_t request, size_t response)
{
    char bytes[65536];
    ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
    if (n <= 0) {
        close(fd);
        return;
    }
    received[fd] += (size_t)n;
    while (received[fd] >= request) {
        received[fd] -= request;
        if (send(fd, answer, response, MSG_NOSIGNAL) != (ssize_t)response) {
            close(fd);
            return;
        }
    }
}

int main(int argc, char **argv)
{
    size_t request = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
    size_t response = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    if (request == 0 || build_answer(response) < 0) {
        fprintf(stderr, "usage: baseline_http REQUEST-BYTES RESPONSE-BYTES\n");
        return 2;
    }
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int listener = baseline_listen("http");
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listener};
    if (epoll < 0 || listener < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e) < 0) {
        perror("baseline_http");
        return 1;
    }
    for (;;) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener) {
                accept_all(epoll, listener);
            } else {
                serve(events[i].data.fd, request, response);
            }
        }
    }
}
