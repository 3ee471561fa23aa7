/* SPDX-License-Identifier: MIT
 *
 * Entities through the whole server: acknowledged `tools/call upsert-entity` over 64 keep-alive
 * connections that each have one under way, in both eras, each upsert a new version that is on the
 * disk when its answer comes. Beside it, in turns: the same rows in a bare SQLite loop with as many
 * per commit, and a bare HTTP server that moves the same bytes and keeps nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bare_rows.h"
#include "common.h"
#include "load.h"
#include "mcp.h"

enum { REQUEST_MAX = 16384, ROUNDS_MAX = 31 };

/* One server as one era reaches it. */
struct target {
    const char *name;
    struct load load;
    pid_t pid;
    size_t request_bytes, answer_bytes; /* of the first */
    char (*sessions)[MCP_SESSION_MAX];  /* by connection; NULL: modern */
    char request[REQUEST_MAX];
};

static unsigned long connection_count = 64, rounds = 5, count = 10000, entities = 1000;
static unsigned long value_bytes = 1000;
static unsigned long written; /* of all targets: every value is a new one */

static size_t make_request(void *user, size_t connection, unsigned long n, const char **ret)
{
    struct target *t = user;
    char value[8192];
    char params[REQUEST_MAX / 2 + 512];
    (void)n;
    written++;
    bare_value(value, sizeof(value), written, value_bytes);
    snprintf(params, sizeof(params),
             "%s\"name\":\"upsert-entity\",\"arguments\":{\"uri\":\"entity:///thing@1/e%lu\","
             "\"value\":%s,\"changedBy\":[{\"userId\":\"bench\"}]}",
             t->sessions ? "" : ",", written % entities, value);
    *ret = t->request;
    return t->sessions
               ? mcp_legacy_request(t->request, sizeof(t->request), t->sessions[connection],
                                    "tools/call", params)
               : mcp_request(t->request, sizeof(t->request), "tools/call", "upsert-entity", params);
}

static void check_written(void *user, const char *answer, size_t length)
{
    struct target *t = user;
    static const char changed[] = "\"changed\":true";
    if (!memmem(answer, length, changed, sizeof(changed) - 1)) {
        bench_die("%s: nothing was written: %.*s", t->name, (int)length, answer);
    }
    t->answer_bytes = length;
}

/* ---- servers --------------------------------------------------------------------------------- */

static unsigned start_server(struct bench_child *child, char *server, char *workers)
{
    char serve[] = "serve";
    char http[] = "--http";
    char address[] = "127.0.0.1:0";
    char option[] = "--workers";
    char store[] = "--entities";
    char path[BENCH_PATH_MAX];
    snprintf(path, sizeof(path), "%.4000s/upserts.db", bench_scratch());
    char *const argv[] = {server, serve, http, address, option, workers, store, path, NULL};
    bench_spawn(child, argv, BENCH_STDERR);
    return bench_wait_port(child);
}

static void add_type(unsigned port)
{
    char request[REQUEST_MAX];
    char answer[REQUEST_MAX];
    int fd = mcp_connect(port);
    size_t n = mcp_request(request, sizeof(request), "tools/call", "add-entity-type",
                           ",\"name\":\"add-entity-type\",\"arguments\":{\"name\":\"thing\","
                           "\"version\":\"1\",\"jsonSchema\":{\"type\":\"object\",\"required\":"
                           "[\"n\"],\"properties\":{\"n\":{\"type\":\"integer\"},\"text\":"
                           "{\"type\":\"string\"}}}}");
    mcp_call(fd, request, n, answer, sizeof(answer));
    if (!strstr(answer, "\"success\":true")) {
        bench_die("no type: %s", answer);
    }
    close(fd);
}

static void open_sessions(struct target *t, unsigned port)
{
    t->sessions = calloc(connection_count, sizeof(*t->sessions));
    if (!t->sessions) {
        bench_die("out of memory");
    }
    for (unsigned long i = 0; i < connection_count; i++) {
        int fd = mcp_connect(port);
        mcp_session(fd, t->sessions[i]);
        close(fd);
    }
}

static void aim(struct target *t, unsigned port, pid_t pid)
{
    t->pid = pid;
    t->load =
        (struct load){.name = t->name, .user = t, .request = make_request, .check = check_written};
    load_open(&t->load, port, connection_count, rounds);
    load_run(&t->load, entities > 1000 ? entities : 1000);
    const char *ignored;
    t->request_bytes = make_request(t, 0, 0, &ignored);
}

