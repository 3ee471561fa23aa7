/* SPDX-License-Identifier: MIT
 *
 * The store of a server (`--store`, `--entities`): one medium, and the thread that writes it, for
 * entities, for what is published, for the state of files and for tasks. It is opened before
 * anything is mounted, and with it the change log whose cursors outlive the server.
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
    struct store *given_store; /* of a test: taken instead of the store that is configured */

    struct commit_thread *commit_thread; /* NULL: there is no store */
    struct cluster *cluster;             /* of the nodes that share it; NULL: none do */
    struct server_files *files;          /* what goes there of files; NULL: nothing */
    struct server_tasks tasks;
    bool has_file;      /* it is one that outlives the server */
    bool has_lost_data; /* … and had lost committed data when this run began */
};

/* Nothing when the configuration names no store. *ret gets the log that belongs to it, NULL: none.
 */
int server_store_open(struct server_store *s, const struct changelog_limits *limits,
                      struct changelog **ret, struct tidings_error *err);
/* What `p` serves is kept there, if anything is. */
void server_store_bind(const struct server_store *s, struct tidings_provider *p);
/* Is it one that nodes share? */
bool server_store_is_shared(const struct server_store *s);
/* Everything submitted is done first. `is_undone`: the server does not start after all. */
void server_store_close(struct server_store *s, bool is_undone);

/* After everything was mounted: mounts of files save what they know, and who comes back with a
 * cursor of an earlier run is told what changed. Nothing without a file. */
int server_files_open(struct server_store *s, size_t max_changes, struct tidings_error *err);
/* Save what is known now, unless the server does not start after all. Files are not watched any
 * more. */
void server_files_close(struct server_store *s, bool is_undone);

#endif
