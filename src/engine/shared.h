/* SPDX-License-Identifier: MIT
 *
 * What all workers of a server share and use from any thread: limits and what clients use of them,
 * tasks, the key that seals, the pool of handlers. It outlives the hub and the workers.
 */
#ifndef ENGINE_SHARED_H
#define ENGINE_SHARED_H

#include <tidings/types.h>

#include "security/limits.h"
#include "security/seal.h"

struct client_accounts;
struct pool;
struct tasks;
struct tidings_call_hooks;
struct worker;

struct shared {
    struct limit_counters limits;
    struct quotas *quotas;
    struct client_accounts *client_accounts;
    struct tasks *tasks;
    /* For what clients keep for handlers. Random, unless it is set before workers are made: nodes
     * that share a store have the same. */
    struct seal_key seal;
    struct pool *handlers; /* for those that block: reads do not wait for them */
    /* The program's functions around calls of tools; NULL: none. Before the workers begin. */
    const struct tidings_call_hooks *call_hooks;
};

struct shared *shared_create(struct tidings_error *err);
/* Before the hub goes: handlers that still run end. May be left out. */
void shared_stop(struct shared *shared);
/* Nobody holds anything of it. NULL is fine. */
void shared_destroy(struct shared *shared);

/* Give it to a worker that is being made; its handlers are there. */
void shared_give(struct shared *shared, struct worker *worker);

#endif
