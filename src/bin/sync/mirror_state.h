/* SPDX-License-Identifier: MIT
 *
 * Remembers which files `tidings sync` made, in the file `.tidings-sync` of its directory, a line
 * for each file before it appears, so that one that is killed at any moment goes on where it was.
 * At most MIRROR_MAX files and directories.
 */
#ifndef BIN_MIRROR_STATE_H
#define BIN_MIRROR_STATE_H

#include <sys/stat.h>

#include <tidings/types.h>

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
/* … and made last? Its etag counts then. */
bool mirror_is_latest(const struct mirrored *m, const struct stat *st);

/* It is about to be made so. NULL `st`: a directory. `before` is what is there (NULL: nothing of
 * ours), which counts as made by us until mirror_state_done. TIDINGS_E_LIMIT: there are too many;
 * TIDINGS_E_IO: it cannot be written down, and nothing changed. */
struct mirror_pending {
    const char *path;
    struct tidings_str uri;
    const char *etag;
    const struct stat *st, *before;
};
int mirror_state_begin(struct mirror_state *s, const struct mirror_pending *making);
/* It is there now. */
void mirror_state_done(struct mirror_state *s, const char *path);
void mirror_state_remove(struct mirror_state *s, struct mirrored *m);

#endif
