/* SPDX-License-Identifier: MIT
 *
 * The cost of a flood for another client: one quiet client reads a file of 200 bytes, one request
 * at a time, and waits for each answer; on other connections a thread here sends the same request
 * repeatedly and always has dozens of them in flight on each. The quiet client's times with and
 * without the flood, round by round in turns, on a server with one worker; the same with a bare
 * server that gives canned answers of the same size.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"
#include "load.h"
#include "mcp.h"

/* A bare server exits if its answers do not fit into the socket: the number in flight on each. */
enum { REQUEST_MAX = 16384, FLOODERS_MAX = 64, UNDER_WAY = 64 };

/* The flood: separate threads and connections. */
struct flood {
    pthread_t thread;
    int fds[FLOODERS_MAX];
    size_t sent[FLOODERS_MAX], taken[FLOODERS_MAX]; /* bytes */
    size_t answer_bytes;
    unsigned long answered; /* atomic: bytes */
    bool over;              /* atomic */
};

struct target {
    const char *name;
    pid_t pid;
    unsigned port;
    int fd; /* the quiet client's */
    size_t answer_bytes;
    struct bench_samples calm, flooded; /* us of each request */
    struct bench_samples between;       /* requests of the flood answered during each */
    struct bench_samples flood_per_s;   /* of each round */
};

static char request[REQUEST_MAX];
static size_t request_bytes;
static unsigned long flooders = 4, rounds = 6, count = 500;
static struct flood flood;

/* The next requests, each whole: a socket that takes no more will take them later. */
static void send_some(struct flood *f, size_t i)
{
    while (f->sent[i] / request_bytes < f->taken[i] / f->answer_bytes + UNDER_WAY) {
        size_t at = f->sent[i] % request_bytes;
        ssize_t n = send(f->fds[i], request + at, request_bytes - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0) {
            return;
        }
        f->sent[i] += (size_t)n;
    }
}

static void take_some(struct flood *f, size_t i)
{
    static char answers[1 << 18];
    ssize_t n = recv(f->fds[i], answers, sizeof(answers), MSG_DONTWAIT);
    if (n > 0) {
        f->taken[i] += (size_t)n;
        __atomic_fetch_add(&f->answered, (unsigned long)n, __ATOMIC_RELAXED);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        bench_die("a connection of the flood was closed");
    }
}

static void *run_flood(void *arg)
{
    struct flood *f = arg;
    struct pollfd polls[FLOODERS_MAX];
    while (!__atomic_load_n(&f->over, __ATOMIC_ACQUIRE)) {
        for (size_t i = 0; i < flooders; i++) {
            send_some(f, i);
            polls[i] = (struct pollfd){.fd = f->fds[i], .events = POLLIN};
        }
        if (poll(polls, flooders, 1) <= 0) {
            continue;
        }
        for (size_t i = 0; i < flooders; i++) {
            if (polls[i].revents & (POLLIN | POLLHUP | POLLERR)) {
                take_some(f, i);
            }
        }
    }
    return NULL;
}

static void begin_flood(const struct target *t)
{
    flood = (struct flood){.answer_bytes = t->answer_bytes};
    for (size_t i = 0; i < flooders; i++) {
        flood.fds[i] = mcp_connect(t->port);
    }
    if (pthread_create(&flood.thread, NULL, run_flood, &flood) != 0) {
        bench_die("no thread for the flood");
    }
}

static void end_flood(void)
{
    __atomic_store_n(&flood.over, true, __ATOMIC_RELEASE);
    pthread_join(flood.thread, NULL);
    for (size_t i = 0; i < flooders; i++) {
        close(flood.fds[i]);
    }
}

static void ask(struct target *t, struct bench_samples *samples)
{
    static char answer[LOAD_ANSWER_MAX];
    unsigned long before = __atomic_load_n(&flood.answered, __ATOMIC_RELAXED);
    int64_t from = bench_now_ns();
    if (mcp_call(t->fd, request, request_bytes, answer, sizeof(answer)) != t->answer_bytes) {
        bench_die("%s: an answer of another size", t->name);
    }
    if (samples) {
        bench_samples_add(samples, (double)(bench_now_ns() - from) / 1e3);
    }
    if (samples == &t->flooded) {
        unsigned long bytes = __atomic_load_n(&flood.answered, __ATOMIC_RELAXED) - before;
        bench_samples_add(&t->between, (double)bytes / (double)t->answer_bytes);
    }
}

