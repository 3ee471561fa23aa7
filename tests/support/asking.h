/* SPDX-License-Identifier: MIT
 *
 * A client on its own thread, for tests whose own thread steps a server: one request of the
 * modern era to a port of loopback, on its own connection.
 *
 *     struct client_requests a;
 *     asking_begin(&a, port, "resources/read", "app:///a");
 *     step until a.done polls readable (asking_step does that)
 *     assert_non_null(strstr(asking_end(&a), "…"));
 */
#ifndef SUPPORT_ASKING_H
#define SUPPORT_ASKING_H

#include <pthread.h>

#include <tidings/tidings.h>

struct asking {
    int port;
    const char *method, *uri;
    int done; /* a descriptor: readable when the answer is here */
    pthread_t thread;
    char answer[16384];
};

void asking_begin(struct asking *a, int port, const char *method, const char *uri);
/* Take turns, as a host would, until the answer is here or the server has ended. Gives what the
 * last turn gave. */
int asking_step(struct asking *a, struct tidings_server *server);
/* Wait for the thread; the whole answer. */
const char *asking_end(struct asking *a);

/* The port passed to on_ready. */
int asking_port(const char *url);

#endif
