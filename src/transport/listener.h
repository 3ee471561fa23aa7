/* SPDX-License-Identifier: MIT
 *
 * One listening socket; every accepted connection is handed to the least loaded worker.
 */
#ifndef TRANSPORT_LISTENER_H
#define TRANSPORT_LISTENER_H

#include "base/loop.h"
#include "transport/http.h"

struct listener;

struct listener_options {
    const char *host; /* numeric address */
    uint16_t port;    /* 0: any free one */
    size_t max_connections;
    struct http_worker *const *workers;
    size_t worker_count;
};

/* Binds and listens. A port in use is an error that says so: there is no sharing of ports. */
struct listener *listener_open(struct loop *loop, const struct listener_options *options,
                               struct tidings_error *err);
void listener_close(struct listener *listener); /* NULL is fine */
uint16_t listener_port(const struct listener *listener);

#endif
