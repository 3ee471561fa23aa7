/* SPDX-License-Identifier: MIT
 *
 * A test bench for the worker: hub and one or two workers' cores on one loop. Clients are in
 * support/bench_client.h, a provider in support/bench_provider.h.
 *
 *     struct bench b;
 *     bench_init(&b);                  // defaults; change b.limits and so on now
 *     bench_start(&b);
 *     struct client *c = client_http(&b);
 *     client_modern(c, "1", "subscriptions/listen", "\"notifications\":{}");
 *     bench_settle(&b);
 *     assert_json(client_nth(c, SAID_ACK, 0), "params|_meta|dev.tidings/cursor", …);
 *     client_free(c);
 *     bench_stop(&b);
 */
#ifndef SUPPORT_BENCH_CORE_H
#define SUPPORT_BENCH_CORE_H

#include "core/core.h"
#include "delivery/hub.h"
#include "delivery/options.h"

#define BENCH_CORES 2u

struct bench {
    struct worker_limits limits;
    struct option_limits option_limits; /* behind limits.options */
    struct server_identity self;
    struct hub_options options;
    size_t worker_count;
    struct loop *loop;
    struct hub *hub;
    struct core core[BENCH_CORES];
    struct worker *worker[BENCH_CORES]; /* of each */
    struct { /* whom clients are that begin from now on; `name` NULL: nobody asks */
        enum principal_kind kind;
        const char *name, *scopes;
        int64_t expires_ms;
    } who;
};

void bench_init(struct bench *b);
void bench_start(struct bench *b);
/* Clients must be gone. */
void bench_stop(struct bench *b);
/* Its two halves, for tests of what is under way meanwhile. */
void bench_stop_cores(struct bench *b);
void bench_stop_hub(struct bench *b);

/* Turns until no letter is under way and nothing waits to be flushed. */
void bench_settle(struct bench *b);
/* Turns, waiting for events, until fn(user); fails the test after some seconds. */
void bench_until(struct bench *b, bool (*fn)(void *user), void *user);

/* Register a resource (or template) that reads as "text of URI". */
void bench_add(struct bench *b, const char *uri);
void bench_add_template(struct bench *b, const char *uri_template);
void bench_remove(struct bench *b, const char *uri);
/* Announce, without waiting for anything. */
void bench_change(struct bench *b, const char *uri, enum tidings_change_kind kind);
void bench_update(struct bench *b, const char *uri);

#endif
