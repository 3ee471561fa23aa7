/* SPDX-License-Identifier: MIT
 *
 * Notifications of other nodes that this node has not followed yet, and which of them it can follow
 * without a query. Pure.
 *
 * A notification is a position that the store has reached, or a payload with all rows of a batch
 * (cluster/log_record.h). A node follows only the payload that starts right after its position. If
 * that leads up to the highest notified position, no query is necessary. Untrusted programs can
 * notify, too: a position only causes a query.
 */
#ifndef CLUSTER_FOLLOW_H
#define CLUSTER_FOLLOW_H

#include <tidings/types.h>

#include "cluster/log_record.h"

#define NOTIFICATIONS_MAX 32u /* payloads; beyond that the node queries the store */

struct notifications {
    char *texts[NOTIFICATIONS_MAX];
    unsigned count;
    uint64_t notified; /* the highest position */
};

void notifications_clear(struct notifications *h);
/* Adds any received string. Ignores positions that this node has already followed. Returns false if
 * the string is not a valid notification. */
bool notifications_add(struct notifications *h, struct tidings_str text, uint64_t followed);
/* Finds the notification to follow next. It points into the text. Returns false if there is
 * none. */
bool notifications_find(const struct notifications *h, uint64_t followed,
                        struct notify_payload_head *ret);

#endif
