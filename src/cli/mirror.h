/* SPDX-License-Identifier: MIT
 *
 * The local directory of `tidings sync`, made like what is below a URI. Only what it made itself is
 * replaced or removed, and only while nobody else touched it; the rest is left alone and told,
 * unless it is forced.
 */
#ifndef CLI_MIRROR_H
#define CLI_MIRROR_H

#include <sys/stat.h>

#include <tidings/client.h>
#include <tidings/types.h>

/* -------------------------------------------------------------------------------------------------
 * Reads the content of a resource into a file. Servers that can give parts are asked for one after
 * the other, so that neither the size of a message nor memory bounds it; all parts are of one state
 * of the resource, or it is begun again.
 */

#define FETCH_ETAG_MAX 256u /* longer ones are not kept */

struct fetch {
    struct tidings_client *client;
    const char *uri;
    int fd; /* of an empty file */
    /* filled: */
    char etag[FETCH_ETAG_MAX]; /* "": not known */
    int errnum; /* not 0: the file cannot be written, which is no error of the server */
    /* state: */
    char *state; /* the etag of the first part */
    int64_t total, piece;
};

/* -------------------------------------------------------------------------------------------------
 * Remembers which files `tidings sync` made, in the file `.tidings-sync` of its directory, a line
 * for each file before it appears, so that one that is killed at any moment goes on where it was.
 * At most MIRROR_MAX files and directories.
 */

#define MIRROR_STATE ".tidings-sync"
#define MIRROR_MAX 100000u
#define MIRROR_BUCKETS 4096u

/* A file, as far as it can be known by looking at it from outside. */
struct shape {
    int64_t size, mtime_ns; /* size -1: none */
};

struct mirrored {
    struct mirrored *next;
    char *path, *uri;
    char *etag;               /* of `now`; "": not known */
    struct shape now, before; /* which of them is there is not known when it was killed */
    bool is_directory;
    unsigned pass; /* in which it was met last */
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
    size_t damaged; /* lines that could not be understood when it was opened */
};

/* What the directory has of `base` (borrowed; ends with a slash). TIDINGS_E_EXISTS: it mirrors
 * something else; TIDINGS_E_PARSE: what it mirrors cannot be known any more. Other lines that are
 * damaged are counted: what they told of counts as not made by us. Close it in any case. */
int mirror_state_open(struct mirror_state *s, int root, const char *base,
                      struct tidings_error *err);
/* The same to look only: nothing is written, and nothing may be changed. */
int mirror_state_read(struct mirror_state *s, int root, const char *base,
                      struct tidings_error *err);
void mirror_state_close(struct mirror_state *s);
/* Write it anew, without what is over. When that fails, the old one stays in use. */
int mirror_state_compact(struct mirror_state *s, struct tidings_error *err);
/* Is most of it over? */
bool mirror_state_is_long(const struct mirror_state *s);

struct mirrored *mirror_state_find(struct mirror_state *s, const char *path);
/* Is the file as it was made? */
bool mirror_is_untouched(const struct mirrored *m, const struct stat *st);

/* It is about to be made so. NULL `st`: a directory. `before` is what is there (NULL: nothing of
 * ours), which counts as made by us until mirror_state_done. TIDINGS_E_LIMIT: there are too many;
 * TIDINGS_E_IO: it cannot be written down, and nothing changed. */
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
    /* and what was not done: */
    MIRROR_KEPT,    /* a file of somebody else's, or one that was changed here */
    MIRROR_REFUSED, /* no name for a file, or one that other tools follow */
    MIRROR_FAILED,  /* cannot be read, or written */
};
/* `reason` is NULL for what was done. */
typedef void (*mirror_report_fn)(void *user, enum mirror_result deed, struct tidings_str uri,
                                 const char *reason);

struct mirror {
    struct tidings_client *client;
    int root;
    bool forces;
    bool takes_control_files;    /* also those of folder.h */
    bool is_dry;                 /* tell what would be done, and do nothing */
    const char *const *excluded; /* globs: what matches is neither made nor removed */
    size_t excluded_count;
    uint64_t max_message; /* bytes */
    mirror_report_fn report;
    void *user;
    /* state: */
    struct mirror_state state;
    unsigned pass;
    bool is_passing; /* everything is gone over: what was met since then is there now */
    char **held;     /* paths below which nothing is known */
    size_t held_count;
    bool holds_all;
    /* for whoever goes over everything: */
    bool needs_pass; /* what was told does not fit what is known */
    bool is_broken;  /* an answer was too large, which may have ended the connection */
};

/* Go over everything: begin, take and hold, then end it, which removes what was neither taken nor
 * held; or give it up. */
void mirror_begin(struct mirror *m);
void mirror_end(struct mirror *m);
void mirror_give_up(struct mirror *m);

struct mirror_item {
    struct tidings_str uri;
    const char *etag; /* "": not known */
    int64_t size;     /* -1: not known */
    bool is_directory;
};
/* Make it like the resource, reading it unless the etag says that it is the same. Fails only when
 * the server cannot be asked any more; everything else is told. */
int mirror_take(struct mirror *m, const struct mirror_item *item, struct tidings_error *err);
/* What is below the resource is not known: it stays as it was, which is told as a failure. */
void mirror_hold(struct mirror *m, struct tidings_str uri, const char *why);
/* The resource, and what is below it, is gone. */
void mirror_remove(struct mirror *m, struct tidings_str uri);

#endif
