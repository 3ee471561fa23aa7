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
    MATCH_CONTAINER, /* ends in '/': everything below, and itself */
};

struct match_node {
    struct list link; /* private: among the nodes of the same key */
    void *bucket;     /* private */
};

struct match {
    struct map literal;
    struct map container;
    size_t count;
};

void match_init(struct match *m);
void match_deinit(struct match *m); /* all nodes must be removed */
/* `uri` canonical; copied. `node` zeroed or removed before. TIDINGS_E_NOMEM; TIDINGS_E_INVALID for
 * a container that does not end in '/' or has a query. */
int match_add(struct match *m, struct match_node *node, enum match_kind kind,
              struct tidings_str uri);
void match_remove(struct match *m, struct match_node *node); /* not added: nothing happens */
/* Calls fn once for each matching node, literal ones first, then containers from the root down. A
 * container matches a change below it; a change of the directory itself (URI equal) matches too. fn
 * must not change the index. */
typedef void (*match_fn)(void *user, struct match_node *node);
void match_find(const struct match *m, struct tidings_str changed, match_fn fn, void *user);

#endif
