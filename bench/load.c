/* SPDX-License-Identifier: MIT
 *
 * Sends requests over keep-alive connections and takes their answers (load.h).
 */
#include "load.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mcp.h"

enum { EVENTS = 64 };

struct load_connection {
    int fd;
    size_t have;   /* bytes of the answer under way */
    size_t length; /* of the whole answer; 0: head not complete */
    char bytes[LOAD_ANSWER_MAX];
};

unsigned load_start_baseline(struct bench_child *ret_child, size_t request_bytes,
                             size_t answer_bytes)
{
    char path[BENCH_PATH_MAX];
    char request[32];
    char answer[32];
    bench_sibling(path, "baseline_http");
    snprintf(request, sizeof(request), "%zu", request_bytes);
    snprintf(answer, sizeof(answer), "%zu", answer_bytes);
    char *const argv[] = {path, request, answer, NULL};
    bench_spawn(ret_child, argv, BENCH_STDERR);
    return bench_wait_port(ret_child);
}

void load_open(struct load *l, unsigned port, size_t connections, size_t rounds)
{
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->count = connections;
    l->connections = calloc(connections, sizeof(*l->connections));
    if (l->epoll < 0 || !l->connections) {
        bench_die("out of memory");
    }
    for (size_t i = 0; i < connections; i++) {
        struct load_connection *c = &l->connections[i];
        c->fd = mcp_connect(port);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &e) < 0) {
            bench_die("epoll: %s", strerror(errno));
        }
    }
    bench_samples_init(&l->cpu_us, rounds);
    bench_samples_init(&l->per_s, rounds);
}

void load_close(struct load *l)
{
    for (size_t i = 0; i < l->count; i++) {
        close(l->connections[i].fd);
    }
    close(l->epoll);
    free(l->connections);
    bench_samples_deinit(&l->cpu_us);
    bench_samples_deinit(&l->per_s);
}

static void send_request(struct load *l, struct load_connection *c)
{
    const char *request = l->same;
    size_t length = l->same_bytes;
    if (l->request) {
        length = l->request(l->user, (size_t)(c - l->connections), l->sent++, &request);
    }
    ssize_t n = send(c->fd, request, length, MSG_NOSIGNAL);
    if (n != (ssize_t)length) {
        bench_die("send to %s: %s", l->name, n < 0 ? strerror(errno) : "short write");
    }
}

/* Takes what has come; true when the answer is complete. */
static bool take_answer(struct load *l, struct load_connection *c)
{
    ssize_t n = recv(c->fd, c->bytes + c->have, sizeof(c->bytes) - c->have, 0);
    if (n <= 0) {
        bench_die("%s closed a connection or its answer is too large", l->name);
    }
    c->have += (size_t)n;
    if (c->length == 0) {
        c->length = mcp_answer_length(c->bytes, c->have);
    }
    if (c->length == 0 || c->have < c->length) {
        return false;
    }
    if (l->check) {
        l->check(l->user, c->bytes, c->have);
    } else if (c->have != l->answer_bytes) {
        bench_die("%s: an answer of %zu bytes instead of %zu", l->name, c->have, l->answer_bytes);
    }
    c->have = 0;
    c->length = 0;
    return true;
}

void load_run(struct load *l, unsigned long count)
{
    unsigned long sent = 0;
    unsigned long answered = 0;
    for (size_t i = 0; i < l->count && sent < count; i++, sent++) {
        send_request(l, &l->connections[i]);
    }
    while (answered < count) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(l->epoll, events, EVENTS, BENCH_WAIT_MS);
        if (n <= 0) {
            bench_die(n < 0 ? "interrupted or out of time" : "the server does not answer");
        }
        for (int i = 0; i < n; i++) {
            struct load_connection *c = events[i].data.ptr;
            if (!take_answer(l, c)) {
                continue;
            }
            answered++;
            if (sent < count) {
                send_request(l, c);
                sent++;
            }
        }
    }
}

void load_measure(struct load *l, pid_t pid, unsigned long count)
{
    int64_t cpu = bench_cpu_ns(pid);
    int64_t from = bench_now_ns();
    load_run(l, count);
    int64_t took = bench_now_ns() - from;
    bench_samples_add(&l->cpu_us, (double)(bench_cpu_ns(pid) - cpu) / 1e3 / (double)count);
    bench_samples_add(&l->per_s, (double)count * 1e9 / (double)took);
}
