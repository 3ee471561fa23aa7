/* SPDX-License-Identifier: MIT
 *
 * The least a server can do per delivery: it holds accepted sockets in an epoll set and, for every
 * line it gets on standard input, sends one prepared event of SIZE bytes to each of them, one send
 * after the other. What bench/fanout takes beyond this is tidings' own.
 *
 *     baseline_fanout SIZE [THREADS]
 *
 * With more than one thread each sends to its share of the sockets, as workers do; the first one
 * accepts, reads the lines and wakes them.
 *
 * A connection is held from its first bytes on, which are answered with what a stream begins with
 * (two empty events). It prints its address on standard error when it listens, answers a line with
 * the monotonic clock right before the first send, and ends at the end of input.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { STREAMS_MAX = 65536, EVENTS = 64, SNDBUF = 32 * 1024, THREADS_MAX = 64 };

static int streams[STREAMS_MAX];
static size_t stream_count;
static char event[1 << 20];
static size_t event_size;
static size_t threads = 1;
static int wakes[THREADS_MAX];

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

/* To every socket of a thread's share. */
static void send_share(size_t share)
{
    for (size_t i = share; i < stream_count; i += threads) {
        if (send(streams[i], event, event_size, MSG_NOSIGNAL) != (ssize_t)event_size) {
            fprintf(stderr, "baseline_fanout: a send was cut short\n");
            _exit(1);
        }
    }
}

static void *sender(void *arg)
{
    int *wake = arg;
    uint64_t n;
    while (read(*wake, &n, sizeof(n)) == (ssize_t)sizeof(n)) {
        for (; n > 0; n--) {
            send_share((size_t)(wake - wakes));
        }
    }
    return NULL;
}

static bool start_senders(void)
{
    for (size_t i = 0; threads > 1 && i < threads; i++) {
        pthread_t thread;
        wakes[i] = eventfd(0, EFD_CLOEXEC);
        if (wakes[i] < 0 || pthread_create(&thread, NULL, sender, &wakes[i]) != 0) {
            return false;
        }
    }
    return true;
}

static bool publish(void)
{
    struct timespec now;
    uint64_t once = 1;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (threads == 1) {
        send_share(0);
    }
    for (size_t i = 0; threads > 1 && i < threads; i++) {
        if (write(wakes[i], &once, sizeof(once)) < 0) {
            return false;
        }
    }
    printf("%" PRId64 " ns\n", (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    return fflush(stdout) == 0;
}

static bool obey(void)
{
    char lines[64];
    ssize_t n = read(STDIN_FILENO, lines, sizeof(lines));
    if (n <= 0) {
        exit(0);
    }
    for (ssize_t i = 0; i < n; i++) {
        if (lines[i] == '\n' && !publish()) {
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
    size_t size = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    if (size < 3 || size > sizeof(event) || threads < 1 || threads > THREADS_MAX) {
        fprintf(stderr, "usage: baseline_fanout SIZE [THREADS]\n");
        return 2;
    }
    event_size = size;
    memset(event, 'x', size);
    event[size - 2] = event[size - 1] = '\n';
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int listener = listen_on_loopback();
    if (epoll < 0 || listener < 0 || !watch(epoll, listener) || !watch(epoll, STDIN_FILENO) ||
        !start_senders()) {
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
            } else if (!obey()) {
                return 1;
            }
        }
    }
}
