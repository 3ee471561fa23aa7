/* SPDX-License-Identifier: MIT
 *
 * CPU time of the server per request, over keep-alive connections that each have one request under
 * way: `resources/read` of a file of 200 bytes and `resources/list` of a directory of 20 files. The
 * load comes from one epoll thread here. For each of the two, a bare server gives canned answers of
 * the same size; all take turns, round by round, and the median round counts.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"
#include "mcp.h"

enum { ANSWER_MAX = 65536, REQUEST_MAX = 16384, CONNECTIONS_MAX = 1024, EVENTS = 64 };

struct connection {
    int fd;
    size_t have;   /* bytes of the answer under way */
    size_t length; /* of the whole answer; 0: head not complete */
    char bytes[ANSWER_MAX];
};

/* One server and one request that is sent to it. */
struct target {
    const char *name;
    pid_t pid;
    int epoll;
    struct connection *connections;
    struct bench_samples cpu_us;
    struct bench_samples per_s;
    size_t answer_length;
    size_t request_length;
    char request[REQUEST_MAX];
};

static unsigned long connection_count = 64;

static void send_request(struct target *t, struct connection *c)
{
    ssize_t n = send(c->fd, t->request, t->request_length, MSG_NOSIGNAL);
    if (n != (ssize_t)t->request_length) {
        bench_die("send to %s: %s", t->name, n < 0 ? strerror(errno) : "short write");
    }
}

/* Takes what has come; true when the answer is complete. */
static bool take_answer(struct target *t, struct connection *c)
{
    ssize_t n = recv(c->fd, c->bytes + c->have, sizeof(c->bytes) - c->have, 0);
    if (n <= 0) {
        bench_die("%s closed a connection or its answer is too large", t->name);
    }
    c->have += (size_t)n;
    if (c->length == 0) {
        c->length = mcp_answer_length(c->bytes, c->have);
    }
    if (c->length == 0 || c->have < c->length) {
        return false;
    }
    if (c->have != t->answer_length) {
        bench_die("%s: an answer of %zu bytes instead of %zu", t->name, c->have, t->answer_length);
    }
    c->have = 0;
    c->length = 0;
    return true;
}

static void open_connections(struct target *t, unsigned port, size_t count)
{
    t->epoll = epoll_create1(EPOLL_CLOEXEC);
    t->connections = calloc(count, sizeof(*t->connections));
    if (t->epoll < 0 || !t->connections) {
        bench_die("out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        struct connection *c = &t->connections[i];
        c->fd = mcp_connect(port);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        if (epoll_ctl(t->epoll, EPOLL_CTL_ADD, c->fd, &e) < 0) {
            bench_die("epoll: %s", strerror(errno));
        }
    }
}

/* One request under way on every connection until `count` are answered. */
static void load(struct target *t, unsigned long count)
{
    unsigned long sent = 0;
    unsigned long answered = 0;
    for (size_t i = 0; i < connection_count && sent < count; i++, sent++) {
        send_request(t, &t->connections[i]);
    }
    while (answered < count) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(t->epoll, events, EVENTS, BENCH_WAIT_MS);
        if (n <= 0) {
            bench_die(n < 0 ? "interrupted or out of time" : "the server does not answer");
        }
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (!take_answer(t, c)) {
                continue;
            }
            answered++;
            if (sent < count) {
                send_request(t, c);
                sent++;
            }
        }
    }
}

static void measure(struct target *t, unsigned long count)
{
    int64_t cpu = bench_cpu_ns(t->pid);
    int64_t from = bench_now_ns();
    load(t, count);
    int64_t took = bench_now_ns() - from;
    bench_samples_add(&t->cpu_us, (double)(bench_cpu_ns(t->pid) - cpu) / 1e3 / (double)count);
    bench_samples_add(&t->per_s, (double)count * 1e9 / (double)took);
}

/* One answer in advance, to see that it is right and how long it is. */
static void probe(struct target *t, unsigned port, const char *expected)
{
    static char answer[ANSWER_MAX];
    int fd = mcp_connect(port);
    t->answer_length = mcp_call(fd, t->request, t->request_length, answer, sizeof(answer));
    if (!strstr(answer, expected)) {
        bench_die("%s: the answer lacks '%s': %s", t->name, expected, answer);
    }
    close(fd);
}

static void start_baseline(struct target *t, const struct target *like, struct bench_child *child)
{
    char path[BENCH_PATH_MAX];
    char request[32];
    char response[32];
    bench_sibling(path, "baseline_http");
    snprintf(request, sizeof(request), "%zu", like->request_length);
    snprintf(response, sizeof(response), "%zu", like->answer_length);
    char *const argv[] = {path, request, response, NULL};
    bench_spawn(child, argv, BENCH_STDERR);
    unsigned port = bench_wait_port(child);
    t->pid = child->pid;
    memcpy(t->request, like->request, like->request_length);
    t->request_length = like->request_length;
    probe(t, port, "xxxx");
    if (t->answer_length != like->answer_length) {
        bench_die("the baseline answers %zu bytes instead of %zu", t->answer_length,
                  like->answer_length);
    }
    open_connections(t, port, connection_count);
}

