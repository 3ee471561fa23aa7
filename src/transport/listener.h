/* SPDX-License-Identifier: MIT
 *
 * A listener: a listening socket that is open. Its connections are handed, one by one, to the least
 * loaded worker. One that is beyond what all listeners together, or one client, may have is
 * rejected (transport/reject.h); when descriptors run out, accepting pauses.
 */
#ifndef TRANSPORT_LISTENER_H
#define TRANSPORT_LISTENER_H

#include "base/loop.h"
#include "transport/endpoint.h"
#include "transport/reject.h"
#include "transport/worker_inbox.h"

struct listener;

struct listener_options {
    const struct listener_protocol *protocol; /* outlives the listener */
    struct endpoint_address at;
    size_t max_connections;               /* of all listeners */
    const struct worker_inboxes *inboxes; /* of the workers; outlive the listener */
    size_t worker_count;
    struct quotas *quotas;
    struct allowances *allowances;
    struct reject_list *rejects;
};

struct listener *listener_open(struct loop *loop, const struct listener_options *options,
                               struct tidings_error *err);
void listener_close(struct listener *listener); /* NULL is fine */
/* What clients connect to: "http://127.0.0.1:7777/mcp", "tcp://[::1]:7778", "unix:/run/x.sock". */
const char *listener_url(const struct listener *listener);
const struct endpoint *listener_endpoint(const struct listener *listener);

#endif
