/* SPDX-License-Identifier: MIT
 *
 * The regexes of the match index. Private to engine/match/match.
 *
 * A regex is filed under one *gram*, 8 (or 4) bytes that every text it is found in must hold; a
 * lookup passes over the URI once and runs only what lies under the grams it meets. Of all grams of
 * a regex, one that few others have is taken. Those without any are tried each time, hence few are
 * allowed.
 *
 * A search costs steps, which somebody must have (struct match_view). One that nobody can pay for
 * is not run, and one that takes more than there is not run to its end: then nothing is known.
 */
#ifndef ENGINE_MATCH_MATCH_REGEX_H
#define ENGINE_MATCH_MATCH_REGEX_H

#include "engine/match/match_tree.h"
#include "formats/pattern.h"
#include "formats/regex.h"

#define MATCH_MAX_UNINDEXED_REGEXES 1024u /* distinct ones without a gram */

struct match_gram;

/* One distinct source; it lies behind. */
struct match_regex {
    struct match_entry entry;
    struct regex *regex;
    struct regex_table *table;        /* once it was searched a few times; NULL: without */
    uint8_t searches;                 /* before that */
    void *owner;                      /* whom an unindexed one counts for */
    struct match_gram *gram;          /* NULL: unindexed */
    struct match_regex *next, **link; /* among those of the gram, or the unindexed ones */
};

struct match_gram {
    struct match_item item;
    uint64_t bytes;
    uint64_t stamp; /* the lookup that met it */
    struct match_regex *first;
};

struct match_regexes {
    struct match_table sources, grams;
    size_t gram8_count, gram4_count; /* distinct ones filed under */
    struct match_regex *unindexed;
    size_t unindexed_count;
    uint64_t compiled;    /* steps that making regexes took, those that were refused too */
    uint16_t *popularity; /* roughly, how many regexes have a gram; while there is a regex */
    size_t bytes;
};

struct match_view;

void match_regexes_init(struct match_regexes *r);
void match_regexes_deinit(struct match_regexes *r); /* nothing is in it */
/* The entry of the source, made when there is none. The errors of regex_create; TIDINGS_E_LIMIT
 * also when there are MATCH_MAX_UNINDEXED_REGEXES unindexed ones. */
int match_regexes_add(struct match_regexes *r, struct match_seed seed, struct tidings_str source,
                      struct match_entry **ret, struct tidings_error *err);
/* Take away an entry that has no nodes. */
void match_regexes_remove(struct match_regexes *r, struct match_seed seed,
                          struct match_entry *entry);
/* Calls view->found for each regex that is found, once, and view->unsure for each of which that is
 * not known. */
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
/* One of them alone. */
enum regex_result match_regex_search(struct match_entry *entry, struct tidings_str text,
                                     uint64_t *steps);
size_t match_regexes_bytes(const struct match_regexes *r);

#endif
