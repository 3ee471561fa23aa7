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
    struct list announcing;     /* the commit thread's: struct announcing that wait for the store */
    struct list announce_taken; /* … of them, what `announce_again` writes */
    struct store_job announce_again; /* … under way while `is_announcing_again` */
    bool is_announcing_again;
    size_t announced_bytes; /* atomic: of them, and of those under way, but not clients' */
    size_t announced_lost;  /* the commit thread's, and after it: accepted, and never told */
    /* apply.c: the commit thread's */
    bool follow_announces;       /* what is followed is told, the log is there */
    uint64_t follow_moved;       /* the position told as the end of a move */
    int follow_refused;          /* why the last published resource was not served */
    uint64_t follow_say_ms;      /* not before then, that a row is damaged */
    bool follow_unmounted;       /* the last change in a mount was in one that is not here */
    struct store_job newest_job; /* asks how far the store is; one at a time */
    uint64_t newest;             /* … its answer */
};

/* ---- apply.c: what other nodes commit -------------------------------------------------------- */

/* From now on what they write is applied and told. The store is open, the server does not run. */
int cluster_follow_open(struct cluster *c, struct tidings_error *err);

/* ---- announcements.c: announcements that all nodes tell ---------------------------------------
 */

/* hub_shared_fn; `user` is the cluster. */
int cluster_announce(void *user, const struct tidings_change *change, const struct share_taker *who,
                     struct hub_receipt *receipt, struct refusal *why, struct tidings_error *err);
/* The same of what the provider of a mount saw that this node owns (owned_mounts.c): told if it
 * still does then. */
int cluster_announce_owned(struct cluster *c, struct owned_mount *mount,
                           const struct tidings_change *change, struct tidings_error *err);
/* Before anything is announced. */
void cluster_announce_open(struct cluster *c);
/* On the commit thread: the store is back, those that wait are tried again. */
void cluster_announce_again(struct cluster *c);
/* Forget those that wait; the commit thread is gone. */
void cluster_announce_close(struct cluster *c);

/* ---- nodes.c: this node's row -----------------------------------------------------------------
 */

int cluster_nodes_open(struct cluster *c, struct tidings_error *err);
void cluster_nodes_close(struct cluster *c);

/* ---- owned_mounts.c: mounts that one node at a time watches for all ---------------------------
 *
 * Its changes go through the database, so that every node tells them at the same position; where
 * another node has the lease, nothing is watched. */

/* Give them back; the store is still open, the hub does not run. */
void cluster_owned_close(struct cluster *c);
/* Providers are closed. */
void cluster_owned_destroy(struct cluster *c);
/* On the commit thread, in a batch: may what its provider saw be announced? Else it is dropped:
 * whoever owns the mount next says that everybody has to look again. */
bool cluster_owned_may_announce(const struct owned_mount *m);
/* Any thread: something that was seen cannot be announced, so everybody has to look again. */
void cluster_owned_overflow(struct owned_mount *m);
/* "owns": those that this node owns now, in at most some bytes; "ownsMore": how many others. */
void cluster_owned_write(struct cluster *c, struct jw *w);
/* "owned" and "shared": the prefixes of those mounts here, in at most some bytes. */
void cluster_declared_write(struct cluster *c, struct jw *w);
struct mount_difference {
    struct tidings_str mount;
    enum mount_nodes here, there;
};
/* Any thread: does another node, by what it has written in its row, have a mount of this one
 * otherwise? *ret: the first. */
bool cluster_declared_differs(struct cluster *c, struct tidings_str state,
                              struct mount_difference *ret);

/* ---- sessions.c: sessions that may go on at another node ---------------------------------------
 */

/* Any thread: the session of this row is another node's. */
void cluster_sessions_migrated(struct cluster *c, struct tidings_str key);
/* Any thread: the store has lost what it had committed, perhaps of sessions too. */
void cluster_sessions_on_data_loss(struct cluster *c);
/* The store is closed, and no worker runs. */
void cluster_sessions_close(struct cluster *c);

#endif
