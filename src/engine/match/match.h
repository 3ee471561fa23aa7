/* SPDX-License-Identifier: MIT
 *
 * The match index: finds the subscriptions that a changed URI concerns. Pure: independent of
 * delivery and access.
 *
 * A worker has one index. A *target* is an object that lookups find (embed struct match_node). The
 * cost of a lookup depends on the length and depth of the URI and on the number of matches, not on
 * how many nodes the index holds. Nodes with the same pattern share its entry. An entry is freed
 * when its last node is removed.
 *
 * A regex search takes steps (formats/regex.h), in proportion to the length of the URI and the size
 * of the regex. The caller may decide for which nodes to search and how many steps each may spend.
 * If no node can pay, it is unknown whether the regex matches, and its nodes are reported as such.
 */
#ifndef ENGINE_MATCH_MATCH_H
#define ENGINE_MATCH_MATCH_H

#include "engine/match/match_regex.h"
#include "engine/match/match_tree.h"
#include "formats/pattern.h"

struct match_node {
    struct match_node *next, **link; /* private: among the nodes of the same pattern */
    struct match_entry *entry;       /* private; NULL: not in an index */
};

typedef void (*match_fn)(void *user, struct match_node *node);

/* Private, except count and the functions. Must not move after the first addition. */
struct match {
    struct match_seed seed;
    struct match_table literals, containers;
    size_t bare; /* containers that do not end in '/' */
    struct match_tree tree;
    struct match_regexes regexes;
    uint64_t lookups;
    unsigned finding; /* nested lookups under way */
    size_t bytes;     /* of literals and containers */
    size_t count;     /* nodes */

    /* Returns true if this owner may have one more regex without literal text. NULL: no limit. */
    bool (*take_unindexed)(void *owner);
    void (*give_back_unindexed)(void *owner);
};

void match_init(struct match *m);
void match_deinit(struct match *m); /* all nodes must be removed */
/* `node` must be zeroed or removed. `text` is a canonical URI, a canonical pattern
 * (uri_canonical_pattern) or the source of a regex; it is copied. TIDINGS_E_INVALID: malformed (err
 * has what and where), or longer than URI_MAX; TIDINGS_E_LIMIT: a regex longer than REGEX_MAX_BYTES
 * or too large once compiled, too many regexes without literal text, or too many patterns that
 * differ only between their wildcards; TIDINGS_E_NOMEM. On failure nothing changes.
 */
int match_add(struct match *m, struct match_node *node, enum pattern_kind kind,
              struct tidings_str text, struct tidings_error *err);
/* The same for an owner: a new regex without literal text counts for that owner until its last node
 * is removed. */
int match_add_for(struct match *m, struct match_node *node, enum pattern_kind kind,
                  struct tidings_str text, void *owner, struct tidings_error *err);
void match_remove(struct match *m, struct match_node *node); /* does nothing if not added */
/* Calls fn once for each matching node, literal ones first. fn must not change the index. A URI
 * longer than URI_MAX matches nothing. */
void match_find(struct match *m, struct tidings_str changed, match_fn fn, void *user);

/* The same, but a node must pay for each regex search (security/client_account.h). */
struct match_calls {
    match_fn found;
    /* A regex of this node is about to be searched. Returns false if the node does not want it.
     * *ret_steps: the steps that it can pay; 0: none. */
    bool (*may_pay)(void *user, struct match_node *node, uint64_t *ret_steps);
    void (*paid)(void *user, struct match_node *node, uint64_t steps);
    match_fn unsure; /* no node could pay for its regex; called even if may_pay returned false */
};
void match_find_paid(struct match *m, struct tidings_str changed, const struct match_calls *calls,
                     void *user);
/* Returns whether the regex of this node matches. */
enum regex_result match_search(struct match_node *node, struct tidings_str uri, uint64_t *steps);
/* Returns true during a lookup, for instance in its callbacks. Do not start another lookup then. */
bool match_is_busy(const struct match *m);
/* Memory that the index uses besides the nodes, without allocator overhead. */
size_t match_bytes(const struct match *m);

#endif
