/* SPDX-License-Identifier: MIT
 *
 * The match index: which subscriptions does a changed URI concern? Pure: knows nothing of delivery
 * or access.
 *
 * A worker has one index. A *target* is whatever the caller wants found (embed struct match_node).
 * Cost of a lookup depends on the length and depth of the URI and on what matches, not on how many
 * nodes the index holds. Nodes of one and the same pattern share its entry. Removing frees.
 *
 * Searching for a regex takes steps (formats/regex.h), in proportion to the length of the URI and
 * the size of the regex. Who looks up may say for which nodes it is worth searching and how many
 * steps each has left; when nobody has enough, it is not known whether the regex matches, and its
 * nodes are named as such.
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

/* Private, but for count and the functions. Stays where it is once something was added. */
struct match {
    struct match_seed seed;
    struct match_table literals, containers;
    size_t bare; /* containers that do not end in '/' */
    struct match_tree tree;
    struct match_regexes regexes;
    uint64_t lookups;
    unsigned finding; /* lookups under way, within one another */
    size_t bytes;     /* of literals and containers */
    size_t count;     /* nodes */

    /* May this owner have one more regex without literal text? NULL: as many as there may be. */
    bool (*take_unindexed)(void *owner);
    void (*give_back_unindexed)(void *owner);
};

void match_init(struct match *m);
void match_deinit(struct match *m); /* all nodes must be removed */
/* `node` zeroed or removed before. `text` is a canonical URI, a canonical pattern
 * (uri_canonical_pattern) or the source of a regex; it is copied. TIDINGS_E_INVALID: not well
 * formed (with what and where), or longer than URI_MAX; TIDINGS_E_LIMIT: a regex longer than
 * REGEX_MAX_BYTES or too large once compiled, too many regexes without literal text, or too many
 * patterns that differ only between their wildcards; TIDINGS_E_NOMEM. On failure nothing changed.
 */
int match_add(struct match *m, struct match_node *node, enum pattern_kind kind,
              struct tidings_str text, struct tidings_error *err);
/* The same on behalf of somebody: a regex without literal text that was not there counts for that
 * owner until its last node is gone. */
int match_add_for(struct match *m, struct match_node *node, enum pattern_kind kind,
                  struct tidings_str text, void *owner, struct tidings_error *err);
void match_remove(struct match *m, struct match_node *node); /* not added: nothing happens */
/* Calls fn once for each matching node, literal ones first. fn must not change the index. A URI
 * longer than URI_MAX concerns nobody. */
void match_find(struct match *m, struct tidings_str changed, match_fn fn, void *user);

/* The same where searching a regex costs steps, which somebody has to have
 * (security/client_account.h).
 */
struct match_calls {
    match_fn found;
    /* A regex of this node is about to be searched. false: not for this one. *ret_steps: what it
     * can pay; 0: nothing. */
    bool (*may_pay)(void *user, struct match_node *node, uint64_t *ret_steps);
    void (*paid)(void *user, struct match_node *node, uint64_t steps);
    match_fn unsure; /* nobody could pay for its regex; also called where may_pay says false */
};
void match_find_paid(struct match *m, struct tidings_str changed, const struct match_calls *calls,
                     void *user);
/* Does the regex of this node match? */
enum regex_result match_search(struct match_node *node, struct tidings_str uri, uint64_t *steps);
/* Is one under way, of whose callbacks this may be one? Then there must not be another. */
bool match_is_busy(const struct match *m);
/* Memory the index holds besides the nodes, without what the allocator adds. */
size_t match_bytes(const struct match *m);

#endif
