/* SPDX-License-Identifier: MIT
 *
 * CPU per delivery of a fan-out: one event to each of many TCP streams over loopback, written
 *
 *     bare     by a loop of send(2), the same bytes to each
 *     plain    through send queues (base/net/sendq.h), the event copied into each, plain writes
 *     uring    the same with a ring
 *
 * The three take turns, one run of several events each, until each has had all its runs; figures
 * are medians over the runs. Between two events all readers have read everything and `gap`
 * milliseconds pass, so the machine is not saturated. A child reads; its CPU time does not count,
 * but the kernel's work for loopback delivery is part of the sender's time and counts.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/net/sendq.h"
#include "common.h"

enum { STREAMS_MAX = 20000, EVENT_MAX = 65536, EVENTS = 256, WAYS = 3, SIZES = 2 };
enum way { BARE, PLAIN, URING };

static const char *const way_names[WAYS] = {"bare", "plain", "uring"};

static unsigned long sizes[SIZES] = {1000, 10000};
static unsigned long event_bytes = 320;
static unsigned long runs = 7;
static unsigned long events = 10; /* per run */
static unsigned long gap_ms = 20;

static char event[EVENT_MAX];
static struct sendq queues[STREAMS_MAX];
static int streams[STREAMS_MAX];

/* Written by the child, in memory both see. */
static atomic_ullong *received;

/* ---- the readers ---------------------------------------------------------------------------- */

static int connect_one(const struct sockaddr_in *to)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0) {
        bench_die("connect: %s", strerror(errno));
    }
    return fd;
}

/* The child: connects, reads everything, ends with the first stream that does. */
static _Noreturn void read_streams(const struct sockaddr_in *to, unsigned long count)
{
    static char bytes[1 << 20];
    struct epoll_event ready[EVENTS];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned long i = 0; i < count; i++) {
        int fd = connect_one(to);
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
            bench_die("epoll: %s", strerror(errno));
        }
    }
    for (;;) {
        int n = epoll_wait(epoll, ready, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            ssize_t got = recv(ready[i].data.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
            if (got == 0) {
                _exit(0);
            }
            atomic_fetch_add(received, got > 0 ? (unsigned long long)got : 0);
        }
    }
}

static void open_streams(unsigned long count)
{
    int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, size) < 0 ||
        listen(listener, 512) < 0 || getsockname(listener, (struct sockaddr *)&at, &size) < 0) {
        bench_die("listen on loopback: %s", strerror(errno));
    }
    pid_t child = fork();
    if (child == 0) {
        close(listener);
        read_streams(&at, count);
    }
    for (unsigned long i = 0; child > 0 && i < count; i++) {
        streams[i] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (streams[i] < 0) {
            bench_die("accept: %s", strerror(errno));
        }
        setsockopt(streams[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    if (child < 0) {
        bench_die("fork: %s", strerror(errno));
    }
    close(listener);
}

/* Room for `wanted` descriptors. */
static void raise_limit(unsigned long wanted)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= wanted) {
        return;
    }
    limit.rlim_cur = wanted;
    limit.rlim_max = limit.rlim_max < wanted ? wanted : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0) {
        bench_die("%lu descriptors are needed: %s; raise the limit (ulimit -n)", wanted,
                  strerror(errno));
    }
}

/* ---- the writers ---------------------------------------------------------------------------- */

static int64_t own_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void write_bare(unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        if (send(streams[i], event, event_bytes, MSG_NOSIGNAL | MSG_DONTWAIT) !=
            (ssize_t)event_bytes) {
            bench_die("a stream did not take the event");
        }
    }
}

static void write_queued(struct sendq_batch *batch, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        char *room = sendq_reserve(&queues[i], event_bytes);
        if (!room) {
            bench_die("out of memory");
        }
        memcpy(room, event, event_bytes);
    }
    sendq_batch_flush(batch);
}

static void await_readers(unsigned long long total)
{
    int64_t deadline = bench_now_ns() + (int64_t)BENCH_WAIT_MS * 1000000;
    while (atomic_load(received) < total) {
        if (bench_now_ns() > deadline) {
            bench_die("not everything was read within %d ms", (int)BENCH_WAIT_MS);
        }
        poll(NULL, 0, 1);
    }
    poll(NULL, 0, (int)gap_ms);
}