static void start_baseline(struct target *t, const struct target *like, struct bench_child *child)
{
    unsigned port = load_start_baseline(child, like->request_bytes, like->answer_bytes);
    t->pid = child->pid;
    t->request_bytes = like->request_bytes;
    t->answer_bytes = like->answer_bytes;
    memcpy(t->request, like->request, like->request_bytes);
    t->load = (struct load){.name = t->name,
                            .same = t->request,
                            .same_bytes = t->request_bytes,
                            .answer_bytes = t->answer_bytes};
    load_open(&t->load, port, connection_count, rounds);
}

/* ---- figures --------------------------------------------------------------------------------- */

static void print(struct target *t)
{
    printf(",\"%s\":{\"per_s\":%.0f,\"per_s_best\":%.0f,\"cpu_us\":%.1f,\"cpu_us_min\":%.1f,"
           "\"request_bytes\":%zu,\"answer_bytes\":%zu}",
           t->name, bench_samples_at(&t->load.per_s, 0.5), bench_samples_at(&t->load.per_s, 1),
           bench_samples_at(&t->load.cpu_us, 0.5), bench_samples_at(&t->load.cpu_us, 0),
           t->request_bytes, t->answer_bytes);
}

int main(int argc, char **argv)
{
    static struct target modern = {.name = "modern"}, legacy = {.name = "legacy"},
                         bare = {.name = "bare_http"};
    struct bench_samples rows_per_s, rows_cpu;
    char server[BENCH_PATH_MAX];
    char workers[BENCH_PATH_MAX] = "0";
    char only[BENCH_PATH_MAX] = "";
    bench_init("upserts", 120);
    bench_sibling(server, "../tidings");
    bench_options(
        argc, argv,
        (struct bench_option[]){
            {.name = "server", .help = "program to measure", .text = server},
            {.name = "workers", .help = "its --workers", .text = workers},
            {.name = "only", .help = "modern or legacy: no figures, load alone", .text = only},
            {.name = "rounds", .help = "turns of each target (5)", .number = &rounds},
            {.name = "writes", .help = "upserts of one turn (10000)", .number = &count},
            {.name = "entities", .help = "that they go to (1000)", .number = &entities},
            {.name = "bytes", .help = "of a value (1000)", .number = &value_bytes},
            {.name = "connections", .help = "connections (64)", .number = &connection_count},
            {.name = NULL},
        });
    if (connection_count < 1 || connection_count > LOAD_CONNECTIONS_MAX || value_bytes > 7000 ||
        entities < 1 || rounds < 1 || rounds > ROUNDS_MAX) {
        bench_die("--connections is 1 to %d, --bytes at most 7000, --entities and --rounds at "
                  "least 1",
                  (int)LOAD_CONNECTIONS_MAX);
    }
    struct bench_child ours, other;
    unsigned port = start_server(&ours, server, workers);
    add_type(port);
    open_sessions(&legacy, port);
    aim(&modern, port, ours.pid);
    aim(&legacy, port, ours.pid);
    if (only[0]) { /* for a profiler */
        load_run(strcmp(only, "legacy") == 0 ? &legacy.load : &modern.load, rounds * count);
        return 0;
    }
    start_baseline(&bare, &modern, &other);
    bench_samples_init(&rows_per_s, rounds);
    bench_samples_init(&rows_cpu, rounds);
    for (unsigned long r = 0; r < rounds; r++) {
        struct bare_cost rows = bare_rows(count, connection_count, entities, value_bytes);
        bench_samples_add(&rows_per_s, 1e6 / rows.wall_us);
        bench_samples_add(&rows_cpu, rows.cpu_us);
        load_measure(&modern.load, modern.pid, count);
        load_measure(&legacy.load, legacy.pid, count);
        load_measure(&bare.load, bare.pid, count);
    }
    printf("{\"bench\":\"upserts\",\"connections\":%lu,\"rounds\":%lu,\"writes\":%lu,\"bytes\":%lu",
           connection_count, rounds, count, value_bytes);
    print(&modern);
    print(&legacy);
    print(&bare);
    printf(",\"bare_rows\":{\"per_s\":%.0f,\"per_s_best\":%.0f,\"cpu_us\":%.1f},"
           "\"goal\":{\"per_s\":15000}}\n",
           bench_samples_at(&rows_per_s, 0.5), bench_samples_at(&rows_per_s, 1),
           bench_samples_at(&rows_cpu, 0.5));
    bench_stop(&ours);
    bench_stop(&other);
    return 0;
}
