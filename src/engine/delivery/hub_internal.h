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

/* One list whose changes are told, at most once per period and the last time always. */
struct hub_list {
    struct hub *hub;
    struct loop_timer *timer;
    enum change_notice notice;
    bool is_pending;
};

struct hub {
    struct loop *loop;
    struct shared *shared;
    struct mailbox *mailbox;
    struct hub_options options;
    struct changelog *log;
    const struct file_history *file_history; /* NULL: none */
    struct pool *pool;
    struct provider_host host; /* of the providers it mounts */
    struct catalog *catalog;
    struct worker **workers;
    size_t worker_count;
    struct map watches; /* by scope */
    struct list arming; /* watches that somebody waits for */
    struct loop_timer *watch_timer;
    struct list awaiting; /* struct hub_arm that wait for a position, in the order they came */
    struct loop_timer *await_timer;
    struct list asking, asked; /* struct hub_arm that wait for the newest position of the store: for
                                * the next question, and for the answer to this one */
    bool is_asking;
    struct letter newest; /* the answer, on its way … */
    int newest_code;
    uint64_t newest_position; /* … and what it says */
    struct tidings_error newest_err;
    hub_ask_newest_fn ask_newest; /* atomic; NULL: as `share` */
    void *ask_newest_user;
    uint64_t reached;    /* atomic: everything up to this position has its number */
    hub_shared_fn share; /* atomic; NULL: there are no other nodes */
    void *share_user;
    hub_mute_fn mute;
    void *mute_user;
    hub_owned_fn owned; /* NULL: likewise */
    void *owned_user;
    bool is_store_unreachable;                    /* atomic: the store cannot be reached */
    struct hub_list lists[LIST_COUNT];            /* by notice */
    struct feature_list *features[FEATURE_KINDS]; /* NULL: none yet */
    size_t max_announced;                         /* atomic */
    struct hub_merge merge;
    struct list parked; /* announcements that wait until the workers have caught up … */
    struct loop_timer *parked_timer;
    uint64_t parked_ms;    /* … and since when none of them could go on */
    bool has_stuck_worker; /* one that does not catch up: nobody waits for it any more */
    struct letter lost;    /* on its way while is_lost */
    bool is_lost;          /* atomic: something was refused since everybody was last told … */
    uint64_t lost_upto; /* atomic: … the highest of its positions in the store; 0: it has none */
    unsigned undone;    /* atomic: starts that failed */
    bool running;       /* atomic */
    pthread_t thread;   /* atomic; while it runs */
    pthread_mutex_t mutex; /* held by whoever acts in its stead, or sends it a letter; recursive */
    bool has_mutex;        /* it was made */
};

/* Number a change of no resource in particular, keep it, tell the workers. */
void hub_publish(struct hub *hub, enum change_notice notice);

/* hub_announce.c: what the provider of a mount that one node owns for all says, from any thread: a
 * change, or (NULL) that some may have been missed. */
int hub_announce_owned(struct hub *hub, const struct tidings_provider *p,
                       const struct tidings_change *change, struct tidings_error *err);
/* hub_announce.c: what is parked goes on; `all`: whoever is behind. */
void hub_announce_timer(struct loop_timer *timer, void *user);
void hub_announce_unpark(struct hub *hub, bool all);
void hub_announce_drop_parked(struct hub *hub);

/* hub.c */
void hub_list_changed(struct hub *hub, enum change_notice notice);

/* The hub stops, and the answer does not arrive: fail the reads that wait. */
void hub_newest_end(struct hub *hub);

void hub_watch_timer(struct loop_timer *timer, void *user);
/* Those who waited for a position go on. */
void hub_watch_reached(struct hub *hub);
void hub_watch_await_timer(struct loop_timer *timer, void *user);
void hub_watches_clear(struct hub *hub);

#endif