static void on_flushed(struct sendq *q, enum sendq_state state)
{
    (void)q;
    if (state != SENDQ_EMPTY) {
        bench_die("a stream did not take the event");
    }
}

/* Microseconds of CPU per delivery. */
static double run(enum way way, struct sendq_batch *batch, unsigned long count)
{
    int64_t cpu_ns = 0;
    for (unsigned long i = 0; i < count; i++) {
        queues[i].batch = batch;
    }
    for (unsigned long i = 0; i < events; i++) {
        unsigned long long before = atomic_load(received);
        int64_t from = own_cpu_ns();
        if (way == BARE) {
            write_bare(count);
        } else {
            write_queued(batch, count);
        }
        cpu_ns += own_cpu_ns() - from;
        await_readers(before + (unsigned long long)event_bytes * count);
    }
    return (double)cpu_ns / 1000 / (double)events / (double)count;
}

static void measure(unsigned long count)
{
    struct bench_samples samples[WAYS];
    struct sendq_batch batches[WAYS];
    for (int way = 0; way < WAYS; way++) {
        bench_samples_init(&samples[way], runs);
        sendq_batch_init(&batches[way]);
    }
    bool has_uring = sendq_batch_use_uring(&batches[URING], NULL) == 0;
    open_streams(count);
    for (unsigned long i = 0; i < count; i++) {
        sendq_init(&queues[i], &batches[PLAIN], streams[i], on_flushed);
    }
    for (unsigned long r = 0; r <= runs; r++) {
        for (int way = 0; way < WAYS; way++) {
            if (way == URING && !has_uring) {
                continue;
            }
            double us = run((enum way)way, &batches[way], count);
            if (r > 0) { /* the first warms up */
                bench_samples_add(&samples[way], us);
            }
        }
    }
    double bare = bench_samples_at(&samples[BARE], 0.5);
    printf("{\"streams\":%lu", count);
    for (int way = 0; way < WAYS; way++) {
        if (samples[way].count == 0) {
            printf(",\"%s_us\":null", way_names[way]);
            continue;
        }
        double us = bench_samples_at(&samples[way], 0.5);
        printf(",\"%s_us\":%.2f", way_names[way], us);
        if (way != BARE) {
            printf(",\"%s_ratio\":%.2f,\"%s_writes_per_event\":%.0f", way_names[way], us / bare,
                   way_names[way], (double)batches[way].writes / (double)((runs + 1) * events));
        }
    }
    printf("}");
    for (unsigned long i = 0; i < count; i++) {
        sendq_deinit(&queues[i]);
        close(streams[i]);
    }
    for (int way = 0; way < WAYS; way++) {
        sendq_batch_deinit(&batches[way]);
        bench_samples_deinit(&samples[way]);
    }
}

int main(int argc, char **argv)
{
    bench_init("sendq", 900);
    const struct bench_option options[] = {
        {.name = "streams", .help = "the smaller number of streams", .number = &sizes[0]},
        {.name = "more", .help = "the larger number of streams", .number = &sizes[1]},
        {.name = "event", .help = "bytes per event", .number = &event_bytes},
        {.name = "runs", .help = "runs of each way", .number = &runs},
        {.name = "events", .help = "events per run", .number = &events},
        {.name = "gap", .help = "milliseconds between events", .number = &gap_ms},
        {0},
    };
    bench_options(argc, argv, options);
    if (sizes[0] > STREAMS_MAX || sizes[1] > STREAMS_MAX || event_bytes > EVENT_MAX) {
        bench_die("at most %d streams and %d bytes", STREAMS_MAX, EVENT_MAX);
    }
    raise_limit((sizes[0] > sizes[1] ? sizes[0] : sizes[1]) + 64);
    memset(event, 'x', sizeof(event));
    received =
        mmap(NULL, sizeof(*received), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (received == MAP_FAILED) {
        bench_die("shared memory: %s", strerror(errno));
    }
    printf("{\"bench\":\"sendq\",\"event_bytes\":%lu,\"sendq_bytes\":%zu,\"sizes\":[", event_bytes,
           sizeof(struct sendq));
    for (int i = 0; i < SIZES; i++) {
        printf("%s", i > 0 ? "," : "");
        fflush(stdout); /* before the fork, which would print it again */
        measure(sizes[i]);
    }
    printf("]}\n");
    return 0;
}
