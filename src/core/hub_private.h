/* SPDX-License-Identifier: MIT
 *
 * The hub's own state, shared by the hub_*.c files.
 */
#ifndef CORE_HUB_PRIVATE_H
#define CORE_HUB_PRIVATE_H

#include <pthread.h>

#include "core/hub.h"
#include "store/change.h"

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
    size_t max_announced; /* atomic */
    size_t announced;     /* atomic: bytes of changes that wait for their number */
    struct letter lost;   /* on its way while is_lost */
    bool is_lost;         /* atomic: something was refused since everybody was last told */
    bool running;         /* atomic */
    pthread_t thread;
    struct mailbox *turn; /* holds the token, unless somebody does */
    struct letter token;
    pthread_t holder; /* atomic; 0: nobody */
    unsigned holds;   /* of the holder, within one another */
};

typedef int (*hub_fn)(struct hub *hub, void *arg, struct tidings_error *err);
/* Run fn(hub, arg) on the hub's thread (here, when that is this one or it does not run) and wait
 * for the outcome. */
int hub_run_on(struct hub *hub, hub_fn fn, void *arg, struct tidings_error *err);
int hub_token_init(struct hub *hub, struct tidings_error *err);
void hub_token_deinit(struct hub *hub);

/* Number a change, keep it, tell the workers. `change` NULL: `notice`. */
void hub_publish(struct hub *hub, const struct tidings_change *change, enum change_notice notice);
void hub_list_timer(struct loop_timer *timer, void *user);
/* The set of resources changed: tell, at most once per period, the last time always. */
void hub_list_changed(struct hub *hub);
void hub_watches_clear(struct hub *hub);

#endif
