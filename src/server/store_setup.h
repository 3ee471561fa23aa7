/* SPDX-License-Identifier: MIT
 *
 * The store of a server (`--store`, `--entities`): one medium, and its commit thread, for entities,
 * published resources, file state and tasks. It is opened before anything is mounted, together with
 * the change log whose cursors survive restarts.
 */
#ifndef SERVER_STORE_SETUP_H
#define SERVER_STORE_SETUP_H

#include <tidings/types.h>

#include "server/tasks.h"

struct changelog;
struct changelog_limits;
struct cluster;
struct cluster_ops;
struct config;
struct store;
struct server_files;
struct shared;
struct server_publishing;
struct tidings_provider;

struct server_store {
    /* set first */
    const struct config *config;
    struct hub *hub;
    struct shared *shared;
    struct loop *loop;
    struct server_publishing *publishing;
    const struct cluster_ops *cluster_ops; /* the server's … */
    void *cluster_user;                    /* … for the cluster */
    struct store *given_store;             /* of a test: used instead of the configured store */

    struct commit_thread *commit_thread; /* NULL: there is no store */
    struct cluster *cluster;             /* of the nodes that share it; NULL: not shared */
    struct server_files *files;          /* saves file state; NULL: not saved */
    struct server_tasks tasks;
    bool has_file;      /* it survives restarts */
    bool has_lost_data; /* … and had lost committed data when this run started */
};

/* Does nothing if no store is configured. *ret gets the log of the store, NULL: none.
 */
int server_store_open(struct server_store *s, const struct changelog_limits *limits,
                      struct changelog **ret, struct tidings_error *err);
/* Let `p` keep its resources in the store, if there is one. */
void server_store_bind(const struct server_store *s, struct tidings_provider *p);
/* Returns true if nodes share the store. */
bool server_store_is_shared(const struct server_store *s);
/* All submitted jobs finish first. `is_undone`: the startup failed. */
void server_store_close(struct server_store *s, bool is_undone);

/* After everything is mounted: file mounts save their state, and a client that resumes with a
 * cursor of an earlier run receives the changes since. Does nothing without a file. */
int server_files_open(struct server_store *s, size_t max_changes, struct tidings_error *err);
/* Save the current file state, unless the startup failed. Files are no longer watched. */
void server_files_close(struct server_store *s, bool is_undone);

#endif
