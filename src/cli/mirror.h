/* SPDX-License-Identifier: MIT
 *
 * The local directory of `tidings sync`, a mirror of the resources below a URI. The mirror replaces
 * or removes only files that it created itself and that no user changed since. It keeps all other
 * files and reports them, unless it is forced.
 */
#ifndef CLI_MIRROR_H
#define CLI_MIRROR_H

#include <sys/stat.h>

#include <tidings/client.h>
#include <tidings/types.h>

/* -------------------------------------------------------------------------------------------------
 * Reads the content of a resource into a file. If the server supports ranges, they are requested
 * one after the other, so that neither the message size nor memory limits the content. All ranges
 * belong to one state of the resource; if it changes, the read restarts.
 */

#define FETCH_ETAG_MAX 256u /* longer ones are not kept */

struct fetch {
    struct tidings_client *client;
    const char *uri;
    int fd; /* of an empty file */
    /* results: */
    char etag[FETCH_ETAG_MAX]; /* "": unknown */
    int errnum;                /* not 0: the file cannot be written; the server is not at fault */
    /* state: */
    char *state; /* the etag of the first part */
    int64_t total, piece;
};

/* -------------------------------------------------------------------------------------------------
 * Remembers which files `tidings sync` created, in the file `.tidings-sync` of its directory. A
 * line for each file is written before the file appears, so a sync that is killed at any moment
 * resumes there. At most MIRROR_MAX files and directories.
 */

#define MIRROR_STATE ".tidings-sync"
#define MIRROR_MAX 100000u
#define MIRROR_BUCKETS 4096u

/* The size and time of a file, as stat reports them. */
struct shape {
    int64_t size, mtime_ns; /* size -1: no file */
};

struct mirrored {
    struct mirrored *next;
    char *path, *uri;
    char *etag;               /* of `now`; "": unknown */
    struct shape now, before; /* after a kill, either state may be on disk */
    bool is_directory;
    unsigned pass; /* the last pass that met it */
};

struct mirror_state {
    int root;
    const char *base;
    struct mirrored *buckets[MIRROR_BUCKETS];
    uint32_t seed;
    size_t count;
    int journal;    /* -1: none */
    int64_t length; /* of the file */
    size_t lines;   /* in it */
    size_t damaged; /* invalid lines when the file was opened */
};

/* Opens the state of `base` (borrowed; ends with a slash). TIDINGS_E_EXISTS: the directory mirrors
 * another URI; TIDINGS_E_PARSE: the base is unreadable. Other damaged lines are counted; their
 * files count as not created by sync. Close it in any case. */
int mirror_state_open(struct mirror_state *s, int root, const char *base,
                      struct tidings_error *err);
/* The same, read-only: no file is written, and no entry may be changed. */
int mirror_state_read(struct mirror_state *s, int root, const char *base,
                      struct tidings_error *err);
void mirror_state_close(struct mirror_state *s);
/* Rewrite the file without obsolete lines. On failure, the old file stays in use. */
int mirror_state_compact(struct mirror_state *s, struct tidings_error *err);
/* Returns true if most lines are obsolete. */
bool mirror_state_is_long(const struct mirror_state *s);

struct mirrored *mirror_state_find(struct mirror_state *s, const char *path);
/* Returns true if the file is as sync created it. */
bool mirror_is_untouched(const struct mirrored *m, const struct stat *st);

/* Records a file that is about to be written. NULL `st`: a directory. `before` is the existing file
 * (NULL: none that sync created), which counts as created by sync until mirror_state_done.
 * TIDINGS_E_LIMIT: too many files; TIDINGS_E_IO: it cannot be recorded, and nothing changed. */
struct mirror_pending {
    const char *path;
    struct tidings_str uri;
    const char *etag;
    const struct stat *st, *before;
};

enum mirror_result {
    MIRROR_CREATED,
    MIRROR_UPDATED,
    MIRROR_REMOVED,
    /* and skipped work: */
    MIRROR_KEPT,    /* a user's file, or a file that was changed locally */
    MIRROR_REFUSED, /* an invalid file name, or one that other tools execute */
    MIRROR_FAILED,  /* cannot be read or written */
};
/* `reason` is NULL for completed work. */
typedef void (*mirror_report_fn)(void *user, enum mirror_result deed, struct tidings_str uri,
                                 const char *reason);

struct mirror {
    struct tidings_client *client;
    int root;
    bool forces;
    bool takes_control_files;    /* accept names from control_file */
    bool is_dry;                 /* report the work without doing it */
    const char *const *excluded; /* globs: matching paths are neither created nor removed */
    size_t excluded_count;
    uint64_t max_message; /* bytes */
    mirror_report_fn report;
    void *user;
    /* state: */
    struct mirror_state state;
    unsigned pass;
    bool is_passing; /* a full pass runs: entries met since its start exist on the server */
    char **held;     /* paths whose contents are unknown */
    size_t held_count;
    bool holds_all;
    /* for the caller that runs full passes: */
    bool needs_pass; /* an update contradicts the known state */
    bool is_broken;  /* an answer was too large, which may have ended the connection */
};

/* A full pass: begin it, take and hold resources, then end it, which removes every file that was
 * neither taken nor held; or abandon it. */
void mirror_begin(struct mirror *m);
void mirror_end(struct mirror *m);
void mirror_give_up(struct mirror *m);

struct mirror_item {
    struct tidings_str uri;
    const char *etag; /* "": unknown */
    int64_t size;     /* -1: unknown */
    bool is_directory;
};
/* Update the file to the resource; the content is read unless the etag is unchanged. Fails only if
 * the server is unusable; other errors are reported. */
int mirror_take(struct mirror *m, const struct mirror_item *item, struct tidings_error *err);
/* The contents below the resource are unknown: its files stay, and a failure is reported. */
void mirror_hold(struct mirror *m, struct tidings_str uri, const char *why);
/* The resource, and everything below it, was deleted. */
void mirror_remove(struct mirror *m, struct tidings_str uri);

#endif
