/* SPDX-License-Identifier: MIT
 *
 * The regexes of the match index. Private to core/match.
 *
 * A regex is filed under one *gram*, 8 (or 4) bytes that every text it is found in must hold; a
 * lookup passes over the URI once and runs only what lies under the grams it meets. Of all grams of
 * a regex, one that few others have is taken. Those without any are tried each time, hence few are
 * allowed.
 *
 *     filed --three searches given up--> suspended      (never run again, its nodes are told once)
 */
#ifndef CORE_MATCH_REGEX_H
#define CORE_MATCH_REGEX_H

#include "core/match_table.h"
#include "uri/regex.h"

#define MATCH_MAX_LOOSE_REGEXES 64u /* distinct ones without a gram */
#define MATCH_MAX_STRIKES 3u

struct match_gram;

/* One distinct source; it lies behind. */
struct match_regex {
    struct match_entry entry;
    struct regex regex;
    uint8_t strikes;
    bool is_due;                      /* suspended, its nodes not told yet */
    struct match_gram *gram;          /* NULL: loose */
    struct match_regex *next, **link; /* among those of the gram, or the loose ones */
    struct match_regex *next_due;
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
    struct match_regex *loose;
    size_t loose_count;
    struct match_regex *due;
    struct regex_engine *engine; /* while there is a regex */
    uint16_t *popularity;        /* roughly, how many regexes have a gram */
    size_t bytes;
};

struct match_view;

void match_regexes_init(struct match_regexes *r);
void match_regexes_deinit(struct match_regexes *r); /* nothing is in it */
/* The entry of the source, made when there is none. The errors of regex_init; TIDINGS_E_LIMIT also
 * when it is suspended, and when there are MATCH_MAX_LOOSE_REGEXES loose ones. */
int match_regexes_add(struct match_regexes *r, struct match_seed seed, struct tidings_str source,
                      struct match_entry **ret, struct tidings_error *err);
/* Take away an entry that has no nodes. */
void match_regexes_remove(struct match_regexes *r, struct match_seed seed,
                          struct match_entry *entry);
/* Calls view->found for each regex that is found, once. Those that gave up for the last time are in
 * r->due afterwards; whoever tells their nodes takes them from there. */
void match_regexes_find(struct match_regexes *r, const struct match_view *view);
size_t match_regexes_bytes(const struct match_regexes *r);

#endif
