/* SPDX-License-Identifier: MIT
 *
 * Merging equal announcements. While many changes wait for their number, an announcement equal to a
 * waiting one is dropped, because the waiting one has the same effect. So a thread that announces a
 * URI as fast as it can does not fill the queue.
 *
 * Two announcements are equal when all their fields are equal and both are updates: the waiting one
 * is delivered after the second was announced, with the same content. An announcement with any
 * difference (metadata, etag, origin …) is a separate change, because some filter may accept one
 * and not the other; so are creations, deletions and moves. Nothing is merged into a change that
 * another one of the same URI follows, so that an update is never delivered before a deletion that
 * it came after.
 *
 * No locks, and no memory except the table. It has one word for each of many slots: the fingerprint
 * of the last announcement whose URI belongs there, while it waits. URIs that share a slot merge
 * less often; delivery is unaffected. A fingerprint is 64 bits of a hash with a random seed: two
 * different announcements are treated as equal once in 10^18 pairs.
 */
#ifndef ENGINE_DELIVERY_HUB_ANNOUNCE_H
#define ENGINE_DELIVERY_HUB_ANNOUNCE_H

#include <tidings/provider.h>

#define HUB_MERGE_SLOTS 65536u /* a power of two; unused pages take no memory */

struct hub_merge {
    uint64_t seed;
    uint64_t *slots; /* atomic; 0: no announcement to merge into */
};

int hub_merge_init(struct hub_merge *m); /* TIDINGS_E_NOMEM, TIDINGS_E_IO */
void hub_merge_deinit(struct hub_merge *m);

/* The key of one announcement. */
struct hub_merge_key {
    uint64_t *slot;
    uint64_t print; /* 0: nothing is merged into it */
};
struct hub_merge_key hub_merge_key(struct hub_merge *m, const struct tidings_change *change);

/* Any thread. Returns true if an equal announcement waits, which then replaces this one. */
bool hub_merge_find(const struct hub_merge_key *key);
/* Any thread, right before it is sent: makes it the last one of its URI. Returns false if an equal
 * one was added in between, so that this one need not be sent. */
bool hub_merge_begin(struct hub_merge *m, const struct hub_merge_key *key,
                     const struct tidings_change *change);
/* Call before it gets its number, or when it is dropped: nothing merges into it from then on. */
void hub_merge_end(const struct hub_merge_key *key);

#endif
