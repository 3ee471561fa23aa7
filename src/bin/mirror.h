/* SPDX-License-Identifier: MIT
 *
 * A directory that is made like what is below a URI. Only what it made itself is replaced or
 * removed, and only while nobody else touched it; the rest is left alone and told, unless it is
 * forced.
 */
#ifndef BIN_MIRROR_H
#define BIN_MIRROR_H

#include <tidings/client.h>

#include "mirror_state.h"

enum mirror_deed {
    MIRROR_CREATED,
    MIRROR_UPDATED,
    MIRROR_REMOVED,
    /* and what was not done: */
    MIRROR_KEPT,    /* a file of somebody else's, or one that was changed here */
    MIRROR_REFUSED, /* no name for a file */
    MIRROR_FAILED,  /* cannot be read, or written */
};
/* `reason` is NULL for what was done. */
typedef void (*mirror_tell_fn)(void *user, enum mirror_deed deed, struct tidings_str uri,
                               const char *reason);

struct mirror {
    struct tidings_client *client;
    int root;
    bool forces;
    mirror_tell_fn tell;
    void *user;
    struct mirror_state state;
    unsigned pass;
};

/* Make it like the resource, reading it unless `etag` ("": not known) says that it is the same.
 * Fails only when the server cannot be asked any more; everything else is told. */
int mirror_take(struct mirror *m, struct tidings_str uri, const char *etag, bool is_directory,
                struct tidings_error *err);
/* The resource, and what is below it, is gone. */
void mirror_remove(struct mirror *m, struct tidings_str uri);
/* What is below the resource is not known: it stays as it was, which is told as a failure. */
void mirror_hold(struct mirror *m, struct tidings_str uri, const char *why);
/* Remove what was neither taken nor held since `pass` was raised. */
void mirror_sweep(struct mirror *m);

#endif
