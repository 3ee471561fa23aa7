/* SPDX-License-Identifier: MIT
 *
 * Reading many streams. A stream is a few bytes here and a socket: ten thousand of them cost the
 * reader little, and that cost is not measured.
 */
#include "streams.h"

#include <errno.h>
#include <linux/tcp.h> /* struct tcp_info of netinet/tcp.h ends before the segments */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"
#include "mcp.h"
#include "secure.h"

enum {
    EVENTS = 256,
    BEGINNING = 2, /* events before the first announcement: a comment and the acknowledgement */
    BEGINNING_FRAMES = 1, /* the acknowledgement */
    AT_A_TIME = 250,      /* connections opened before the server has to have answered */
    OTHER_FILES = 64,
};

enum { HEADER_MAX = 10, HEAD_END = 4 };

struct stream {
    uint64_t events;
    struct ssl_st *ssl; /* NULL: plain */
    uint64_t left;      /* WebSocket: of the frame */
    int fd;
    bool newline;         /* the last byte was one */
    unsigned char ending; /* WebSocket: how much of the end of the head came */
    unsigned char have;   /* … and of the header of a frame */
    unsigned char header[HEADER_MAX];
};

void streams_init(struct streams *s, size_t count)
{
    struct rlimit files;
    memset(s, 0, sizeof(*s));
    if (getrlimit(RLIMIT_NOFILE, &files) < 0) {
        bench_die("limit of descriptors: %s", strerror(errno));
    }
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_max < count + OTHER_FILES) {
        bench_die("%zu streams need a limit of %zu descriptors, not %lu", count,
                  count + OTHER_FILES, (unsigned long)files.rlim_max);
    }
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    s->all = calloc(count, sizeof(*s->all));
    s->max = count;
    if (s->epoll < 0 || !s->all) {
        bench_die("out of memory");
    }
}

/* One more byte of the header of a frame; true: the frame is complete, having no payload. */
static bool take_header(struct stream *one, char byte)
{
    one->header[one->have++] = (unsigned char)byte;
    unsigned len = one->have > 1 ? one->header[1] & 0x7fu : 0;
    unsigned size = len == 126 ? 4 : len == 127 ? HEADER_MAX : 2;
    if (one->have < size) {
        return false;
    }
    one->left = size == 2 ? len : 0;
    for (unsigned i = 2; i < size; i++) {
        one->left = one->left << 8 | one->header[i];
    }
    one->have = 0;
    return one->left == 0;
}

/* Counts the frames that end in these bytes. */
static void count_frames(struct stream *one, const char *bytes, size_t n)
{
    const char *end = bytes + n;
    for (; bytes < end && one->ending < HEAD_END; bytes++) {
        bool goes_on = *bytes == "\r\n\r\n"[one->ending];
        one->ending = goes_on ? (unsigned char)(one->ending + 1) : *bytes == '\r';
    }
    while (bytes < end) {
        if (one->left == 0) {
            one->events += take_header(one, *bytes++);
            continue;
        }
        size_t part = (size_t)(end - bytes) < one->left ? (size_t)(end - bytes) : one->left;
        one->left -= part;
        bytes += part;
        one->events += one->left == 0;
    }
}

/* Counts the events that end in these bytes. */
static void count_events(struct stream *one, const char *bytes, size_t n)
{
    const char *end = bytes + n;
    if (one->newline && *bytes == '\n') {
        one->events++;
    }
    for (const char *p = bytes; (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++) {
        if (p + 1 < end && p[1] == '\n') {
            one->events++;
        }
    }
    one->newline = end[-1] == '\n';
}

static void count(struct streams *s, struct stream *one, const char *bytes, size_t n)
{
    uint64_t before = one->events;
    if (s->is_websocket) {
        count_frames(one, bytes, n);
    } else {
        count_events(one, bytes, n);
    }
    if (one->events > s->goal) {
        bench_die("a stream got more events than were announced");
    }
    s->reached += before < s->goal && one->events == s->goal;
}

static void take(struct streams *s, struct stream *one)
{
    static char bytes[256 * 1024];
    ssize_t n = one->ssl ? (ssize_t)secure_read(one->ssl, bytes, sizeof(bytes))
                         : recv(one->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n == 0 && one->ssl) {
        return; /* a ticket, or half a record */
    }
    if (n <= 0) {
        bench_die("the server closed a stream");
    }
    s->bytes += (uint64_t)n;
    count(s, one, bytes, (size_t)n);
    if (one == s->all) {
        size_t kept = (size_t)n < sizeof(s->last) ? (size_t)n : sizeof(s->last) - 1;
        memcpy(s->last, bytes, kept);
        s->last[kept] = '\0';
    }
}

/* Reads once from everything that is ready. False: nothing came in time. */
static bool read_ready(struct streams *s, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(s->epoll, events, EVENTS, timeout_ms);
    if (n < 0) {
        bench_die("interrupted or out of time");
    }
    for (int i = 0; i < n; i++) {
        take(s, events[i].data.ptr);
    }
    return n > 0;
}

static int64_t wait_for_all(struct streams *s)
{
    while (s->reached < s->count) {
        if (!read_ready(s, BENCH_WAIT_MS)) {
            bench_die("%zu of %zu streams did not get their events", s->count - s->reached,
                      s->count);
        }
    }
    return bench_now_ns();
}

int64_t streams_wait(struct streams *s, uint64_t events)
{
    s->goal += events;
    s->reached = 0;
    return wait_for_all(s);
}

void streams_pause(struct streams *s, int64_t until_ns)
{
    for (int64_t left; (left = until_ns - bench_now_ns()) > 0;) {
        (void)read_ready(s, (int)(left / 1000000) + 1);
    }
}

void streams_open(struct streams *s, unsigned port, const char *request, size_t n)
{
    s->goal = s->is_websocket ? BEGINNING_FRAMES : BEGINNING;
    while (s->count < s->max) {
        struct stream *one = &s->all[s->count++];
        one->fd = mcp_connect(port);
        one->ssl = s->is_secure ? secure_connect(one->fd) : NULL;
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = one};
        if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, one->fd, &e) < 0) {
            bench_die("epoll: %s", strerror(errno));
        }
        if (one->ssl) {
            secure_write(one->ssl, request, n);
        } else {
            bench_write(one->fd, request, n);
        }
        if (s->count % AT_A_TIME == 0 || s->count == s->max) {
            (void)wait_for_all(s);
        }
    }
}

uint64_t streams_segments(const struct streams *s)
{
    uint64_t segments = 0;
    for (size_t i = 0; i < s->count; i++) {
        struct tcp_info info = {0};
        socklen_t size = sizeof(info);
        if (getsockopt(s->all[i].fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0) {
            bench_die("TCP_INFO: %s", strerror(errno));
        }
        segments += info.tcpi_data_segs_in;
    }
    return segments;
}

void streams_close(struct streams *s)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    for (size_t i = 0; i < s->count; i++) {
        setsockopt(s->all[i].fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        secure_free(s->all[i].ssl);
        close(s->all[i].fd);
    }
    close(s->epoll);
    free(s->all);
    s->all = NULL;
    s->count = 0;
}
