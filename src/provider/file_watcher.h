/* SPDX-License-Identifier: MIT
 *
 * The inside of a file watch, shared by its three parts: file_watch.c (thread, scopes), file_event.c
 * (what inotify says, and when to act on it) and file_scan.c (looking, comparing, arming). All of it
 * belongs to the watcher's thread.
 *
 * The model
 *   Every directory from the root down to a scope is watched, because a rename of any of them moves
 *   the scope away without a word from further below. In such a directory only the names that lead
 *   to a scope are tracked; in a directory inside a tree scope (a *deep* one) all names are.
 *   A *place* hangs on a node of the tree that has a scope at or below it, a kernel watch, or needs
 *   polling. Polled are: directories the kernel will not watch for us, and symbolic links, whose
 *   targets change without an event here.
 *   Arming a directory adds the kernel watch first and looks afterwards, so nothing falls between.
 */
#ifndef PROVIDER_FILE_WATCHER_H
#define PROVIDER_FILE_WATCHER_H

#include <pthread.h>

#include "base/list.h"
#include "base/map.h"
#include "base/str.h"
#include "provider/file_provider.h"
#include "provider/file_tree.h"
#include "provider/file_watch.h"

struct loop;
struct loop_poll;
struct loop_timer;

struct file_place {
    struct file_node *node;
    struct list poll_link; /* in file_watch.polled, when is_polled */
    int wd;                /* -1: no kernel watch */
    uint32_t below;        /* scopes further down */
    bool wants_file;       /* a scope: this name */
    bool wants_tree;       /* a scope: everything below */
    bool is_polled;
};

/* The first half of a rename, until the second arrives. */
struct file_move {
    uint32_t cookie; /* 0: none */
    bool is_directory;
    uint64_t due_ms; /* of a directory: when to give up waiting */
    struct buf path;
};

struct file_watch {
    struct tidings_provider *provider;
    const struct file_root *root;
    const struct file_settings *settings;
    struct loop *loop;
    struct mailbox *mailbox;
    pthread_t thread;

    /* file_scan.c */
    struct file_tree tree;
    int inotify;        /* -1: not to be had */
    struct map by_wd;   /* place by its wd */
    struct list polled; /* places */
    struct loop_timer *poll_timer;
    bool is_rescanning; /* enter directories that are armed already, too */
    bool has_warned;
    int failed; /* a look could not be taken in (out of memory); look again */

    /* file_event.c */
    struct loop_poll *inotify_poll;
    struct loop_timer *quiet_timer;
    struct map pending;  /* by path */
    struct list quiet;   /* by due time: to be looked at */
    struct list cooling; /* by due time: written to and announced a moment ago */
    struct file_move move;
    bool needs_rescan; /* events were lost */

    /* file_watch.c */
    struct map scopes;
    struct list lingering; /* by deadline */
    struct loop_timer *linger_timer;
};

/* ---- file_scan.c --------------------------------------------------------------------------- */

/* Begin and stop to care about a scope. Arming fails with NOMEM or LIMIT and is then undone. */
int file_scan_arm(struct file_watch *w, struct tidings_str path, bool is_tree,
                  struct tidings_error *err);
void file_scan_disarm(struct file_watch *w, struct tidings_str path, bool is_tree);

/* Is this name of this directory our business? `node` may be NULL. */
bool file_scan_tracks(const struct file_node *dir, const struct file_node *node);

/* Look at one name now, announce what differs, enter new directories. `from`: where a new file was
 * moved from, or empty. */
enum file_verdict file_scan_look(struct file_watch *w, struct file_node *dir,
                                 struct tidings_str name, struct tidings_str from);
/* A directory was moved from the node `origin` to this name. */
void file_scan_moved(struct file_watch *w, struct file_node *origin, struct file_node *dir,
                     struct tidings_str name);
/* Arm the directory again if it is not, and look at its names (not further down). */
void file_scan_enter(struct file_watch *w, struct file_node *dir);
/* The kernel dropped this watch. */
void file_scan_lost(struct file_watch *w, struct file_place *place);
/* Look at everything again. */
void file_scan_all(struct file_watch *w);
void file_scan_poll(struct file_watch *w);
/* The path of `name` in `dir`, written over what is in `out`. Errors stick in `out`. */
void file_scan_path(const struct file_node *dir, struct tidings_str name, struct buf *out);
/* Announce that the file at `node` changed although it looks the same. */
void file_scan_announce_update(struct file_watch *w, struct file_node *node);
void file_scan_deinit(struct file_watch *w);

/* ---- file_event.c -------------------------------------------------------------------------- */

int file_event_init(struct file_watch *w, struct tidings_error *err);
void file_event_deinit(struct file_watch *w);

#endif
