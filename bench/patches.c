/* SPDX-License-Identifier: MIT
 *
 * One upsert of an entity and a thousand subscribers to its patches: CPU time of the server per
 * delivered patch, the time from the request until the last has it, and the number of patches made
 * for it. For comparison, in turns with separate servers: the same with the whole entity each time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "mcp.h"
#include "streams.h"

enum { REQUEST_MAX = 16384, ROUNDS_MAX = 31, MEMBERS = 20, WARM_UP = 3 };

#define URI "entity:///thing@1/e"

/* The results of one way to subscribe. */
struct figures {
    const char *name;
    struct bench_samples cpu_us, last_ms;
    unsigned long bytes;   /* of one update */
    double made_per_write; /* patches */
};

static unsigned long stream_count = 1000, rounds = 3, writes = 50;
static unsigned long written; /* each value is a new one */
static char server[BENCH_PATH_MAX];
static char workers[BENCH_PATH_MAX] = "1";

/* ---- asking ---------------------------------------------------------------------------------- */

static void call(int fd, const char *tool, const char *arguments, char *answer, size_t max)
{
    char params[REQUEST_MAX / 2], request[REQUEST_MAX];
    snprintf(params, sizeof(params), ",\"name\":\"%s\",\"arguments\":{%s}", tool, arguments);
    size_t n = mcp_request(request, sizeof(request), "tools/call", tool, params);
    mcp_call(fd, request, n, answer, max);
    if (!strstr(answer, "\"success\":true")) {
        bench_die("%s: %s", tool, answer);
    }
}

/* A value of about 1 KiB of which one member differs from the one before. */
static void upsert(int fd, char *answer, size_t max)
{
    char arguments[4096];
    size_t n = (size_t)snprintf(arguments, sizeof(arguments),
                                "\"uri\":\"" URI "\",\"value\":{\"n\":%lu", ++written);
    for (unsigned i = 0; i < MEMBERS; i++) {
        n +=
            (size_t)snprintf(arguments + n, sizeof(arguments) - n, ",\"member%u\":\"%040u\"", i, i);
    }
    snprintf(arguments + n, sizeof(arguments) - n, "}");
    call(fd, "upsert-entity", arguments, answer, max);
}

/* Patches made so far, by all workers. */
static unsigned long patches_made(int fd)
{
    static const char key[] = "patches\\\":";
    char request[REQUEST_MAX], answer[65536];
    size_t n = mcp_request(request, sizeof(request), "resources/read", "tidings://self/stats",
                           ",\"uri\":\"tidings://self/stats\"");
    mcp_call(fd, request, n, answer, sizeof(answer));
    unsigned long sum = 0;
    const char *at = strstr(answer, key);
    if (!at) {
        bench_die("no counter of patches: %s", answer);
    }
    for (; at; at = strstr(at, key)) {
        at += sizeof(key) - 1;
        sum += strtoul(at, NULL, 10);
    }
    return sum;
}

/* The validFrom in the answer to an upsert. */
static void take_version(const char *answer, char version[32])
{
    static const char key[] = "\"newValidFrom\":\"";
    const char *at = strstr(answer, key);
    if (!at || sscanf(at + sizeof(key) - 1, "%31[^\"]", version) != 1) {
        bench_die("no version: %s", answer);
    }
}

