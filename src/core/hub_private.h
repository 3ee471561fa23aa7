/* SPDX-License-Identifier: MIT
 *
 * The hub's own state, shared by hub.c and hub_watch.c.
 */
#ifndef CORE_HUB_PRIVATE_H
#define CORE_HUB_PRIVATE_H

#include <pthread.h>

#include "core/hub.h"

struct hub {
    struct loop *loop;
    struct mailbox *mailbox;
    struct hub_options options;
    struct changelog *log;
    struct pool *pool;
    struct catalog *catalog;
    struct core **cores;
    size_t core_count;
    struct map watches; /* by scope */
    struct loop_timer *list_timer;
    bool list_pending;
    bool running; /* atomic */
    pthread_t thread;
};

/* The set of resources changed: tell, at most once per period, the last time always. */
void hub_list_changed(struct hub *hub);
void hub_watches_clear(struct hub *hub);

#endif
