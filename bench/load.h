/* SPDX-License-Identifier: MIT
 *
 * Load from one epoll thread over keep-alive connections that each have one request under way.
 * Requests may differ from one to the next; answers are handed to a check, whole.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stddef.h>

#include "common.h"

enum { LOAD_ANSWER_MAX = 65536, LOAD_CONNECTIONS_MAX = 1024 };

struct load_connection;

struct load {
    const char *name; /* of the server, for complaints */
    void *user;
    /* The `n`th request of all, to be sent on that connection; valid until the next call. NULL:
     * always `same`. */
    size_t (*request)(void *user, size_t connection, unsigned long n, const char **ret);
    /* Dies when the answer is not the expected one. NULL: it has answer_bytes. */
    void (*check)(void *user, const char *answer, size_t length);
    const char *same; /* stays the caller's */
    size_t same_bytes, answer_bytes;
    struct bench_samples cpu_us, per_s; /* of load_measure */
    /* private */
    int epoll;
    size_t count;
    unsigned long sent; /* since the beginning */
    struct load_connection *connections;
};

/* Starts the bare server that answers every `request_bytes` with `answer_bytes`; its port. */
unsigned load_start_baseline(struct bench_child *ret_child, size_t request_bytes,
                             size_t answer_bytes);

/* Connects; the fields above are set. `rounds` is how often it will be measured. */
void load_open(struct load *l, unsigned port, size_t connections, size_t rounds);
void load_close(struct load *l);

/* Until `count` requests are answered. */
void load_run(struct load *l, unsigned long count);
/* The same, with the CPU time of process `pid` and the rate as samples. */
void load_measure(struct load *l, pid_t pid, unsigned long count);

#endif
