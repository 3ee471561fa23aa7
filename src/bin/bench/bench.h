/* SPDX-License-Identifier: MIT
 *
 * What the parts of `tidings bench` share: many clients of one server on one epoll loop.
 *
 *     bench.c          the command, and what it prints
 *     bench_load.c     the loop; requests; changes and those who hear of them
 *     histogram.c      how long they took
 */
#ifndef BIN_BENCH_H
#define BIN_BENCH_H

#include <sys/types.h>
#include <tidings/client.h>

#include "bin/bench/histogram.h"
#include "bin/cli/command.h"

struct bench;

/* One client: of its requests, or of updates. */
struct bench_client {
    struct bench *bench;
    struct tidings_client *client;
    uint64_t asked_us;    /* when its request went out */
    uint64_t last_change; /* the last change it heard of */
    unsigned failures;    /* requests in a row that were not answered at all */
    bool is_accepted;
    bool is_lost; /* it hears nothing at present */
    bool has_failed;
};

/* What was measured in one phase. Times in microseconds. */
struct measured {
    struct histogram times;
    /* While requests, or a change, were under way: the time, and what this process used of it. */
    uint64_t elapsed, cpu;
    uint64_t errors;  /* answers that are errors */
    uint64_t changes; /* made */
    uint64_t missed;  /* updates that did not come within the time limit */
    bool was_done;
    char ended[64]; /* before its time: why; "": it took as long as it was asked to */
    char why[200];  /* not done: why; done: the first error */
};

struct bench {
    struct cli cli;
    uint64_t connections, listens, duration_ms, requests;
    const char *change;
    bool touches, wants_login, is_wanted; /* the fan-out is to be measured */
    char *uri;
    char *read_params; /* of resources/read */
    struct bench_client *clients;
    size_t count;
    int epoll;
    struct measured asked, told; /* the two phases */
    /* requests under way: */
    uint64_t sent, ends_us;
    size_t under_way;
    /* the change under way: */
    uint64_t change_us; /* when it began; 0: none */
    size_t hearers, heard, lost;
    pid_t child;
    bool is_calling; /* the tool is */
};

void bench_close(struct bench *b);
int bench_requests(struct bench *b, struct tidings_error *err);
int bench_fanout(struct bench *b, struct tidings_error *err);

#endif
