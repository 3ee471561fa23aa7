/* SPDX-License-Identifier: MIT
 *
 * Streamable HTTP: the connections of one worker.
 *
 * A connection is a raw non-blocking socket with one request at a time; pipelined requests wait. An
 * upgraded connection ends, and a WebSocket continues with its socket (transport/websocket.h). If
 * the answer becomes a stream (a listen, a legacy GET), the connection ends with it. A request of a
 * legacy session that lives on another worker makes the whole connection move there, before any of
 * the request was handled.
 */
#ifndef TRANSPORT_HTTP_H
#define TRANSPORT_HTTP_H

#include <tidings/http.h>

#include "engine/delivery/delivery.h"
#include "transport/http_check.h"
#include "transport/listener.h"

struct http_auth;

/* A page of the program besides the endpoint. */
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
    const struct http_auth *auth; /* NULL: no token is required */
    const struct http_route *routes;
    size_t route_count;
    size_t max_body;
    bool allow_write; /* PUT, PATCH and DELETE on resources */
    bool legacy_sse;  /* /sse and /messages */
    bool events;      /* /events */
    /* The console's page and its Content-Security-Policy; empty: there is none. */
    struct tidings_str console_page, console_policy;
    bool metrics; /* /metrics, as the resource tidings://self/metrics */
    /* The answer to /livez (`is_live`) or /readyz: a status and its text. NULL: these pages do not
     * exist.
     */
    int (*health)(void *user, bool is_live, bool is_detailed, char *out, size_t size);
    void *health_user;
    /* The listener of --metrics: only /metrics, /livez and /readyz, for all clients. Each
     * connection has one request of at most `max_request` bytes, and `whole_timeout_ms` from accept
     * to the last byte of the answer. NULL: another listener. */
    http_scrape_fn scrape;
    void *scrape_user;
    const char *scrape_types[2]; /* Content-Type: plain, OpenMetrics */
    size_t max_request;
    uint64_t whole_timeout_ms;
    uint64_t keepalive_ms, header_timeout_ms, body_timeout_ms, idle_timeout_ms, stall_timeout_ms;
};

struct http_worker;

/* Finds the worker that a session id names. */
typedef struct http_worker *(*http_find_worker_fn)(void *user, unsigned index);

struct http_worker *http_worker_create(struct worker *worker, const struct http_config *config,
                                       http_find_worker_fn find, void *user,
                                       struct tidings_error *err);
/* Closes the remaining connections. Other threads must no longer send to it. */
void http_worker_destroy(struct http_worker *hw);
/* Returns the inbox for connections. */
struct worker_inbox *http_worker_inbox(struct http_worker *hw);
/* After drain_begin: every answer is the last of its connection. Calls `drained` once, when the
 * last connection is gone. A repeated call also ends connections that have become ready to end
 * since. */
void http_worker_drain(struct http_worker *hw, void (*drained)(void *user), void *user);

#endif
