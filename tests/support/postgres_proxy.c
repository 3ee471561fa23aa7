/* SPDX-License-Identifier: MIT
 *
 * A proxy in front of PostgreSQL that loses traffic on request.
 */
#include "support/postgres_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define PAIRS 16u
#define BYTES 65536u

struct pair {
    int client, server;
};

struct postgres_proxy {
    struct postgres_server *database;
    int listener, port;
    pthread_t thread;
    int fate; /* enum proxy_fate */
    bool ends;
    int ends_at[2];
    struct pair pairs[PAIRS];
    unsigned count;
    int held; /* to the server, for the thread that lets go; -1: nothing is held */
    size_t held_len;
    char held_bytes[BYTES];
};

static int connect_server(const struct postgres_proxy *p)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)postgres_server_port(p->database)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool send_all(int to, const char *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t sent = send(to, bytes + at, len - at, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        at += (size_t)sent;
    }
    return true;
}

/* false: it is over. */
static bool pass_on(int from, int to)
{
    char bytes[BYTES];
    ssize_t n = recv(from, bytes, sizeof bytes, 0);
    return n > 0 && send_all(to, bytes, (size_t)n);
}

/* The first that comes; nothing is read of the connection after it. */
static void hold(struct postgres_proxy *p, struct pair *pair)
{
    ssize_t n = recv(pair->client, p->held_bytes, sizeof p->held_bytes, 0);
    p->held_len = n > 0 ? (size_t)n : 0;
    __atomic_store_n(&p->held, pair->server, __ATOMIC_RELEASE);
    pair->server = -1;
}

/* false: the connection is over. */
static bool serve_pair(struct postgres_proxy *p, struct pair *pair, bool asks, bool answers)
{
    int fate = __atomic_load_n(&p->fate, __ATOMIC_ACQUIRE);
    bool goes_on = true;
    if (fate == PROXY_SILENT) {
        return true;
    }
    if (asks && fate == PROXY_HOLD_QUESTION) {
        hold(p, pair);
        return false;
    }
    if (asks) {
        goes_on = fate != PROXY_LOSE_QUESTION && pass_on(pair->client, pair->server);
    }
    if (answers && goes_on) {
        goes_on = fate != PROXY_LOSE_ANSWER && pass_on(pair->server, pair->client);
    }
    return goes_on;
}

static void serve(struct postgres_proxy *p, const struct pollfd *fds)
{
    for (unsigned i = 0; i < p->count; i++) {
        struct pair *pair = &p->pairs[i];
        if (!serve_pair(p, pair, fds[2 * i].revents != 0, fds[2 * i + 1].revents != 0)) {
            close(pair->client);
            if (pair->server >= 0) {
                close(pair->server);
            }
            *pair = p->pairs[--p->count];
            return; /* the rest is parsed again */
        }
    }
}

static void *run_proxy(void *user)
{
    struct postgres_proxy *p = user;
    for (;;) {
        struct pollfd fds[2 + 2 * PAIRS];
        int fate = __atomic_load_n(&p->fate, __ATOMIC_ACQUIRE);
        short events = fate == PROXY_SILENT ? 0 : POLLIN;
        fds[0] = (struct pollfd){.fd = p->ends_at[0], .events = POLLIN};
        fds[1] = (struct pollfd){.fd = p->listener, .events = POLLIN};
        for (unsigned i = 0; i < p->count; i++) {
            fds[2 + 2 * i] = (struct pollfd){.fd = p->pairs[i].client, .events = events};
            fds[3 + 2 * i] = (struct pollfd){.fd = p->pairs[i].server, .events = events};
        }
        (void)poll(fds, 2 + 2 * p->count, fate == PROXY_SILENT ? 20 : -1);
        if (fds[0].revents) {
            char byte;
            (void)!read(p->ends_at[0], &byte, 1);
            if (__atomic_load_n(&p->ends, __ATOMIC_ACQUIRE)) {
                break;
            }
            continue;
        }
        serve(p, fds + 2);
        if (fds[1].revents && p->count < PAIRS) {
            struct pair *pair = &p->pairs[p->count];
            pair->client = accept(p->listener, NULL, NULL);
            pair->server = connect_server(p);
            if (pair->server < 0) {
                close(pair->client);
            } else {
                p->count++;
            }
        }
    }
    for (unsigned i = 0; i < p->count; i++) {
        close(p->pairs[i].client);
        close(p->pairs[i].server);
    }
    return NULL;
}

struct postgres_proxy *postgres_proxy_start(struct postgres_server *server)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    struct postgres_proxy *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->database = server;
    p->held = -1;
    p->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(p->listener >= 0 && bind(p->listener, (struct sockaddr *)&at, len) == 0 &&
                listen(p->listener, 16) == 0 &&
                getsockname(p->listener, (struct sockaddr *)&at, &len) == 0);
    p->port = ntohs(at.sin_port);
    assert_int_equal(pipe(p->ends_at), 0);
    assert_int_equal(pthread_create(&p->thread, NULL, run_proxy, p), 0);
    return p;
}

void postgres_proxy_stop(struct postgres_proxy *p)
{
    __atomic_store_n(&p->ends, true, __ATOMIC_RELEASE);
    assert_int_equal(write(p->ends_at[1], "x", 1), 1);
    pthread_join(p->thread, NULL);
    close(p->listener);
    close(p->ends_at[0]);
    close(p->ends_at[1]);
    free(p);
}

const char *postgres_proxy_url(const struct postgres_proxy *p, const char *url,
                               char out[POSTGRES_URL])
{
    (void)snprintf(out, POSTGRES_URL,
                   "postgres://tidings@127.0.0.1:%d/tidings?options=-csearch_path%%3D%s", p->port,
                   postgres_url_schema(url));
    return out;
}

void postgres_proxy_be(struct postgres_proxy *p, enum proxy_fate fate)
{
    __atomic_store_n(&p->fate, fate, __ATOMIC_RELEASE);
    assert_int_equal(write(p->ends_at[1], "x", 1), 1);
}

void postgres_proxy_let_go(struct postgres_proxy *p)
{
    char answer[BYTES];
    int fd = __atomic_exchange_n(&p->held, -1, __ATOMIC_ACQ_REL);
    assert_true(fd >= 0 && p->held_len > 0);
    assert_true(send_all(fd, p->held_bytes, p->held_len));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    while (recv(fd, answer, sizeof answer, 0) > 0) {
    }
    close(fd);
}
