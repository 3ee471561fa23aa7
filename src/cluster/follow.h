/* SPDX-License-Identifier: MIT
 *
 * Notifications of other nodes that this node has not followed yet, and which of them it can follow
 * without a query. Pure.
 *
 * A notification is a position that the store has come to, or a notice with all rows of a batch
 * (cluster/log_record.h). A node follows only the notice that starts right after its position. If
 * that leads up to the highest notified position, no query is necessary. Strangers can notify, too:
 * a position only causes a query.
 */
#ifndef CLUSTER_FOLLOW_H
#define CLUSTER_FOLLOW_H

#include <tidings/types.h>

#include "cluster/log_record.h"

#define HEARD_MAX 32u /* notices; more: the store is asked */

struct heard {
    char *texts[HEARD_MAX];
    unsigned count;
    uint64_t notified; /* the highest position */
};

void heard_clear(struct heard *h);
/* Any text that came. What was followed already is passed over. false: it is no notification of
 * ours. */
bool heard_add(struct heard *h, struct tidings_str text, uint64_t followed);
/* The notice to follow next. It points into the text. false: there is none. */
bool heard_find(const struct heard *h, uint64_t followed, struct row_notice_head *ret);

#endif
