/* SPDX-License-Identifier: MIT
 *
 * CPU time of the server per request, over keep-alive connections that each have one request under
 * way: `resources/read` of a file of 200 bytes and `resources/list` of a directory of 20 files. The
 * load comes from one epoll thread here. For each of the two, a bare server gives canned answers of
 * the same size; all take turns, round by round, and the median round counts.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "load.h"
#include "mcp.h"

enum { REQUEST_MAX = 16384 };

/* One server and one request that is sent to it. */
struct target {
    const char *name;
    pid_t pid;
    struct load load;
    size_t answer_length;
    size_t request_length;
    char request[REQUEST_MAX];
};

static unsigned long connection_count = 64, rounds = 9;

static void open_connections(struct target *t, unsigned port)
{
    t->load = (struct load){.name = t->name,
                            .same = t->request,
                            .same_bytes = t->request_length,
                            .answer_bytes = t->answer_length};
    load_open(&t->load, port, connection_count, rounds);
}

/* One answer in advance, to see that it is right and how long it is. */
static void probe(struct target *t, unsigned port, const char *expected)
{
    static char answer[LOAD_ANSWER_MAX];
    int fd = mcp_connect(port);
    t->answer_length = mcp_call(fd, t->request, t->request_length, answer, sizeof(answer));
    if (!strstr(answer, expected)) {
        bench_die("%s: the answer lacks '%s': %s", t->name, expected, answer);
    }
    close(fd);
}

static void start_baseline(struct target *t, const struct target *like, struct bench_child *child)
{
    unsigned port = load_start_baseline(child, like->request_length, like->answer_length);
    t->pid = child->pid;
    memcpy(t->request, like->request, like->request_length);
    t->request_length = like->request_length;
    probe(t, port, "xxxx");
    if (t->answer_length != like->answer_length) {
        bench_die("the baseline answers %zu bytes instead of %zu", t->answer_length,
                  like->answer_length);
    }
    open_connections(t, port);
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
    double cpu = bench_samples_at(&ours->load.cpu_us, 0.5);
    double bare_cpu = bench_samples_at(&bare->load.cpu_us, 0.5);
    printf("\"%s\":{\"cpu_us\":%.2f,\"cpu_us_min\":%.2f,\"requests_per_s\":%.0f,"
           "\"baseline_cpu_us\":%.2f,\"baseline_cpu_us_min\":%.2f,\"baseline_requests_per_s\":%.0f,"
           "\"above_baseline_us\":%.2f,\"request_bytes\":%zu,\"answer_bytes\":%zu}",
           t->name, cpu, bench_samples_at(&ours->load.cpu_us, 0),
           bench_samples_at(&ours->load.per_s, 0.5), bare_cpu,
           bench_samples_at(&bare->load.cpu_us, 0), bench_samples_at(&bare->load.per_s, 0.5),
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
    open_connections(read, port);
    open_connections(list, port);
}

int main(int argc, char **argv)
{
    static struct target targets[4] = {
        {.name = "read"}, {.name = "list"}, {.name = "baseline"}, {.name = "baseline"}};
    char server[BENCH_PATH_MAX];
    char workers[BENCH_PATH_MAX] = "0";
    char only[BENCH_PATH_MAX] = "";
    char dir[BENCH_PATH_MAX];
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
    if (connection_count > LOAD_CONNECTIONS_MAX) {
        bench_die("more than %d connections", (int)LOAD_CONNECTIONS_MAX);
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
        load_run(&targets[i].load, count / 10 + 1);
    }
    if (only[0]) { /* for a profiler */
        load_run(&targets[strcmp(only, "list") == 0].load, rounds * count);
        return 0;
    }
    for (unsigned long r = 0; r < rounds; r++) {
        for (size_t i = 0; i < 4; i++) {
            load_measure(&targets[i].load, targets[i].pid, count);
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
