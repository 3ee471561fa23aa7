/* SPDX-License-Identifier: MIT
 *
 * The listening socket, the prepared event and the loop over standard input of the bare servers
 * (baseline.h).
 */
#include "baseline.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SNDBUF = 32 * 1024 };

char baseline_event[BASELINE_EVENT_MAX];
size_t baseline_event_size;

int baseline_listen(const char *scheme)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof(at);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) < 0 || listen(fd, 4096) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) < 0) {
        return -1;
    }
    fprintf(stderr, "baseline: serving on %s://127.0.0.1:%u/mcp\n", scheme, ntohs(at.sin_port));
    return fd;
}

int baseline_accept(int listener)
{
    int on = 1;
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    return fd;
}

bool baseline_prepare(const char *size)
{
    size_t n = strtoul(size, NULL, 10);
    if (n < 3 || n > sizeof(baseline_event)) {
        return false;
    }
    baseline_event_size = n;
    memset(baseline_event, 'x', n);
    baseline_event[n - 2] = baseline_event[n - 1] = '\n';
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    return true;
}

void baseline_set_buffer(int fd)
{
    int size = SNDBUF;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

static bool publish_one(bool (*publish)(void))
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!publish()) {
        return false;
    }
    printf("%" PRId64 " ns\n", (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    return fflush(stdout) == 0;
}

bool baseline_obey(bool (*publish)(void))
{
    char lines[64];
    ssize_t n = read(STDIN_FILENO, lines, sizeof(lines));
    if (n <= 0) {
        exit(0);
    }
    for (ssize_t i = 0; i < n; i++) {
        if (lines[i] == '\n' && !publish_one(publish)) {
            return false;
        }
    }
    return true;
}
