/* SPDX-License-Identifier: MIT
 *
 * The inside of a file watch, shared by its parts: file_watch.c (the thread, who watches what),
 * file_scope.c (from the root to a scope and back), file_event.c (what inotify says, and when to
 * act on it), file_scan.c (looking and comparing), file_above.c (whether the root is still the
 * root), file_twin.c (files with several names), file_owed.c (looks that failed) and file_place.c
 * (kernel watches and polling). All of it belongs to the watcher's thread.
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

#include "base/actor.h"
#include "base/list.h"
#include "base/map.h"
#include "base/str.h"
#include "provider/file_provider.h"
#include "provider/file_tree.h"
#include "provider/file_watch.h"

struct inotify_event;

struct file_place {
    struct file_node *node;
    struct list poll_link; /* in file_watch.polled, when is_polled */
    int wd;                /* -1: no kernel watch */
    int file_wd;           /* of the inode of a file that is a scope; -1: none */
    uint32_t file_mask;    /* what is asked of it */
    char *target;          /* of a link: where it led at the last look, see file_open_beneath */
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

/* A name on the way to the root, in a directory that is watched. */
struct file_above {
    int wd;
    char name[256];
};
#define FILE_ABOVE_MAX 128u
#define FILE_TWINS_MAX 32u
#define FILE_INODES_MAX 1000u

struct file_watch {
    struct tidings_provider *provider;
    const struct file_root *root;
    const struct file_settings *settings;
    struct actor actor;

    /* file_place.c, file_scan.c, file_scope.c */
    struct file_tree tree;
    int inotify;        /* -1: not to be had */
    struct map by_wd;   /* place by its wd */
    struct list polled; /* places */
    struct loop_timer *poll_timer;
    struct buf led;     /* where links led in the look just made */
    bool is_rescanning; /* enter directories that are armed already, too */
    bool has_warned;
    int inotify_errno; /* why there is no inotify */

    /* file_owed.c */
    int failed; /* why a look failed that is owed; 0: none is */
    struct loop_timer *retry_timer;
    uint64_t retry_ms; /* how long the pause before the next try is; 0: nothing failed lately */
    bool has_told;     /* that changes may be missed, since a look was last whole */

    /* file_above.c */
    struct file_above above[FILE_ABOVE_MAX];
    size_t above_count;
    bool above_is_polled; /* some of it could not be watched */
    bool has_root;        /* the root was looked at */
    bool root_moved;      /* an event said so */
    bool is_comparing;    /* a directory that is another one is compared by name */
    int mounts;           /* of /proc/self/mountinfo; -1: not to be had */
    struct loop_news *mounts_news;
    uint64_t mounts_hash; /* of those below the root */

