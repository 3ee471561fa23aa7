/* SPDX-License-Identifier: MIT
 *
 * A test bench for what is below requests: a hub and one or two workers on one loop, with the state
 * of every part up to delivery. For a whole worker, which answers clients, there is
 * support/harness_core.h.
 *
 *     struct harness b;
 *     harness_init(&b);                  // defaults; change b.limits and so on now
 *     harness_start_delivery(&b);
 *     harness_add(&b, "mem:///one");
 *     … subscriber_create(b.worker[0], …) …
 *     harness_update(&b, "mem:///one");
 *     harness_run_until_idle(&b);
 *     harness_stop_delivery(&b);
 */
#ifndef SUPPORT_HARNESS_DELIVERY_H
#define SUPPORT_HARNESS_DELIVERY_H

#include "engine/delivery/delivery.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/options.h"
#include "engine/protocol/dialect.h"
#include "engine/shared.h"
#include "security/principal.h"

#define HARNESS_WORKERS 2u

struct harness {
    struct worker_limits limits;
    struct option_limits option_limits; /* behind limits.options */
    struct server_identity self;
    struct hub_options options;
    size_t worker_count;
    struct loop *loop;
    struct hub *hub;
    struct shared *shared;
    struct worker *worker[HARNESS_WORKERS]; /* … and the memory that it and its parts are in: */
    void *state[HARNESS_WORKERS];
    struct { /* the user of clients that connect from now on; `name` NULL: anonymous */
        enum principal_kind kind;
        const char *name, *scopes;
        int64_t expires_ms;
    } principal;
};

void harness_init(struct harness *b);
void harness_start_delivery(struct harness *b);
/* Subscribers end with it. */
void harness_stop_delivery(struct harness *b);

/* The parts of it that a whole worker needs too: loop and hub, that the hub forgets its workers,
 * and the end of everything. */
void harness_start_hub(struct harness *b);
void harness_detach(struct harness *b);
void harness_stop_hub(struct harness *b);

/* Turns until no letter is under way and nothing waits to be flushed. */
void harness_run_until_idle(struct harness *b);
/* Turns, waiting for events, until fn(user); fails the test after some seconds. */
void harness_until(struct harness *b, bool (*fn)(void *user), void *user);

/* Register a resource (or template) that reads as "text of URI". */
void harness_add(struct harness *b, const char *uri);
void harness_add_template(struct harness *b, const char *uri_template);
void harness_remove(struct harness *b, const char *uri);
/* Announce, without waiting for anything. */
void harness_change(struct harness *b, const char *uri, enum tidings_change_kind kind);
void harness_update(struct harness *b, const char *uri);

#endif
