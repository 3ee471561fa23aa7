/* SPDX-License-Identifier: MIT
 *
 * State shared by all workers of a server and used from any thread: limits and their use by
 * clients, tasks, the sealing key, the pool of handlers. It outlives the hub and the workers.
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
    /* For state that clients keep for handlers. Random, unless set before workers are created:
     * nodes with a shared store have the same key. */
    struct seal_key seal;
    struct pool *handlers; /* for blocking handlers, so that reads do not wait for them */
    /* The program's functions around tool calls; NULL: none. Set before the workers start. */
    const struct tidings_call_hooks *call_hooks;
};

struct shared *shared_create(struct tidings_error *err);
/* Call before the hub is destroyed: waits for running handlers. Optional. */
void shared_stop(struct shared *shared);
/* No reference to it may be left. Accepts NULL. */
void shared_destroy(struct shared *shared);

/* Gives it to a worker under construction, which already has its handlers. */
void shared_give(struct shared *shared, struct worker *worker);

#endif
