/* SPDX-License-Identifier: MIT
 *
 * Resuming a stream of updates after a loss: its cursor, and which version of what was told last.
 *
 * A cursor is the server's word that everything up to there has been written to us; given back as
 * `since`, the server tells what came after. What it tells twice is found by its version: those of
 * one resource only rise. Ours are `epoch.number` and count within the epoch; those of others are
 * compared as people write them (base/version.h) until the connection is lost: the server may be
 * another one afterwards.
 */
#ifndef CLIENT_RESUME_H
#define CLIENT_RESUME_H

#include "base/list.h"
#include "base/map.h"
#include "base/str.h"
#include "json/json.h"

#define RESUME_MAX_SEEN 100000u /* resources; the one told of longest ago is forgotten */
#define RESUME_MAX_CURSOR 512u

struct resume {
    char cursor[RESUME_MAX_CURSOR]; /* empty: none */
    uint64_t lives;                 /* connections so far */
    struct map seen;                /* "watch URI" -> struct seen */
    struct list order;              /* of them, told of longest ago first */
};

void resume_init(struct resume *r);
void resume_deinit(struct resume *r);

bool resume_is_cursor(struct tidings_str text); /* not empty, nor too long to be one */
/* What the newest message of the stream says; no cursor: nothing changes. */
void resume_take(struct resume *r, struct tidings_str cursor);
/* The connection was lost. */
void resume_interrupted(struct resume *r);

/* Is this version of `uri`, told to the watch of that number, newer than the last one? It is the
 * last one then. `has_epoch`: it is `epoch.number`. A version that is not said, is of another
 * epoch, or has no order is new: what cannot be compared is told. */
bool resume_is_new(struct resume *r, uint64_t watch, struct tidings_str uri,
                   struct tidings_str version, bool has_epoch);

/* Do they name a baseline? That is where to go on from, too, and the program's own. */
bool resume_has_baseline(const char *options);

/* `options` (a JSON object, or NULL) as they are to be sent to a server that shall go on from the
 * cursor `since`, "": none. Not with a baseline, which is the program's own way to go on.
 * `bookmarks`: ask for them too. Appends; nothing when nothing is to be said. */
void resume_put_options(const char *options, const char *since, bool bookmarks, struct buf *out);

#endif
