/* SPDX-License-Identifier: MIT
 *
 * The state of a cluster, shared by the files that implement its parts.
 */
#ifndef CLUSTER_CLUSTER_INTERNAL_H
#define CLUSTER_CLUSTER_INTERNAL_H

#include "base/list.h"
#include "cluster/cluster.h"
#include "engine/delivery/hub.h"
#include "store/commit_thread.h"

struct cluster_nodes;
struct cluster_owned;
struct cluster_sessions;
struct jw;
struct owned_mount;
struct refusal;
struct share_taker;

struct cluster {
    struct cluster_options with;
    struct hub *hub;
    struct commit_thread *commit_thread;
    struct cluster *earlier;           /* of a start that failed */
    struct cluster_nodes *nodes;       /* NULL: not joined */
    struct cluster_owned *owned;       /* NULL: this node owns no mounts */
    struct cluster_sessions *sessions; /* atomic; NULL: not open */
    struct catalog *mounted;           /* atomic; NULL before the server runs */
    bool is_closed;
    /* announcements.c */
    struct list announcing;          /* commit thread: waiting struct announcing */
    struct list announce_taken;      /* … of them, what `announce_again` writes */
    struct store_job announce_again; /* … under way while `is_announcing_again` */
    bool is_announcing_again;
    size_t announced_bytes; /* atomic: size of waiting and active announcements, without those of
                               clients */
    size_t announced_lost;  /* the commit thread's, and after it: accepted, and never announced */
    /* apply.c: the commit thread's */
    bool follow_announces;  /* followed changes are announced, the log exists */
    uint64_t follow_moved;  /* the position announced as the end of a move */
    int follow_refused;     /* why the last published resource was not served */
    uint64_t follow_say_ms; /* earliest time of the next warning about a damaged row */
    bool follow_unmounted;  /* the last change in a mount was in one that is not mounted here */
    struct store_job newest_job; /* asks for the newest position of the store; one at a time */
    uint64_t newest;             /* … its answer */
};

/* ---- apply.c: what other nodes commit -------------------------------------------------------- */

/* Starts to apply and announce their changes. The store is open, the server does not run yet. */
int cluster_follow_open(struct cluster *c, struct tidings_error *err);

/* ---- announcements.c: announcements at all nodes --------------------------------------------- */

/* hub_shared_fn; `user` is the cluster. */
int cluster_announce(void *user, const struct tidings_change *change, const struct share_taker *who,
                     struct hub_receipt *receipt, struct refusal *why, struct tidings_error *err);
/* The same for a change that the provider of an owned mount reported (owned_mounts.c). The change
 * is dropped if the node no longer owns the mount at that time. */
int cluster_announce_owned(struct cluster *c, struct owned_mount *mount,
                           const struct tidings_change *change, struct tidings_error *err);
/* Before anything is announced. */
void cluster_announce_open(struct cluster *c);
/* On the commit thread: the store is reachable again; retries waiting announcements. */
void cluster_announce_again(struct cluster *c);
/* Discards waiting announcements. The commit thread has ended. */
void cluster_announce_close(struct cluster *c);

/* ---- nodes.c: this node's row -----------------------------------------------------------------
 */

int cluster_nodes_open(struct cluster *c, struct tidings_error *err);
void cluster_nodes_close(struct cluster *c);

/* ---- owned_mounts.c: mounts that one node at a time watches for all ---------------------------
 *
 * Their changes go through the database, so every node announces them at the same position. Nodes
 * without the lease watch nothing. */

/* Releases the leases. The store is still open, the hub does not run. */
void cluster_owned_close(struct cluster *c);
/* Providers are closed. */
void cluster_owned_destroy(struct cluster *c);
/* On the commit thread, in a batch: returns true if changes from the provider may be announced.
 * Otherwise they are dropped, because the next owner of the mount sends `truncated`. */
bool cluster_owned_may_announce(const struct owned_mount *m);
/* Any thread: a change cannot be announced, so subscriptions must get `truncated`. */
void cluster_owned_overflow(struct owned_mount *m);
/* Writes "owns", the mounts that this node owns now, up to a size limit, and "ownsMore", the number
 * of omitted ones. */
void cluster_owned_write(struct cluster *c, struct jw *w);
/* Writes "owned" and "shared", the prefixes of those mounts here, up to a size limit. */
void cluster_declared_write(struct cluster *c, struct jw *w);
struct mount_difference {
    struct tidings_str mount;
    enum mount_nodes here, there;
};
/* Any thread: returns true if the row of another node declares a mount of this node differently.
 * *ret: the first such mount. */
bool cluster_declared_differs(struct cluster *c, struct tidings_str state,
                              struct mount_difference *ret);

/* ---- sessions.c: sessions that can move to another node -------------------------------------- */

/* Any thread: the session of this row belongs to another node now. */
void cluster_sessions_migrated(struct cluster *c, struct tidings_str key);
/* Any thread: the store has lost committed data, perhaps also sessions. */
void cluster_sessions_on_data_loss(struct cluster *c);
/* The store is closed, and no worker runs. */
void cluster_sessions_close(struct cluster *c);

#endif
