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
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "baseline.h"

enum { EVENTS = 64, THREADS_MAX = 64 };

static int streams[BASELINE_STREAMS_MAX];
static size_t stream_count;
static size_t threads = 1;
static int wakes[THREADS_MAX];

static void accept_all(int epoll, int listener)
{
    int fd;
    while ((fd = baseline_accept(listener)) >= 0) {
        baseline_set_buffer(fd);
        struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.fd = fd};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
            close(fd);
        }
    }
}

static void begin_stream(int fd)
{
    static const char beginning[] = BASELINE_BEGINNING;
    char request[65536];
    ssize_t n = recv(fd, request, sizeof(request), 0);
    if (n <= 0 || stream_count == BASELINE_STREAMS_MAX ||
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
        if (send(streams[i], baseline_event, baseline_event_size, MSG_NOSIGNAL) !=
            (ssize_t)baseline_event_size) {
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
    uint64_t once = 1;
    if (threads == 1) {
        send_share(0);
    }
    for (size_t i = 0; threads > 1 && i < threads; i++) {
        if (write(wakes[i], &once, sizeof(once)) < 0) {
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
    threads = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    if (argc < 2 || threads < 1 || threads > THREADS_MAX || !baseline_prepare(argv[1])) {
        fprintf(stderr, "usage: baseline_fanout SIZE [THREADS]\n");
        return 2;
    }
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int listener = baseline_listen("http");
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
            } else if (!baseline_obey(publish)) {
                return 1;
            }
        }
    }
}
