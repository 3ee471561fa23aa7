/* SPDX-License-Identifier: MIT
 *
 * The least a server can do per delivery: it holds accepted sockets in an epoll set and, for every
 * line it gets on standard input, sends one prepared event of SIZE bytes to each of them, one send
 * after the other. What bench/fanout takes beyond this is tidings' own.
 *
 *     baseline_fanout SIZE
 *
 * A connection is held from its first bytes on, which are answered with what a stream begins with
 * (two empty events). It prints its address on standard error when it listens, answers a line with
 * the monotonic clock right before the first send, and ends at the end of input.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { STREAMS_MAX = 65536, EVENTS = 64, SNDBUF = 32 * 1024 };

static int streams[STREAMS_MAX];
static size_t stream_count;
static char event[1 << 20];

static int listen_on_loopback(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof(at);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) < 0 || listen(fd, 4096) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) < 0) {
        return -1;
    }
    fprintf(stderr, "baseline: serving on http://127.0.0.1:%u/mcp\n", ntohs(at.sin_port));
    return fd;
}

static void accept_all(int epoll, int listener)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        int on = 1;
        int size = SNDBUF;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.fd = fd};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
            close(fd);
        }
    }
}

static void begin_stream(int fd)
{
    static const char beginning[] = ":\n\n:\n\n";
    char request[65536];
    ssize_t n = recv(fd, request, sizeof(request), 0);
    if (n <= 0 || stream_count == STREAMS_MAX ||
        send(fd, beginning, sizeof(beginning) - 1, MSG_NOSIGNAL) < 0) {
        close(fd);
        return;
    }
    streams[stream_count++] = fd;
}

static bool publish(size_t size)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (size_t i = 0; i < stream_count; i++) {
        if (send(streams[i], event, size, MSG_NOSIGNAL) != (ssize_t)size) {
            fprintf(stderr, "baseline_fanout: a send was cut short\n");
            return false;
        }
    }
    printf("%" PRId64 " ns\n", (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    return fflush(stdout) == 0;
}

static bool obey(size_t size)
{
    char lines[64];
    ssize_t n = read(STDIN_FILENO, lines, sizeof(lines));
    if (n <= 0) {
        exit(0);
    }
    for (ssize_t i = 0; i < n; i++) {
        if (lines[i] == '\n' && !publish(size)) {
            return false;
        }
    }
    return true;
}

static bool watch(int epoll, int fd)
{
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    return epoll < 0 || fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) == 0;
}

int main(int argc, char **argv)
{
    size_t size = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
    if (size < 3 || size > sizeof(event)) {
        fprintf(stderr, "usage: baseline_fanout SIZE\n");
        return 2;
    }
    memset(event, 'x', size);
    event[size - 2] = event[size - 1] = '\n';
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int listener = listen_on_loopback();
    if (epoll < 0 || listener < 0 || !watch(epoll, listener) || !watch(epoll, STDIN_FILENO)) {
        perror("baseline_fanout");
        return 1;
    }
    for (;;) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener) {
                accept_all(epoll, listener);
            } else if (events[i].data.fd != STDIN_FILENO) {
                begin_stream(events[i].data.fd);
            } else if (!obey(size)) {
                return 1;
            }
        }
    }
}
