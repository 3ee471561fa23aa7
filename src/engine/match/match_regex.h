/* SPDX-License-Identifier: MIT
 *
 * The regexes of the match index. Private to engine/match/match.
 *
 * A regex is filed under one *gram*, 8 (or 4) bytes that every matching string must contain; a
 * lookup scans the URI once and runs only the regexes under the grams that it finds. If a regex has
 * several grams, the index uses one that few other regexes have. Regexes without a gram are tried
 * each time, so their number is limited.
 *
 * A search costs steps, which a node must pay (struct match_view). A regex that no node can pay for
 * is not run, and a search that needs more steps than are left is aborted: the result is then
 * unknown.
 */
#ifndef ENGINE_MATCH_MATCH_REGEX_H
#define ENGINE_MATCH_MATCH_REGEX_H

#include "engine/match/match_tree.h"
#include "formats/pattern.h"
#include "formats/regex.h"

#define MATCH_MAX_UNINDEXED_REGEXES 1024u /* distinct ones without a gram */

struct match_gram;

/* One distinct source, stored after the struct. */
struct match_regex {
    struct match_entry entry;
    struct regex *regex;
    struct regex_table *table;        /* created after a few searches; NULL: none */
    uint8_t searches;                 /* before that */
    void *owner;                      /* the owner that an unindexed one counts for */
    struct match_gram *gram;          /* NULL: unindexed */
    struct match_regex *next, **link; /* among those of the gram, or the unindexed ones */
};

struct match_gram {
    struct match_item item;
    uint64_t bytes;
    uint64_t stamp; /* the last lookup that found it */
    struct match_regex *first;
};

struct match_regexes {
    struct match_table sources, grams;
    size_t gram8_count, gram4_count; /* distinct ones in use */
    struct match_regex *unindexed;
    size_t unindexed_count;
    uint64_t compiled;    /* steps spent on compiling, including rejected regexes */
    uint16_t *popularity; /* approximate regexes per gram; NULL without regexes */
    size_t bytes;
};

struct match_view;

void match_regexes_init(struct match_regexes *r);
void match_regexes_deinit(struct match_regexes *r); /* must be empty */
/* Returns the entry of the source; creates it if needed. The errors of regex_create;
 * TIDINGS_E_LIMIT if there are MATCH_MAX_UNINDEXED_REGEXES unindexed ones. */
int match_regexes_add(struct match_regexes *r, struct match_seed seed, struct tidings_str source,
                      struct match_entry **ret, struct tidings_error *err);
/* Removes an entry that has no nodes. */
void match_regexes_remove(struct match_regexes *r, struct match_seed seed,
                          struct match_entry *entry);
/* Calls view->found once for each matching regex, and view->unsure for each regex with an unknown
 * result. */
void match_regexes_find(struct match_regexes *r, const struct match_view *view);
static inline bool match_regex_is_unindexed(const struct match_entry *entry)
{
    return !((const struct match_regex *)entry)->gram;
}
static inline void match_regex_set_owner(struct match_entry *entry, void *owner)
{
    ((struct match_regex *)entry)->owner = owner;
}
static inline void *match_regex_owner(const struct match_entry *entry)
{
    return ((const struct match_regex *)entry)->owner;
}
/* Searches a single regex. */
enum regex_result match_regex_search(struct match_entry *entry, struct tidings_str text,
                                     uint64_t *steps);
size_t match_regexes_bytes(const struct match_regexes *r);

#endif
