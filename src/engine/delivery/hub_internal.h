/* SPDX-License-Identifier: MIT
 *
 * The hub's own state, shared by the hub_*.c files.
 */
#ifndef ENGINE_DELIVERY_HUB_INTERNAL_H
#define ENGINE_DELIVERY_HUB_INTERNAL_H

#include <pthread.h>

#include "base/map.h"
#include "engine/delivery/hub.h"
#include "engine/delivery/hub_announce.h"
#include "engine/protocol/feature.h"
#include "engine/shared.h"
#include "store/change.h"

struct hub_announcing; /* hub_announce.c */
struct hub_registry;   /* hub_registry.c */
struct hub_watches;    /* hub_watch.c */

struct hub {
    struct loop *loop;
    struct shared *shared;
    struct mailbox *mailbox;
    struct hub_options options;
    struct changelog *log;
    const struct file_history *file_history; /* NULL: none */
    struct worker **workers;
    size_t worker_count;
    struct hub_registry *registry;
    struct hub_announcing *announcing;
    struct hub_watches *watches;
    uint64_t applied;          /* atomic: everything up to this position has its number */
    bool is_store_unreachable; /* atomic: the store cannot be reached */
    unsigned undone;           /* atomic: starts that failed */
    bool running;              /* atomic */
    pthread_t thread;          /* atomic; while it runs */
    pthread_mutex_t mutex; /* held by whoever acts in its stead, or sends it a message; recursive */
    bool has_mutex;        /* it was made */
};

/* Number a change of no resource in particular, keep it, tell the workers. */
void hub_publish(struct hub *hub, enum list_event event);

/* ---- hub_registry.c -------------------------------------------------------------------------- */

/* After a failure, close it too. */
int hub_registry_open(struct hub *hub, struct tidings_error *err);
/* First the pool and the providers end, while the hub still takes what they announce. */
void hub_registry_close_providers(struct hub *hub);
void hub_registry_close(struct hub *hub);
/* Borrowed, until the next change of the registry. */
const struct catalog *hub_current_catalog(const struct hub *hub);
/* Report that a list changed, at most once per period. */
void hub_list_changed(struct hub *hub, enum list_event event);

/* ---- hub_announce.c -------------------------------------------------------------------------- */

/* After a failure, close it too. */
int hub_announcing_open(struct hub *hub, struct tidings_error *err);
void hub_announcing_close(struct hub *hub);
void hub_announcing_set_max(struct hub *hub, size_t max);
void hub_announcing_forget_lost(struct hub *hub);
/* What the provider of a mount that one node owns for all says, from any thread: a change, or
 * (NULL) that some may have been missed. */
int hub_announce_owned(struct hub *hub, const struct tidings_provider *p,
                       const struct tidings_change *change, struct tidings_error *err);
/* What is deferred goes on; `all`: whoever is behind. */
void hub_announce_resume(struct hub *hub, bool all);

/* ---- hub_watch.c ----------------------------------------------------------------------------- */

/* After a failure, close it too. */
int hub_watches_open(struct hub *hub, struct tidings_error *err);
void hub_watches_close(struct hub *hub);
/* The hub stops, and the answer does not arrive: fail the reads that wait. */
void hub_newest_end(struct hub *hub);
/* Those who waited for a position go on. */
void hub_watch_applied(struct hub *hub);

#endif
