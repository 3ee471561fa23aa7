/* SPDX-License-Identifier: MIT
 *
 * The core: a worker with the state of every part of the server that takes requests or delivers
 * changes, begun and ended in order.
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
    struct loop_timer *tick; /* ends what has been there too long */
    uint64_t tick_due_ms;    /* when it will run; 0: it does not */
};

/* `core->worker.limits` and `.self` are set, the rest is zero. To be ended also when it failed. */
int core_init(struct core *core, struct loop *loop, struct hub *hub, struct shared *shared,
              unsigned index, struct tidings_error *err);
/* Wait until providers and handlers have finished what they were asked, at most this long. false:
 * some did not, and the core must not be freed. Channels must be gone. */
bool core_await_jobs(struct core *core, uint64_t timeout_ms);
/* Ends all sessions and subscribers. Channels must be gone. */
void core_deinit(struct core *core);

/* A worker for connections that ask for pages only: it has no hub, and no part of it that needs one
 * can be used. To be ended also when it failed. */
int core_init_pages(struct core *core, struct loop *loop, struct shared *shared,
                    struct tidings_error *err);
void core_deinit_pages(struct core *core);

#endif
