/* SPDX-License-Identifier: MIT
 *
 * Streamable HTTP: the connections of one worker.
 *
 * A connection is a raw non-blocking socket with one request at a time; what is pipelined behind it
 * waits. One that is upgraded ends, and a WebSocket goes on with its socket
 * (transport/websocket.h). An answer that becomes a stream (a listen, a legacy GET) ends with the
 * connection. A request of a legacy session that lives on another worker makes the whole connection
 * move there, before anything of the request was handled.
 */
#ifndef TRANSPORT_HTTP_H
#define TRANSPORT_HTTP_H

#include <tidings/http.h>

#include "engine/delivery/delivery.h"
#include "transport/http_check.h"
#include "transport/listener.h"

struct http_auth;

/* A page of the program beside the endpoint. */
struct http_route {
    const char *path;
    tidings_route_fn fn;
    void *user;
};

/* Writes the text of /metrics: calls `done` once, on any thread, which may take the text's memory.
 * NULL: out of memory. */
typedef void (*http_scrape_fn)(void *user, bool is_openmetrics,
                               void (*done)(void *user, struct buf *text), void *done_user);

/* Frozen while the server runs. */
struct http_config {
    struct origin_check origin_check;
    const struct http_auth *auth; /* NULL: nobody is asked for a token */
    const struct http_route *routes;
    size_t route_count;
    size_t max_body;
    bool allow_write; /* PUT, PATCH and DELETE on resources */
    bool legacy_sse;  /* /sse and /messages */
    bool events;      /* /events */
    /* The console's page and its Content-Security-Policy; empty: there is none. */
    struct tidings_str console_page, console_policy;
    bool metrics; /* /metrics, as the resource tidings://self/metrics */
    /* The answer to /livez (`is_live`) or /readyz: a status and a text. NULL: they are not there.
     */
    int (*health)(void *user, bool is_live, bool is_detailed, char *out, size_t size);
    void *health_user;
    /* The listener of --metrics: /metrics, /livez and /readyz and nothing else, for everybody. Each
     * connection has one request of at most `max_request` bytes, and `whole_timeout_ms` from accept
     * to the last byte of the answer. NULL: not this one. */
    http_scrape_fn scrape;
    void *scrape_user;
    const char *scrape_types[2]; /* Content-Type: plain, OpenMetrics */
    size_t max_request;
    uint64_t whole_timeout_ms;
    uint64_t keepalive_ms, header_timeout_ms, body_timeout_ms, idle_timeout_ms, stall_timeout_ms;
};

struct http_worker;

/* Where a session id says its connection belongs. */
typedef struct http_worker *(*http_find_worker_fn)(void *user, unsigned index);

struct http_worker *http_worker_create(struct worker *worker, const struct http_config *config,
                                       http_find_worker_fn find, void *user,
                                       struct tidings_error *err);
/* Closes what is left. Other threads must not send to it any more. */
void http_worker_destroy(struct http_worker *hw);
/* What connections are sent to. */
struct worker_inbox *http_worker_inbox(struct http_worker *hw);
/* After drain_begin: every answer is the last of its connection; calls `drained` once the last of
 * them is gone. Again after another one: those go too whose end has come since. */
void http_worker_drain(struct http_worker *hw, void (*drained)(void *user), void *user);

#endif
