/* SPDX-License-Identifier: MIT
 *
 * The inside of a file watch, shared by its parts, file_watch*.c; all of it belongs to the
 * watcher's thread.
 *
 * - file_watch.c: the thread; watchers and their scopes; kernel watches and polling; events of
 *   inotify, and the time of reactions.
 * - file_scan.c: scans and comparisons; hard links; failed scans; whether the root is still the
 *   root.
 * - file_watch_keep.c: state that outlives the program.
 *
 * The model:
 *
 * - Every directory from the root down to a scope is watched, because a rename of any of them moves
 *   the scope without an event further below. In such a directory only the names that lead to a
 *   scope are tracked; in a directory inside a tree scope (a *deep* one) all names are.
 * - A *watch point* belongs to a node of the tree that has a scope at or below it, a kernel watch,
 *   or needs polling. Polled are: directories that the kernel does not watch, and symbolic links,
 *   whose targets change without an event here.
 * - Watching a directory adds the kernel watch first and scans afterwards, so no change is missed.
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
    uint32_t file_mask;    /* the events that it requests */
    char *target;          /* of a link: its target at the last scan, see file_open_beneath */
    uint32_t below;        /* scopes further down */
    bool wants_file;       /* a scope: this name */
    bool wants_tree;       /* a scope: everything below */
    bool is_polled;
};

/* The first half of a rename, until the second arrives. */
struct file_move {
    uint32_t cookie; /* 0: none */
    bool is_directory;
    uint64_t due_ms; /* of a directory: timeout */
    struct buf path;
};

/* A name on the way to the root, in a watched directory. */
struct file_ancestor {
    int wd;
    char name[256];
};
#define FILE_ANCESTORS_MAX 128u
#define FILE_HARDLINKS_MAX 32u
#define FILE_INODES_MAX 1000u

/* The state of the files outlives the program: file_watch_keep.c. */
struct file_keep {
    struct file_keeping *to; /* NULL: it is not saved */
    struct loop_timer *timer;
    struct loop_hook turn_end;
    struct file_chunk *chunk; /* being saved (is_in_flight), or to be sent again; NULL: none */
    struct buf gone;          /* paths of saved directories that were removed, NUL-terminated */
    uint64_t device;          /* of the root; 0: there is none */
    uint64_t pause_ms;        /* before the next part is sent */
    bool is_in_flight;        /* the store has `chunk` */
    bool is_loaded;           /* the saved state was read */
    bool is_reset;            /* the saved state is void */
    bool has_news;            /* some scopes are not yet saved as known */
    bool is_final;            /* the last part of this run was created */
};

struct file_watch {
    struct tidings_provider *provider;
    const struct file_root *root;
    const struct file_settings *settings;
    struct actor actor;

    /* file_watch.c and file_scan.c */
    struct file_tree tree;
    int inotify;        /* -1: unavailable */
    struct map by_wd;   /* point by its wd */
    struct list polled; /* points */
    struct loop_timer *poll_timer;
    struct buf link_target;  /* targets of links in the current scan */
    bool is_rescanning;      /* also enter directories that are already watched */
    unsigned warned;         /* FILE_WARN_*: the logged ones */
    uint64_t lost_logged_ms; /* time of the last message about lost events; 0: never */
    int inotify_errno;       /* why there is no inotify */

    /* file_scan.c: retries */
    int failed; /* why a failed scan must be repeated; 0: none has */
    struct loop_timer *retry_timer;
    uint64_t retry_ms; /* pause before the next try; 0: no recent failure */
    bool has_reported; /* that changes may be lost, since the last successful scan */

    /* file_scan.c: the path above the root */
    struct file_ancestor ancestors[FILE_ANCESTORS_MAX];
    size_t ancestor_count;
    bool ancestors_are_polled; /* some of it could not be watched */
    bool has_root;             /* the root was scanned */
    bool root_moved;           /* according to an event */
    bool is_comparing;         /* replaced directories are compared by name */
    int mounts;                /* of /proc/self/mountinfo; -1: unavailable */
    struct loop_change_poll *mounts_poll;
    uint64_t mounts_hash; /* of the mounts below the root */

    /* file_scan.c: hard links */
    struct map by_file;                     /* point by its file_wd */
    uint32_t hardlinks[FILE_HARDLINKS_MAX]; /* inodes whose other names must be checked */
    size_t hardlink_count;
    struct loop_timer *hardlink_timer;
    uint64_t hardlink_next_ms; /* earliest time of the next search */

    /* file_watch.c: events */
    struct loop_poll *inotify_poll;
    struct loop_timer *quiet_timer;
    struct map pending;  /* by path */
    struct list quiet;   /* by due time: to be checked */
    struct list cooling; /* by due time: written to and announced a moment ago */
    struct file_move move;
    bool needs_rescan; /* events were lost */

    struct file_keep keep;

    /* file_watch.c: scopes */
    struct map scopes;
    struct list lingering; /* by deadline */
    struct loop_timer *linger_timer;
};

/* ---- file_watch.c: watch points -------------------------------------------------------------- */

static inline struct watch_point *watch_point_of(const struct file_node *node)
{
    return node->extra;
}

/* Returns true if there is a scope at or below it. `p` may be NULL. */
bool watch_point_has_scope(const struct watch_point *p);
/* Returns true if the node is a tree scope, or inside one. */
bool file_node_is_deep(const struct file_node *node);
bool file_node_is_directory(const struct file_node *node); /* Present directories only. */
bool file_node_is_watched(const struct file_node *node);
/* Returns true if changes in this directory matter. For a link target, only if a scope leads
 * there. */
bool file_node_is_needed(const struct file_node *node);