    /* file_twin.c */
    struct map by_file;             /* place by its file_wd */
    uint32_t twins[FILE_TWINS_MAX]; /* inodes whose other names are to be looked at */
    size_t twin_count;
    struct loop_timer *twin_timer;
    uint64_t twin_next_ms; /* not before */

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

/* ---- file_place.c ---------------------------------------------------------------------------- */

static inline struct file_place *file_place_of(const struct file_node *node)
{
    return node->extra;
}

/* Is there a scope at or below it? `p` may be NULL. */
bool file_place_has_scope(const struct file_place *p);
/* Is the node a tree scope, or inside one? */
bool file_node_is_deep(const struct file_node *node);
bool file_node_is_directory(const struct file_node *node); /* present, that is */
bool file_node_is_armed(const struct file_node *node);
/* Must we know what happens in this directory? Behind a link only if a scope leads there. */
bool file_node_is_needed(const struct file_node *node);
/* Is this name of this directory our business? `node` may be NULL. */
bool file_node_is_tracked(const struct file_node *dir, const struct file_node *node);

/* Where it is when the links on the way, and it itself, are followed, as far as was known at the
 * last look: a target as of file_open_beneath, nothing when there are none. Errors stick. */
void file_node_target(const struct file_node *node, struct buf *out);

/* The node's place, made when there is none. NULL sets `failed`. */
struct file_place *file_place_ensure(struct file_watch *w, struct file_node *node);
/* Watch the directory open as `fd`, or have it polled. True when it was watched all along, so that
 * nothing can have been missed. */
bool file_place_arm(struct file_watch *w, struct file_place *p, int fd);
void file_place_poll(struct file_watch *w, struct file_place *p);
void file_place_unwatch(struct file_watch *w, struct file_place *p);
/* It is a link that leads there. */
void file_place_lead(struct file_watch *w, struct file_place *p, struct tidings_str target);
void file_place_free(struct file_place *p);
/* The kernel removed the watch itself. */
void file_place_forget_wd(struct file_watch *w, struct file_place *p);
/* Stop watching what no scope needs any more, and free the place when nothing is left of it. */
void file_place_tidy(struct file_watch *w, struct file_node *node);

/* ---- file_scan.c ----------------------------------------------------------------------------- */

/* Look at one name now, announce what differs, enter new directories. `from`: where a new file was
 * moved from, or empty. The node may be freed, or made. */
enum file_verdict file_scan_look(struct file_watch *w, struct file_node *dir,
                                 struct tidings_str name, struct tidings_str from);
/* A directory was moved from the node `origin` (then freed) to this name. */
void file_scan_moved(struct file_watch *w, struct file_node *origin, struct file_node *dir,
                     struct tidings_str name);
/* Arm a needed directory and look at its names (further down only what is new). */
void file_scan_enter(struct file_watch *w, struct file_node *dir);
/* Announce that a file was written to although it looks the same. */
void file_scan_announce_update(struct file_watch *w, struct file_node *node);
/* The path of `name` in `dir`, written over what is in `out`. Errors stick in `out`. */
void file_scan_path(const struct file_node *dir, struct tidings_str name, struct buf *out);

/* The root is this directory (NULL: there is none). Compares when it is another one than was known,
 * or must. */
void file_scan_root(struct file_watch *w, const struct stat *st, bool must_compare);

/* ---- file_above.c ---------------------------------------------------------------------------- */

void file_above_init(struct file_watch *w);
void file_above_deinit(struct file_watch *w);
/* Nothing is wanted any more: what lies above is not watched until something is. */
void file_above_rest(struct file_watch *w);
/* Is this kernel watch one of those above the root? */
bool file_above_has(const struct file_watch *w, int wd);
/* May the root be another one after this? */
bool file_above_concerns(const struct file_watch *w, const struct inotify_event *e);
/* Watch the way to the root as it is now, look at the root, and compare if it is another one or
 * something below it may be. */
void file_above_check(struct file_watch *w, bool must_compare);
/* The same, cheaper, when nothing was said: before a scope is armed, and with every poll. */
void file_above_ask(struct file_watch *w);

/* ---- file_twin.c ----------------------------------------------------------------------------- */

int file_twin_init(struct file_watch *w, struct tidings_error *err);
void file_twin_deinit(struct file_watch *w);
/* A file that is a scope: be told of what happens to it through other names. */
void file_twin_watch(struct file_watch *w, struct file_place *p, const struct stat *st);
void file_twin_unwatch(struct file_watch *w, struct file_place *p);
/* Was the event about such a file? */
bool file_twin_event(struct file_watch *w, const struct inotify_event *e);
/* A file was found changed: those that are the same under other names are looked at as well. */
void file_twin_changed(struct file_watch *w, const struct stat *st);

/* ---- file_owed.c ----------------------------------------------------------------------------- */

int file_owed_init(struct file_watch *w, struct tidings_error *err);
void file_owed_deinit(struct file_watch *w);
/* A look failed for want of something (a code), so that a change may have been overlooked: later
 * everything is looked at again. */
void file_owed_add(struct file_watch *w, int code);
/* The same for the errno of a failed look, if it is such a want: what is not there or not readable
 * was looked at. */
void file_owed_errno(struct file_watch *w, int errnum);
/* Is there anything owed for want of descriptors or memory? Then looking on is in vain. */
bool file_owed_is_short(const struct file_watch *w);

/* ---- file_scope.c ---------------------------------------------------------------------------- */

/* Begin and stop to care about a scope. Arming fails with NOMEM or LIMIT and is then undone. */
int file_scope_arm(struct file_watch *w, struct tidings_str path, bool is_tree,
                   struct tidings_error *err);
void file_scope_disarm(struct file_watch *w, struct tidings_str path, bool is_tree);
/* Look at everything in any scope again: events were lost, or any directory may be another one.
 * What is in it is compared, name by name. */
void file_scope_compare(struct file_watch *w);
/* Look at what is polled. */
void file_scope_poll(struct file_watch *w);
void file_scope_deinit(struct file_watch *w);

/* ---- file_event.c ---------------------------------------------------------------------------- */

int file_event_init(struct file_watch *w, struct tidings_error *err);
/* Have inotify, if that is to be had (now); else everything is polled. */
int file_event_open(struct file_watch *w, struct tidings_error *err);
void file_event_deinit(struct file_watch *w);
/* Look at a file as if it had been written to; then have that happen. */
void file_event_look(struct file_watch *w, const struct file_node *node);
void file_event_schedule(struct file_watch *w);

#endif
