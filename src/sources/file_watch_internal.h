/* SPDX-License-Identifier: MIT
 *
 * The inside of a file watch, shared by its parts, file_watch*.c; all of it belongs to the
 * watcher's thread.
 *
 *   file_watch.c   the thread; who watches what
 *   …_scope.c      from the root to a scope and back
 *   …_event.c      what inotify says, and when to act on it
 *   …_scan.c       looking and comparing
 *   …_point.c      kernel watches and polling
 *   …_ancestors.c  whether the root is still the root
 *   …_hardlink.c   files with several names
 *   …_retry.c      looks that failed
 *   …_keep.c       what outlives the program
 *
 * The model
 *   Every directory from the root down to a scope is watched, because a rename of any of them moves
 *   the scope away without a word from further below. In such a directory only the names that lead
 *   to a scope are tracked; in a directory inside a tree scope (a *deep* one) all names are.
 *   A *watch point* hangs on a node of the tree that has a scope at or below it, a kernel watch, or
 *   needs polling. Polled are: directories the kernel will not watch for us, and symbolic links,
 *   whose targets change without an event here.
 *   Watching a directory adds the kernel watch first and looks afterwards, so nothing falls
 *   between.
 */
#ifndef SOURCES_FILE_WATCH_INTERNAL_H
#define SOURCES_FILE_WATCH_INTERNAL_H

#include "base/list.h"
#include "base/map.h"
#include "base/str.h"
#include "base/thread.h"
#include "sources/file.h"
#include "sources/file_path.h"
#include "sources/file_tree.h"
#include "sources/file_watch.h"

struct file_keeping;
struct file_chunk;
struct inotify_event;

struct watch_point {
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
struct file_ancestor {
    int wd;
    char name[256];
};
#define FILE_ANCESTORS_MAX 128u
#define FILE_HARDLINKS_MAX 32u
#define FILE_INODES_MAX 1000u

/* What is known of the files outlives the program: file_watch_keep.c. */
struct file_keep {
    struct file_keeping *to; /* NULL: it does not */
    struct loop_timer *timer;
    struct loop_hook turn_end;
    struct file_chunk *chunk; /* being saved (is_in_flight), or to be sent again; NULL: none */
    struct buf gone;   /* paths of what was a directory when it was saved, each with its NUL */
    uint64_t device;   /* of the root; 0: there is none */
    uint64_t pause_ms; /* before the next part goes */
    bool is_in_flight; /* `chunk` is with the store */
    bool is_loaded;    /* what was saved was read */
    bool is_reset;     /* nothing that was saved counts any more */
    bool has_news;     /* there are scopes of which is not saved that they are known */
    bool is_final;     /* the last part of this run was made */
};

struct file_watch {
    struct tidings_provider *provider;
    const struct file_root *root;
    const struct file_settings *settings;
    struct actor actor;

    /* file_watch.c, file_scan.c, file_watch.c */
    struct file_tree tree;
    int inotify;        /* -1: not to be had */
    struct map by_wd;   /* point by its wd */
    struct list polled; /* points */
    struct loop_timer *poll_timer;
    struct buf link_target;  /* where links led in the look just made */
    bool is_rescanning;      /* enter directories that are watched already, too */
    unsigned warned;         /* FILE_WARN_*: those in the log */
    uint64_t lost_logged_ms; /* when the log last had that events were lost; 0: never */
    int inotify_errno;       /* why there is no inotify */

    /* file_scan.c */
    int failed; /* why a scan failed that has to be repeated; 0: none has */
    struct loop_timer *retry_timer;
    uint64_t retry_ms; /* how long the pause before the next try is; 0: nothing failed lately */
    bool has_reported; /* that changes may be missed, since a scan last succeeded */

    /* file_scan.c */
    struct file_ancestor ancestors[FILE_ANCESTORS_MAX];
    size_t ancestor_count;
    bool ancestors_are_polled; /* some of it could not be watched */
    bool has_root;             /* the root was looked at */
    bool root_moved;           /* an event said so */
    bool is_comparing;         /* a directory that is another one is compared by name */
    int mounts;                /* of /proc/self/mountinfo; -1: not to be had */
    struct loop_change_poll *mounts_poll;
    uint64_t mounts_hash; /* of those below the root */

    /* file_scan.c */
    struct map by_file;                     /* point by its file_wd */
    uint32_t hardlinks[FILE_HARDLINKS_MAX]; /* inodes whose other names are to be looked at */
    size_t hardlink_count;
    struct loop_timer *hardlink_timer;
    uint64_t hardlink_next_ms; /* not before */

    /* file_watch.c */
    struct loop_poll *inotify_poll;
    struct loop_timer *quiet_timer;
    struct map pending;  /* by path */
    struct list quiet;   /* by due time: to be looked at */
    struct list cooling; /* by due time: written to and announced a moment ago */
    struct file_move move;
    bool needs_rescan; /* events were lost */

    struct file_keep keep;

