/* SPDX-License-Identifier: MIT
 *
 * Finds the subscriptions of a worker that a change concerns, and charges what a search of regexes
 * costs to the clients that have them: a regex is searched only if somebody who has it may hear of
 * the change, and whoever that is pays for it (access/allowance.h). So what a client has left, and
 * what it is told when that is not enough, depends on nothing but what it may hear of.
 *
 * A subscription whose regex nobody could pay for is told to look again (`truncated`): nothing is
 * lost in silence, and the others are not kept waiting.
 */
#ifndef DELIVERY_LOOKUP_H
#define DELIVERY_LOOKUP_H

#include "match/match.h"

struct change;
struct worker;
struct subscription;

struct lookup_calls {
    /* Would it be told now, as far as anything but the pattern is concerned? */
    bool (*concerns)(void *user, const struct subscription *sub);
    match_fn found; /* for each that matches, concerned or not */
};

void lookup_find(struct worker *worker, const struct change *change,
                 const struct lookup_calls *calls, void *user);

enum lookup_answer {
    LOOKUP_NO,
    LOOKUP_YES,
    LOOKUP_UNKNOWN, /* its client has no steps left to search with */
};
/* Does the pattern of this one match `uri`, which its client may hear of? */
enum lookup_answer lookup_ask(struct subscription *sub, struct tidings_str uri);

#endif
