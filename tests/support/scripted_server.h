/* SPDX-License-Identifier: MIT
 *
 * A little HTTP server for tests of the client: every request goes to one function, which answers
 * as the test wants. One thread per connection, one request per connection.
 */
#ifndef SCRIPTED_SERVER_H
#define SCRIPTED_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct scripted_request {
    const char *method; /* GET, POST, DELETE */
    const char *head;   /* request line and headers, lower case names are not promised */
    const char *body;
    int fd;
    int turn; /* how many requests came before this one */
};

struct scripted_server;
typedef void (*scripted_fn)(struct scripted_server *s, const struct scripted_request *r);

struct scripted_server {
    scripted_fn answer;
    int fd;
    char url[64];
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_t threads[1024];
    int fds[1024];
    size_t count;
    char log[16384]; /* one line per request: method, rpc method */
    void *user;
};

void scripted_start(struct scripted_server *s, scripted_fn answer, void *user);
void scripted_stop(struct scripted_server *s); /* breaks connections off, waits for all threads */

bool scripted_is(const struct scripted_request *r, const char *rpc_method);
/* A whole answer. `headers`: more header lines with CRLF, or "". */
void scripted_reply(const struct scripted_request *r, int status, const char *headers,
                    const char *type, const char *body);
/* The result of the request, with its id. */
void scripted_result(const struct scripted_request *r, const char *headers, const char *result);
void scripted_stream(const struct scripted_request *r, const char *headers); /* the head */
void scripted_send(const struct scripted_request *r, const char *text);
/* Wait until the client closes. */
void scripted_await_close(const struct scripted_request *r);
/* The integer id of the request. */
long long scripted_id(const struct scripted_request *r);

/* The capabilities of servers with subscriptions, in the modern and the latest legacy era.
 */
#define DISCOVERED                                                                                 \
    "{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":"        \
    "{\"resources\":{\"subscribe\":true}},\"ttlMs\":0,\"cacheScope\":\"public\"}"
#define INITIALIZED                                                                                \
    "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"resources\":{\"subscribe\":true}},"   \
    "\"serverInfo\":{\"name\":\"x\",\"version\":\"1\"}}"
/* Answers server/discover with that; false: it is another request. */
bool scripted_discovered(const struct scripted_request *r);

#endif