static void measure(struct target *t)
{
    for (unsigned long i = 0; i < count; i++) {
        ask(t, &t->calm);
    }
    begin_flood(t);
    for (int i = 0; i < 20; i++) { /* until it is one */
        ask(t, NULL);
    }
    int64_t from = bench_now_ns();
    unsigned long before = __atomic_load_n(&flood.answered, __ATOMIC_RELAXED);
    for (unsigned long i = 0; i < count; i++) {
        ask(t, &t->flooded);
    }
    unsigned long bytes = __atomic_load_n(&flood.answered, __ATOMIC_RELAXED) - before;
    double seconds = (double)(bench_now_ns() - from) / 1e9;
    bench_samples_add(&t->flood_per_s, (double)(bytes / t->answer_bytes) / seconds);
    end_flood();
}

static void aim(struct target *t, pid_t pid, unsigned port)
{
    static char answer[LOAD_ANSWER_MAX];
    t->pid = pid;
    t->port = port;
    t->fd = mcp_connect(port);
    t->answer_bytes = mcp_call(t->fd, request, request_bytes, answer, sizeof(answer));
    bench_samples_init(&t->calm, rounds * count);
    bench_samples_init(&t->flooded, rounds * count);
    bench_samples_init(&t->between, rounds * count);
    bench_samples_init(&t->flood_per_s, rounds);
}

static void print(struct target *t)
{
    printf("\"%s\":{\"calm_us\":%.1f,\"calm_p99_us\":%.1f,\"flooded_us\":%.1f,"
           "\"flooded_p99_us\":%.1f,\"between\":%.0f,\"between_p99\":%.0f,\"flood_per_s\":%.0f}",
           t->name, bench_samples_at(&t->calm, 0.5), bench_samples_at(&t->calm, 0.99),
           bench_samples_at(&t->flooded, 0.5), bench_samples_at(&t->flooded, 0.99),
           bench_samples_at(&t->between, 0.5), bench_samples_at(&t->between, 0.99),
           bench_samples_at(&t->flood_per_s, 0.5));
}

static void start_server(struct bench_child *child, char *server, char *dir)
{
    char serve[] = "serve", http[] = "--http", address[] = "127.0.0.1:0";
    char option[] = "--workers", one[] = "1";
    char *const argv[] = {server, serve, http, address, option, one, dir, NULL};
    bench_spawn(child, argv, BENCH_STDERR);
}

int main(int argc, char **argv)
{
    static struct target ours = {.name = "tidings"}, bare = {.name = "baseline"};
    char server[BENCH_PATH_MAX], dir[BENCH_PATH_MAX], uri[BENCH_PATH_MAX];
    char params[BENCH_PATH_MAX + 16];
    bench_init("fairness", 120);
    bench_sibling(server, "../tidings");
    bench_options(argc, argv,
                  (struct bench_option[]){
                      {.name = "server", .help = "program to measure", .text = server},
                      {.name = "flooders", .help = "connections that flood", .number = &flooders},
                      {.name = "rounds", .help = "turns of each target", .number = &rounds},
                      {.name = "requests",
                       .help = "of the quiet client in a turn, with and without",
                       .number = &count},
                      {.name = NULL},
                  });
    if (flooders > FLOODERS_MAX) {
        bench_die("more than %d flooders", (int)FLOODERS_MAX);
    }
    bench_make_files(dir, 20, 200);
    snprintf(uri, sizeof(uri), "file://%.3000s/file-07.txt", dir);
    snprintf(params, sizeof(params), ",\"uri\":\"%s\"", uri);
    request_bytes = mcp_request(request, REQUEST_MAX, "resources/read", uri, params);

    struct bench_child tidings, baseline;
    start_server(&tidings, server, dir);
    aim(&ours, tidings.pid, bench_wait_port(&tidings));
    unsigned port = load_start_baseline(&baseline, request_bytes, ours.answer_bytes);
    aim(&bare, baseline.pid, port);
    for (unsigned long r = 0; r < rounds; r++) {
        measure(&ours);
        measure(&bare);
    }
    printf("{\"bench\":\"fairness\",\"flooders\":%lu,\"rounds\":%lu,\"requests\":%lu,", flooders,
           rounds, count);
    print(&ours);
    printf(",");
    print(&bare);
    printf("}\n");
    bench_stop(&tidings);
    bench_stop(&baseline);
    return 0;
}