static size_t listen_request(bool patches, const char *version, char *request, size_t max)
{
    char params[1024];
    snprintf(params, sizeof(params),
             ",\"notifications\":{\"resourceSubscriptions\":[\"" URI "%s\"]}",
             patches ? "/patch" : "");
    size_t n = mcp_request(request, max, "subscriptions/listen", NULL, params);
    /* The options go into _meta, which begins with the version. */
    static const char mark[] = "\"_meta\":{";
    char options[256];
    char *at = strstr(request, mark);
    int more =
        snprintf(options, sizeof(options), "\"dev.tidings/options\":{\"initial\":false%s%s%s},",
                 patches ? ",\"baseline\":\"" : "", patches ? version : "", patches ? "\"" : "");
    char *length = strstr(request, "Content-Length: ");
    if (!at || !length || n + (size_t)more >= max) {
        bench_die("no place for options");
    }
    char *body = strstr(request, "\r\n\r\n");
    unsigned long old = strtoul(length + 16, NULL, 10);
    at += sizeof(mark) - 1;
    memmove(at + more, at, n - (size_t)(at - request) + 1);
    memcpy(at, options, (size_t)more);
    char text[32];
    int digits = snprintf(text, sizeof(text), "%lu", old + (unsigned long)more);
    size_t was = strcspn(length + 16, "\r");
    if (!body || (size_t)digits != was) {
        bench_die("another number of digits");
    }
    memcpy(length + 16, text, was);
    return n + (size_t)more;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static unsigned start(struct bench_child *child)
{
    char serve[] = "serve", http[] = "--http", address[] = "127.0.0.1:0", option[] = "--workers";
    char store[] = "--entities", memory[] = ":memory:", self[] = "--self";
    char *const argv[] = {server, serve, http, address, option, workers, store, memory, self, NULL};
    bench_spawn(child, argv, BENCH_STDERR);
    return bench_wait_port(child);
}

static void run_turn(bool patches, struct figures *f)
{
    struct bench_child child;
    struct streams streams;
    char answer[REQUEST_MAX], request[REQUEST_MAX], version[32];
    unsigned port = start(&child);
    int fd = mcp_connect(port);
    call(fd, "add-entity-type",
         "\"name\":\"thing\",\"version\":\"1\",\"jsonSchema\":{\"type\":\"object\"}", answer,
         sizeof(answer));
    upsert(fd, answer, sizeof(answer));
    take_version(answer, version);
    size_t n = listen_request(patches, version, request, sizeof(request));
    streams_init(&streams, stream_count);
    streams_open(&streams, port, request, n);
    for (unsigned i = 0; i < WARM_UP; i++) {
        upsert(fd, answer, sizeof(answer));
        streams_wait(&streams, 1);
    }
    if (!strstr(streams.last, patches ? "\"patch\":{\"n\":" : "\\\"value\\\"")) {
        bench_die("not the expected update: %s", streams.last);
    }
    unsigned long made = patches_made(fd);
    uint64_t bytes = streams.bytes;
    int64_t cpu = bench_cpu_ns(child.pid);
    for (unsigned long i = 0; i < writes; i++) {
        int64_t begin = bench_now_ns();
        upsert(fd, answer, sizeof(answer));
        bench_samples_add(&f->last_ms, (double)(streams_wait(&streams, 1) - begin) / 1e6);
    }
    cpu = bench_cpu_ns(child.pid) - cpu;
    bench_samples_add(&f->cpu_us, (double)cpu / 1e3 / (double)(writes * stream_count));
    f->bytes = (unsigned long)((streams.bytes - bytes) / (writes * stream_count));
    f->made_per_write = (double)(patches_made(fd) - made) / (double)writes;
    streams_close(&streams);
    close(fd);
    bench_stop(&child);
}

static void print(struct figures *f)
{
    printf(",\"%s\":{\"cpu_us\":%.2f,\"cpu_us_min\":%.2f,\"last_ms_p50\":%.2f,\"last_ms_p95\":%.2f,"
           "\"bytes\":%lu,\"patches_per_write\":%.2f}",
           f->name, bench_samples_at(&f->cpu_us, 0.5), bench_samples_at(&f->cpu_us, 0),
           bench_samples_at(&f->last_ms, 0.5), bench_samples_at(&f->last_ms, 0.95), f->bytes,
           f->made_per_write);
}

int main(int argc, char **argv)
{
    struct figures ways[] = {{.name = "patch"}, {.name = "value"}};
    bench_init("patches", 120);
    bench_sibling(server, "../tidings");
    bench_options(argc, argv,
                  (struct bench_option[]){
                      {.name = "server", .help = "program to measure", .text = server},
                      {.name = "workers", .help = "its --workers (1)", .text = workers},
                      {.name = "streams", .help = "subscribers (1000)", .number = &stream_count},
                      {.name = "rounds", .help = "turns of each (3)", .number = &rounds},
                      {.name = "writes", .help = "upserts of one turn (50)", .number = &writes},
                      {.name = NULL},
                  });
    if (rounds < 1 || rounds > ROUNDS_MAX || writes < 1 || stream_count < 1) {
        bench_die("--rounds is 1 to %d, --writes and --streams at least 1", (int)ROUNDS_MAX);
    }
    for (size_t i = 0; i < 2; i++) {
        bench_samples_init(&ways[i].cpu_us, rounds);
        bench_samples_init(&ways[i].last_ms, rounds * writes);
    }
    for (unsigned long r = 0; r < rounds; r++) {
        run_turn(true, &ways[0]);
        run_turn(false, &ways[1]);
    }
    printf("{\"bench\":\"patches\",\"streams\":%lu,\"workers\":%s,\"rounds\":%lu,\"writes\":%lu",
           stream_count, workers, rounds, writes);
    print(&ways[0]);
    print(&ways[1]);
    printf(",\"goal\":{\"patches_per_write\":%s}}\n", workers);
    return 0;
}
