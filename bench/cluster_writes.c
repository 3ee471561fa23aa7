/* SPDX-License-Identifier: MIT
 *
 * The load of one node for bench/cluster.mjs: `tools/call upsert-entity` over keep-alive
 * connections with one request in flight each, to a running server. Prints its start and its end,
 * so that several can be started together.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "load.h"
#include "mcp.h"

enum { REQUEST_MAX = 16384 };

static unsigned long port, count = 10000, entities = 1000, value_bytes = 1000, connections = 64;
static unsigned long written, salt;
static char bytes[REQUEST_MAX];

static size_t make_request(void *user, size_t connection, unsigned long n, const char **ret)
{
    static char text[8192];
    char params[REQUEST_MAX / 2 + 512];
    (void)user;
    (void)connection;
    (void)n;
    if (text[0] == '\0') {
        memset(text, 'x', value_bytes > 40 ? value_bytes - 40 : 1);
    }
    written++;
    snprintf(params, sizeof(params),
             ",\"name\":\"upsert-entity\",\"arguments\":{\"uri\":\"entity:///thing@1/e%lu-%lu\","
             "\"value\":{\"n\":%lu,\"text\":\"%s\"},\"changedBy\":[{\"userId\":\"bench\"}]}",
             salt, written % entities, written, text);
    *ret = bytes;
    return mcp_request(bytes, sizeof(bytes), "tools/call", "upsert-entity", params);
}

static void check_written(void *user, const char *answer, size_t length)
{
    (void)user;
    static const char changed[] = "\"changed\":true";
    if (!memmem(answer, length, changed, sizeof(changed) - 1)) {
        bench_die("nothing was written: %.*s", (int)length, answer);
    }
}

int main(int argc, char **argv)
{
    char line[64];
    bench_init("cluster_writes", 300);
    bench_options(argc, argv,
                  (struct bench_option[]){
                      {.name = "port", .help = "of the node", .number = &port},
                      {.name = "salt", .help = "whose entities (0)", .number = &salt},
                      {.name = "writes", .help = "upserts (10000)", .number = &count},
                      {.name = "first", .help = "the first number (0)", .number = &written},
                      {.name = "entities", .help = "that they go to (1000)", .number = &entities},
                      {.name = "bytes", .help = "of a value (1000)", .number = &value_bytes},
                      {.name = "connections", .help = "(64)", .number = &connections},
                      {.name = NULL},
                  });
    if (connections < 1 || connections > LOAD_CONNECTIONS_MAX || value_bytes > 7000 || !entities) {
        bench_die("--connections is 1 to %d, --bytes at most 7000", (int)LOAD_CONNECTIONS_MAX);
    }
    struct load load = {.name = "node", .request = make_request, .check = check_written};
    load_open(&load, (unsigned)port, connections, 1);
    load_run(&load, entities); /* they exist, and are in the cache */
    printf("ready\n");
    (void)fflush(stdout);
    (void)bench_read_line(STDIN_FILENO, line, sizeof(line));
    int64_t begun = bench_now_ns();
    load_run(&load, count);
    double seconds = (double)(bench_now_ns() - begun) / 1e9;
    printf("{\"writes\":%lu,\"seconds\":%.3f,\"per_s\":%.0f}\n", count, seconds,
           (double)count / seconds);
    load_close(&load);
    return 0;
}
