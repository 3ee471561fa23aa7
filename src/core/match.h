/* SPDX-License-Identifier: MIT
 *
 * Which subscriptions does a changed URI concern? Pure: knows nothing of delivery or access.
 *
 * A worker has one index. A *target* is whatever the caller wants found (embed struct match_node).
 * Cost of a lookup depends on the length and depth of the URI and on what matches, not on how many
 * nodes the index holds. Removing frees.
 */
#ifndef CORE_MATCH_H
#define CORE_MATCH_H

#include "base/list.h"
#include "base/map.h"

enum match_kind {
    MATCH_LITERAL,   /* this URI */
    MATCH_CONTAINER, /* everything below, and itself; usually ends in '/' */
};

struct match_node {
    struct list link; /* private: among the nodes of the same key */
    void *bucket;     /* private */
};

struct match {
    struct map literal;
    struct map container;
    size_t count;
    size_t bare; /* containers that do not end in '/' */
};

void match_init(struct match *m);
void match_deinit(struct match *m); /* all nodes must be removed */
/* `uri` canonical; copied. `node` zeroed or removed before. TIDINGS_E_NOMEM. */
int match_add(struct match *m, struct match_node *node, enum match_kind kind,
              struct tidings_str uri, struct tidings_error *err);
void match_remove(struct match *m, struct match_node *node); /* not added: nothing happens */
/* Calls fn once for each matching node, literal ones first, then containers from the root down. A
 * container "x:///a/" matches "x:///a/" and what is below it; a container "x:///a" (a resource that
 * has children and a name without slash) matches "x:///a", "x:///a/" and what is below. A query is
 * not part of the path: "x:///a/?q" is below "x:///a/", and nothing is below "x:///a?q". fn must
 * not change the index. */
typedef void (*match_fn)(void *user, struct match_node *node);
void match_find(const struct match *m, struct tidings_str changed, match_fn fn, void *user);

#endif
