/* SPDX-License-Identifier: MIT
 *
 * HTTP workers in memory for tests of their connections: two workers on one loop, and clients at
 * the other ends of socket pairs. Time does not pass: who is to be late is made older (wire_age).
 *
 *     struct wire w;
 *     wire_start(&w);                       // change w.config before clients connect
 *     struct wire_client *c = wire_connect(&w, 0);
 *     wire_say(c, "GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n");
 *     assert_int_equal(wire_state(&w, 0), CONN_IDLE);
 *     assert_non_null(strstr(wire_heard(c), "pong"));
 *     wire_stop(&w);
 *
 * There are the page /ping, which says "pong", /echo, which says what it was sent, and the provider
 * of support/harness_provider.h with mem://x/a.
 */
#ifndef SUPPORT_HTTP_WIRE_H
#define SUPPORT_HTTP_WIRE_H

#include "support/harness_core.h"
#include "support/harness_provider.h"
#include "transport/http_internal.h"

#define WIRE_CLIENTS 8u
#define WIRE_MAX_BODY 4096u

struct wire;
struct wire_client {
    struct wire *wire;
    int fd;    /* -1: gone */
    bool over; /* the server has closed it, or will say nothing more */
    bool deaf; /* it takes nothing for now */
    struct buf heard;
};

struct wire {
    struct harness b;
    struct fake fake;
    struct http_config config;
    struct http_route routes[2];
    struct http_worker *hw[HARNESS_WORKERS];
    struct wire_client clients[WIRE_CLIENTS];
    size_t client_count;
    unsigned drained; /* workers that reported it */
};

void wire_start(struct wire *w);
void wire_stop(struct wire *w);
/* Turns until idle. */
void wire_turn(struct wire *w);
/* Ages a worker's connections in `state` by that time, and runs the work that is due then. */
void wire_age(struct wire *w, unsigned worker, enum conn_state state, uint64_t ms);
/* End the worker, as a server does that stops. */
void wire_drain(struct wire *w, unsigned worker);

/* The state of the only HTTP connection of a worker; CONN_GONE: there is none. */
enum conn_state wire_state(struct wire *w, unsigned worker);
struct http_conn *wire_conn(struct wire *w, unsigned worker); /* … itself */
/* The only connection of a kind; NULL: there is none. */
struct connection *wire_only(struct connections *all);
/* Connections of a worker, of either kind. */
size_t wire_connections(struct wire *w, unsigned worker);

struct wire_client *wire_connect(struct wire *w, unsigned worker);
void wire_say(struct wire_client *c, const char *text); /* and turns */
void wire_say_bytes(struct wire_client *c, const char *bytes, size_t len);
void wire_half_close(struct wire_client *c);
void wire_leave(struct wire_client *c);
/* The input since the last call (zero bytes read as blanks). */
const char *wire_heard(struct wire_client *c);

/* It must be in there; how often it is. */
void wire_assert_has(const char *text, const char *what);
size_t wire_count(const char *text, const char *what);

/* Messages to send: a modern listen, an upgrade; a frame as a client sends it. */
const char *wire_listen(const char *uri);
extern const char wire_upgrade[];
size_t wire_frame(char *out, unsigned first_byte, const char *payload, size_t len);

#endif
