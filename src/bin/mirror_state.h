/* SPDX-License-Identifier: MIT
 *
 * What a mirror made: kept in the file `.tidings-sync` of its directory, a line for each file as
 * soon as it is there, so that one that was killed goes on where it was. At most MIRROR_MAX files
 * and directories.
 */
#ifndef BIN_MIRROR_STATE_H
#define BIN_MIRROR_STATE_H

#include <stdio.h>
#include <sys/stat.h>

#include <tidings/types.h>

#define MIRROR_MAX 100000u
#define MIRROR_BUCKETS 4096u

struct mirrored {
    struct mirrored *next;
    char *path, *uri;
    char *etag; /* "": not known */
    int64_t size, mtime_ns;
    bool is_directory;
    unsigned pass; /* in which it was met last */
};

struct mirror_state {
    int root;
    const char *base;
    struct mirrored *buckets[MIRROR_BUCKETS];
    size_t count;
    FILE *journal;
};

/* What the directory has of `base` (borrowed; ends with a slash). TIDINGS_E_EXISTS: it mirrors
 * something else. Close it in any case. */
int mirror_state_open(struct mirror_state *s, int root, const char *base,
                      struct tidings_error *err);
void mirror_state_close(struct mirror_state *s);
/* Write it anew, without what is over. */
int mirror_state_compact(struct mirror_state *s, struct tidings_error *err);

struct mirrored *mirror_find(struct mirror_state *s, const char *path);
/* Is the file as it was made? */
bool mirror_is_untouched(const struct mirrored *m, const struct stat *st);
/* It was made so. NULL `st`: a directory. */
int mirror_put(struct mirror_state *s, const char *path, struct tidings_str uri, const char *etag,
               const struct stat *st);
void mirror_drop(struct mirror_state *s, struct mirrored *m);

#endif