static void start_server(struct bench_child *child, char *server, char *workers, char *dir)
{
    char serve[] = "serve";
    char http[] = "--http";
    char address[] = "127.0.0.1:0";
    char option[] = "--workers";
    char *const argv[] = {server, serve, http, address, option, workers, dir, NULL};
    bench_spawn(child, argv, BENCH_STDERR);
}

static void print(const struct target *t, struct target *ours, struct target *bare)
{
    double cpu = bench_samples_at(&ours->cpu_us, 0.5);
    double bare_cpu = bench_samples_at(&bare->cpu_us, 0.5);
    printf("\"%s\":{\"cpu_us\":%.2f,\"cpu_us_min\":%.2f,\"requests_per_s\":%.0f,"
           "\"baseline_cpu_us\":%.2f,\"baseline_cpu_us_min\":%.2f,\"baseline_requests_per_s\":%.0f,"
           "\"above_baseline_us\":%.2f,\"request_bytes\":%zu,\"answer_bytes\":%zu}",
           t->name, cpu, bench_samples_at(&ours->cpu_us, 0), bench_samples_at(&ours->per_s, 0.5),
           bare_cpu, bench_samples_at(&bare->cpu_us, 0), bench_samples_at(&bare->per_s, 0.5),
           cpu - bare_cpu, t->request_length, t->answer_length);
}

/* The two requests, for the server that listens on `port`. */
static void aim(struct target *read, struct target *list, pid_t pid, unsigned port, const char *dir)
{
    char uri[BENCH_PATH_MAX];
    char params[BENCH_PATH_MAX + 16];
    snprintf(uri, sizeof(uri), "file://%.3000s/file-07.txt", dir);
    snprintf(params, sizeof(params), ",\"uri\":\"%s\"", uri);
    read->request_length = mcp_request(read->request, REQUEST_MAX, "resources/read", uri, params);
    list->request_length = mcp_request(list->request, REQUEST_MAX, "resources/list", NULL, "");
    read->pid = pid;
    list->pid = pid;
    probe(read, port, "the quick brown fox");
    probe(list, port, "file-19.txt");
    open_connections(read, port, connection_count);
    open_connections(list, port, connection_count);
}

int main(int argc, char **argv)
{
    static struct target targets[4] = {
        {.name = "read"}, {.name = "list"}, {.name = "baseline"}, {.name = "baseline"}};
    char server[BENCH_PATH_MAX];
    char workers[BENCH_PATH_MAX] = "0";
    char only[BENCH_PATH_MAX] = "";
    char dir[BENCH_PATH_MAX];
    unsigned long rounds = 9;
    unsigned long count = 10000;
    bench_init("requests", 120);
    bench_sibling(server, "../tidings");
    bench_options(
        argc, argv,
        (struct bench_option[]){
            {.name = "server", .help = "program to measure", .text = server},
            {.name = "workers", .help = "its --workers", .text = workers},
            {.name = "only", .help = "read or list: no figures, load alone", .text = only},
            {.name = "rounds", .help = "turns of each target", .number = &rounds},
            {.name = "requests", .help = "requests of one turn", .number = &count},
            {.name = "connections", .help = "connections", .number = &connection_count},
            {.name = NULL},
        });
    if (connection_count > CONNECTIONS_MAX) {
        bench_die("more than %d connections", (int)CONNECTIONS_MAX);
    }
    bench_make_files(dir, 20, 200);

    struct bench_child ours;
    struct bench_child bare[2];
    start_server(&ours, server, workers, dir);
    aim(&targets[0], &targets[1], ours.pid, bench_wait_port(&ours), dir);
    for (size_t i = 0; i < 2; i++) {
        start_baseline(&targets[2 + i], &targets[i], &bare[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        bench_samples_init(&targets[i].cpu_us, rounds);
        bench_samples_init(&targets[i].per_s, rounds);
        load(&targets[i], count / 10 + 1);
    }
    if (only[0]) { /* for a profiler */
        load(strcmp(only, "list") == 0 ? &targets[1] : &targets[0], rounds * count);
        return 0;
    }
    for (unsigned long r = 0; r < rounds; r++) {
        for (size_t i = 0; i < 4; i++) {
            measure(&targets[i], count);
        }
    }
    unsigned long rss = bench_memory_kib(ours.pid, "VmRSS");
    printf("{\"bench\":\"requests\",\"connections\":%lu,\"rounds\":%lu,\"requests\":%lu,",
           connection_count, rounds, count);
    print(&targets[0], &targets[0], &targets[2]);
    printf(",");
    print(&targets[1], &targets[1], &targets[3]);
    printf(",\"vm_rss_kib\":%lu,\"goal\":{\"cpu_us\":15}}\n", rss);
    bench_stop(&ours);
    bench_stop(&bare[0]);
    bench_stop(&bare[1]);
    return 0;
}
