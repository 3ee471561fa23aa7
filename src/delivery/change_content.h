/* SPDX-License-Identifier: MIT
 *
 * The content behind a change, for subscriptions that want it in the notification: read once per
 * change, worker and class of those who may see the same, kept for as long as somebody is likely to
 * need it, bounded. Patches likewise: made once per change and baseline, however many subscriptions
 * are at that one.
 */
#ifndef DELIVERY_CHANGE_CONTENT_H
#define DELIVERY_CHANGE_CONTENT_H

#include "base/list.h"
#include "delivery/baseline.h"

struct change;
struct worker;
struct principal;
struct subscription;

struct change_contents {
    struct list entries; /* oldest first */
    struct map by_key;   /* the same, by change and baseline */
    size_t count, bytes; /* of what was read */
    struct baselines baselines;
    uint64_t patches; /* made so far */
};

void change_content_init(struct change_contents *v, const struct worker *worker);
void change_content_deinit(struct change_contents *v); /* nothing is being read any more */

enum change_content_state {
    CHANGE_CONTENT_READING, /* come back; subscribers that wait are marked dirty when it is there */
    CHANGE_CONTENT_READY,   /* *ret_json is an array of content elements */
    CHANGE_CONTENT_NONE,    /* gone, unreadable or too large: tell without it */
};

/* ---- for subscriptions ----------------------------------------------------------------------- */

/* What `sub` is to be told of a change: the contents or, if it asked for that, a patch. *ret_to:
 * the baseline of its next patch once this is written. */
enum change_content_state change_content_for(const struct subscription *sub,
                                             const struct change *change,
                                             struct tidings_str *ret_json,
                                             struct baseline **ret_to);
/* That was written to its client. */
void change_content_written(const struct subscription *sub, const struct change *change,
                            struct baseline *to);
/* A change was left out because the client of `sub` made it itself. It has the result, so where the
 * provider makes patches the next one starts from that; elsewhere the next is told whole. */
void change_content_skipped(const struct subscription *sub, const struct change *change);

#endif
