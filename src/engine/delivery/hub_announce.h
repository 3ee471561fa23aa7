/* SPDX-License-Identifier: MIT
 *
 * Merging equal announcements. While many changes wait for their number, one that says the same as
 * a change that waits is dropped, because that one will tell what it would have told. So a thread
 * that announces a URI as fast as it can does not fill the queue.
 *
 * Two say the same when all their fields are equal and both are updates: the one that waits is told
 * after the second was announced, with what the second would have told. Whatever differs (metadata,
 * etag, origin …) is a change of its own, because somebody's filter may want the one and not the
 * other; so are creations, deletions and moves. Nothing is merged into a change that another one of
 * the same URI follows, so that an update is never told before a deletion it came after.
 *
 * No locks and no memory but the table: a word for each of many slots, the fingerprint of the last
 * announcement whose URI belongs there, while that waits. URIs that share a slot merge less, and
 * are told the same. Fingerprints have 64 bits of a hash with a random seed: two that differ are
 * taken for the same once in 10^18 pairs.
 */
#ifndef ENGINE_DELIVERY_HUB_ANNOUNCE_H
#define ENGINE_DELIVERY_HUB_ANNOUNCE_H

#include <tidings/provider.h>

#define HUB_MERGE_SLOTS 65536u /* a power of two; pages that are not used take no memory */

struct hub_merge {
    uint64_t seed;
    uint64_t *slots; /* atomic; 0: nothing that others may be merged into */
};

int hub_merge_init(struct hub_merge *m); /* TIDINGS_E_NOMEM, TIDINGS_E_IO */
void hub_merge_deinit(struct hub_merge *m);

/* What is known of one announcement. */
struct hub_merge_key {
    uint64_t *slot;
    uint64_t print; /* 0: nothing is merged into it */
};
struct hub_merge_key hub_merge_key(struct hub_merge *m, const struct tidings_change *change);

/* Any thread. Does one that says the same wait? Then that one stands for this, too. */
bool hub_merge_find(const struct hub_merge_key *key);
/* Any thread, right before it is sent: from now on it is the last of its URI. false: meanwhile
 * there is one that says the same, and it need not be sent. */
bool hub_merge_begin(struct hub_merge *m, const struct hub_merge_key *key,
                     const struct tidings_change *change);
/* Before it gets its number, or when it is given up: nothing is merged into it any more. */
void hub_merge_end(const struct hub_merge_key *key);

#endif
