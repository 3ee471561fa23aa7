/* SPDX-License-Identifier: MIT
 *
 * A test bench for the worker: hub and one or two workers' cores on one loop. Clients are in
 * support/harness_client.h, a provider in support/harness_provider.h.
 *
 *     struct harness b;
 *     harness_init(&b);                  // defaults; change b.limits and so on now
 *     harness_start(&b);
 *     struct client *c = client_http(&b);
 *     client_modern(c, "1", "subscriptions/listen", "\"notifications\":{}");
 *     harness_run_until_idle(&b);
 *     assert_json(client_nth(c, SAID_ACK, 0), "params|_meta|dev.tidings/cursor", …);
 *     client_free(c);
 *     harness_stop(&b);
 */
#ifndef SUPPORT_HARNESS_CORE_H
#define SUPPORT_HARNESS_CORE_H

#include "core/core.h"
#include "delivery/hub.h"
#include "delivery/options.h"

#define HARNESS_CORES 2u

struct harness {
    struct worker_limits limits;
    struct option_limits option_limits; /* behind limits.options */
    struct server_identity self;
    struct hub_options options;
    size_t worker_count;
    struct loop *loop;
    struct hub *hub;
    struct core core[HARNESS_CORES];
    struct worker *worker[HARNESS_CORES]; /* of each */
    struct { /* whom clients are that begin from now on; `name` NULL: nobody asks */
        enum principal_kind kind;
        const char *name, *scopes;
        int64_t expires_ms;
    } principal;
};

void harness_init(struct harness *b);
void harness_start(struct harness *b);
/* Clients must be gone. */
void harness_stop(struct harness *b);
/* Its two halves, for tests of what is under way meanwhile. */
void harness_stop_cores(struct harness *b);
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