/* Writes its path after all links, including itself, as of the last scan: a target as of
 * file_open_beneath, empty if there are no links. Errors stick. */
void file_node_target(const struct file_node *node, struct buf *out);

/* Returns the node's point, creates it if necessary. NULL sets `failed`. */
struct watch_point *watch_point_ensure(struct file_watch *w, struct file_node *node);
/* Watches the directory open as `fd`, or polls it. Returns true if it was watched without
 * interruption, so that no event can be missing. */
bool watch_point_watch(struct file_watch *w, struct watch_point *p, int fd);
void watch_point_poll(struct file_watch *w, struct watch_point *p);
void watch_point_unwatch(struct file_watch *w, struct watch_point *p);
/* Records the target of a link. */
void watch_point_set_target(struct file_watch *w, struct watch_point *p, struct tidings_str target);
/* Stops unneeded watches, and frees the point if nothing is left of it. */
void watch_point_tidy(struct file_watch *w, struct file_node *node);

/* Methods of change detection that can fail. */
enum {
    FILE_WARN_DIRECTORIES = 1 << 0,
    FILE_WARN_ABOVE = 1 << 1,
    FILE_WARN_MOUNTS = 1 << 2,
    FILE_WARN_HARDLINKS = 1 << 3,
};

/* Logs once for each method that it does not work. `what` names the replacement. */
void file_watch_warn(struct file_watch *w, unsigned way, const char *what, const char *reason);
/* Explains why inotify did not add a watch. */
const char *file_watch_refusal(int errnum);

/* ---- file_scan.c: scans ---------------------------------------------------------------------- */

/* Compares one name with its recorded state, announces differences, enters new directories. `from`:
 * where a new file was moved from, or empty. The node may be freed, or created. */
enum file_verdict file_scan_name(struct file_watch *w, struct file_node *dir,
                                 struct tidings_str name, struct tidings_str from);
/* A directory was moved from the node `origin` (then freed) to this name. */
void file_scan_moved(struct file_watch *w, struct file_node *origin, struct file_node *dir,
                     struct tidings_str name);
/* Watches a needed directory and scans its names (further down only new ones). */
void file_scan_enter(struct file_watch *w, struct file_node *dir);
/* Announces that a file was written although it looks the same. */
void file_scan_announce_update(struct file_watch *w, struct file_node *node);
/* Writes the path of `name` in `dir` to `out`, replacing its content. Errors stick in `out`. */
void file_scan_path(const struct file_node *dir, struct tidings_str name, struct buf *out);

/* ---- file_scan.c: the path above the root ---------------------------------------------------- */

void file_ancestors_init(struct file_watch *w);
void file_ancestors_deinit(struct file_watch *w);
/* There are no scopes now: stops watching above the root until there are. */
void file_ancestors_rest(struct file_watch *w);
/* Returns true if this kernel watch is one of those above the root. */
bool file_ancestors_has(const struct file_watch *w, int wd);
/* Returns true if the event may have replaced the root. */
bool file_ancestors_concerns(const struct file_watch *w, const struct inotify_event *e);
/* Watches the current path to the root, scans the root, and compares if it, or possibly something
 * below it, was replaced. */
void file_ancestors_check(struct file_watch *w, bool must_compare);
/* A cheaper variant without an event: before a scope is watched, and with every poll. */
void file_ancestors_ask(struct file_watch *w);

/* ---- file_scan.c: hard links ----------------------------------------------------------------- */

int file_hardlink_init(struct file_watch *w, struct tidings_error *err);
void file_hardlink_deinit(struct file_watch *w);
/* A file that is a scope: get events of writes through other names. */
void file_hardlink_unwatch(struct file_watch *w, struct watch_point *p);
/* Returns true if the event was about such a file. */
bool file_hardlink_event(struct file_watch *w, const struct inotify_event *e);

/* ---- file_scan.c: retries -------------------------------------------------------------------- */

int file_retry_init(struct file_watch *w, struct tidings_error *err);
void file_retry_deinit(struct file_watch *w);
/* A scan failed for lack of resources (a code), so a change may have been missed: scans everything
 * again later. */
void file_retry_add(struct file_watch *w, int code);

/* ---- file_watch.c: scopes -------------------------------------------------------------------- */

/* Scans everything in any scope again: events were lost, or any directory may have been replaced.
 * Compares the content, name by name. */
void file_scope_compare(struct file_watch *w);
/* Drops all recorded state. Nothing is watched. */
void file_scope_clear(struct file_watch *w);

/* ---- file_watch.c: events -------------------------------------------------------------------- */

/* Treats a file as if it had a write event; it is checked after file_event_schedule was called. */
void file_event_written(struct file_watch *w, const struct file_node *node);
void file_event_schedule(struct file_watch *w);

/* ---- file_watch_keep.c ----------------------------------------------------------------------- */

/* `to` NULL: nothing is saved. */
int file_keep_init(struct file_watch *w, struct file_keeping *to, struct tidings_error *err);
void file_keep_deinit(struct file_watch *w);
/* Before the first scope is watched: loads the state of the previous run. Damaged state causes a
 * resync; only a lack of memory is a failure, to be retried. */
int file_keep_load(struct file_watch *w, struct tidings_error *err);
/* A scope is watched: it is known from now on. */
void file_keep_known(struct file_watch *w, struct tidings_str path, bool is_tree);
/* A node is removed that may have been a directory. */
void file_keep_gone(struct file_watch *w, const struct file_node *dir);
/* Much was dropped: saves everything again. */
void file_keep_reset(struct file_watch *w);

/* ---- file_watch.c: the thread ---------------------------------------------------------------- */

/* Reports each watched scope as known. */
void file_watch_report_known(struct file_watch *w);

#endif
