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
    bool is_store_unreachable; /* atomic: the store is unreachable */
    unsigned undone;           /* atomic: failed starts */
    bool running;              /* atomic */
    pthread_t thread;          /* atomic; while it runs */
    pthread_mutex_t mutex;     /* held to act for the hub or to send to it; recursive */
    bool has_mutex;            /* the mutex is initialized */
};

/* Numbers a change of no particular resource, logs it and sends it to the workers. */
void hub_publish(struct hub *hub, enum list_event event);

/* ---- hub_registry.c -------------------------------------------------------------------------- */

/* On failure, close it too. */
int hub_registry_open(struct hub *hub, struct tidings_error *err);
/* Stops the pool and the providers first, while the hub still accepts their announcements. */
void hub_registry_close_providers(struct hub *hub);
void hub_registry_close(struct hub *hub);
/* Borrowed; valid until the registry changes. */
const struct catalog *hub_current_catalog(const struct hub *hub);
/* Reports that a list changed, at most once per period. */
void hub_list_changed(struct hub *hub, enum list_event event);

/* ---- hub_announce.c -------------------------------------------------------------------------- */

/* On failure, close it too. */
int hub_announcing_open(struct hub *hub, struct tidings_error *err);
void hub_announcing_close(struct hub *hub);
void hub_announcing_set_max(struct hub *hub, size_t max);
void hub_announcing_forget_lost(struct hub *hub);
/* Announces an event of the provider of an owned mount, from any thread: a change, or NULL if
 * changes may have been missed. */
int hub_announce_owned(struct hub *hub, const struct tidings_provider *p,
                       const struct tidings_change *change, struct tidings_error *err);
/* Continues deferred deliveries; `all`: includes workers that are behind. */
void hub_announce_resume(struct hub *hub, bool all);

/* ---- hub_watch.c ----------------------------------------------------------------------------- */

/* On failure, close it too. */
int hub_watches_open(struct hub *hub, struct tidings_error *err);
void hub_watches_close(struct hub *hub);
/* The hub stops before the answer arrives: fails the waiting reads. */
void hub_newest_end(struct hub *hub);
/* Continues the requests that waited for a position. */
void hub_watch_applied(struct hub *hub);

#endif
