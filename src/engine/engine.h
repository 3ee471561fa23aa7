/* SPDX-License-Identifier: MIT
 *
 * The core: a worker with the state of every part of the server that handles requests or delivers
 * changes. Parts start and stop in a fixed order.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "engine/delivery/delivery.h"
#include "engine/protocol/enforce.h"
#include "engine/protocol/feature.h"
#include "engine/protocol/request.h"
#include "engine/protocol/session.h"
#include "security/failures.h"
#include "security/principal.h"

struct shared;

struct core {
    struct worker worker;
    struct principals principals;
    struct failures failures;
    struct requests requests;
    struct handlers handlers;
    struct delivery delivery;
    struct sessions sessions;
    struct drain drain;
    struct loop_hook tick_hook;
    struct loop_timer *tick; /* ends expired sessions, requests and tasks */
    uint64_t tick_due_ms;    /* when it runs; 0: not scheduled */
};

/* `core->worker.limits` and `.self` are set, the rest is zero. Call core_deinit even if it
 * fails. */
int core_init(struct core *core, struct loop *loop, struct hub *hub, struct shared *shared,
              unsigned index, struct tidings_error *err);
/* Waits until providers and handlers have finished their jobs, at most this long. Returns false if
 * some did not; the core must then not be freed. Channels must be gone. */
bool core_await_jobs(struct core *core, uint64_t timeout_ms);
/* Ends all sessions and subscribers. Channels must be gone. */
void core_deinit(struct core *core);

/* Creates a worker for connections that only request pages. It has no hub, and parts that need one
 * cannot be used. Call core_deinit even if it fails. */
int core_init_pages(struct core *core, struct loop *loop, struct shared *shared,
                    struct tidings_error *err);
void core_deinit_pages(struct core *core);

#endif
