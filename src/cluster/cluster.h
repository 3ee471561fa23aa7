/* SPDX-License-Identifier: MIT
 *
 * This server as one of several nodes that share a PostgreSQL database. The cluster follows what
 * other nodes commit, announces changes at all nodes, keeps sessions and owns mounts.
 *
 * Life, on the server's thread:
 *
 *     cluster_open              the store is open; other nodes' changes are applied from now on
 *     cluster_join              the node has its name, and its row in the database
 *     cluster_sessions_open     the hub has its log (sessions.h)
 *     cluster_owned_open        everything is mounted (owned_mounts.h)
 *     cluster_sessions_bind     there are workers
 *     cluster_serve             the server runs
 *     cluster_leave             the server ends; the store is still open
 *     cluster_close             the store is closed
 *     cluster_destroy           the hub is gone, and with it the providers
 *
 * A start that fails skips to cluster_leave. The next start opens another cluster, and the earlier
 * one is destroyed with it, because the hub may still refer to its mounts.
 */
#ifndef CLUSTER_CLUSTER_H
#define CLUSTER_CLUSTER_H

#include <tidings/provider.h>

#include "engine/catalog/provider.h"

struct catalog;
struct cluster;
struct hub;
struct commit_thread;
struct limit_counters;
struct loop;
struct published;

/* Callbacks into the server. All of them are required. */
struct cluster_ops {
    /* Any thread: how `uri` is declared in the configuration. */
    enum mount_nodes (*nodes_of)(void *user, struct tidings_str uri);
    /* Any thread: returns true if this node may serve a resource that another node published. */
    bool (*may_serve)(void *user, const struct tidings_resource *about);
    /* Server thread: the URL of the first listener; NULL if there is none. */
    const char *(*address)(void *user);
    /* Server thread: returns true to abort the start. */
    bool (*is_stopping)(void *user);
    /* Commit thread: another node has changed the task of this URI. */
    void (*task_changed)(void *user, struct tidings_str uri);
    /* Commit thread: the store has lost committed data. */
    void (*data_lost)(void *user);
    /* Commit thread: the store has become unreachable, or reachable again. */
    void (*reach_changed)(void *user, bool is_unreachable);
};

/* Prefixes of mounts that an option names; borrowed. */
struct cluster_prefixes {
    const char *const *items;
    size_t count;
};

struct cluster_options {
    struct hub *hub;
    struct limit_counters *limits;
    struct commit_thread *commit_thread; /* the commit thread of the store */
    struct loop *loop;
    struct published *published;
    const struct cluster_ops *ops;
    void *user;
    const char *node; /* borrowed; empty: a name that no other node has */
    struct cluster_prefixes shared, owned;
    uint64_t max_announced; /* bytes of changes that wait for the store */
    uint64_t stale_cache, watch_timeout_ms, session_timeout_ms;
    bool has_entities; /* entities are mounted here */
    /* The store is PostgreSQL. Stores of tests have no nodes, leases and sessions: the node does
     * not join, and sessions stay here. */
    bool has_nodes;
};

/* *at: the cluster of a start that failed, or NULL; it gets the new one. On failure it is closed
 * like any other. */
int cluster_open(struct cluster **at, const struct cluster_options *options,
                 struct tidings_error *err);
/* TIDINGS_E_EXISTS: another node has the name. */
int cluster_join(struct cluster *c, struct tidings_error *err);
/* Returns true while the node has its row. NULL: false. */
bool cluster_is_joined(const struct cluster *c);
/* Commit thread: the log contains everything followed so far. Later changes are announced. */
void cluster_log_is_there(struct cluster *c);
/* The mounts stay from now on. Takes a reference. */
void cluster_serve(struct cluster *c, struct catalog *mounted);
/* The functions below accept NULL, and may be called again. */
void cluster_leave(struct cluster *c);
void cluster_close(struct cluster *c);
void cluster_destroy(struct cluster *c);

#endif