    /* file_watch.c */
    struct map scopes;
    struct list lingering; /* by deadline */
    struct loop_timer *linger_timer;
};

/* ---- file_watch.c ---------------------------------------------------------------------- */

static inline struct watch_point *watch_point_of(const struct file_node *node)
{
    return node->extra;
}

/* Is there a scope at or below it? `p` may be NULL. */
bool watch_point_has_scope(const struct watch_point *p);
/* Is the node a tree scope, or inside one? */
bool file_node_is_deep(const struct file_node *node);
bool file_node_is_directory(const struct file_node *node); /* present, that is */
bool file_node_is_watched(const struct file_node *node);
/* Must we know what happens in this directory? Behind a link only if a scope leads there. */
bool file_node_is_needed(const struct file_node *node);

/* Where it is when the links on the way, and it itself, are followed, as far as was known at the
 * last look: a target as of file_open_beneath, nothing when there are none. Errors stick. */
void file_node_target(const struct file_node *node, struct buf *out);

/* The node's point, made when there is none. NULL sets `failed`. */
struct watch_point *watch_point_ensure(struct file_watch *w, struct file_node *node);
/* Watch the directory open as `fd`, or have it polled. True when it was watched all along, so that
 * nothing can have been missed. */
bool watch_point_watch(struct file_watch *w, struct watch_point *p, int fd);
void watch_point_poll(struct file_watch *w, struct watch_point *p);
void watch_point_unwatch(struct file_watch *w, struct watch_point *p);
/* It is a link that leads there. */
void watch_point_set_target(struct file_watch *w, struct watch_point *p, struct tidings_str target);
/* Stop watching what no scope needs any more, and free the point when nothing is left of it. */
void watch_point_tidy(struct file_watch *w, struct file_node *node);

/* Ways of noticing changes that can fail. */
enum {
    FILE_WARN_DIRECTORIES = 1 << 0,
    FILE_WARN_ABOVE = 1 << 1,
    FILE_WARN_MOUNTS = 1 << 2,
    FILE_WARN_HARDLINKS = 1 << 3,
};

/* Log once for each way that it does not work. `what` says how changes are noticed instead. */
void file_watch_warn(struct file_watch *w, unsigned way, const char *what, const char *reason);
/* Why inotify did not add a watch. */
const char *file_watch_refusal(int errnum);

/* ---- file_scan.c ----------------------------------------------------------------------- */

/* Compare one name with what was known of it, announce what differs, enter new directories. `from`:
 * where a new file was moved from, or empty. The node may be freed, or made. */
enum file_verdict file_scan_name(struct file_watch *w, struct file_node *dir,
                                 struct tidings_str name, struct tidings_str from);
/* A directory was moved from the node `origin` (then freed) to this name. */
void file_scan_moved(struct file_watch *w, struct file_node *origin, struct file_node *dir,
                     struct tidings_str name);
/* Watch a needed directory and look at its names (further down only what is new). */
void file_scan_enter(struct file_watch *w, struct file_node *dir);
/* Announce that a file was written to although it looks the same. */
void file_scan_announce_update(struct file_watch *w, struct file_node *node);
/* The path of `name` in `dir`, written over what is in `out`. Errors stick in `out`. */
void file_scan_path(const struct file_node *dir, struct tidings_str name, struct buf *out);

/* ---- file_scan.c ------------------------------------------------------------------ */

void file_ancestors_init(struct file_watch *w);
void file_ancestors_deinit(struct file_watch *w);
/* Nothing is wanted any more: what lies above is not watched until something is. */
void file_ancestors_rest(struct file_watch *w);
/* Is this kernel watch one of those above the root? */
bool file_ancestors_has(const struct file_watch *w, int wd);
/* May the root be another one after this? */
bool file_ancestors_concerns(const struct file_watch *w, const struct inotify_event *e);
/* Watch the way to the root as it is now, look at the root, and compare if it is another one or
 * something below it may be. */
void file_ancestors_check(struct file_watch *w, bool must_compare);
/* The same, cheaper, when nothing was said: before a scope is watched, and with every poll. */
void file_ancestors_ask(struct file_watch *w);

/* ---- file_scan.c ------------------------------------------------------------------- */

int file_hardlink_init(struct file_watch *w, struct tidings_error *err);
void file_hardlink_deinit(struct file_watch *w);
/* A file that is a scope: be told of what happens to it through other names. */
void file_hardlink_unwatch(struct file_watch *w, struct watch_point *p);
/* Was the event about such a file? */
bool file_hardlink_event(struct file_watch *w, const struct inotify_event *e);

/* ---- file_scan.c ---------------------------------------------------------------------- */

int file_retry_init(struct file_watch *w, struct tidings_error *err);
void file_retry_deinit(struct file_watch *w);
/* A look failed for want of something (a code), so that a change may have been overlooked: later
 * everything is looked at again. */
void file_retry_add(struct file_watch *w, int code);

/* ---- file_watch.c ---------------------------------------------------------------------- */

/* Look at everything in any scope again: events were lost, or any directory may be another one.
 * What is in it is compared, name by name. */
void file_scope_compare(struct file_watch *w);
/* As if nothing were known. Nothing is watched. */
void file_scope_clear(struct file_watch *w);

/* ---- file_watch.c ---------------------------------------------------------------------- */

/* Treat a file as if an event had said that it was written to; it is looked at once
 * file_event_schedule was called. */
void file_event_written(struct file_watch *w, const struct file_node *node);
void file_event_schedule(struct file_watch *w);

/* ---- file_watch_keep.c ----------------------------------------------------------------------- */

/* `to` NULL: nothing is kept. */
int file_keep_init(struct file_watch *w, struct file_keeping *to, struct tidings_error *err);
void file_keep_deinit(struct file_watch *w);
/* Before the first scope is watched: what was known when the program last ended. What cannot be
 * read is said to everybody; a failure is one of memory, to be tried again. */
int file_keep_load(struct file_watch *w, struct tidings_error *err);
/* A scope is watched: from now on it is known. */
void file_keep_known(struct file_watch *w, struct tidings_str path, bool is_tree);
/* A node is removed that may have been a directory. */
void file_keep_gone(struct file_watch *w, const struct file_node *dir);
/* Much was forgotten: save everything anew. */
void file_keep_reset(struct file_watch *w);

/* ---- file_watch.c ---------------------------------------------------------------------------- */

/* Say of each scope that is watched that it is known. */
void file_watch_report_known(struct file_watch *w);

#endif
