/* SPDX-License-Identifier: MIT
 *
 * One door that is open: a listening socket whose connections are handed, one by one, to the least
 * loaded worker. Beyond the number of connections that all doors together may have, or one client
 * may, it is turned away (transport/turnaway.h); when descriptors run out, accepting pauses.
 */
#ifndef TRANSPORT_LISTENER_H
#define TRANSPORT_LISTENER_H

#include "base/loop.h"
#include "transport/door.h"
#include "transport/endpoint.h"
#include "transport/turnaway.h"

struct listener;

struct listener_options {
    const struct door *door; /* outlives the connections that come through it */
    struct endpoint_address at;
    size_t max_connections;           /* of all doors */
    const struct entrance *entrances; /* of the workers; outlive the listener */
    size_t entrance_count;
    struct quotas *quotas;
    struct turnaway *turnaway;
};

struct listener *listener_open(struct loop *loop, const struct listener_options *options,
                               struct tidings_error *err);
void listener_close(struct listener *listener); /* NULL is fine */
/* What clients connect to: "http://127.0.0.1:7777/mcp", "tcp://[::1]:7778", "unix:/run/x.sock". */
const char *listener_url(const struct listener *listener);
const struct endpoint *listener_endpoint(const struct listener *listener);

#endif
