/* SPDX-License-Identifier: MIT
 *
 * The local directory of `tidings sync`, made like what is below a URI. Only what it made itself is
 * replaced or removed, and only while nobody else touched it; the rest is left alone and told,
 * unless it is forced.
 */
#ifndef BIN_MIRROR_H
#define BIN_MIRROR_H

#include <tidings/client.h>

#include "bin/sync/mirror_state.h"

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
typedef void (*mirror_tell_fn)(void *user, enum mirror_result deed, struct tidings_str uri,
                               const char *reason);

struct mirror {
    struct tidings_client *client;
    int root;
    bool forces;
    bool takes_control_files;    /* also those of control_file.h */
    bool is_dry;                 /* tell what would be done, and do nothing */
    const char *const *excluded; /* globs: what matches is neither made nor removed */
    size_t excluded_count;
    uint64_t max_message; /* bytes */
    mirror_tell_fn tell;
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
