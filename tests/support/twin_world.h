/* SPDX-License-Identifier: MIT
 *
 * One of two worlds that a restricted principal must not be able to tell apart: a whole server,
 * stepped in this thread, with files, published resources and entities, and connections to it. No
 * cmocka: a broken promise aborts.
 *
 * A plan says which areas (URI prefixes) the principal may see, and what it may do there; it holds
 * in both worlds. Other areas are hidden and may differ.
 *
 *     twin_world_open(&w, &plan);
 *     twin_send(&w, TWIN_ASKS, STR("GET /resource?uri=docs:///pub/a.txt"), STR_EMPTY);
 *     twin_run_until_idle(&w);                      // until it is answered and idle
 *     … w.wires[TWIN_ASKS].heard …
 *     twin_world_close(&w);
 *
 * Only twin_clock_move advances time; it is the same in both. In requests $S is replaced
 * by the last session id, $I for the id of an event, $C for a cursor, $L for the cursor of a
 * page, $E for an etag, $M for where messages of HTTP+SSE go.
 */
#ifndef SUPPORT_TWIN_WORLD_H
#define SUPPORT_TWIN_WORLD_H

#include <tidings/types.h>

#include "support/twin_wire.h"

/* ---- the plan -------------------------------------------------------------------------------- */

enum twin_kind { TWIN_FILES, TWIN_PUBLISHED, TWIN_ENTITIES };

struct twin_area {
    enum twin_kind kind;
    const char *prefix; /* URI, ends in '/' */
    const char *type;   /* of entities: "note@1" */
    bool always_hidden;
};

#define TWIN_AREAS 8u
#define TWIN_SECRETS 2u /* the one of files that is always hidden */
extern const struct twin_area twin_areas[TWIN_AREAS];

struct twin_plan {
    bool is_visible[TWIN_AREAS];
    unsigned ops[TWIN_AREAS]; /* 1u << enum access_op: of those that are */
    bool by_glob[TWIN_AREAS]; /* the rule says prefix + "**" */
    bool shows_roots;         /* the containers above areas may be listed and read */
    bool shows_types;         /* so may entity:///types: then all types are the same */
};

void twin_clock_move(unsigned ms);

void twin_world_open(struct twin_world *w, const struct twin_plan *plan);
void twin_world_close(struct twin_world *w);

/* ---- files: `path` is below the mount -------------------------------------------------------- */

void twin_file_put(struct twin_world *w, const char *path, const char *text);
void twin_file_move(struct twin_world *w, const char *from, const char *to); /* if it exists */
void twin_file_remove(struct twin_world *w, const char *path);
/* All changes of files so far were announced. */
void twin_barrier(struct twin_world *w);

#endif
